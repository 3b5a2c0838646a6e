//! Runs transactions on the open block, and writes their results to the VM, the ledger and the block.
//!
//! In: a transaction whose signatures are verified. Out: its accounts in the ledger's open block, and its status among
//! those that the next publication shows.
//! Invariant: a transaction is written whole or not at all. If the ledger has no space, its writes leave the VM too.
//! Not here: bundles (`bundles`), retries (`executor_retries`), the publication (`executor_events`).

use std::sync::Arc;

use chain_solana::{
    AccountUpdate, AccountWrite, BlockInfo, ExecutedTransaction, StatusVisibility, WrittenAccounts,
};
use ledger::{Address, Change, StoredRecord};
use query::LedgerError;
use solana::Account;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;
use solana_transaction_status::TransactionStatusMeta;
use svm::{ExecutionOutcome, Overlay, nonce, status_meta};

use crate::account_bytes::{NoSpace, WrittenBytes};
use crate::cost::{self, Cost};
use crate::executor::{Executor, ExecutorError, now};
use crate::executor_metrics::Phase;
use crate::queue::QueueItem;

impl Executor {
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

fn is_vote(transaction: &VersionedTransaction) -> bool {
    let message = &transaction.message;
    let [instruction] = message.instructions() else { return false };
    transaction.signatures.len() < 3
        && matches!(message, solana_message::VersionedMessage::Legacy(_))
        && message.static_account_keys().get(usize::from(instruction.program_id_index))
            == Some(&solana_sdk_ids::vote::ID)
}
