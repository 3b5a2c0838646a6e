//! Tests of the methods that read the ledger, on a ledger that [`world`] builds.
//!
//! Each file tests the methods of one or two files of the parent folder.

mod account_needs;
mod blocks;
mod bundles;
mod cheatcodes;
mod cluster;
mod epoch;
mod fees;
mod fork_control;
mod node_info;
mod priority_fees;
mod send;
mod simulate;
mod slot;
mod supply;
mod table;
mod transactions;
mod transactions_for_address;
mod verification;
mod votes;
mod world;
