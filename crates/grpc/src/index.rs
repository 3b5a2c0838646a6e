//! From an update to the filters that may match it, for all clients of a commitment.
//!
//! Shape: postings by address, owner, transaction account and signature. A filter has one posting for each address of
//! its most selective list. Filters without a list are in one posting of their kind.
//! Invariant: a lookup finds every filter that matches. It costs the keys of the update, the filters under them, and
//! the filters of the kind that have no list.

use std::collections::BTreeSet;

use foldhash::{HashMap, HashMapExt};
use solana_account::ReadableAccount;

use crate::filter::{FilterId, FilterKind, FilterSet, IndexKey, token_owners};
use crate::update::{Update, UpdateKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ListenerId(pub(crate) u64);

/// The filters of all clients of one commitment.
pub(crate) struct Index {
    postings: HashMap<IndexKey, BTreeSet<(ListenerId, FilterId)>>,
    /// Clients with filters that match owners of token balances.
    expansions: usize,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { postings: HashMap::new(), expansions: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.postings.is_empty()
    }

    pub(crate) fn insert(&mut self, listener: ListenerId, filters: &FilterSet) {
        for (key, id) in filters.index_keys() {
            self.postings.entry(key).or_default().insert((listener, id));
        }
        self.expansions += usize::from(filters.has_token_expansion());
    }

    pub(crate) fn remove(&mut self, listener: ListenerId, filters: &FilterSet) {
        for (key, id) in filters.index_keys() {
            let Some(posting) = self.postings.get_mut(&key) else { continue };
            posting.remove(&(listener, id));
            if posting.is_empty() {
                self.postings.remove(&key);
            }
        }
        self.expansions -= usize::from(filters.has_token_expansion());
    }

    /// The filters that may match, sorted by client.
    pub(crate) fn candidates(&self, update: &Update) -> Vec<(ListenerId, FilterId)> {
        let mut found = Vec::new();
        if self.is_empty() {
            return found;
        }
        let mut add = |key: IndexKey| {
            if let Some(posting) = self.postings.get(&key) {
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
        found
    }
}
