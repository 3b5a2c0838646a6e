//! Marks of the log move the tips, in history, then in the state, and then their events are sent.
//!
//! Input: the marks of one record, in order. Output: tips, roots and removed blocks, and their events.
//! Marks of blocks that are not here are skipped, and so are repeated ones: after a takeover an ingester may repeat
//! marks.
//! Invariant: a root is confirmed, and each block that it removes is reported as reverted before.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use chain_solana::wire::{BlockName, Mark};
use chain_solana::{LedgerEvent, RevertReason};
use ledger::{BlockId, Commitment};

use super::{Frozen, WriteError, Writer, ledger_error};
use crate::fault::Fault;
use crate::known_blocks::Resolved;

impl Writer {
    pub(super) fn apply_marks(
        &mut self,
        marks: Vec<Mark>,
        made_at_ms: u64,
    ) -> Result<(), WriteError> {
        for mark in marks {
            match mark {
                Mark::TipMoved(name) => match self.find_marked("tip", name)? {
                    Some(block) => self.move_tip(block)?,
                    None => self.skip_mark(),
                },
                Mark::Confirmed(name) => match self.find_marked("confirmed", name)? {
                    Some(block) => self.confirm(block, made_at_ms)?,
                    None => self.skip_mark(),
                },
                Mark::Rooted(name) => match self.find_marked("rooted", name)? {
                    Some(block) => self.root_chain(block, made_at_ms)?,
                    None => self.skip_root(name)?,
                },
                Mark::Reverted { block: name, reason } => {
                    match self.find_marked("reverted", name)? {
                        Some(block) => self.revert(block, &reason, made_at_ms)?,
                        None => self.skip_revert(name)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Finds the block of a mark. Returns `None` if it is below the root or not here.
    fn find_marked(&self, mark: &'static str, name: BlockName) -> Result<Option<BlockId>, Fault> {
        let BlockName { slot, number } = name;
        match self.known.resolve(number) {
            Resolved::Block(id) if id.slot == slot => {
                Ok(Some(id).filter(|id| self.banks.contains_key(id)))
            }
            Resolved::Skipped | Resolved::Older => Ok(None),
            Resolved::Block(_) | Resolved::Unknown => Err(Fault::Mark { mark, slot, number }),
        }
    }

    fn skip_mark(&self) {
        self.status.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// A block that is not here is the root of the log. That is wrong if it is so new that it would be found by its name if
    /// it were on the chain of the ledger.
    fn skip_root(&self, name: BlockName) -> Result<(), Fault> {
        self.skip_mark();
        let root = self.ledger.root();
        let is_skipped = self.known.resolve(name.number) == Resolved::Skipped;
        let named_after = self.known.named_after().min(root.slot);
        match is_skipped && name.slot > named_after {
            true => Err(Fault::OtherChain { slot: name.slot, root }),
            false => Ok(()),
        }
    }

    /// The log reverts a block that is not here. That is wrong if it is a final one.
    fn skip_revert(&self, name: BlockName) -> Result<(), Fault> {
        self.skip_mark();
        match self.known.resolve(name.number) {
            Resolved::Block(_) => Err(Fault::FinalReverted { slot: name.slot }),
            _ => Ok(()),
        }
    }

    fn move_tip(&mut self, block: BlockId) -> Result<(), WriteError> {
        if self.output.tip == block && self.ledger.tip(Commitment::Processed) == block {
            return Ok(());
        }
        let confirmed = self.ledger.tip(Commitment::Confirmed);
        if block != confirmed && self.is_on_chain(block, confirmed) {
            // The opener of a generation may be behind, and lists the tips that it comes to.
            self.skip_mark();
            return Ok(());
        }
        self.history.set_tip(block);
        self.ledger.set_tip(block).map_err(|err| ledger_error(block, err))?;
        for id in self.chain_to(block, |_, frozen| frozen.is_executed) {
            let Some(frozen) = self.banks.get_mut(&id) else { continue };
            frozen.is_executed = true;
            let votes = std::mem::take(&mut frozen.votes).into_votes();
            let transactions = frozen.block.transactions.clone();
            if !transactions.is_empty() {
                self.output.unsent.push(LedgerEvent::Executed(transactions.into()));
            }
            if !votes.is_empty() {
                self.output.unsent.push(LedgerEvent::Voted(votes));
            }
        }
        self.output.tip = block;
        self.output.unsent.push(LedgerEvent::TipMoved { block });
        Ok(())
    }

    /// Confirms a block and its ancestors. A block that was confirmed before stays so.
    pub(super) fn confirm(&mut self, block: BlockId, timestamp_ms: u64) -> Result<(), WriteError> {
        let chain = self.chain_to(block, |_, frozen| frozen.is_confirmed);
        if chain.is_empty() {
            return Ok(());
        }
        self.history.confirm(block);
        self.ledger.confirm(block).map_err(|err| ledger_error(block, err))?;
        for id in chain {
            let Some(frozen) = self.banks.get_mut(&id) else { continue };
            frozen.is_confirmed = true;
            frozen.level = frozen.level.min(self.level);
            self.proof.confirm(id.slot, frozen.level);
            let block = Arc::clone(&frozen.block);
            self.output.unsent.push(LedgerEvent::Confirmed { block, timestamp_ms });
        }
        Ok(())
    }

    /// Makes a block and its ancestors final, one after the other.
    pub(super) fn root_chain(
        &mut self,
        block: BlockId,
        timestamp_ms: u64,
    ) -> Result<(), WriteError> {
        let root = self.ledger.root();
        self.confirm(block, timestamp_ms)?;
        for id in self.chain_to(block, |id, _| *id == root) {
            self.set_root(id, timestamp_ms)?;
        }
        Ok(())
    }

    /// Makes a child of the root the root.
    fn set_root(&mut self, id: BlockId, timestamp_ms: u64) -> Result<(), WriteError> {
        let mut kept = BTreeSet::from([id, self.ledger.root()]);
        // A parent sorts before its children.
        for (block, frozen) in self.banks.range(id..) {
            if frozen.block.parent != self.ledger.root() && kept.contains(&frozen.block.parent) {
                kept.insert(*block);
            }
        }
        let left: Vec<BlockId> =
            self.banks.keys().rev().filter(|block| !kept.contains(block)).copied().collect();
        for block in left {
            self.revert_leaf(block, RevertReason::Abandoned, timestamp_ms)?;
        }
        self.history.finalize(id);
        self.ledger.finalize(id).map_err(|err| ledger_error(id, err))?;
        self.cluster.set_root(id);
        // They are for those that count votes.
        drop(self.cluster.take_new_stakes());
        self.banks = self.banks.split_off(&id);
        if let Some(Frozen { block, .. }) = self.banks.get(&id) {
            let block = Arc::clone(block);
            self.output.unsent.push(LedgerEvent::Rooted { block, timestamp_ms });
        }
        Ok(())
    }

    /// Removes a block and its descendants, the newest first.
    fn revert(
        &mut self,
        block: BlockId,
        reason: &RevertReason,
        timestamp_ms: u64,
    ) -> Result<(), WriteError> {
        if block == self.ledger.root() {
            return Err(Fault::FinalReverted { slot: block.slot }.into());
        }
        let mut removed = BTreeSet::from([block]);
        for (id, frozen) in self.banks.range(block..) {
            if removed.contains(&frozen.block.parent) {
                removed.insert(*id);
            }
        }
        for id in removed.into_iter().rev() {
            self.revert_leaf(id, reason.clone(), timestamp_ms)?;
        }
        Ok(())
    }

    /// Removes everything that is not an ancestor of a block, the newest first.
    pub(super) fn revert_all_but(
        &mut self,
        block: BlockId,
        timestamp_ms: u64,
    ) -> Result<(), WriteError> {
        let root = self.ledger.root();
        let mut kept: BTreeSet<BlockId> =
            self.chain_to(block, |id, _| *id == root).into_iter().collect();
        kept.insert(root);
        let left: Vec<BlockId> =
            self.banks.keys().rev().filter(|id| !kept.contains(id)).copied().collect();
        for id in left {
            self.revert_leaf(id, RevertReason::Abandoned, timestamp_ms)?;
        }
        Ok(())
    }
}
