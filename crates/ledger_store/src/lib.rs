//! The ledger on disk: every complete block, and every account as of the newest block.
//!
//! In: complete blocks in order, from the one writer. Each is on disk before it is reported as confirmed. Out:
//! everything, once, when the ledger is opened; accounts as a stream.
//! Invariant: a block with its transactions and account writes is one atomic batch. After `kill -9` the newest block is
//! the last one for which [`LedgerStore::append`] returned, or the whole of the next one.
//! Invariant: damage is reported when the ledger is opened, and damaged data is never served.
//! Bounds: history is pruned by [`LedgerStore::prune_below`]. There are as many accounts as the ledger has.
//! Why this engine, with measurements: docs/ledger-on-disk.md.
//! Not here: files, locks and checksums (`store`), and the ledger's use of its own rows (`localnet`, `follow`).
#![forbid(unsafe_code)]

mod head;
mod key;
mod ledger_store;
mod new_ledger;
mod restore;
mod rows;
#[cfg(test)]
mod tests;

pub use ledger_store::{LedgerStore, Opened};
pub use new_ledger::NewLedger;
pub use restore::Restored;
pub use rows::CallerRows;
