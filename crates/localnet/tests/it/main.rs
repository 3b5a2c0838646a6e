//! Integration tests of the ledger: sending, reading, events.

mod bank_hash;
mod bounds;
mod bundles;
mod control;
mod elf;
mod epochs;
mod examples;
mod features;
mod fixture;
mod forks;
mod from_snapshot;
mod genesis_accounts;
mod ledger;
mod precompiles;
mod programs;
mod queue;
mod retries;
mod shares;
mod simulation;
mod time;
mod token_balances;
