//! A bank's writes, in the ledger and in sums, while it is open and after.
//!
//! Input: writes of accounts as they come, in any order. Output: the accounts before and after the bank, its changes of
//! the lattice hash and of the capitalization, its vote accounts, and the changes that affect the cluster.
//! Shape: the ledger has the bank as a block that no tip leads to, so readers see nothing of it. An account that is
//! written again replaces its version there.
//! An account is here as the ledger holds it, and its state in the parent is read there again when it is needed again.
//! A hash has 2 KiB, so those are held that are needed soon: of accounts that the bank writes again and again.
//! Bounds: an account counts once, with [`ENTRY_BYTES`] and its cached bytes; the writer bounds the sum.
//! Invariant: two banks with the same parent and the same last writes are equal, whatever came before and in whatever
//! order.
//! Not here: which writes come when (`writer`).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use chain_solana::{AccountWrite, BlockInfo};
use ledger::{Address, AddressId, BlockId, Change, KeyKind, Record, Slot, StoredRecord};
use query::{Ledger, LedgerError};
use solana::Account;
use solana_account::ReadableAccount;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{feature, sysvar, vote};
use stakes_solana::read_delegation;
use verify::{AccountChange, AccountHash, LatticeChange};

use crate::clock::now;
use crate::error::FollowError;
use crate::transaction_checks::{BankBalances, WrittenBalance};
use crate::vote_accounts::VoteAccountState;
use crate::votes::LandedVotes;

/// Changes from which on they are hashed on another thread: a thread costs some 50 us.
const CONCURRENT_CHANGES_MIN: usize = 256;
/// Bytes of an account here and in the ledger's block, without its data, which the open bank holds.
const ENTRY_BYTES: usize = 512;
/// Bytes of a state in the parent, besides the account.
const REPLACED_BYTES: usize = 128;

/// The accounts that a bank has written.
pub struct PreparedBank {
    pub(crate) id: BlockId,
    pub(crate) parent: BlockId,
    /// The parent's, until the bank is whole.
    info: Arc<BlockInfo>,
    accounts: BTreeMap<Pubkey, PreparedAccount>,
    /// The states in the parent of accounts that will be written soon. They are removed from the sum.
    replaced: HashMap<Pubkey, Option<Arc<Account>>>,
    change: LatticeChange,
    /// Lamports that the bank created, or burned.
    lamports: i128,
    /// The votes among its first transactions.
    pub(crate) landed_votes: LandedVotes,
    bytes: usize,
}

/// An account that the bank has written.
pub(crate) struct PreparedAccount {
    /// The account as the ledger stores it.
    pub(crate) after: Option<StoredRecord<Account>>,
    /// The change of the account if the cluster's state depends on it.
    cluster_change: Option<Box<AccountChange>>,
    /// Of the last state, if the bank has written it before, and so may write it again.
    hash: Option<Box<AccountHash>>,
    pub(crate) id: AddressId,
    /// The index keys that the account had in the parent and no longer has.
    pub(crate) removed_keys: Vec<(KeyKind, Address)>,
    /// The votes, if it is a vote account.
    pub(crate) votes: Option<VoteAccountState>,
    balance: WrittenBalance,
    is_changed: bool,
}

struct Step {
    pubkey: Pubkey,
    /// State of the account in the parent.
    before: Option<Arc<Account>>,
    from: Replaced,
    to: Option<Arc<Account>>,
}

/// The state that a write replaces in the sum.
enum Replaced {
    /// The state in the parent.
    Parent,
    /// The state in the parent, which was removed from the sum already.
    Removed,
    /// The state after an earlier write of the bank, without its hash.
    Earlier(Option<Arc<Account>>),
    /// The state after an earlier write of the bank, with its hash.
    Held,
}

/// The result of a write.
struct Written {
    id: AddressId,
    stored: Option<StoredRecord<Account>>,
    hash: Option<Box<AccountHash>>,
}

/// Whether accounts are hashed, and where their time is counted.
#[derive(Clone, Copy)]
pub struct Hashing<'a> {
    /// Nanoseconds that were spent on hashes.
    pub nanos: &'a AtomicU64,
    /// Whether the bank may write more.
    pub is_open: bool,
}

impl PreparedBank {
    /// Opens the bank in the ledger, unseen.
    pub fn open(
        ledger: &mut Ledger<Account, BlockInfo>,
        id: BlockId,
        parent: BlockId,
        info: Arc<BlockInfo>,
    ) -> Result<Self, LedgerError> {
        ledger.open_hidden(id, parent, Arc::clone(&info))?;
        Ok(Self {
            id,
            parent,
            info,
            accounts: BTreeMap::new(),
            replaced: HashMap::new(),
            change: LatticeChange::default(),
            lamports: 0,
            landed_votes: LandedVotes::default(),
            bytes: 0,
        })
    }

    /// Returns the block on which the bank is built.
    pub fn parent(&self) -> BlockId {
        self.parent
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
        self.bytes += new.iter().map(|(_, account)| replaced_bytes(account)).sum::<usize>();
        self.replaced.extend(new);
    }

    /// Writes accounts, each at most once. After an error the bank must be discarded.
    ///
    /// Cost: about 10 us per account, including 2 us for the hashes.
    pub fn write(
        &mut self,
        ledger: &mut Ledger<Account, BlockInfo>,
        writes: impl Iterator<Item = (Pubkey, Account)>,
        hashing: Option<Hashing<'_>>,
    ) -> Result<(), FollowError> {
        let mut steps = Vec::new();
        let mut changes = Vec::new();
        for (pubkey, account) in writes {
            let address = Address::from(pubkey.to_bytes());
            let (before, from) = match self.replaced.remove(&pubkey) {
                Some(before) => {
                    self.bytes -= replaced_bytes(&before);
                    (before, Replaced::Removed)
                }
                None => {
                    let from = match self.accounts.get(&pubkey) {
                        None => Replaced::Parent,
                        Some(known) if known.hash.is_some() => Replaced::Held,
                        Some(known) => {
                            Replaced::Earlier(known.after.as_ref().map(StoredRecord::record))
                        }
                    };
                    (ledger.record_at(self.parent, &address), from)
                }
            };
            let to = account.into_record();
            changes.push(Change { address, record: to.clone() });
            steps.push(Step { pubkey, before, from, to });
        }
        if steps.is_empty() {
            return Ok(());
        }
        let id = self.id;
        let info = Arc::clone(&self.info);
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
        let stored = ledger.stored_at(id, &ids);
        let hashes = hashes.into_iter().chain(std::iter::repeat_with(|| None));
        for (((step, id), stored), hash) in steps.into_iter().zip(ids).zip(stored).zip(hashes) {
            self.insert(step, Written { id, stored, hash });
        }
        Ok(())
    }

    fn insert(&mut self, step: Step, written: Written) {
        let Step { pubkey, before, to, .. } = step;
        let Written { id, stored, hash } = written;
        let votes = to.as_ref().and_then(|account| {
            let is_vote = vote::check_id(account.0.owner());
            is_vote.then(|| VoteAccountState::read(account)).flatten()
        });
        let balance = WrittenBalance::new(&pubkey, before.as_deref(), to.as_deref());
        let account = PreparedAccount {
            removed_keys: removed_keys(&before, &to),
            is_changed: before != to,
            cluster_change: cluster_change(pubkey, &before, &to),
            after: stored,
            hash,
            id,
            votes,
            balance,
        };
        self.bytes += account.bytes();
        let known = match self.accounts.entry(pubkey) {
            Entry::Occupied(mut entry) => {
                let known = entry.insert(account);
                if let Some(replaced) = &known.hash {
                    self.change.remove(replaced);
                }
                self.bytes -= known.bytes();
                known.balance.after
            }
            Entry::Vacant(entry) => {
                entry.insert(account);
                balance.before
            }
        };
        self.lamports += i128::from(balance.after) - i128::from(known);
    }

    /// The account after the bank, if it has written it.
    pub fn account(&self, pubkey: &Pubkey) -> Option<Arc<Account>> {
        self.accounts.get(pubkey)?.after.as_ref().map(StoredRecord::record)
    }

    /// The accounts that it has written, in order.
    pub(crate) fn accounts(&self) -> impl ExactSizeIterator<Item = (&Pubkey, &PreparedAccount)> {
        self.accounts.iter()
    }

    /// Returns the accounts that it has written, in order, as the writes of its block.
    pub fn into_writes(self) -> Vec<AccountWrite> {
        let writes = self.accounts.into_iter().map(|(pubkey, account)| {
            let PreparedAccount { after, id, removed_keys, .. } = account;
            AccountWrite { pubkey, id, account: after, removed_keys }
        });
        writes.collect()
    }

    /// The accounts that are not as they were, in order.
    pub(crate) fn changed_pubkeys(&self) -> Vec<Pubkey> {
        let changed = self.accounts.iter().filter(|(_, account)| account.is_changed);
        changed.map(|(pubkey, _)| *pubkey).collect()
    }

    /// Returns the change of the lattice hash. It is empty if banks are not verified.
    pub fn change(&self) -> &LatticeChange {
        &self.change
    }

    /// Returns the lamports that the bank created, or burned.
    pub fn lamports(&self) -> i128 {
        self.lamports
    }

    /// The balances of the accounts that the bank has written.
    pub(crate) fn balances(&self) -> BankBalances {
        let written = self.accounts.iter().map(|(pubkey, account)| (*pubkey, account.balance));
        BankBalances { written: written.collect(), created: self.lamports }
    }

    /// The changes of delegations, features and sysvars.
    pub fn cluster_changes(&self) -> Vec<AccountChange> {
        let changes =
            self.accounts.values().filter_map(|account| account.cluster_change.as_deref());
        changes.cloned().collect()
    }

    /// The slot of a restart of the cluster (a hard fork) that the bank is the first to follow: it changes
    /// LastRestartSlot.
    pub fn restart_slot(&self) -> Option<Slot> {
        let account = self.account(&sysvar::last_restart_slot::ID)?;
        let slot = Slot::from_le_bytes(account.0.data().first_chunk().copied()?);
        (self.parent.slot < slot && slot <= self.id.slot).then_some(slot)
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.bytes + self.landed_votes.bytes()
    }
}

impl Hashing<'_> {
    /// Returns the sum of the changes of accounts, and the hashes of those that may be written again. The cached hash
    /// of an earlier write of an account is still in the sum.
    fn sum(self, steps: &[Step]) -> (LatticeChange, Vec<Option<Box<AccountHash>>>) {
        let started = now();
        let mut change = LatticeChange::default();
        let mut hashes = Vec::with_capacity(steps.len());
        for Step { pubkey, before, from, to } in steps {
            match from {
                Replaced::Parent => change.remove(&AccountHash::new(pubkey, before.as_deref())),
                Replaced::Earlier(earlier) => {
                    change.remove(&AccountHash::new(pubkey, earlier.as_deref()));
                }
                Replaced::Removed | Replaced::Held => {}
            }
            let hash = AccountHash::new(pubkey, to.as_deref());
            change.add(&hash);
            let is_again = matches!(from, Replaced::Earlier(_) | Replaced::Held);
            hashes.push((self.is_open && is_again).then(|| Box::new(hash)));
        }
        self.count_since(started);
        (change, hashes)
    }

    fn count_since(self, started: Instant) {
        self.nanos.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }
}

impl PreparedAccount {
    fn bytes(&self) -> usize {
        let hash = self.hash.as_ref().map_or(0, |_| size_of::<AccountHash>());
        let of_cluster = self.cluster_change.as_ref();
        let of_cluster = of_cluster.map_or(0, |change| replaced_bytes(&change.before));
        ENTRY_BYTES + hash + of_cluster
    }
}

/// Estimated bytes of an account that will be written, or of a change, with the account's state in the parent.
fn replaced_bytes(before: &Option<Arc<Account>>) -> usize {
    REPLACED_BYTES + before.as_ref().map_or(0, |account| account.weight())
}

/// The change of an account that has a delegation, a feature or a sysvar.
fn cluster_change(
    pubkey: Pubkey,
    before: &Option<Arc<Account>>,
    after: &Option<Arc<Account>>,
) -> Option<Box<AccountChange>> {
    let is_of_cluster = |account: &Option<Arc<Account>>| {
        let owner = account.as_ref().map(|account| account.0.owner());
        owner.is_some_and(|owner| [sysvar::ID, feature::ID].contains(owner))
    };
    let delegation = |account: &Option<Arc<Account>>| account.as_deref().and_then(read_delegation);
    let is_change =
        is_of_cluster(before) || is_of_cluster(after) || delegation(before) != delegation(after);
    let before = before.clone();
    let after = after.clone();
    is_change.then(|| Box::new(AccountChange { pubkey, before, after }))
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
