//! The ledger from outside: what is sent, what is read, what is told.

mod bounds;
mod epochs;
mod fixture;
mod from_snapshot;
mod ledger;
mod precompiles;
mod queue;
mod simulation;
