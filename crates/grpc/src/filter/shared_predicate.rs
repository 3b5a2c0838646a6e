//! Predicates of filters without addresses. The filters of all clients that have an equal one share it.

use std::sync::Arc;

use chain_solana::ExecutedTransaction;
use yellowstone_grpc_proto::geyser::SubscribeRequestFilterTransactions;

use super::account_predicate::AccountPredicate;
use crate::update::{Update, UpdateKind};

/// A filter without addresses, which matches the same updates as every equal one, whichever client has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SharedPredicate {
    Account(Arc<AccountPredicate>),
    Transaction(OutcomePredicate),
}

impl SharedPredicate {
    pub(crate) fn matches(&self, update: &Update) -> bool {
        match (self, &update.kind) {
            (Self::Account(predicate), UpdateKind::Account(account)) => predicate.matches(account),
            (Self::Transaction(predicate), UpdateKind::Transaction(executed)) => {
                predicate.matches(executed)
            }
            _ => false,
        }
    }

    /// Its cost in the units of `FilterSet::unindexed_cost`.
    pub(crate) fn cost(&self) -> usize {
        match self {
            Self::Account(predicate) => predicate.cost(),
            Self::Transaction(_) => 1,
        }
    }
}

/// The conditions on a transaction other than its signature and its accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OutcomePredicate {
    vote: Option<bool>,
    failed: Option<bool>,
}

impl OutcomePredicate {
    pub(super) fn new(filter: &SubscribeRequestFilterTransactions) -> Self {
        Self { vote: filter.vote, failed: filter.failed }
    }

    pub(super) fn matches(&self, executed: &ExecutedTransaction) -> bool {
        self.vote.is_none_or(|vote| vote == executed.is_vote)
            && self.failed.is_none_or(|failed| failed == executed.meta.status.is_err())
    }
}
