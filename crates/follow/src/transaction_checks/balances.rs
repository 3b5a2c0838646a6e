//! Compares what a source says of transactions with the accounts that their bank has written, which the bank hash covers.
//!
//! In: a block, and the balances of its accounts before and after it. Out: the first contradiction.
//! Rules: the balances of a transaction sum up to those before it, less its fee; a failed one changes only its fee payer's;
//! each balance follows from the transaction before that names the account; the first one is that in the parent, and the
//! last one that in the bank; a balance that changes is one that the bank has written; data that only failed transactions
//! may have written did not change; a payment that succeeded has moved its lamports (`transfers`).
//! Exceptions: sysvars and native programs, which the bank itself writes; the fees of the leader, which it gets after
//! the transactions; stake and vote accounts before their first transaction, because rewards are paid there. A bank that
//! creates lamports pays rewards, or its accounts were edited (`hydrant dev`): only the sums are compared.
//! Not here: logs, rewards, token balances and compute units, of which accounts say too little; whether a transaction that
//! changes nothing failed.

use std::collections::{HashMap, HashSet};

use chain_solana::{Block, ExecutedTransaction};
use foldhash::quality::RandomState;
use solana::{Account, TransactionCheck, TransactionFault};
use solana_account::ReadableAccount;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{feature, incinerator, native_loader, stake, sysvar, vote};
use solana_transaction_status::RewardType;

use super::transfers;
use crate::writable_keys::is_writable;

type Map<V> = HashMap<Pubkey, V, RandomState>;
type Set = HashSet<Pubkey, RandomState>;

/// An account that a bank has written: its balance in the parent and in the bank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenBalance {
    pub(crate) before: u64,
    pub(crate) after: u64,
    kind: AccountKind,
    /// Whether its data or its owner is another one.
    is_data_changed: bool,
}

/// Who writes an account besides transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AccountKind {
    /// No one but transactions, except that the leader gets fees after the transactions.
    Plain,
    /// The bank before its transactions: rewards.
    Rewarded,
    /// The bank at any time.
    OfBank,
}

/// The balances of a bank.
pub(crate) struct BankBalances {
    pub(crate) written: Map<WrittenBalance>,
    /// Lamports that the bank created, or burned.
    pub(crate) created: i128,
}

/// The state of a comparison after some of a block's transactions.
struct Comparison<'a> {
    bank: &'a BankBalances,
    /// Whether only sums are compared.
    is_edited: bool,
    /// The balances of the accounts that transactions named so far; `None` if one did not say it.
    last: Map<Option<u64>>,
    /// Accounts that failed transactions name as writable, with the first one. Fee payers and nonces are not among them.
    failed: Map<u32>,
    /// Accounts that other transactions may write.
    writable: Set,
    fees: u128,
    /// Whether all transactions have balances.
    is_complete: bool,
}

impl WrittenBalance {
    /// The balance of an account before and after its bank.
    pub(crate) fn new(pubkey: &Pubkey, before: Option<&Account>, after: Option<&Account>) -> Self {
        let lamports = |account: Option<&Account>| account.map_or(0, |it| it.0.lamports());
        let content = |account: &Account| (*account.0.owner(), account.0.executable());
        let is_same = match (before, after) {
            (Some(before), Some(after)) => {
                content(before) == content(after) && before.0.data() == after.0.data()
            }
            (before, after) => {
                [before, after].into_iter().flatten().all(|account| account.0.data().is_empty())
            }
        };
        let kind = AccountKind::new(pubkey, [before, after]);
        let before = lamports(before);
        Self { before, after: lamports(after), kind, is_data_changed: !is_same }
    }
}

impl AccountKind {
    fn new(pubkey: &Pubkey, states: [Option<&Account>; 2]) -> Self {
        let has_owner = |owners: &[Pubkey]| {
            states.into_iter().flatten().any(|account| owners.contains(account.0.owner()))
        };
        if *pubkey == incinerator::ID || has_owner(&[sysvar::ID, feature::ID, native_loader::ID]) {
            Self::OfBank
        } else if has_owner(&[stake::ID, vote::ID]) {
            Self::Rewarded
        } else {
            Self::Plain
        }
    }
}

impl BankBalances {
    /// Heap bytes.
    pub(super) fn bytes(&self) -> usize {
        self.written.capacity() * size_of::<(Pubkey, WrittenBalance)>()
    }

    /// Compares a block with the accounts that it has written. Returns whether the balances of all transactions were
    /// compared with accounts.
    ///
    /// Cost: some 100 ns for each account that a transaction names.
    pub(super) fn compare(&self, block: &Block) -> Result<bool, TransactionFault> {
        let is_edited = self.created > 0;
        let mut comparison = Comparison {
            bank: self,
            is_edited,
            last: Map::default(),
            failed: Map::default(),
            writable: Set::default(),
            fees: 0,
            is_complete: true,
        };
        for executed in &block.transactions {
            comparison.add(executed)?;
        }
        if is_edited {
            return Ok(false);
        }
        comparison.compare_ends(block)?;
        comparison.compare_failed_writes()?;
        Ok(comparison.is_complete)
    }
}

impl Comparison<'_> {
    fn add(&mut self, executed: &ExecutedTransaction) -> Result<(), TransactionFault> {
        let meta = &executed.meta;
        let keys = &executed.account_keys;
        self.fees += u128::from(meta.fee);
        self.add_writable(executed);
        if meta.pre_balances.is_empty() && meta.post_balances.is_empty() {
            self.last.extend(keys.iter().map(|key| (*key, None)));
            self.is_complete = false;
            return Ok(());
        }
        let fault = |account: Option<&Pubkey>| balance_fault(Some(executed.index), account);
        if meta.pre_balances.len() != keys.len() || meta.post_balances.len() != keys.len() {
            return Err(fault(None));
        }
        let sum = |balances: &[u64]| balances.iter().map(|it| i128::from(*it)).sum::<i128>();
        let paid = sum(&meta.pre_balances) - sum(&meta.post_balances);
        // A transaction that had no effect, not even a fee (SIMD-0290), changes nothing.
        if meta.pre_balances != meta.post_balances && paid != i128::from(meta.fee) {
            return Err(fault(None));
        }
        let is_effective = meta.pre_balances != meta.post_balances && meta.status.is_ok();
        if is_effective && !transfers::are_consistent(executed) {
            let index = Some(executed.index);
            return Err(TransactionFault {
                check: TransactionCheck::Transfer,
                index,
                account: None,
            });
        }
        let balances = meta.pre_balances.iter().zip(&meta.post_balances);
        for (index, (key, (pre, post))) in keys.iter().zip(balances).enumerate() {
            let is_changed = pre != post;
            let is_failed_write = is_changed && index > 0 && meta.status.is_err();
            let is_unwritten = is_changed && !self.bank.written.contains_key(key);
            if is_failed_write || is_unwritten || !self.follows(key, *pre) {
                return Err(fault(Some(key)));
            }
            self.last.insert(*key, Some(*post));
        }
        Ok(())
    }

    /// Whether a balance is that after the transaction before, or in the parent.
    fn follows(&self, key: &Pubkey, pre: u64) -> bool {
        if self.is_edited {
            return true;
        }
        let written = self.bank.written.get(key);
        let kind = written.map(|account| account.kind);
        if kind == Some(AccountKind::OfBank) {
            return true;
        }
        match self.last.get(key) {
            Some(last) => last.is_none_or(|last| last == pre),
            None if kind == Some(AccountKind::Rewarded) => true,
            None => written.is_none_or(|account| account.before == pre),
        }
    }

    fn add_writable(&mut self, executed: &ExecutedTransaction) {
        let message = &executed.transaction.message;
        let loaded_writable = executed.meta.loaded_addresses.writable.len();
        let nonce = executed.transaction.uses_durable_nonce().then(|| {
            let nonce = message.instructions().first()?.accounts.first()?;
            Some(usize::from(*nonce))
        });
        let nonce = nonce.flatten();
        let is_failed = executed.meta.status.is_err();
        for (index, key) in executed.account_keys.iter().enumerate() {
            if !is_writable(message, loaded_writable, index) {
                continue;
            }
            if is_failed && index > 0 && Some(index) != nonce {
                self.failed.entry(*key).or_insert(executed.index);
            } else {
                self.writable.insert(*key);
            }
        }
    }

    /// Compares the balances after the last transaction, and fees, with those after the bank.
    fn compare_ends(&self, block: &Block) -> Result<(), TransactionFault> {
        let leader = self.find_leader(block)?;
        // A source without rewards does not say who the leader is.
        let mut may_be_leader = block.rewards.is_empty();
        for (key, last) in &self.last {
            let Some(last) = last else { continue };
            let Some(written) = self.bank.written.get(key) else { continue };
            let paid = i128::from(written.after) - i128::from(*last);
            let fee = leader.filter(|(leader, _)| leader == key).map_or(0, |(_, fee)| fee);
            if written.kind == AccountKind::OfBank || paid == i128::from(fee) {
                continue;
            }
            let is_fee = u128::try_from(paid).is_ok_and(|paid| paid > 0 && paid <= self.fees);
            if !(is_fee && std::mem::take(&mut may_be_leader)) {
                return Err(balance_fault(None, Some(key)));
            }
        }
        Ok(())
    }

    /// Returns the leader and its fee. It is the only one, and its fee is a part of those of the transactions.
    fn find_leader(&self, block: &Block) -> Result<Option<(Pubkey, u64)>, TransactionFault> {
        let mut found = None;
        for reward in &block.rewards {
            if reward.reward_type != Some(RewardType::Fee) {
                continue;
            }
            let leader = reward.pubkey.parse().ok();
            let fee = u64::try_from(reward.lamports).ok();
            let fee = fee.filter(|fee| u128::from(*fee) <= self.fees);
            match (leader, fee) {
                (Some(leader), Some(fee)) if found.is_none() => found = Some((leader, fee)),
                _ => return Err(balance_fault(None, leader.as_ref())),
            }
        }
        Ok(found)
    }

    fn compare_failed_writes(&self) -> Result<(), TransactionFault> {
        for (key, index) in &self.failed {
            let Some(written) = self.bank.written.get(key) else { continue };
            let is_of_transaction = written.kind == AccountKind::Plain && written.is_data_changed;
            if is_of_transaction && !self.writable.contains(key) {
                let check = TransactionCheck::FailedWrite;
                return Err(TransactionFault { check, index: Some(*index), account: Some(*key) });
            }
        }
        Ok(())
    }
}

fn balance_fault(index: Option<u32>, account: Option<&Pubkey>) -> TransactionFault {
    TransactionFault { check: TransactionCheck::Balance, index, account: account.copied() }
}
