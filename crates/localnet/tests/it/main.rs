//! The ledger from outside: what is sent, what is read, what is told.

mod fixture;
mod ledger;
