//! Blocks, transactions and signatures by address, for a limited number of recent blocks of a ledger that may fork.
//!
//! In: transactions as they are executed, frozen blocks, and the moves of the tips, in order, from the one writer. A
//! block is stored without its account writes.
//! Out: [`HistorySnapshot`], which readers may retain for any time without blocking the writer. It has the chain of the
//! processed block, and says which of its blocks are confirmed and final. It finds the open block's transactions by
//! signature, and by address once their block is the tip. Blocks of other forks wait for the tip to move; a reverted
//! block leaves no entries.
//! A ledger that shows no open block may prepare one: its transactions are added as they come, and no reader finds them
//! until the block is the tip.
//! Bounds: [`HistoryLimits`], enforced whenever a block is recorded and whenever the tip moves: the lowest blocks are
//! removed with all their entries, those of other forks included. The open block is additional, and with
//! [`History::enter_tip`] one block more.

#[cfg(test)]
mod model;
mod snapshot;
#[cfg(test)]
mod tests;
mod writer_state;

use std::sync::Arc;

use arc_swap::ArcSwap;
use ledger::BlockId;
use parking_lot::Mutex;

use crate::block::{Block, ExecutedTransaction};
use writer_state::WriterState;

pub use snapshot::{HistorySnapshot, TransactionPosition, is_rooted};
pub use writer_state::HistoryLimits;

/// The history of a ledger: one writer, any number of readers. Readers see no change before [`Self::publish`].
///
/// The tips move like those of `query::Ledger`, under the same names. A writer publishes them here first, so history
/// shows every block as confirmed or final that a view shows so.
pub struct History {
    writer: Mutex<WriterState>,
    published: ArcSwap<HistorySnapshot>,
}

impl History {
    /// Creates an empty history of a ledger that starts at `root`.
    pub fn new(limits: HistoryLimits, root: BlockId) -> Self {
        let writer = WriterState::new(limits, root);
        let published = ArcSwap::from_pointee(writer.to_published());
        Self { writer: Mutex::new(writer), published }
    }

    /// Returns the published snapshot. Cost: a reference count, independent of the size.
    pub fn snapshot(&self) -> Arc<HistorySnapshot> {
        self.published.load_full()
    }

    /// Adds transactions of the open block, in the order of execution. The block is a child of the tip. Readers find
    /// them by signature, and by address once the block is the tip. A ledger that shows no open block adds none.
    pub fn record_transactions(&self, block: BlockId, transactions: &[Arc<ExecutedTransaction>]) {
        self.writer.lock().record_transactions(block, transactions);
    }

    /// Returns the number of prepared transactions of an open block. `None` if it cannot be prepared: its parent is not
    /// the tip, or another block is open.
    pub fn prepared_len(&self, block: BlockId, parent: BlockId) -> Option<usize> {
        self.writer.lock().prepared_len(block, parent)
    }

    /// Adds the next transactions of an open block for which [`Self::prepared_len`] is known. No reader finds them before
    /// the block is the tip, and the block must be recorded with the same ones. A tip that moves elsewhere discards them.
    pub fn prepare<'a>(
        &self,
        block: BlockId,
        transactions: impl Iterator<Item = &'a Arc<ExecutedTransaction>>,
    ) {
        self.writer.lock().prepare(block, transactions);
    }

    /// Removes the prepared transactions of an open block.
    pub fn discard_prepared(&self, block: BlockId) {
        self.writer.lock().discard_prepared(block);
    }

    /// Adds a frozen block without its account writes, and removes the lowest blocks beyond the
    /// limits. Readers find it when the tip is the block or a descendant.
    pub fn record_block(&self, block: &Block) {
        self.writer.lock().record_block(block);
    }

    /// Records a block to which the ledger jumped, so that its transactions are not known. Otherwise like
    /// [`Self::record_block`], but readers do not find the block.
    pub fn record_jump(&self, block: &Block) {
        self.writer.lock().record_jump(block);
    }

    /// Makes a frozen block the processed tip. It may be on another fork than the previous tip. The open block, if it
    /// is another one, is removed.
    pub fn set_tip(&self, block: BlockId) {
        self.writer.lock().set_tip(block);
    }

    /// Sets the tip like [`Self::set_tip`], but leaves the limits to a later [`Self::enforce_limits`].
    pub fn enter_tip(&self, block: BlockId) {
        self.writer.lock().enter_tip(block);
    }

    /// Removes the lowest blocks beyond the limits.
    pub fn enforce_limits(&self) {
        self.writer.lock().enforce_limits();
    }

    /// Makes a frozen block the confirmed tip. It must be on the chain of the processed tip at the next publish.
    pub fn confirm(&self, block: BlockId) {
        self.writer.lock().confirm(block);
    }

    /// Makes a frozen block the root. Blocks that do not descend from it are removed. A tip among them falls back to
    /// the root.
    pub fn finalize(&self, block: BlockId) {
        self.writer.lock().finalize(block);
    }

    /// Removes an unrooted block and all its descendants. A tip among them falls back to the block's parent.
    pub fn drop_fork(&self, block: BlockId) {
        self.writer.lock().drop_fork(block);
    }

    /// Reverts to a frozen block of the chain, which may be below the root. All other blocks above it are removed,
    /// including those of other forks, and no tip is above it. History need not retain the block itself.
    pub fn revert_to(&self, block: BlockId) {
        self.writer.lock().revert_to(block);
    }

    /// Publishes all changes. The root must be confirmed or an ancestor of confirmed, and so must be confirmed for
    /// processed.
    pub fn publish(&self) {
        drop(self.publish_first());
    }

    /// Publishes like [`Self::publish`], and returns the previous snapshot. Dropping it frees the memory that only it
    /// used.
    pub fn publish_first(&self) -> Arc<HistorySnapshot> {
        let snapshot = self.writer.lock().to_published();
        self.published.swap(Arc::new(snapshot))
    }
}
