//! A frozen bank, and its hash.
//!
//! Shape: [`LatticeChange`] is the sum of what a bank changed. It does not depend on the order of accounts or on the state
//! between the first and the last one, so a caller may add accounts while the bank is open.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use foldhash::quality::RandomState;
use lattice::{BankHashInputs, HardFork, LtHash, crossed_hard_forks};
use ledger::BlockId;
use solana::{Account, VotedStake, lt_hash};
use solana_hash::Hash;
use solana_pubkey::Pubkey;

use crate::verdict::{Verdict, WRITTEN_LISTED_MAX};

/// The bank from which a verifier starts: that of a snapshot, or one that was verified before.
#[derive(Clone, Debug)]
pub struct RootBank {
    /// Identity of the block.
    pub block: BlockId,
    /// Its bank hash.
    pub bank_hash: Hash,
    /// The lattice hash over all accounts.
    pub lt_hash: LtHash,
}

/// One write of an account. `None` is an account that does not exist.
#[derive(Clone, Debug)]
pub struct AccountChange {
    /// Address of the account.
    pub pubkey: Pubkey,
    /// The account before the write.
    pub before: Option<Arc<Account>>,
    /// The account after it.
    pub after: Option<Arc<Account>>,
}

/// A bank whose state no longer changes.
#[derive(Clone, Debug)]
pub struct FrozenBank<'a> {
    /// Identity of the block.
    pub block: BlockId,
    /// The block on which it was built.
    pub parent: BlockId,
    /// What it wrote. Of several writes of one account the first `before` and the last `after` count; the order of
    /// different accounts does not.
    pub changes: &'a [AccountChange],
    /// Signatures that its transactions require, those that failed included.
    pub signature_count: u64,
    /// Blockhash of the block.
    pub blockhash: Hash,
}

/// The part of an account in the sum over all accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountHash(LtHash);

impl AccountHash {
    /// That of an account. An account that does not exist has no part.
    ///
    /// Cost: about 1 us for a small account; 45 us for one of 128 KiB.
    pub fn new(pubkey: &Pubkey, account: Option<&Account>) -> Self {
        Self(account.map_or(LtHash::EMPTY, |account| lt_hash(pubkey, &account.0)))
    }
}

/// What a bank has changed of the sum over all accounts. It depends on no other bank but its parent, whose states are
/// the first ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatticeChange(LtHash);

impl Default for LatticeChange {
    fn default() -> Self {
        Self(LtHash::EMPTY)
    }
}

impl LatticeChange {
    /// The bank replaces this state of an account. Each state that was added is removed before the next one is added, and
    /// that in the parent before the first one; accounts may come in any order.
    pub fn remove(&mut self, hash: &AccountHash) {
        self.0.mix_out(&hash.0);
    }

    /// The bank has written this state of an account.
    pub fn add(&mut self, hash: &AccountHash) {
        self.0.mix_in(&hash.0);
    }

    /// Returns the sum over all accounts after the bank, from that of its parent.
    pub fn add_to(&self, parent: &LtHash) -> LtHash {
        let mut sum = parent.clone();
        sum.mix_in(&self.0);
        sum
    }

    /// Adds the change of other accounts, or of other steps.
    pub fn merge(&mut self, other: &Self) {
        self.0.mix_in(&other.0);
    }
}

/// A frozen bank whose accounts were added up.
#[derive(Clone, Debug)]
pub struct SummedBank<'a> {
    /// Identity of the block.
    pub block: BlockId,
    /// The block on which it was built.
    pub parent: BlockId,
    /// What it changed.
    pub change: &'a LatticeChange,
    /// The accounts that it changed, sorted.
    pub written: &'a [Pubkey],
    /// Signatures that its transactions require, those that failed included.
    pub signature_count: u64,
    /// Blockhash of the block.
    pub blockhash: Hash,
}

/// What a frozen bank's hash is computed from, besides the bank.
#[derive(Clone, Copy)]
pub(crate) struct ParentHashes<'a> {
    pub(crate) bank_hash: Hash,
    pub(crate) lt_hash: &'a LtHash,
}

/// What a child of the bank says of its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildReport {
    /// No child is known.
    Missing,
    /// Every child has the computed hash.
    Equal,
    /// A child has another one.
    Differs(Hash),
}

/// A bank above the root.
pub(crate) struct Bank {
    pub(crate) parent: BlockId,
    pub(crate) bank_hash: Hash,
    pub(crate) lt_hash: LtHash,
    pub(crate) signature_count: u64,
    pub(crate) blockhash: Hash,
    pub(crate) child_report: ChildReport,
    /// The stake that voted for the bank, or for a descendant, if it was enough.
    pub(crate) voted: Option<VotedStake>,
    pub(crate) verdict: Verdict,
    pub(crate) frozen_at: Duration,
    /// The accounts that it wrote, in order, at most [`WRITTEN_LISTED_MAX`].
    pub(crate) written: Arc<[Pubkey]>,
    pub(crate) written_len: usize,
}

/// The bank of an archive, whose hash was not computed from its parent's.
#[derive(Clone, Debug)]
pub struct ArchivedBank {
    /// Its identity and its hashes.
    pub bank: RootBank,
    /// The newest known bank, on which it is placed.
    pub parent: BlockId,
    /// The hard forks of the cluster, as the archive has them.
    pub hard_forks: Vec<HardFork>,
}

impl Bank {
    /// Creates the bank of an archive.
    pub(crate) fn from_archive(bank: RootBank, parent: BlockId, now: Duration) -> Self {
        let RootBank { bank_hash, lt_hash, .. } = bank;
        Self {
            parent,
            bank_hash,
            lt_hash,
            signature_count: 0,
            blockhash: Hash::default(),
            child_report: ChildReport::Missing,
            voted: None,
            verdict: Verdict::Pending,
            frozen_at: now,
            written: Arc::default(),
            written_len: 0,
        }
    }

    /// Computes the hash of a bank.
    pub(crate) fn freeze(
        bank: &SummedBank<'_>,
        parent: ParentHashes<'_>,
        hard_forks: &[HardFork],
        now: Duration,
    ) -> Self {
        let sum = bank.change.add_to(parent.lt_hash);
        let inputs = BankHashInputs {
            parent_hash: parent.bank_hash.to_bytes(),
            signature_count: bank.signature_count,
            last_blockhash: bank.blockhash.to_bytes(),
            lt_hash: &sum,
            hard_forks: crossed_hard_forks(hard_forks, bank.parent.slot, bank.block.slot),
        };
        let bank_hash = Hash::new_from_array(inputs.hash());
        let listed = bank.written.len().min(WRITTEN_LISTED_MAX);
        Self {
            parent: bank.parent,
            bank_hash,
            lt_hash: sum,
            signature_count: bank.signature_count,
            blockhash: bank.blockhash,
            child_report: ChildReport::Missing,
            voted: None,
            verdict: Verdict::Pending,
            frozen_at: now,
            written: bank.written[..listed].into(),
            written_len: bank.written.len(),
        }
    }

    /// Bytes that it occupies.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<BlockId>() + size_of::<Self>() + size_of_val::<[Pubkey]>(&self.written)
    }
}

/// The first and the last state of an account in a bank.
struct NetChange<'a> {
    before: Option<&'a Account>,
    after: Option<&'a Account>,
}

/// The sum of a bank's changes, and the accounts that it changed, sorted. Accounts that end as they began are not among
/// them.
pub(crate) fn sum_changes(changes: &[AccountChange]) -> (LatticeChange, Vec<Pubkey>) {
    let mut net: HashMap<_, NetChange<'_>, RandomState> = HashMap::default();
    for AccountChange { pubkey, before, after } in changes {
        let before = before.as_deref();
        let after = after.as_deref();
        net.entry(*pubkey)
            .and_modify(|change| change.after = after)
            .or_insert(NetChange { before, after });
    }
    net.retain(|_, change| change.before != change.after);
    let mut sum = LatticeChange::default();
    for (pubkey, change) in &net {
        sum.remove(&AccountHash::new(pubkey, change.before));
        sum.add(&AccountHash::new(pubkey, change.after));
    }
    let mut written: Vec<Pubkey> = net.into_keys().collect();
    written.sort_unstable();
    (sum, written)
}
