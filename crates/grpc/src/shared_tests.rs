//! The filters without addresses of all clients of a commitment: equal ones are tried once for an update.
//!
//! In: an update. Out: the filters whose test matches it. The time of the tests counts for the clients that have them.
//! Bounds: `grpc.unindexed_cost_max` for the filters, and so for the different tests.
//! Not here: filters of accounts and transactions with a list of excluded addresses or a cuckoo filter (`index`).

use std::collections::BTreeSet;
use std::time::Duration;

use foldhash::HashMap;

use crate::clock::monotonic;
use crate::filter::{FilterId, SharedTest};
use crate::ids::SetId;
use crate::publish_cost::PublishCost;
use crate::update::{Update, UpdateKind};

/// The tests of all sets, by the kind of updates that they try.
#[derive(Default)]
pub(crate) struct SharedTests {
    accounts: Tests,
    transactions: Tests,
}

/// The tests that the same updates try.
#[derive(Default)]
struct Tests {
    filters: HashMap<SharedTest, BTreeSet<(SetId, FilterId)>>,
    cost: PublishCost,
}

impl SharedTests {
    pub(crate) fn insert(&mut self, test: &SharedTest, filter: (SetId, FilterId)) {
        let tests = self.tests_mut(test);
        match tests.filters.get_mut(test) {
            Some(filters) => filters.insert(filter),
            None => tests.filters.entry(test.clone()).or_default().insert(filter),
        };
    }

    pub(crate) fn remove(&mut self, test: &SharedTest, filter: (SetId, FilterId)) {
        let tests = self.tests_mut(test);
        let Some(filters) = tests.filters.get_mut(test) else { return };
        filters.remove(&filter);
        if filters.is_empty() {
            tests.filters.remove(test);
        }
    }

    /// Adds the filters that match an update, and charges the time of the tests to a period.
    pub(crate) fn find(&self, update: &Update, period: u64, found: &mut Vec<(SetId, FilterId)>) {
        let tests = match &update.kind {
            UpdateKind::Account(_) => &self.accounts,
            UpdateKind::Transaction(_) => &self.transactions,
            _ => return,
        };
        if tests.filters.is_empty() {
            return;
        }
        let started = monotonic();
        let matches = tests.filters.iter().filter(|(test, _)| test.matches(update));
        found.extend(matches.flat_map(|(_, filters)| filters.iter().copied()));
        tests.cost.add(period, monotonic() - started);
    }

    /// Returns each set's share of the time spent on shared predicates in a period. A set may occur several times.
    pub(crate) fn costs(&self, period: u64) -> impl Iterator<Item = (SetId, Duration)> {
        [&self.accounts, &self.transactions].into_iter().flat_map(move |tests| tests.costs(period))
    }

    /// Number of different tests.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.accounts.filters.len() + self.transactions.filters.len()
    }

    fn tests_mut(&mut self, test: &SharedTest) -> &mut Tests {
        match test {
            SharedTest::Account(_) => &mut self.accounts,
            SharedTest::Transaction(_) => &mut self.transactions,
        }
    }
}

impl Tests {
    fn costs(&self, period: u64) -> impl Iterator<Item = (SetId, Duration)> {
        let all: usize = self.filters.keys().map(SharedTest::cost).sum();
        let spent = self.cost.spent(period);
        self.filters.iter().flat_map(move |(test, filters)| {
            let part = test.cost() as f64 / (all * filters.len()) as f64;
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
    fn equal_filters_of_all_clients_are_one_test() {
        let mut index = Index::new();
        let sets: Vec<(SetId, Vec<(IndexKey, FilterId)>)> =
            (0..100).map(|set| (SetId(set), filters(0..20).index_keys())).collect();
        for (set, keys) in &sets {
            index.insert(*set, keys);
        }
        // 20 of accounts, and one of transactions and their statuses.
        assert_eq!(index.shared_tests(), 21);
        let found = |index: &Index, bytes| index.candidates(&account_update(bytes), 1).len();
        index.start_set(&filters(0..1));
        assert_eq!([found(&index, 7), found(&index, 20)], [100, 0]);
        let (last, others) = sets.split_last().expect("sets");
        for (set, keys) in others {
            index.remove(*set, keys);
        }
        assert_eq!([index.shared_tests(), found(&index, 7)], [21, 1]);
        index.remove(last.0, &last.1);
        assert_eq!([index.shared_tests(), found(&index, 7)], [0, 0]);
    }

    #[test]
    fn the_time_of_tests_counts_for_the_sets_that_have_them() {
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
        // Of 30 tests, the first set has 20 alone, and a third of the others.
        let all: Duration = spent.iter().sum();
        assert!(all > Duration::ZERO);
        let parts = spent.map(|one| (one.as_secs_f64() / all.as_secs_f64() * 90.0).round());
        assert_eq!(parts, [0.0, 70.0, 10.0, 10.0]);
        assert_eq!(index.shared_costs(6).map(|(_, cost)| cost).sum::<Duration>(), Duration::ZERO);
    }
}
