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

pub(crate) use snapshot::{HistoryBlock, header_bytes};
pub use snapshot::{
    HistoryPage, HistorySnapshot, HistoryTransaction, NewestBlock, TransactionPosition,
};
pub use writer::HistoryLimits;
use writer::HistoryWriter;

/// The history of the one writer. Readers see no change before [`Self::publish`].
pub(crate) struct History {
    writer: HistoryWriter,
    published: Arc<ArcSwap<HistorySnapshot>>,
}

impl History {
    pub(crate) fn new(limits: HistoryLimits) -> Self {
        let writer = HistoryWriter::new(limits);
        let published = Arc::new(ArcSwap::from_pointee(writer.snapshot().clone()));
        Self { writer, published }
    }

    /// Returns the readers' access: the published snapshot.
    pub(crate) fn reader(&self) -> Arc<ArcSwap<HistorySnapshot>> {
        Arc::clone(&self.published)
    }

    /// Returns the state that is published next.
    pub(crate) fn newest(&self) -> &HistorySnapshot {
        self.writer.snapshot()
    }

    /// Adds a block on top of the newest one, and removes the lowest ones beyond the limits.
    pub(crate) fn push(&mut self, block: HistoryBlock) {
        self.writer.push(block);
    }

    /// Removes all blocks from a DAA score on.
    pub(crate) fn revert_from(&mut self, daa_score: u64) {
        self.writer.revert_from(daa_score);
    }

    /// Shows the changes to readers. Returns the snapshot before: dropping it frees what only it used.
    pub(crate) fn publish(&mut self, sink_blue_score: u64) -> Arc<HistorySnapshot> {
        let snapshot = self.writer.publish(sink_blue_score);
        self.published.swap(Arc::new(snapshot))
    }
}
