//! A bank's writes, in the ledger and in sums, while it is open and after.
//!
//! In: writes of accounts as they come, in any order. Out: the accounts before and after the bank, what it changed of the
//! lattice hash and of the capitalization, its vote accounts and what its cluster state depends on.
//! Shape: the ledger has the bank as a block that no tip leads to, so readers see nothing of it. An account that is
//! written again replaces its version there.
//! Bounds: an account counts once, with [`ENTRY_BYTES`] and its state in the parent; the writer bounds the sum.
//! Invariant: two banks with the same parent and the same last writes are equal, whatever came before and in whatever
//! order.
//! Not here: which writes come when (`writer`).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use chain_solana::BlockInfo;
use ledger::{Address, AddressId, BlockId, Change, KeyKind, Record};
use query::{Ledger, LedgerError};
use solana::Account;
use solana_account::ReadableAccount;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{feature, stake, sysvar, vote};
use verify::{AccountChange, AccountHash, LatticeChange};

use crate::clock::now;
use crate::error::FollowError;
use crate::vote_accounts::VoteAccountState;

/// Changes from which on they are hashed on another thread: a thread costs some 50 us.
const CONCURRENT_CHANGES_MIN: usize = 256;
/// Bytes of an account here, with its hash, and in the ledger's block, besides its data, which the open bank shares.
const ENTRY_BYTES: usize = 512 + size_of::<AccountHash>();

/// The accounts that a bank has written.
pub(crate) struct PreparedBank {
    pub(crate) id: BlockId,
    pub(crate) parent: BlockId,
    /// The parent's, until the bank is whole.
    info: Arc<BlockInfo>,
    accounts: BTreeMap<Pubkey, PreparedAccount>,
    /// The states in the parent of accounts that will be written. They are removed from the sum.
    replaced: HashMap<Pubkey, Option<Arc<Account>>>,
    change: LatticeChange,
    /// Lamports that the bank created, or burned.
    lamports: i128,
    bytes: usize,
}

/// An account that the bank has written.
pub(crate) struct PreparedAccount {
    /// Its state in the parent.
    before: Option<Arc<Account>>,
    pub(crate) after: Option<Arc<Account>>,
    /// Of the last state, if it may be written again.
    hash: Option<Box<AccountHash>>,
    pub(crate) id: AddressId,
    /// The keys by which it was found in the parent, and is not any more.
    pub(crate) removed_keys: Vec<(KeyKind, Address)>,
    /// What it says, if it is a vote account.
    pub(crate) votes: Option<VoteAccountState>,
    is_changed: bool,
    /// Whether stakes, features or sysvars of the cluster are in it.
    is_of_cluster: bool,
}

/// A write of an account.
struct Step {
    pubkey: Pubkey,
    /// Its state in the parent, if this is its first write.
    first: Option<ReplacedState>,
    to: Option<Arc<Account>>,
}

/// The state of an account in the parent.
struct ReplacedState {
    account: Option<Arc<Account>>,
    is_removed_from_sum: bool,
}

/// Whether accounts are hashed, and where their time is counted.
#[derive(Clone, Copy)]
pub(crate) struct Hashing<'a> {
    pub(crate) nanos: &'a AtomicU64,
    /// Whether the bank may write more.
    pub(crate) is_open: bool,
}

impl PreparedBank {
    /// Opens the bank in the ledger, unseen.
    pub(crate) fn open(
        ledger: &mut Ledger<Account, BlockInfo>,
        id: BlockId,
        parent: BlockId,
        info: Arc<BlockInfo>,
    ) -> Result<Self, LedgerError> {
        ledger.open_unseen(id, parent, Arc::clone(&info))?;
        Ok(Self {
            id,
            parent,
            info,
            accounts: BTreeMap::new(),
            replaced: HashMap::new(),
            change: LatticeChange::default(),
            lamports: 0,
            bytes: 0,
        })
    }

    /// Accounts that will be written: their states in the parent are removed from the sum.
    pub(crate) fn replace(
        &mut self,
        ledger: &Ledger<Account, BlockInfo>,
        pubkeys: Vec<Pubkey>,
        hashing: Hashing<'_>,
    ) {
        let is_known =
            |key: &Pubkey| self.accounts.contains_key(key) || self.replaced.contains_key(key);
        let new = pubkeys.into_iter().filter(|pubkey| !is_known(pubkey));
        let account_of = |pubkey: Pubkey| {
            (pubkey, ledger.record_at(self.parent, &Address::from(pubkey.to_bytes())))
        };
        let new: Vec<_> = new.map(account_of).collect();
        let started = now();
        for (pubkey, account) in &new {
            self.change.remove(&AccountHash::new(pubkey, account.as_deref()));
        }
        hashing.count_since(started);
        self.bytes += new.iter().map(|(_, account)| account_bytes(account)).sum::<usize>();
        self.replaced.extend(new);
    }

    /// Writes accounts, each at most once. After an error the bank must be discarded.
    ///
    /// Cost: some 10 us an account, of which 2 us are the hashes.
    pub(crate) fn write(
        &mut self,
        ledger: &mut Ledger<Account, BlockInfo>,
        writes: impl Iterator<Item = (Pubkey, Account)>,
        hashing: Option<Hashing<'_>>,
    ) -> Result<(), FollowError> {
        let (mut steps, mut changes) = (Vec::new(), Vec::new());
        for (pubkey, account) in writes {
            let address = Address::from(pubkey.to_bytes());
            let first = match self.replaced.remove(&pubkey) {
                Some(account) => Some(ReplacedState { account, is_removed_from_sum: true }),
                None if self.accounts.contains_key(&pubkey) => None,
                None => {
                    let account = ledger.record_at(self.parent, &address);
                    self.bytes += account_bytes(&account);
                    Some(ReplacedState { account, is_removed_from_sum: false })
                }
            };
            let to = account.into_record();
            changes.push(Change { address, record: to.clone() });
            steps.push(Step { pubkey, first, to });
        }
        if steps.is_empty() {
            return Ok(());
        }
        let (id, info) = (self.id, Arc::clone(&self.info));
        let apply = || ledger.apply(id, changes, info);
        let (ids, (change, hashes)) = match hashing {
            None => (apply(), (LatticeChange::default(), Vec::new())),
            Some(hashing) if steps.len() < CONCURRENT_CHANGES_MIN => (apply(), hashing.sum(&steps)),
            Some(hashing) => std::thread::scope(|scope| {
                let sum = scope.spawn(|| hashing.sum(&steps));
                let ids = apply();
                sum.join().map(|sum| (ids, sum)).map_err(|_| FollowError::Panicked)
            })?,
        };
        let ids = ids.map_err(|err| FollowError::Ledger { bank: id, err })?;
        self.change.merge(&change);
        let hashes = hashes.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
        for ((step, id), hash) in steps.into_iter().zip(ids).zip(hashes) {
            self.insert(step, id, hash);
        }
        Ok(())
    }

    fn insert(&mut self, step: Step, id: AddressId, hash: Option<Box<AccountHash>>) {
        let Step { pubkey, first, to } = step;
        let lamports = |account: &Option<Arc<Account>>| {
            account.as_ref().map_or(0, |account| i128::from(account.0.lamports()))
        };
        let votes = to.as_ref().and_then(|account| {
            let is_vote = vote::check_id(account.0.owner());
            is_vote.then(|| VoteAccountState::read(account)).flatten()
        });
        match (self.accounts.entry(pubkey), first) {
            (Entry::Occupied(mut entry), _) => {
                let known = entry.get_mut();
                if let Some(replaced) = &known.hash {
                    self.change.remove(replaced);
                }
                self.lamports += lamports(&to) - lamports(&known.after);
                known.removed_keys = removed_keys(&known.before, &to);
                known.is_changed = known.before != to;
                known.is_of_cluster |= is_of_cluster(&to);
                (known.votes, known.after, known.hash) = (votes, to, hash);
            }
            (Entry::Vacant(entry), first) => {
                let before = first.and_then(|first| first.account);
                self.lamports += lamports(&to) - lamports(&before);
                entry.insert(PreparedAccount {
                    removed_keys: removed_keys(&before, &to),
                    is_changed: before != to,
                    is_of_cluster: is_of_cluster(&before) || is_of_cluster(&to),
                    before,
                    after: to,
                    hash,
                    id,
                    votes,
                });
            }
        }
    }

    /// The account after the bank, if it has written it.
    pub(crate) fn account(&self, pubkey: &Pubkey) -> Option<&Account> {
        self.accounts.get(pubkey)?.after.as_deref()
    }

    /// The accounts that it has written, in order.
    pub(crate) fn accounts(&self) -> impl ExactSizeIterator<Item = (&Pubkey, &PreparedAccount)> {
        self.accounts.iter()
    }

    /// The accounts that it has written, in order.
    pub(crate) fn into_accounts(self) -> impl Iterator<Item = (Pubkey, PreparedAccount)> {
        self.accounts.into_iter()
    }

    /// The accounts that are not as they were, in order.
    pub(crate) fn changed_pubkeys(&self) -> Vec<Pubkey> {
        let changed = self.accounts.iter().filter(|(_, account)| account.is_changed);
        changed.map(|(pubkey, _)| *pubkey).collect()
    }

    /// What it changed of the lattice hash. Nothing if it is not verified.
    pub(crate) fn change(&self) -> &LatticeChange {
        &self.change
    }

    /// Lamports that it created, or burned.
    pub(crate) fn lamports(&self) -> i128 {
        self.lamports
    }

    /// The changes of stake accounts, features and sysvars.
    pub(crate) fn cluster_changes(&self) -> Vec<AccountChange> {
        let of_cluster = self.accounts.iter().filter(|(_, account)| account.is_of_cluster);
        let change = |(pubkey, account): (&Pubkey, &PreparedAccount)| AccountChange {
            pubkey: *pubkey,
            before: account.before.clone(),
            after: account.after.clone(),
        };
        of_cluster.map(change).collect()
    }

    /// Estimated bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.bytes
    }
}

impl Hashing<'_> {
    /// The sum of what accounts change, and their hashes if they are needed again. What an account's earlier writes added
    /// is still in the sum.
    #[expect(clippy::vec_box, reason = "a hash has 2 KiB, and moves into an account's entry")]
    fn sum(self, steps: &[Step]) -> (LatticeChange, Vec<Box<AccountHash>>) {
        let started = now();
        let (mut change, mut hashes) = (LatticeChange::default(), Vec::new());
        for Step { pubkey, first, to } in steps {
            if let Some(ReplacedState { account, is_removed_from_sum: false }) = first {
                change.remove(&AccountHash::new(pubkey, account.as_deref()));
            }
            let hash = Box::new(AccountHash::new(pubkey, to.as_deref()));
            change.add(&hash);
            if self.is_open {
                hashes.push(hash);
            }
        }
        self.count_since(started);
        (change, hashes)
    }

    fn count_since(self, started: Instant) {
        self.nanos.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }
}

/// Estimated bytes of an account whose state in the parent is this.
fn account_bytes(before: &Option<Arc<Account>>) -> usize {
    ENTRY_BYTES + before.as_ref().map_or(0, |account| account.weight())
}

fn is_of_cluster(account: &Option<Arc<Account>>) -> bool {
    let owner = account.as_ref().map(|account| account.0.owner());
    owner.is_some_and(|owner| [stake::ID, sysvar::ID, feature::ID].contains(owner))
}

/// The keys by which an account was found before a bank and is not after it.
pub(crate) fn removed_keys(
    before: &Option<Arc<Account>>,
    after: &Option<Arc<Account>>,
) -> Vec<(KeyKind, Address)> {
    let keys = |account: &Option<Arc<Account>>| {
        let mut keys = Vec::new();
        if let Some(account) = account {
            account.keys(&mut |kind, address| keys.push((kind, address)));
        }
        keys
    };
    let after = keys(after);
    let mut before = keys(before);
    before.retain(|key| !after.contains(key));
    before
}
