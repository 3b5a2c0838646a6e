//! From an update to the filters that may match it, for all clients of a commitment.
//!
//! Shape: postings by address, owner, transaction account and signature. A filter has one posting for each address of
//! its most selective list. Filters of accounts and transactions without a list are tried before (`shared_predicates`);
//! other filters without an address to look up are in one posting of their kind.
//! Invariant: a lookup finds every filter that matches. It costs the keys of the update, the filters under them, the
//! different predicates of the kind, and its other filters without an address.
//! Bounds: the postings are in [`SHARDS`] tables, so that one that grows is copied in some milliseconds.

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::time::Duration;

use foldhash::HashMap;
use foldhash::fast::RandomState;
use solana_account::ReadableAccount;

use crate::filter::{FilterId, FilterKind, FilterSet, IndexKey, token_owners};
use crate::ids::SetId;
use crate::shared_predicates::SharedPredicates;
use crate::update::{Update, UpdateKind};

type Postings = HashMap<IndexKey, BTreeSet<(SetId, FilterId)>>;

/// Tables of postings.
const SHARDS: usize = 64;

/// The filters of all clients of one commitment.
pub(crate) struct Index {
    shards: Vec<Postings>,
    hasher: RandomState,
    /// Sets that are inserted, or being inserted or removed.
    sets: usize,
    /// Those with filters that match owners of token balances.
    expansions: usize,
    shared: SharedPredicates,
}

impl Index {
    pub(crate) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Postings::default()).collect();
        Self {
            shards,
            hasher: RandomState::default(),
            sets: 0,
            expansions: 0,
            shared: SharedPredicates::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sets == 0
    }

    /// Begins a set. Its keys follow.
    pub(crate) fn start_set(&mut self, filters: &FilterSet) {
        self.sets += 1;
        self.expansions += usize::from(filters.has_token_expansion());
    }

    /// Ends a set whose keys were removed.
    pub(crate) fn end_set(&mut self, filters: &FilterSet) {
        self.sets -= 1;
        self.expansions -= usize::from(filters.has_token_expansion());
    }

    pub(crate) fn insert(&mut self, set: SetId, keys: &[(IndexKey, FilterId)]) {
        for (key, id) in keys {
            if let IndexKey::Shared(predicate) = key {
                self.shared.insert(predicate, (set, *id));
                continue;
            }
            let shard = self.shard(key);
            self.shards[shard].entry(key.clone()).or_default().insert((set, *id));
        }
    }

    pub(crate) fn remove(&mut self, set: SetId, keys: &[(IndexKey, FilterId)]) {
        for (key, id) in keys {
            if let IndexKey::Shared(predicate) = key {
                self.shared.remove(predicate, (set, *id));
                continue;
            }
            let shard = self.shard(key);
            let postings = &mut self.shards[shard];
            let Some(posting) = postings.get_mut(key) else { continue };
            posting.remove(&(set, *id));
            if posting.is_empty() {
                postings.remove(key);
            }
        }
    }

    fn shard(&self, key: &IndexKey) -> usize {
        // The tables use the low bits of their own hash.
        (self.hasher.hash_one(key) >> 32) as usize % SHARDS
    }

    /// Returns each set's share of the time spent on shared predicates in a period. A set may occur several times.
    pub(crate) fn shared_costs(&self, period: u64) -> impl Iterator<Item = (SetId, Duration)> {
        self.shared.costs(period)
    }

    /// Number of different shared predicates.
    #[cfg(test)]
    pub(crate) fn shared_predicates(&self) -> usize {
        self.shared.len()
    }

    /// Returns the filters that may match, sorted by set. The time of shared predicates is charged to a period.
    pub(crate) fn candidates(&self, update: &Update, period: u64) -> Vec<(SetId, FilterId)> {
        let mut found = Vec::new();
        self.find_shared(update, period, &mut found);
        self.find_postings(update, &mut found);
        found
    }

    /// Adds the filters whose shared predicates match an update, and charges the time to a period.
    pub(crate) fn find_shared(
        &self,
        update: &Update,
        period: u64,
        found: &mut Vec<(SetId, FilterId)>,
    ) {
        self.shared.find(update, period, found);
    }

    /// Adds the other filters that may match, and sorts all by set.
    pub(crate) fn find_postings(&self, update: &Update, found: &mut Vec<(SetId, FilterId)>) {
        if self.is_empty() {
            return;
        }
        let mut add = |key: IndexKey| {
            if let Some(posting) = self.shards[self.shard(&key)].get(&key) {
                found.extend(posting.iter().copied());
            }
        };
        match &update.kind {
            UpdateKind::Slot(_) => add(IndexKey::All(FilterKind::Slot)),
            UpdateKind::Account(account) => {
                add(IndexKey::Account(account.pubkey));
                add(IndexKey::Owner(*account.account.0.owner()));
                add(IndexKey::All(FilterKind::Account));
            }
            UpdateKind::Transaction(executed) => {
                let keys = executed.account_keys.iter().copied();
                keys.for_each(|key| add(IndexKey::TransactionAccount(key)));
                if self.expansions > 0 {
                    let owners = token_owners(executed).into_iter();
                    owners.for_each(|key| add(IndexKey::TransactionAccount(key)));
                }
                add(IndexKey::Signature(executed.signature()));
                add(IndexKey::All(FilterKind::Transaction));
                add(IndexKey::All(FilterKind::TransactionStatus));
            }
            UpdateKind::Entry { .. } => add(IndexKey::All(FilterKind::Entry)),
            UpdateKind::Footer(_) => add(IndexKey::All(FilterKind::BlockFooter)),
            UpdateKind::Block(_) => add(IndexKey::All(FilterKind::Block)),
            UpdateKind::BlockMeta(_) => add(IndexKey::All(FilterKind::BlockMeta)),
        }
        found.sort_unstable();
        found.dedup();
    }
}
