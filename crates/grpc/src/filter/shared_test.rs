//! Tests of filters without addresses. The filters of all clients that have an equal one share it.

use std::sync::Arc;

use chain_solana::ExecutedTransaction;
use yellowstone_grpc_proto::geyser::SubscribeRequestFilterTransactions;

use super::content_test::ContentTest;
use crate::update::{Update, UpdateKind};

/// A filter without addresses, which matches the same updates as every equal one, whichever client has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SharedTest {
    Account(Arc<ContentTest>),
    Transaction(OutcomeTest),
}

impl SharedTest {
    pub(crate) fn matches(&self, update: &Update) -> bool {
        match (self, &update.kind) {
            (Self::Account(test), UpdateKind::Account(account)) => test.matches(account),
            (Self::Transaction(test), UpdateKind::Transaction(executed)) => test.matches(executed),
            _ => false,
        }
    }

    /// Its cost in the units of `FilterSet::unindexed_cost`.
    pub(crate) fn cost(&self) -> usize {
        match self {
            Self::Account(test) => test.cost(),
            Self::Transaction(_) => 1,
        }
    }
}

/// The conditions on a transaction other than its signature and its accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OutcomeTest {
    vote: Option<bool>,
    failed: Option<bool>,
}

impl OutcomeTest {
    pub(super) fn new(filter: &SubscribeRequestFilterTransactions) -> Self {
        Self { vote: filter.vote, failed: filter.failed }
    }

    pub(super) fn matches(&self, executed: &ExecutedTransaction) -> bool {
        self.vote.is_none_or(|vote| vote == executed.is_vote)
            && self.failed.is_none_or(|failed| failed == executed.meta.status.is_err())
    }
}
