//! The filters without addresses of all clients of a commitment: equal ones are tried once for an update.
//!
//! In: an update. Out: the filters whose predicate matches it. The time of the predicates counts for the clients that
//! have them.
//! Bounds: `grpc.unindexed_cost_max` for the filters, and so for the different predicates.
//! Not here: filters of accounts and transactions with a list of excluded addresses or a cuckoo filter (`index`).

use std::collections::BTreeSet;
use std::time::Duration;

use foldhash::HashMap;

use crate::clock::monotonic;
use crate::filter::{FilterId, SharedPredicate};
use crate::ids::SetId;
use crate::publish_cost::PublishCost;
use crate::update::{Update, UpdateKind};

/// The predicates of all sets, by the kind of updates that they try.
#[derive(Default)]
pub(crate) struct SharedPredicates {
    accounts: Predicates,
    transactions: Predicates,
}

/// The predicates that the same updates try.
#[derive(Default)]
struct Predicates {
    filters: HashMap<SharedPredicate, BTreeSet<(SetId, FilterId)>>,
    cost: PublishCost,
}

impl SharedPredicates {
    pub(crate) fn insert(&mut self, predicate: &SharedPredicate, filter: (SetId, FilterId)) {
        let predicates = self.predicates_mut(predicate);
        match predicates.filters.get_mut(predicate) {
            Some(filters) => filters.insert(filter),
            None => predicates.filters.entry(predicate.clone()).or_default().insert(filter),
        };
    }

    pub(crate) fn remove(&mut self, predicate: &SharedPredicate, filter: (SetId, FilterId)) {
        let predicates = self.predicates_mut(predicate);
        let Some(filters) = predicates.filters.get_mut(predicate) else { return };
        filters.remove(&filter);
        if filters.is_empty() {
            predicates.filters.remove(predicate);
        }
    }

    /// Adds the filters that match an update, and charges the time of the predicates to a period.
    pub(crate) fn find(&self, update: &Update, period: u64, found: &mut Vec<(SetId, FilterId)>) {
        let predicates = match &update.kind {
            UpdateKind::Account(_) => &self.accounts,
            UpdateKind::Transaction(_) => &self.transactions,
            _ => return,
        };
        if predicates.filters.is_empty() {
            return;
        }
        let started = monotonic();
        let matches = predicates.filters.iter().filter(|(predicate, _)| predicate.matches(update));
        found.extend(matches.flat_map(|(_, filters)| filters.iter().copied()));
        predicates.cost.add(period, monotonic() - started);
    }

    /// Returns each set's share of the time spent on shared predicates in a period. A set may occur several times.
    pub(crate) fn costs(&self, period: u64) -> impl Iterator<Item = (SetId, Duration)> {
        [&self.accounts, &self.transactions]
            .into_iter()
            .flat_map(move |predicates| predicates.costs(period))
    }

    /// Number of different predicates.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.accounts.filters.len() + self.transactions.filters.len()
    }

    fn predicates_mut(&mut self, predicate: &SharedPredicate) -> &mut Predicates {
        match predicate {
            SharedPredicate::Account(_) => &mut self.accounts,
            SharedPredicate::Transaction(_) => &mut self.transactions,
        }
    }
}

impl Predicates {
    fn costs(&self, period: u64) -> impl Iterator<Item = (SetId, Duration)> {
        let all: usize = self.filters.keys().map(SharedPredicate::cost).sum();
        let spent = self.cost.spent(period);
        self.filters.iter().flat_map(move |(predicate, filters)| {
            let part = predicate.cost() as f64 / (all * filters.len()) as f64;
            filters.iter().map(move |(set, _)| (*set, spent.mul_f64(part)))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chain_solana::AccountUpdate;
    use solana::Account;
    use solana_account::AccountSharedData;
    use solana_pubkey::Pubkey;
    use yellowstone_grpc_proto::geyser::subscribe_request_filter_accounts_filter::Filter;
    use yellowstone_grpc_proto::geyser::{
        SubscribeRequest, SubscribeRequestFilterAccounts, SubscribeRequestFilterAccountsFilter,
        SubscribeRequestFilterTransactions,
    };

    use super::*;
    use crate::config::Config;
    use crate::filter::{FilterSet, IndexKey};
    use crate::index::Index;

    /// A filter for each size of data, and some of transactions.
    fn filters(sizes: std::ops::Range<u64>) -> FilterSet {
        let by_size = |size: u64| {
            let filter = Some(Filter::Datasize(size));
            let filters = vec![SubscribeRequestFilterAccountsFilter { filter }];
            (size.to_string(), SubscribeRequestFilterAccounts { filters, ..Default::default() })
        };
        let no_votes =
            SubscribeRequestFilterTransactions { vote: Some(false), ..Default::default() };
        let transactions = [("one".to_owned(), no_votes.clone()), ("two".to_owned(), no_votes)];
        let request = SubscribeRequest {
            accounts: sizes.map(by_size).collect(),
            transactions: transactions.clone().into(),
            transactions_status: transactions.into(),
            ..Default::default()
        };
        FilterSet::new(&request, &Config::default()).expect("valid filters")
    }

    fn account_update(bytes: usize) -> Update {
        let pubkey = Pubkey::default();
        let account = Arc::new(Account(AccountSharedData::new(1, bytes, &pubkey)));
        let write =
            AccountUpdate { pubkey, account, write_version: 1, signature: None, executed: None };
        Update { slot: 1, bank_id: 1, created_ms: 0, kind: UpdateKind::Account(write) }
    }

    #[test]
    fn equal_filters_of_all_clients_are_one_predicate() {
        let mut index = Index::new();
        let sets: Vec<(SetId, Vec<(IndexKey, FilterId)>)> =
            (0..100).map(|set| (SetId(set), filters(0..20).index_keys())).collect();
        for (set, keys) in &sets {
            index.insert(*set, keys);
        }
        // 20 of accounts, and one of transactions and their statuses.
        assert_eq!(index.shared_predicates(), 21);
        let found = |index: &Index, bytes| index.candidates(&account_update(bytes), 1).len();
        index.start_set(&filters(0..1));
        assert_eq!([found(&index, 7), found(&index, 20)], [100, 0]);
        let (last, others) = sets.split_last().expect("sets");
        for (set, keys) in others {
            index.remove(*set, keys);
        }
        assert_eq!([index.shared_predicates(), found(&index, 7)], [21, 1]);
        index.remove(last.0, &last.1);
        assert_eq!([index.shared_predicates(), found(&index, 7)], [0, 0]);
    }

    #[test]
    fn the_time_of_predicates_counts_for_the_sets_that_have_them() {
        let mut index = Index::new();
        for (set, sizes) in [(1, 0..30), (2, 0..10), (3, 0..10)] {
            let filters = filters(sizes);
            index.start_set(&filters);
            index.insert(SetId(set), &filters.index_keys());
        }
        // No filter matches. With 10,000 updates the rounding of the parts is far below a percent.
        let update = account_update(99);
        assert!((0..10_000).all(|_| index.candidates(&update, 5).is_empty()));
        let mut spent = [Duration::ZERO; 4];
        for (set, cost) in index.shared_costs(5) {
            spent[set.0 as usize] += cost;
        }
        // Of 30 predicates, the first set has 20 alone, and a third of the others.
        let all: Duration = spent.iter().sum();
        assert!(all > Duration::ZERO);
        let parts = spent.map(|one| (one.as_secs_f64() / all.as_secs_f64() * 90.0).round());
        assert_eq!(parts, [0.0, 70.0, 10.0, 10.0]);
        assert_eq!(index.shared_costs(6).map(|(_, cost)| cost).sum::<Duration>(), Duration::ZERO);
    }
}
