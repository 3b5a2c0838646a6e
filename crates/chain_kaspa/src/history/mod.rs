//! Recent transactions by id and by script, with the chain blocks that accepted them, in bounded memory.
//!
//! In: chain blocks as they join and leave the chain, from the one writer. Out: [`HistorySnapshot`], which readers may
//! retain for any time without blocking the writer. Only transactions of the selected chain are in it.
//! Bounds: [`HistoryLimits`]. The lowest blocks are removed first, with all of their entries. The newest block is always
//! retained.
//! Cost: for each transaction an insertion for its id and for each of its scripts, and the same for its removal.

mod snapshot;
mod writer;

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

pub(crate) use snapshot::HistoryBlock;
pub use snapshot::{HistoryPage, HistorySnapshot, HistoryTransaction, TransactionPosition};
pub use writer::HistoryLimits;
use writer::HistoryWriter;

/// The history: one writer, any number of readers. Readers see no change before [`Self::publish`].
pub(crate) struct History {
    writer: Mutex<HistoryWriter>,
    published: ArcSwap<HistorySnapshot>,
}

impl History {
    pub(crate) fn new(limits: HistoryLimits) -> Self {
        let writer = HistoryWriter::new(limits);
        let published = ArcSwap::from_pointee(writer.snapshot().clone());
        Self { writer: Mutex::new(writer), published }
    }

    /// Returns the published snapshot. Cost: a reference count.
    pub(crate) fn snapshot(&self) -> Arc<HistorySnapshot> {
        self.published.load_full()
    }

    /// Returns a copy of the state that is published next.
    pub(crate) fn writer_snapshot(&self) -> HistorySnapshot {
        self.writer.lock().snapshot().clone()
    }

    /// Adds a block on top of the newest one, and removes the lowest ones beyond the limits.
    pub(crate) fn push(&self, block: HistoryBlock) {
        self.writer.lock().push(block);
    }

    /// Removes all blocks from a DAA score on.
    pub(crate) fn revert_from(&self, daa_score: u64) {
        self.writer.lock().revert_from(daa_score);
    }

    /// Shows the changes to readers. Returns the snapshot before: dropping it frees what only it used.
    pub(crate) fn publish(&self, sink_blue_score: u64) -> Arc<HistorySnapshot> {
        let snapshot = self.writer.lock().publish(sink_blue_score);
        self.published.swap(Arc::new(snapshot))
    }
}
