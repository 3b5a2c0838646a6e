//! The ledger from outside: what is sent, what is read, what is told.

mod bounds;
mod fixture;
mod from_snapshot;
mod genesis_accounts;
mod ledger;
mod precompiles;
mod simulation;
