//! The one thread that executes transactions and makes blocks.
//!
//! In: verified transactions in the order of the queue, and the clock. Out: accounts to `query`, blocks to `History`
//! and the store, events to the sinks.
//! Bounds: at most [`BATCH_MAX`] transactions or [`BATCH_TIME`] between two publications. To publish, to send events
//! and to wake readers costs the same for one transaction as for many. So the thread pauses for
//! [`BATCH_GATHER_INTERVAL`] once the queue is empty: transactions that arrive meanwhile are published together. A
//! transaction that arrives after the pause is executed at once.
//! Not here: running one transaction (`executor_transactions`), the steps of a block (`executor_blocks`), publication
//! (`executor_events`), what a transaction does (`vm`).

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chain_solana::{
    AccountUpdate, BlockInfo, BundleReply, EventSink, ExecutedTransaction, History, Reader,
};
use ledger::{BlockId, Slot};
use ledger_store::LedgerStore;
use parking_lot::Mutex;
use query::LedgerError;
use solana::Account;
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use store::StoreError;
use svm::{WorkingSet, sysvars};

use crate::account_bytes::AccountBytes;
use crate::accounts_sum::AccountsSum;
use crate::adopted_accounts::AdoptedAccounts;
use crate::baseline::Baseline;
use crate::block_builder::BlockBuilder;
use crate::chain_clock::ChainClock;
use crate::checkpoints::Checkpoints;
use crate::config::Config;
use crate::epoch::Epochs;
use crate::executor_metrics::ExecutorMetrics;
use crate::hidden_statuses::HiddenStatuses;
use crate::queue::{ControlRequest, Popped, QueueItem, Receiver, TransactionQueue};
use crate::retries::Retries;
use crate::status_cache::StatusCache;
use crate::vote::Tower;

/// Transactions executed between two publications, at most.
const BATCH_MAX: usize = 256;
/// Time spent executing between two publications, at most (one transaction may exceed it).
const BATCH_TIME: Duration = Duration::from_millis(2);
/// Pause after a publication that left the queue empty, in which transactions gather.
const BATCH_GATHER_INTERVAL: Duration = Duration::from_millis(1);

/// Transactions of a block whose end the paused clock delays, at most.
const PAUSED_BLOCK_TRANSACTIONS_MAX: usize = 10_000;

enum BatchEnd {
    /// The batch reached its bound of transactions or time.
    Full,
    /// The queue is empty.
    Empty,
    /// The queue was closed.
    Closed,
}

/// Why the executing thread ended without a call of `stop`.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    /// The state refused a block.
    #[error("the state refused a block")]
    Ledger(#[from] LedgerError),
    /// The store could not write a block, so the block must not be confirmed.
    #[error("the ledger directory could not store a block")]
    Store(#[from] StoreError),
}

/// Settings of the timing of blocks.
pub(crate) struct BlockTiming {
    pub(crate) slot_ms: u64,
    /// Blocks are made on request only.
    pub(crate) is_manual: bool,
    pub(crate) finalize_after: u64,
    pub(crate) warp_slot: Option<Slot>,
}

impl BlockTiming {
    pub(crate) fn from_config(config: &Config) -> Self {
        Self {
            slot_ms: config.slot_ms,
            is_manual: config.is_manual,
            finalize_after: config.finalize_after,
            warp_slot: config.warp_slot,
        }
    }
}

/// The state of the executing thread.
pub(crate) struct Executor {
    pub(crate) set: WorkingSet,
    pub(crate) ledger: query::Ledger<Account, BlockInfo>,
    pub(crate) reader: Reader,
    pub(crate) history: Arc<History>,
    pub(crate) store: Option<LedgerStore>,
    pub(crate) sinks: Vec<Box<dyn EventSink>>,
    pub(crate) status_cache: StatusCache,
    pub(crate) tower: Tower,
    pub(crate) identity: Keypair,
    pub(crate) voter: Keypair,
    pub(crate) vote_account: Pubkey,
    pub(crate) epochs: Epochs,
    pub(crate) timing: BlockTiming,
    /// Whether transactions with any blockhash are executed.
    pub(crate) skips_blockhash_check: bool,
    /// Simulations read it as well.
    pub(crate) clock: Arc<Mutex<ChainClock>>,
    pub(crate) builder: BlockBuilder,
    /// Of the newest complete block.
    pub(crate) accounts_sum: AccountsSum,
    pub(crate) finalized_slot: Slot,
    /// The complete blocks from the root on.
    pub(crate) checkpoints: Checkpoints,
    /// The newest block that was ever opened. A slot is given once.
    pub(crate) newest: BlockId,
    /// Whether anything but its opening wrote to the open block.
    pub(crate) is_written: bool,
    /// The vote of the open block, sent with its first publication.
    pub(crate) unpublished_vote: Option<chain_solana::Vote>,
    /// Transactions executed since the last publication.
    pub(crate) unpublished: Vec<Arc<ExecutedTransaction>>,
    /// Bundles executed since the last publication, each with its slot.
    pub(crate) unpublished_bundles: Vec<(BundleReply, Slot)>,
    /// Account writes since the last publication. `None` if no sink needs them.
    pub(crate) unpublished_updates: Option<Vec<AccountUpdate>>,
    /// Writes of accounts since the start, if a sink needs them.
    pub(crate) write_version: u64,
    /// The accounts of the start, if they are retained.
    pub(crate) baseline: Option<Arc<Baseline>>,
    pub(crate) baseline_bytes_max: u64,
    /// Accounts of another cluster that were written above the root.
    pub(crate) adopted: AdoptedAccounts,
    /// Bytes of accounts in memory, and their limit.
    pub(crate) account_bytes: Arc<AccountBytes>,
    /// Executed transactions whose status is hidden.
    pub(crate) hidden_statuses: HiddenStatuses,
    /// Transactions that could not run yet.
    pub(crate) retries: Retries,
    /// The queue to which transactions return to be tried again.
    pub(crate) queue: Arc<TransactionQueue>,
    pub(crate) metrics: Arc<ExecutorMetrics>,
}

impl Executor {
    /// Makes blocks until the queue is closed, then completes the open block.
    pub(crate) fn run(mut self, queue: &Receiver) -> Result<(), ExecutorError> {
        if self.timing.is_manual {
            return self.run_manually(queue);
        }
        if self.timing.slot_ms == 0 {
            return self.run_on_demand(queue);
        }
        let slot_time = Duration::from_millis(self.timing.slot_ms);
        let mut slot_end = now() + slot_time;
        loop {
            let is_paused = self.is_paused();
            let slot_end_if_running = (!is_paused).then_some(slot_end);
            let status_due = self.hidden_statuses.next_due();
            match queue.next(slot_end_if_running.into_iter().chain(status_due).min()) {
                Popped::Execute(first) => match self.execute_batch(first, queue, slot_end)? {
                    BatchEnd::Full => {}
                    BatchEnd::Empty => wait_for_batch(slot_end),
                    BatchEnd::Closed => return self.complete_block(),
                },
                Popped::Call(call) => {
                    let is_command = matches!(call, ControlRequest::Command(_));
                    let open = self.builder.id();
                    self.carry_out(call, queue)?;
                    // A revert may have resumed the clock.
                    if is_paused || (is_command && self.builder.id() != open) {
                        slot_end = now() + slot_time;
                    }
                }
                Popped::Closed => return self.complete_block(),
                Popped::Empty => {}
            }
            self.hidden_statuses.show_due(now());
            if self.is_paused() {
                if self.builder.transactions.len() >= PAUSED_BLOCK_TRANSACTIONS_MAX {
                    self.end_block()?;
                }
                slot_end = now() + slot_time;
            } else if now() >= slot_end {
                self.end_block()?;
                // Slots that passed while the machine was suspended are not made up for.
                slot_end = (slot_end + slot_time).max(now());
            }
        }
    }

    /// Makes a block for each transaction, and none without one.
    fn run_on_demand(mut self, queue: &Receiver) -> Result<(), ExecutorError> {
        loop {
            let status_due = self.hidden_statuses.next_due();
            match queue.next(status_due) {
                Popped::Execute(transaction) => self.execute_in_own_block(transaction)?,
                Popped::Call(call) => self.carry_out(call, queue)?,
                Popped::Empty => {}
                Popped::Closed => return self.complete_block(),
            }
            self.hidden_statuses.show_due(now());
        }
    }

    /// Carries out a call, and sets its price by the time that it took.
    pub(crate) fn carry_out(
        &mut self,
        call: ControlRequest,
        queue: &Receiver,
    ) -> Result<(), ExecutorError> {
        let started_at = now();
        match call {
            ControlRequest::Fork(request) => self.control_forks(request, queue)?,
            ControlRequest::Command(request) => self.control(request)?,
        }
        queue.charge_call(now() - started_at);
        Ok(())
    }

    /// Sets the time of an open block that waits, to that of its first transaction or command, or of its end.
    pub(crate) fn update_time(&mut self) -> Result<(), LedgerError> {
        let unix_timestamp = self.clock.lock().advance(unix_ms(), now());
        if unix_timestamp > self.builder.bank.unix_timestamp {
            self.set_time(unix_timestamp)?;
        }
        Ok(())
    }

    /// Sets the time of the open block.
    pub(crate) fn set_time(&mut self, unix_timestamp: i64) -> Result<(), LedgerError> {
        if let Some(clock) = sysvars::set_time(self.set.vm_mut(), unix_timestamp) {
            self.builder.bank.unix_timestamp = unix_timestamp;
            self.write_accounts(&[clock])?;
        }
        Ok(())
    }

    fn is_paused(&self) -> bool {
        self.clock.lock().is_paused()
    }

    /// Executes waiting transactions until the batch or the slot ends, and publishes them.
    fn execute_batch(
        &mut self,
        first: QueueItem,
        queue: &Receiver,
        slot_end: Instant,
    ) -> Result<BatchEnd, ExecutorError> {
        let batch_end = slot_end.min(now() + BATCH_TIME);
        let mut end = BatchEnd::Full;
        self.execute(first)?;
        // The batch executes every transaction that it takes from the queue.
        for _ in 1..BATCH_MAX {
            if now() >= batch_end {
                break;
            }
            match queue.try_next() {
                Popped::Execute(transaction) => {
                    self.execute(transaction)?;
                }
                Popped::Closed => {
                    end = BatchEnd::Closed;
                    break;
                }
                Popped::Empty | Popped::Call(_) => {
                    end = BatchEnd::Empty;
                    break;
                }
            };
        }
        self.publish();
        Ok(end)
    }

    fn execute_in_own_block(&mut self, transaction: QueueItem) -> Result<(), ExecutorError> {
        self.update_time()?;
        if self.execute(transaction)? {
            self.publish();
            self.end_block()?;
        }
        Ok(())
    }

    /// Executes waiting transactions for the time of a batch, while blocks are mined: into the open block, or each into
    /// a block of its own if each transaction makes a block.
    pub(crate) fn execute_while_mining(&mut self, queue: &Receiver) -> Result<(), ExecutorError> {
        let batch_end = now() + BATCH_TIME;
        while now() < batch_end
            && let Popped::Execute(transaction) = queue.try_next()
        {
            if self.timing.slot_ms > 0 {
                self.execute_batch(transaction, queue, batch_end)?;
            } else {
                self.execute_in_own_block(transaction)?;
            }
        }
        Ok(())
    }
}

/// Pauses until the next batch, at most until the slot's end. Senders wake no thread meanwhile.
#[expect(clippy::disallowed_methods, reason = "the ledger's clock is here; a fixed pause")]
fn wait_for_batch(slot_end: Instant) {
    std::thread::sleep(BATCH_GATHER_INTERVAL.min(slot_end.saturating_duration_since(now())));
}

#[expect(clippy::disallowed_methods, reason = "this thread is where the ledger's clock is")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The system's time, for events: 0 before 1970.
#[expect(clippy::disallowed_methods, reason = "this thread is where the ledger's clock is")]
pub(crate) fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Milliseconds since 1970 by the system's clock, negative before.
#[expect(clippy::disallowed_methods, reason = "this thread is where the ledger's clock is")]
pub(crate) fn unix_ms() -> i64 {
    let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => ms(since),
        Err(before) => -ms(before.duration()),
    }
}
