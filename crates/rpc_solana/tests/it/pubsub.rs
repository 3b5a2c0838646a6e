//! PubSub over loopback: a ledger that the test writes, and clients that send raw frames.

mod address_sets;
mod counted;
mod floods;
mod jumps;
mod kinds;
mod large;
mod limits;
pub(crate) mod node;
mod order;
mod parameters;
mod protocol;
mod replicas;
mod signatures;
mod slow;
mod transactions;
mod unfinished;
