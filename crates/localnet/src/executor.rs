//! The one thread that executes transactions and makes blocks.
//!
//! In: verified transactions in the order of the queue, and the clock. Out: accounts to `query`, blocks to `History`
//! and the store, events to the sinks. Readers see a change before its event is sent.
//! Order at a block's end: the block is in the store on disk, then in history, then it is the confirmed tip, and only
//! then its event is sent. So a block that was reported as confirmed is on disk.
//! Bounds: at most [`BATCH_MAX`] transactions or [`BATCH_TIME`] between two publications. To publish, to send events
//! and to wake readers costs the same for one transaction as for many. So the thread pauses for
//! [`BATCH_GATHER_INTERVAL`] once the queue is empty: transactions that arrive meanwhile are published together. A
//! transaction that arrives after the pause is executed at once.
//! Long because each command changes the open block, the VM and the queue together.
//! Not here: what a transaction does (`vm`), what a block contains (`block_builder`), going back (`forks`).

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chain_solana::{
    AccountUpdate, AccountWrite, BankHashComponents, Block, BlockInfo, BundleReply, EventSink,
    ExecutedTransaction, History, LedgerEvent, Reader, StatusVisibility, WrittenAccounts,
};
use ledger::{Address, BlockId, Change, Commitment, Slot, StoredRecord};
use ledger_store::LedgerStore;
use parking_lot::Mutex;
use query::LedgerError;
use solana::Account;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_hash::Hash;
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_stake_interface::stake_history::StakeHistoryEntry;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;
use solana_transaction_status::TransactionStatusMeta;
use store::StoreError;
use svm::sysvars::{self, SlotContext};
use svm::{ExecutionOutcome, Overlay, WorkingSet, nonce, status_meta};

use crate::account_bytes::{AccountBytes, NoSpace, WrittenBytes};
use crate::accounts_sum::AccountsSum;
use crate::adopted_accounts::AdoptedAccounts;
use crate::baseline::Baseline;
use crate::block_builder::BlockBuilder;
use crate::chain_clock::ChainClock;
use crate::checkpoints::{Checkpoint, Checkpoints};
use crate::config::Config;
use crate::cost::{self, Cost};
use crate::epoch::Epochs;
use crate::executor_metrics::{ExecutorMetrics, Phase};
use crate::hidden_statuses::HiddenStatuses;
use crate::queue::{ControlRequest, Popped, QueueItem, Receiver, TransactionQueue};
use crate::retries::Retries;
use crate::status_cache::StatusCache;
use crate::vote::{Tower, Vote};

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

    /// Executes a transaction or a bundle into the open block. False if the block may not contain it.
    pub(crate) fn execute(&mut self, work: QueueItem) -> Result<bool, ExecutorError> {
        let Some(work) = self.charge_for_code(work) else { return Ok(false) };
        let sent = match work {
            QueueItem::Transaction(sent) => sent,
            QueueItem::Bundle(bundle) => return self.execute_bundle(bundle),
        };
        let verified = &sent.transaction;
        let written = WrittenAccounts::default();
        let signature = verified.signature();
        let message_hash = verified.message_hash();
        let results = match self.run_transaction(verified.transaction(), message_hash, &written) {
            Ok(results) => results,
            Err(err) => {
                let is_stored = self.retry_later(sent, &err);
                let message = if is_stored { "transaction waits" } else { "transaction dropped" };
                tracing::debug!(%signature, %err, message);
                return Ok(false);
            }
        };
        let transaction = sent.transaction.into_transaction();
        let committed = self.commit(TransactionRun { transaction, message_hash, results })?;
        Ok(committed.is_ok())
    }

    pub(crate) fn try_execute(
        &mut self,
        transaction: VersionedTransaction,
        message_hash: Hash,
    ) -> Result<Result<(), DroppedTransaction>, ExecutorError> {
        let signature = transaction.signatures.first().copied().unwrap_or_default();
        match self.run_transaction(&transaction, message_hash, &WrittenAccounts::default()) {
            Ok(results) => self.commit(TransactionRun { transaction, message_hash, results }),
            Err(err) => Ok(Err(DroppedTransaction { signature, err })),
        }
    }

    /// Writes a transaction that ran to the open block.
    fn commit(
        &mut self,
        run: TransactionRun,
    ) -> Result<Result<(), DroppedTransaction>, ExecutorError> {
        let signature = run.signature();
        self.set.commit(run.results.outcome.writes());
        Ok(self.record(vec![run])?.map_err(|full| {
            tracing::error!(%signature, %full, "transaction dropped: no space for its accounts");
            let err = match full {
                NoSpace::Addresses(_) => TransactionError::TooManyAccountLocks,
                NoSpace::AccountBytes { .. } => TransactionError::WouldExceedAccountDataTotalLimit,
            };
            DroppedTransaction { signature, err }
        }))
    }

    /// Runs a transaction on the open block, after others that `written` is from. Writes nothing.
    pub(crate) fn run_transaction(
        &mut self,
        transaction: &VersionedTransaction,
        message_hash: Hash,
        written: &WrittenAccounts,
    ) -> Result<RunResults, TransactionError> {
        if self.status_cache.contains(&message_hash) {
            return Err(TransactionError::AlreadyProcessed);
        }
        let last_blockhash = self.builder.bank.last_blockhash();
        let recent = transaction.message.recent_blockhash();
        let is_valid = self.skips_blockhash_check || self.builder.bank.blockhashes.is_valid(recent);
        if !is_valid && !nonce::is_named(&transaction.message) {
            return Err(TransactionError::BlockhashNotFound);
        }
        let started_at = now();
        let source = Overlay { written, source: &self.ledger };
        self.set.load(&source, &transaction.message);
        let nonce = if is_valid {
            None
        } else {
            match nonce::usable(transaction, &last_blockhash, |key| self.set.vm().account(key)) {
                Some(nonce) => Some(nonce),
                None => return Err(TransactionError::BlockhashNotFound),
            }
        };
        let outcome = self.set.run(transaction, nonce, &last_blockhash);
        let ran_at = now();
        self.metrics.add(Phase::Vm, ran_at - started_at);
        self.metrics.set_code(self.set.code_usage());
        if !outcome.is_included {
            let err = outcome.result.err().unwrap_or(TransactionError::SanitizeFailure);
            return Err(err);
        }
        let features = self.epochs.features();
        let cost = cost::transaction_cost(transaction, message_hash, &outcome, features);
        let set = &mut self.set;
        let message = &transaction.message;
        let mut meta = status_meta::transaction_status_meta(&outcome, message, |key| {
            set.account(&source, key).cloned()
        });
        meta.cost_units = cost.map(|cost| cost.units);
        self.metrics.add(Phase::Write, now() - ran_at);
        Ok(RunResults { outcome, meta, cost })
    }

    /// Writes transactions to the open block, all or none. What they wrote is in the VM already; it is removed from
    /// there if the ledger has no space for it.
    pub(crate) fn record(
        &mut self,
        runs: Vec<TransactionRun>,
    ) -> Result<Result<(), NoSpace>, ExecutorError> {
        let started_at = now();
        let mut written = WrittenBytes::default();
        for run in &runs {
            run.results.outcome.changes().for_each(|(_, before, after)| written.add(before, after));
        }
        if let Err(full) = self.account_bytes.admit(self.ledger.record_bytes(), written) {
            self.reload_written(&runs);
            return Ok(Err(full));
        }
        let mut bank = self.builder.bank.clone();
        let lamports = |accounts: &[AccountSharedData]| -> u64 {
            accounts.iter().map(ReadableAccount::lamports).sum()
        };
        for TransactionRun { transaction, results, .. } in &runs {
            let outcome = &results.outcome;
            let signatures = transaction.message.header().num_required_signatures;
            bank.transaction_count += 1;
            bank.hash_components.signature_count += u64::from(signatures);
            bank.capitalization =
                bank.capitalization + lamports(&outcome.after) - lamports(&outcome.before);
        }
        let writes = runs.iter().flat_map(|run| {
            let signature = Some(run.signature());
            run.results.outcome.writes().map(move |(key, account)| (key, account, signature))
        });
        match self.apply_all(writes, bank) {
            Err(LedgerError::TableFull(full)) => {
                self.reload_written(&runs);
                return Ok(Err(full.into()));
            }
            applied => applied?,
        }
        for run in runs {
            self.record_executed(run);
        }
        self.metrics.add(Phase::Write, now() - started_at);
        Ok(Ok(()))
    }

    /// Removes the writes of transactions from the VM.
    fn reload_written(&mut self, runs: &[TransactionRun]) {
        let writes = runs.iter().flat_map(|run| run.results.outcome.writes());
        let written: Vec<Pubkey> = writes.map(|(key, _)| key).collect();
        self.set.reload(&self.ledger, written.iter());
    }

    /// Adds a transaction to the open block, whose accounts have its writes.
    fn record_executed(&mut self, run: TransactionRun) {
        let TransactionRun { transaction, message_hash, results } = run;
        let RunResults { outcome, meta, cost } = results;
        let signature_fee = cost.map_or(outcome.fee, |cost| cost.signature_fee);
        self.builder.fees.add(outcome.fee, signature_fee);
        self.builder.record_key_changes(outcome.changes());
        self.status_cache.insert(message_hash);
        let executed = Arc::new(ExecutedTransaction {
            slot: self.builder.bank.block.slot,
            index: self.builder.transactions.len() as u32,
            block_time: self.builder.bank.unix_timestamp,
            is_vote: is_vote(&transaction),
            transaction,
            meta,
            account_keys: outcome.keys,
            visibility: StatusVisibility::hidden(),
        });
        self.hidden_statuses.push(&executed, now());
        self.builder.transactions.push(Arc::clone(&executed));
        self.unpublished.push(executed);
    }

    /// Writes sysvars of the VM that were changed outside of transactions.
    pub(crate) fn write_accounts(&mut self, keys: &[Pubkey]) -> Result<(), LedgerError> {
        let accounts: Vec<_> = keys
            .iter()
            .filter_map(|key| self.set.vm().account(key).map(|account| (*key, account.clone())))
            .collect();
        let bank = self.builder.bank.clone();
        self.apply(accounts.iter().map(|(key, account)| (*key, account)), bank)
    }

    /// Writes accounts to the open block, for the block itself.
    pub(crate) fn apply<'a>(
        &mut self,
        writes: impl Iterator<Item = (Pubkey, &'a AccountSharedData)>,
        bank: BlockInfo,
    ) -> Result<(), LedgerError> {
        self.apply_all(writes.map(|(pubkey, account)| (pubkey, account, None)), bank)
    }

    /// Writes accounts to the open block, all or none, each for the transaction of a signature or for the block itself.
    fn apply_all<'a>(
        &mut self,
        writes: impl Iterator<Item = (Pubkey, &'a AccountSharedData, Option<Signature>)>,
        bank: BlockInfo,
    ) -> Result<(), LedgerError> {
        let needs_updates = self.unpublished_updates.is_some();
        let mut closed = Vec::new();
        let (sources, changes): (Vec<_>, Vec<Change<Account>>) = writes
            .map(|(pubkey, account, signature)| {
                if needs_updates && account.lamports() == 0 {
                    closed.push(Arc::new(Account(account.clone())));
                }
                let record = Account(account.clone()).into_record();
                let address = Address::from(pubkey.to_bytes());
                ((pubkey, signature), Change { address, record })
            })
            .unzip();
        let records: Vec<_> = changes.iter().map(|change| change.record.clone()).collect();
        let ids = self.ledger.apply(self.builder.id(), changes, Arc::new(bank.clone()))?;
        self.builder.bank = bank;
        self.is_written = true;
        if !self.retries.is_empty() {
            sources.iter().for_each(|(pubkey, _)| self.retries.note_write(pubkey));
        }
        if let Some(updates) = &mut self.unpublished_updates {
            let mut closed = closed.into_iter();
            let version = &mut self.write_version;
            updates.extend(sources.iter().zip(&records).filter_map(|(source, record)| {
                *version += 1;
                let (pubkey, signature) = *source;
                let account = record.clone().or_else(|| closed.next())?;
                let write_version = *version;
                let executed = None;
                Some(AccountUpdate { pubkey, account, write_version, signature, executed })
            }));
        }
        let writes = sources.into_iter().zip(ids).zip(records);
        self.builder.record_writes(writes.map(|(((pubkey, _), id), account)| AccountWrite {
            pubkey,
            id,
            account: account.map(StoredRecord::from),
            removed_keys: Vec::new(),
        }));
        Ok(())
    }

    /// Publishes the executed transactions to readers, then sends their events.
    pub(crate) fn publish(&mut self) {
        let started_at = now();
        self.ledger.publish();
        self.account_bytes.set_bytes(self.ledger.record_bytes());
        let executed = std::mem::take(&mut self.unpublished);
        if !executed.is_empty() {
            self.history.record_transactions(self.builder.id(), &executed);
            self.history.publish();
        }
        if let Some(vote) = self.unpublished_vote.take() {
            self.emit(&LedgerEvent::Voted([vote].into()));
        }
        if let Some(updates) = self.unpublished_updates.as_mut().filter(|all| !all.is_empty()) {
            let mut updates = std::mem::take(updates);
            set_executed(&mut updates, &executed);
            let block = self.builder.id();
            let updates = updates.into();
            self.emit(&LedgerEvent::AccountsWritten { block, updates });
        }
        if !executed.is_empty() {
            self.emit(&LedgerEvent::Executed(executed.into()));
            self.builder.record_entries();
        }
        for (reply, slot) in self.unpublished_bundles.drain(..) {
            reply.send(Ok(slot));
        }
        self.metrics.add(Phase::Publish, now() - started_at);
    }

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

    /// Sends the event of a block whose writes have ended.
    pub(crate) fn emit_frozen(&mut self, block: &Arc<Block>, bank: BlockInfo) {
        let timestamp_ms = unix_time().as_millis() as u64;
        let info = Arc::new(bank);
        self.emit(&LedgerEvent::Frozen { block: Arc::clone(block), info, timestamp_ms });
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

    fn publish_opening(&mut self, parent: BlockId) {
        self.ledger.publish();
        let block = self.builder.bank.block;
        let root = self.finalized_slot;
        let timestamp_ms = unix_time().as_millis() as u64;
        self.emit(&LedgerEvent::BankCreated { block, parent, root, timestamp_ms });
        self.publish();
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

    pub(crate) fn emit(&mut self, event: &LedgerEvent) {
        let is_update = matches!(event, LedgerEvent::AccountsWritten { .. });
        for sink in &mut self.sinks {
            if !is_update || sink.needs_account_updates() {
                sink.send(event);
            }
        }
    }
}

/// A transaction that no block may contain.
pub(crate) struct DroppedTransaction {
    pub(crate) signature: Signature,
    pub(crate) err: TransactionError,
}

/// A transaction that ran, and is in no block yet.
pub(crate) struct TransactionRun {
    pub(crate) transaction: VersionedTransaction,
    pub(crate) message_hash: Hash,
    pub(crate) results: RunResults,
}

/// The results of a transaction that a block may contain.
pub(crate) struct RunResults {
    pub(crate) outcome: ExecutionOutcome,
    meta: TransactionStatusMeta,
    cost: Option<Cost>,
}

impl TransactionRun {
    pub(crate) fn signature(&self) -> Signature {
        self.transaction.signatures.first().copied().unwrap_or_default()
    }
}

/// Sets the transactions of writes. Both are in the order of execution.
fn set_executed(updates: &mut [AccountUpdate], executed: &[Arc<ExecutedTransaction>]) {
    let mut executed = executed.iter().peekable();
    for update in updates {
        let Some(signature) = update.signature else { continue };
        while executed.next_if(|it| it.signature() != signature).is_some() {}
        update.executed = executed.peek().map(|it| Arc::clone(it));
    }
}

fn is_vote(transaction: &VersionedTransaction) -> bool {
    let message = &transaction.message;
    let [instruction] = message.instructions() else { return false };
    transaction.signatures.len() < 3
        && matches!(message, solana_message::VersionedMessage::Legacy(_))
        && message.static_account_keys().get(usize::from(instruction.program_id_index))
            == Some(&solana_sdk_ids::vote::ID)
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
