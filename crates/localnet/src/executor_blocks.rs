//! Opens, completes and finalizes blocks.
//!
//! Order at a block's end: the block is in the store on disk, then in history, then it is the confirmed tip, and only
//! then its event is sent. So a block that was reported as confirmed is on disk.
//! Not here: when a block ends (`executor`), what it contains (`block_builder`), going back (`forks`).

use std::sync::Arc;

use chain_solana::{BankHashComponents, Block, BlockInfo, LedgerEvent};
use ledger::{BlockId, Commitment, Slot};
use query::LedgerError;
use solana_hash::Hash;
use solana_stake_interface::stake_history::StakeHistoryEntry;
use svm::sysvars::{self, SlotContext};

use crate::block_builder::BlockBuilder;
use crate::checkpoints::Checkpoint;
use crate::executor::{Executor, ExecutorError, now, unix_ms, unix_time};
use crate::executor_metrics::Phase;
use crate::executor_transactions::DroppedTransaction;
use crate::vote::Vote;

impl Executor {
    /// Completes the open block, and opens the next one.
    pub(crate) fn end_block(&mut self) -> Result<(), ExecutorError> {
        self.complete_block()?;
        while self.checkpoints.unfinalized() as u64 > self.timing.finalize_after {
            self.finalize_oldest()?;
        }
        // After a snapshot is gone there is more to root than one block.
        self.advance_root()?;
        // The newest complete block's bank.
        self.open_block(self.builder.bank.clone())
    }

    /// Whether anything but its opening wrote to the open block.
    pub(crate) fn is_open_block_written(&self) -> bool {
        self.is_written
    }

    /// Ends the writes of the open block. It is neither stored nor confirmed yet.
    pub(crate) fn close_block(&mut self) -> Result<(Block, BlockInfo), ExecutorError> {
        self.pay_leader()?;
        self.publish();
        self.sum_writes();
        let placeholder = BlockBuilder::new(self.builder.bank.clone());
        let builder = std::mem::replace(&mut self.builder, placeholder);
        Ok(builder.complete(self.accounts_sum.lt_hash()))
    }

    /// Ends the open block: stores it, confirms it, then sends its event.
    pub(crate) fn complete_block(&mut self) -> Result<(), ExecutorError> {
        let (block, bank) = self.close_block()?;
        let block = Arc::new(block);
        if let Some(store) = &mut self.store {
            store.append(&block)?;
        }
        self.history.record_block(&block);
        self.history.set_tip(block.id);
        self.history.confirm(block.id);
        self.history.publish();
        self.builder.bank = bank.clone();
        self.ledger.complete(block.id, Arc::new(bank.clone()))?;
        self.ledger.confirm(block.id)?;
        self.ledger.publish();
        self.prune_store(block.id.slot);
        self.checkpoints.push(Checkpoint {
            block: Arc::clone(&block),
            bank: bank.clone(),
            lt_hash: self.accounts_sum.lt_hash().clone(),
            tower: self.tower.clone(),
            voters: Arc::clone(self.epochs.voters()),
        });
        self.emit_frozen(&block, bank);
        let id = block.id;
        let timestamp_ms = unix_time().as_millis() as u64;
        self.emit(&LedgerEvent::TipMoved { block: id });
        self.emit(&LedgerEvent::Confirmed { block, timestamp_ms });
        self.hidden_statuses.set_complete(id.slot);
        Ok(())
    }

    /// Adds what the open block wrote to the sum over all accounts.
    fn sum_writes(&mut self) {
        let started_at = now();
        // The block is not confirmed yet, and its parent is.
        let parent = self.reader.view(Commitment::Confirmed);
        debug_assert_eq!(parent.block(), self.builder.bank.parent);
        self.accounts_sum.add_block(&parent, self.builder.writes());
        self.metrics.add(Phase::Hash, now() - started_at);
    }

    pub(crate) fn finalize_oldest(&mut self) -> Result<(), ExecutorError> {
        let block = self.checkpoints.finalize_next();
        self.history.finalize(block.id);
        self.history.publish();
        self.ledger.set_finalized(block.id)?;
        self.advance_root()?;
        self.ledger.publish();
        self.finalized_slot = block.id.slot;
        self.emit(&LedgerEvent::Rooted { block, timestamp_ms: unix_time().as_millis() as u64 });
        Ok(())
    }

    /// Moves the state's root towards the newest final block, but not above the oldest snapshot.
    fn advance_root(&mut self) -> Result<(), LedgerError> {
        let Some(root) = self.checkpoints.advance_root() else { return Ok(()) };
        self.adopted.drop_rooted(root.slot);
        self.ledger.finalize(root)
    }

    /// Opens a block: updates the sysvars, and votes for the parent.
    pub(crate) fn open_block(&mut self, parent: BlockInfo) -> Result<(), ExecutorError> {
        let slot = (self.newest.slot + 1).max(self.timing.warp_slot.take().unwrap_or(0));
        let id = BlockId { slot, version: self.newest.version + 1 };
        self.newest = id;
        let bank = BlockInfo {
            block: id,
            parent: parent.block,
            block_height: parent.block_height + 1,
            unix_timestamp: self.clock.lock().advance(unix_ms(), now()).max(parent.unix_timestamp),
            bank_hash: Hash::default(),
            hash_components: BankHashComponents {
                parent_hash: parent.bank_hash,
                ..BankHashComponents::default()
            },
            complete: false,
            ..parent.clone()
        };
        self.ledger.open(id, parent.block, Arc::new(bank.clone()))?;
        self.status_cache.set_revertible(self.checkpoints.above_root());
        self.status_cache.start_block(slot);
        self.builder = BlockBuilder::new(bank);
        let ended_epochs = self.start_epoch()?;
        self.pay_stakes()?;
        self.advance_sysvars(&parent, &ended_epochs)?;
        self.vote(&parent)?;
        self.is_written = false;
        self.publish_opening(parent.block);
        self.queue_retries();
        Ok(())
    }

    fn advance_sysvars(
        &mut self,
        parent: &BlockInfo,
        ended_epochs: &[(u64, StakeHistoryEntry)],
    ) -> Result<(), LedgerError> {
        let start = SlotContext {
            slot: self.builder.bank.block.slot,
            parent_slot: parent.block.slot,
            parent_hash: parent.bank_hash,
            blockhashes: &parent.blockhashes,
            unix_timestamp: self.builder.bank.unix_timestamp,
            ended_epochs,
        };
        let changed = sysvars::start_slot(self.set.vm_mut(), &start);
        self.write_accounts(&changed)
    }

    /// Votes for the parent, as the first transaction of the block.
    fn vote(&mut self, parent: &BlockInfo) -> Result<(), ExecutorError> {
        let parent_slot = parent.block.slot;
        if parent_slot == 0 {
            return Ok(()); // Genesis is the root already.
        }
        self.tower.vote(parent_slot);
        let vote = Vote {
            identity: &self.identity,
            voter: &self.voter,
            vote_account: self.vote_account,
            bank_hash: parent.bank_hash,
            unix_timestamp: parent.unix_timestamp,
        };
        let blockhash = self.builder.bank.last_blockhash();
        let Some(transaction) = self.tower.transaction(&vote, &blockhash) else { return Ok(()) };
        let vote_event = chain_solana::Vote {
            vote_pubkey: self.vote_account,
            slots: self.tower.slots(),
            hash: parent.bank_hash,
            timestamp: Some(parent.unix_timestamp),
            signature: transaction.signatures.first().copied().unwrap_or_default(),
        };
        let message_hash = transaction.message.hash();
        match self.try_execute(transaction, message_hash)? {
            Ok(()) => self.unpublished_vote = Some(vote_event),
            Err(DroppedTransaction { err, .. }) => {
                tracing::warn!(%err, slot = parent_slot, "vote not executed");
            }
        }
        Ok(())
    }

    /// Prunes the store with the next block to what history retains.
    fn prune_store(&mut self, slot: Slot) {
        let Some(store) = &mut self.store else { return };
        let first_retained = self.history.snapshot().first_slot().unwrap_or(0);
        // A restart needs the hashes and transactions of the whole window, also after the newest blocks are left.
        let window = slot.saturating_sub(chain_solana::RECENT_BLOCKHASHES_MAX as u64);
        let window = self.status_cache.first_slot().map_or(window, |first| first.min(window));
        store.prune_below(first_retained.min(window));
    }
}
