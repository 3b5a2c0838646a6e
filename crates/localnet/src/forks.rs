//! Forks on request: the executing thread makes blocks, goes back to a snapshot, or leaves the newest blocks.
//!
//! In: the calls of `fork_control`. Out: their results, and the events of blocks that are left and entered.
//! Order: the open block ends (`Frozen`), the directory goes back, then history, then the state; then `Reverted` is
//! sent for each left block, the newest first, and the next block is opened on the block below them. Its slot was never
//! given before. The clock goes back only with a snapshot. A revert completes one block, so that every commitment but
//! finalized is above all left slots at once.
//! Bounds: those of `checkpoints`; [`BLOCK_TRANSACTIONS_MAX`]. Cost of going back: what the left blocks wrote.
//! Invariant: after going back, everything that the thread caches equals a ledger that never had the left blocks:
//! accounts in the VM, executed transactions, the tower, the sum over all accounts, the epoch's voters and payments.

use std::collections::HashSet;
use std::sync::Arc;

use chain_solana::{
    Block, DROPPED_MAX, ForkControlError, ForkTransactions, LedgerEvent, Reorganization,
    RevertReason,
};
use foldhash::quality::RandomState;
use ledger::{Address, Commitment, Slot};
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_transaction::versioned::VersionedTransaction;

use crate::accounts_sum::AccountsSum;
use crate::block_builder::BlockBuilder;
use crate::checkpoints::{BLOCKS_MAX, BYTES_MAX, SNAPSHOTS_MAX};
use crate::executor::{Executor, ExecutorError, now, unix_time};
use crate::queue::{ForkRequest, Popped, Receiver};

/// Transactions of a block that is made on request, at most: the others wait for the next one.
const BLOCK_TRANSACTIONS_MAX: usize = 4_096;
/// Transactions executed between two publications while a block is made on request.
const PUBLISHED_AT_ONCE: usize = 256;

impl Executor {
    /// Makes blocks on request only, until the queue is closed.
    pub(crate) fn run_manually(mut self, queue: &Receiver) -> Result<(), ExecutorError> {
        loop {
            match queue.next_call() {
                Popped::Call(call) => self.carry_out(call, queue)?,
                Popped::Execute(_) | Popped::Empty | Popped::Closed => {
                    return self.complete_block();
                }
            }
        }
    }

    /// Executes a call, and replies. Transactions in blocks that are made on request have a status by then.
    pub(crate) fn control_forks(
        &mut self,
        request: ForkRequest,
        queue: &Receiver,
    ) -> Result<(), ExecutorError> {
        match request {
            ForkRequest::Mine { blocks, reply } => {
                let slot = self.mine(blocks, queue)?;
                self.hidden_statuses.show_all();
                reply.send(Ok(slot));
            }
            ForkRequest::Snapshot { reply } => {
                let id = self.snapshot()?;
                self.hidden_statuses.show_all();
                reply.send(Ok(id));
            }
            ForkRequest::Revert { snapshot, reply } => {
                let result = self.revert(snapshot)?;
                self.hidden_statuses.show_all();
                reply.send(result);
            }
            ForkRequest::Reorg { depth, transactions, reply } => {
                let result = self.reorganize(depth, transactions)?;
                self.hidden_statuses.show_all();
                reply.send(result);
            }
        }
        Ok(())
    }

    /// Makes blocks, and returns the slot of the last one. Transactions that wait are
    /// executed meanwhile: after many blocks their blockhashes would be too old.
    fn mine(&mut self, blocks: u64, queue: &Receiver) -> Result<Slot, ExecutorError> {
        for _ in 0..blocks {
            if self.timing.slot_ms == 0 {
                self.update_time()?;
            }
            if self.timing.is_manual {
                self.execute_waiting(queue)?;
            } else {
                self.execute_while_mining(queue)?;
            }
            self.end_block()?;
        }
        Ok(self.checkpoints.newest().block.id.slot)
    }

    /// Executes waiting transactions into the open block.
    fn execute_waiting(&mut self, queue: &Receiver) -> Result<(), ExecutorError> {
        for count in 1..=BLOCK_TRANSACTIONS_MAX {
            let Popped::Execute(transaction) = queue.try_next() else { break };
            self.execute(transaction)?;
            if count.is_multiple_of(PUBLISHED_AT_ONCE) {
                self.publish();
            }
        }
        self.publish();
        Ok(())
    }

    /// Makes a snapshot of the newest state. An open block with anything in it is completed first.
    fn snapshot(&mut self) -> Result<u64, ExecutorError> {
        if self.is_open_block_written() {
            self.end_block()?;
        }
        let clock = self.clock.lock().state();
        Ok(self.checkpoints.add_snapshot(clock))
    }

    /// Goes back to a snapshot.
    fn revert(&mut self, id: u64) -> Result<Result<(), ForkControlError>, ExecutorError> {
        let Some((index, clock)) = self.checkpoints.take_snapshot(id) else {
            return Ok(Err(ForkControlError::UnknownSnapshot {
                id,
                snapshots_max: SNAPSHOTS_MAX as u64,
                blocks_max: BLOCKS_MAX as u64,
                bytes_max: BYTES_MAX,
            }));
        };
        let is_unchanged = self.checkpoints.is_newest(index) && !self.is_open_block_written();
        if !is_unchanged {
            self.leave_blocks(index, &format!("reverted to snapshot {id}"))?;
        }
        // The time goes back with the accounts.
        self.clock.lock().restore(clock, self.builder.bank.unix_timestamp, now());
        if is_unchanged {
            return Ok(Ok(()));
        }
        self.open_block(self.builder.bank.clone())?;
        self.restore_adopted()?;
        self.end_block()?;
        Ok(Ok(()))
    }

    /// Leaves the newest `depth` blocks for a fork of one block more.
    fn reorganize(
        &mut self,
        depth: u64,
        transactions: ForkTransactions,
    ) -> Result<Result<Reorganization, ForkControlError>, ExecutorError> {
        let unfinalized = self.checkpoints.unfinalized() as u64;
        let index = self.checkpoints.index_below(depth).filter(|_| depth > 0);
        let Some(index) = index else {
            return Ok(Err(if depth == 0 {
                ForkControlError::OutOfRange { what: "depth", value: depth, max: unfinalized }
            } else {
                ForkControlError::TooDeep { depth, unfinalized }
            }));
        };
        let left = self.leave_blocks(index, "left by a reorganization")?;
        let blocks: Vec<Vec<VersionedTransaction>> = match transactions {
            ForkTransactions::Reexecute => {
                left.iter().map(|block| self.foreign_to(block)).collect()
            }
            ForkTransactions::Drop => Vec::new(),
            ForkTransactions::Replace(all) => {
                vec![all.into_iter().map(|one| one.into_transaction()).collect()]
            }
        };
        let mut blocks = blocks.into_iter();
        let mut reorganization = Reorganization {
            reverted: left.iter().map(|block| block.id.slot).collect(),
            ..Reorganization::default()
        };
        self.open_block(self.builder.bank.clone())?;
        self.restore_adopted()?;
        // One for each of the left blocks; the open one was among them.
        for _ in 0..=depth {
            self.execute_all(blocks.next().unwrap_or_default(), &mut reorganization)?;
            self.end_block()?;
            reorganization.entered.push(self.checkpoints.newest().block.id.slot);
        }
        Ok(Ok(reorganization))
    }

    /// The transactions of a block without the node's own vote.
    fn foreign_to(&self, block: &Block) -> Vec<VersionedTransaction> {
        let identity = self.identity.pubkey();
        let all = block.transactions.iter();
        let foreign = all.filter(|one| !one.is_vote || one.account_keys.first() != Some(&identity));
        foreign.map(|one| one.transaction.clone()).collect()
    }

    /// Executes transactions into the open block.
    fn execute_all(
        &mut self,
        transactions: Vec<VersionedTransaction>,
        reorganization: &mut Reorganization,
    ) -> Result<(), ExecutorError> {
        for (count, transaction) in (1..).zip(transactions) {
            let message_hash = transaction.message.hash();
            match self.try_execute(transaction, message_hash)? {
                Ok(()) => reorganization.executed += 1,
                Err(dropped) => {
                    reorganization.dropped += 1;
                    if reorganization.reasons.len() < DROPPED_MAX {
                        reorganization.reasons.push((dropped.signature, dropped.err));
                    }
                }
            }
            if usize::is_multiple_of(count, PUBLISHED_AT_ONCE) {
                self.publish();
            }
        }
        self.publish();
        Ok(())
    }

    /// Goes back to the block of a checkpoint, and returns the left blocks, the oldest first. No block is open after
    /// it.
    fn leave_blocks(&mut self, index: usize, why: &str) -> Result<Vec<Arc<Block>>, ExecutorError> {
        let (open, bank) = self.close_block()?;
        let open = Arc::new(open);
        self.emit_frozen(&open, bank);
        let mut left = self.checkpoints.take_above(index);
        left.push(open);
        let base = self.checkpoints.newest();
        let block = base.block.id;
        let bank = base.bank.clone();
        self.adopted.leave_blocks_above(block.slot);
        let lt_hash = base.lt_hash.clone();
        let tower = base.tower.clone();
        let voters = Arc::clone(&base.voters);

        let writes = left.iter().flat_map(|block| &block.writes);
        let written: HashSet<Pubkey, RandomState> = writes.map(|write| write.pubkey).collect();
        if let Some(store) = &mut self.store {
            store.set_epochs(bincode::serialize(&*voters).unwrap_or_default());
            let ledger = &self.ledger;
            let account = |key: &Pubkey| ledger.record_at(block, &Address::from(key.to_bytes()));
            store.revert_to(block.slot, written.iter().map(|key| (*key, account(key))))?;
        }
        if let Some(lowest) = left.first() {
            self.ledger.drop_fork(lowest.id)?;
        }
        self.history.revert_to(block);
        self.history.publish();
        self.ledger.publish();
        self.finalized_slot = self.checkpoints.finalized_slot();

        self.set.reload(&self.ledger, written.iter());
        self.status_cache.revert_to(block.slot);
        self.retries.note_revert();
        self.tower = tower;
        self.accounts_sum = AccountsSum::new(lt_hash);
        let view = self.reader.view(Commitment::Confirmed);
        self.epochs.revert_to(voters, self.set.vm(), &view, &bank);
        self.builder = BlockBuilder::new(bank);
        tracing::info!(slot = block.slot, left = left.len(), why, "the ledger goes back");

        let timestamp_ms = unix_time().as_millis() as u64;
        for block in left.iter().rev() {
            let block = Arc::clone(block);
            let reason = RevertReason::Dead { error: why.to_owned() };
            self.emit(&LedgerEvent::Reverted { block, reason, timestamp_ms });
        }
        Ok(left)
    }
}
