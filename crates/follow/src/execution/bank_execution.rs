//! Executes the transactions of one bank on the state of its parent, and compares each result with the source's word.
//!
//! In: a whole bank, and the accounts of its parent. Out: the result of the bank; differences are counted, logged and
//! named in the [`ExecutionStatus`].
//! Rules: transactions see the sysvars of their bank. Agave writes RecentBlockhashes and SlotHistory at the end of a
//! bank, so transactions see those of its parent; `hydrant dev` writes them at its start.
//! A transaction that cannot be executed makes the accounts that it may write unknown, and so does one with another
//! status, fee or balances than reported. A transaction that names an unknown account is not executed. Before the
//! transactions, the unknown accounts are the stake accounts to which the bank paid rewards.
//! Not compared: the leader's lamports after the bank, which include its fees (`transaction_checks` does), accounts
//! that the bank itself writes, rewards of the block.
//! Not here: where the parent's accounts come from (`parent_state`), threads (`execution`).

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chain_solana::{
    Block, BlockInfo, ExecutedTransaction, ExecutionDifference, ResultField, View, WrittenAccounts,
};
use foldhash::quality::RandomState;
use solana::Account;
use solana_account::ReadableAccount;
use solana_clock::{Clock, Epoch};
use solana_pubkey::Pubkey;
use solana_sdk_ids::{feature, incinerator, native_loader, stake, sysvar};
use solana_transaction_status::RewardType;
use svm::{AccountKeys, AccountSource, Overlay, WorkingSet, nonce, status_meta, sysvars};

use super::compare::{affects_accounts, find_differences};
use super::parent_state::{ParentState, StatesBefore};
use crate::execution_status::{BankResult, ExecutionStatus, TransactionResult};
use crate::writable_keys::is_writable;

type KeySet = HashSet<Pubkey, RandomState>;

/// A bank that waits for its execution.
pub(crate) struct BankToExecute {
    pub(crate) block: Arc<Block>,
    pub(crate) parent: Arc<BlockInfo>,
    /// The states that the bank replaced, then those that each bank after it replaced, up to that of the view.
    pub(crate) before: Vec<Arc<StatesBefore>>,
    pub(crate) view: Arc<View>,
}

impl BankToExecute {
    pub(super) fn bytes(&self) -> usize {
        let states: usize = self.before.iter().map(|states| states.bytes()).sum();
        size_of::<Self>() + states
    }

    fn parent_state(&self) -> ParentState<'_> {
        ParentState { before: &self.before, view: &self.view }
    }

    /// Returns an account after the bank.
    fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
        match self.block.writes.iter().find(|write| write.pubkey == *key) {
            Some(write) => write.after(),
            None => self.parent_state().account(key),
        }
    }

    fn writes(&self, key: &Pubkey) -> bool {
        self.before.first().is_some_and(|states| states.contains(key))
    }

    /// Whether RecentBlockhashes has the blockhash of the bank itself, which transactions do not see yet.
    fn writes_sysvars_at_end(&self) -> bool {
        let recent = self.account(&sysvar::recent_blockhashes::ID);
        // A count, then hashes with fees, the newest first.
        let newest = recent.as_ref().and_then(|recent| recent.0.data().get(8..40));
        newest == Some(self.block.blockhash.as_ref())
    }
}

/// The VM of a thread, with the programs that it has compiled.
pub(super) struct BankVm {
    set: WorkingSet,
    epoch: Epoch,
}

impl BankVm {
    fn new(state: &impl AccountSource, epoch: Epoch) -> Self {
        let features = svm::features::active_in(state);
        Self { set: WorkingSet::new(state, features).clone_programs(), epoch }
    }

    /// Prepares the VM for a bank: its features, its sysvars, and no account of another bank.
    fn prepare(&mut self, bank: &BankToExecute, epoch: Epoch) {
        let parent = bank.parent_state();
        if self.epoch != epoch {
            let features = svm::features::active_in(&parent);
            if *self.set.vm().features() != features {
                self.set = WorkingSet::new(&parent, features).clone_programs();
            }
            self.epoch = epoch;
        }
        self.set.clear();
        let at_end = bank.writes_sysvars_at_end();
        for key in sysvars::ALL {
            let is_late = [sysvar::recent_blockhashes::ID, sysvar::slot_history::ID].contains(&key);
            let account = if at_end && is_late { parent.account(&key) } else { bank.account(&key) };
            if let Some(account) = account {
                self.set.vm_mut().put(key, &account.0);
            }
        }
    }
}

/// Executes a bank. `vm` is made for the first one. Returns `None` if the execution was cancelled.
pub(super) fn execute_bank(
    vm: &mut Option<BankVm>,
    bank: &BankToExecute,
    status: &ExecutionStatus,
    is_cancelled: &AtomicBool,
) -> Option<BankResult> {
    let parent = bank.parent_state();
    let Some(clock) = read_clock(bank.account(&sysvar::clock::ID)) else {
        return Some(BankResult::NoClock);
    };
    let parent_clock = read_clock(parent.account(&sysvar::clock::ID));
    if parent_clock.is_none_or(|parent| parent.epoch != clock.epoch) {
        return Some(BankResult::EpochStart);
    }
    let vm = vm.get_or_insert_with(|| BankVm::new(&parent, clock.epoch));
    vm.prepare(bank, clock.epoch);
    let mut execution = BankExecution {
        bank,
        status,
        written: WrittenAccounts::default(),
        unknown: rewarded_accounts(bank),
        differences: 0,
        skipped: 0,
    };
    for executed in &bank.block.transactions {
        if is_cancelled.load(Ordering::Relaxed) {
            return None;
        }
        execution.execute(&mut vm.set, executed);
    }
    vm.set.clear();
    execution.compare_accounts();
    execution.compare_facts(&clock);
    Some(execution.result())
}

/// A bank while it is executed.
struct BankExecution<'a> {
    bank: &'a BankToExecute,
    status: &'a ExecutionStatus,
    /// The accounts that its transactions wrote so far.
    written: WrittenAccounts,
    /// Accounts of unknown state.
    unknown: KeySet,
    differences: usize,
    skipped: usize,
}

impl BankExecution<'_> {
    fn execute(&mut self, set: &mut WorkingSet, executed: &ExecutedTransaction) {
        let transaction = &executed.transaction;
        let message = &transaction.message;
        if transaction.sanitize().is_err() {
            self.unknown.extend(message.static_account_keys());
            return self.differ(executed, &[ResultField::Inclusion]);
        }
        let bank = self.bank;
        let parent = bank.parent_state();
        let source = Overlay { written: &self.written, source: &parent };
        set.load(&source, message);
        let lookups = message.address_table_lookups().unwrap_or_default();
        let mut named = message.static_account_keys().to_vec();
        named.extend(lookups.iter().map(|lookup| lookup.account_key));
        let keys = match set.vm().keys(message) {
            Ok(keys) => {
                named.extend(keys.loaded.writable.iter().chain(&keys.loaded.readonly));
                keys
            }
            Err(_) => AccountKeys {
                all: message.static_account_keys().to_vec(),
                loaded: Default::default(),
            },
        };
        if let Some(key) = named.iter().find(|key| self.unknown.contains(*key)) {
            let reason = format!("the state of account {key} is unknown");
            return self.skip(executed, &keys, TransactionResult::UnknownAccount, &reason);
        }
        if let Some(key) = named.iter().find(|key| is_unknown_builtin(set, key)) {
            let reason = format!("the VM does not have the builtin program {key}");
            return self.skip(executed, &keys, TransactionResult::UnknownProgram, &reason);
        }
        let last_blockhash = bank.parent.last_blockhash();
        let is_recent = bank.parent.blockhashes.is_valid(message.recent_blockhash());
        let nonce = match is_recent {
            true => None,
            false => nonce::usable(transaction, &last_blockhash, |key| set.vm().account(key)),
        };
        let outcome = set.run(transaction, nonce, &last_blockhash);
        let meta = status_meta::transaction_status_meta(&outcome, message, |key| {
            set.account(&source, key).cloned()
        });
        let reported = &executed.meta;
        if !outcome.is_included || (nonce.is_none() && !is_recent) {
            if reported.fee == 0 && reported.pre_balances == reported.post_balances {
                // It writes nothing.
                return self.count_skipped(executed, TransactionResult::NoOp, "it has no effect");
            }
            self.forget(executed, &keys);
            return self.differ(executed, &[ResultField::Inclusion]);
        }
        outcome.writes().for_each(|(key, account)| self.written.insert(key, account));
        set.commit(outcome.writes());
        let fields = find_differences(&meta, reported);
        if fields.iter().any(|field| affects_accounts(*field)) {
            self.forget(executed, &keys);
        }
        if fields.is_empty() {
            self.status.count_transaction(TransactionResult::Equal);
        } else {
            self.differ(executed, &fields);
        }
    }

    /// Makes the accounts unknown that a transaction may write.
    fn forget(&mut self, executed: &ExecutedTransaction, keys: &AccountKeys) {
        let message = &executed.transaction.message;
        let loaded = keys.loaded.writable.len();
        let indexed = keys.all.iter().enumerate();
        let writable = indexed.filter(|(index, _)| is_writable(message, loaded, *index));
        self.unknown.extend(writable.map(|(_, key)| *key));
        // The source may have resolved its lookup tables in another way.
        self.unknown.extend(&executed.meta.loaded_addresses.writable);
    }

    fn skip(
        &mut self,
        executed: &ExecutedTransaction,
        keys: &AccountKeys,
        result: TransactionResult,
        reason: &str,
    ) {
        self.forget(executed, keys);
        self.count_skipped(executed, result, reason);
    }

    /// The first reason of a bank stays: the others usually follow from it.
    fn count_skipped(
        &mut self,
        executed: &ExecutedTransaction,
        result: TransactionResult,
        reason: &str,
    ) {
        self.status.count_transaction(result);
        self.skipped += 1;
        if self.skipped == 1 {
            let slot = self.bank.block.id.slot;
            let index = executed.index;
            tracing::debug!(slot, index, reason, "a transaction is not executed");
            let text = format!("slot {slot}: transaction {index} is not executed: {reason}");
            self.status.set_last_skip(text);
        }
    }

    fn differ(&mut self, executed: &ExecutedTransaction, fields: &[ResultField]) {
        self.status.count_transaction(TransactionResult::Differs);
        for field in fields {
            self.report(ExecutionDifference {
                slot: self.bank.block.id.slot,
                field: *field,
                index: Some(executed.index),
                signature: executed.transaction.signatures.first().copied(),
                account: None,
            });
        }
    }

    fn report(&mut self, difference: ExecutionDifference) {
        self.differences += 1;
        self.status.report(difference);
        // A source chooses how many there are.
        if self.differences == 1 {
            let ExecutionDifference { slot, field, index, signature, account } = difference;
            let field = field.name();
            tracing::warn!(
                slot,
                field,
                index,
                signature = signature.map(tracing::field::display),
                account = account.map(tracing::field::display),
                "a result differs from the source's word: the source lies, or its cluster differs from the VM"
            );
        }
    }

    /// Compares the accounts after the transactions with those after the bank.
    fn compare_accounts(&mut self) {
        let bank = self.bank;
        let rewards = &bank.block.rewards;
        let mut leaders = rewards.iter().filter(|it| it.reward_type == Some(RewardType::Fee));
        let leader: Option<Pubkey> = leaders.next().and_then(|reward| reward.pubkey.parse().ok());
        let own = bank.before.first();
        let mut differing = Vec::new();
        for write in &bank.block.writes {
            let key = &write.pubkey;
            if self.unknown.contains(key) || *key == incinerator::ID {
                continue;
            }
            let before = own.and_then(|states| states.get(key)).flatten();
            let after = write.after();
            let written = self.written.get(key);
            if written.is_none() && is_written_by_bank([before.as_deref(), after.as_deref()]) {
                continue;
            }
            let expected = written.unwrap_or(before);
            // A source without rewards does not say who the leader is.
            let is_leader = rewards.is_empty() || leader == Some(*key);
            if !is_equal(expected.as_deref(), after.as_deref(), is_leader) {
                differing.push(*key);
            }
        }
        let parent = bank.parent_state();
        for key in self.written.keys() {
            if bank.writes(key) || self.unknown.contains(key) {
                continue;
            }
            let before = parent.account(key);
            let expected = self.written.get(key).flatten();
            if !is_equal(expected.as_deref(), before.as_deref(), false) {
                differing.push(*key);
            }
        }
        for account in differing {
            self.report(ExecutionDifference {
                account: Some(account),
                ..self.new_bank_difference(ResultField::Account)
            });
        }
    }

    /// Compares the time and the height of the block.
    fn compare_facts(&mut self, clock: &Clock) {
        let Block { block_time, block_height, .. } = *self.bank.block;
        if block_time != clock.unix_timestamp {
            self.report(self.new_bank_difference(ResultField::BlockTime));
        }
        if block_height != self.bank.parent.block_height + 1 {
            self.report(self.new_bank_difference(ResultField::BlockHeight));
        }
    }

    fn new_bank_difference(&self, field: ResultField) -> ExecutionDifference {
        let slot = self.bank.block.id.slot;
        ExecutionDifference { slot, field, index: None, signature: None, account: None }
    }

    fn result(&self) -> BankResult {
        match (self.differences, self.skipped) {
            (0, 0) => BankResult::Equal,
            (0, _) => BankResult::Partial,
            _ => BankResult::Differs,
        }
    }
}

/// Returns the stake accounts to which a bank paid rewards before its transactions.
fn rewarded_accounts(bank: &BankToExecute) -> KeySet {
    let mut rewarded = KeySet::default();
    if !bank.writes(&sysvar::epoch_rewards::ID) {
        return rewarded;
    }
    let Some(own) = bank.before.first() else { return rewarded };
    for write in &bank.block.writes {
        let states = [own.get(&write.pubkey).flatten(), write.after()];
        if states.iter().flatten().any(|account| stake::check_id(account.0.owner())) {
            rewarded.insert(write.pubkey);
        }
    }
    rewarded
}

/// Whether a key is a builtin program of the cluster that the VM does not have.
fn is_unknown_builtin(set: &WorkingSet, key: &Pubkey) -> bool {
    let account = set.vm().account(key);
    let is_builtin = account
        .is_some_and(|account| account.executable() && native_loader::check_id(account.owner()));
    is_builtin && !set.is_pinned(key)
}

/// Whether the bank writes an account itself, by its states before and after.
fn is_written_by_bank(states: [Option<&Account>; 2]) -> bool {
    let owners = [sysvar::ID, feature::ID, native_loader::ID];
    states.into_iter().flatten().any(|account| owners.contains(account.0.owner()))
}

/// Whether two states of an account are equal. The rent epoch is not compared: the bank hash does not cover it.
fn is_equal(one: Option<&Account>, other: Option<&Account>, ignores_lamports: bool) -> bool {
    let lamports = |account: Option<&Account>| account.map_or(0, |it| it.0.lamports());
    let has_same_content = match (one, other) {
        (Some(one), Some(other)) => {
            one.0.owner() == other.0.owner()
                && one.0.executable() == other.0.executable()
                && one.0.data() == other.0.data()
        }
        (one, other) => {
            [one, other].into_iter().flatten().all(|account| account.0.data().is_empty())
        }
    };
    has_same_content && (ignores_lamports || lamports(one) == lamports(other))
}

fn read_clock(account: Option<Arc<Account>>) -> Option<Clock> {
    bincode::deserialize(account?.0.data()).ok()
}
