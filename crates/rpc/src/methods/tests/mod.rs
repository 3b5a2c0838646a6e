//! The methods that answer from the ledger, one table a subject, on a ledger made by hand.
//!
//! [`world`] says what is in it; each file checks the methods of one or two files beside this folder.

mod blocks;
mod epoch;
mod fees;
mod node_info;
mod send;
mod simulate;
mod slot;
mod table;
mod transactions;
mod votes;
mod world;
