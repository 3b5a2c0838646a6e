//! The kinds of faults and losses of a log, by name.
//!
//! The names are labels of metrics, and words in `/ready` and in the reports of faults. docs/operations.md lists them.

use chain_solana::wire::{ChainFault, WireError};

/// A kind of fault of a log, or of a loss of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The log cannot be reached.
    Unreachable,
    /// Messages were removed before they were read.
    Truncated,
    /// The log was deleted.
    Gone,
    /// A newer generation follows.
    Generation,
    /// The log ends before the last message that was read.
    Rewound,
    /// A newer program wrote a record.
    Version,
    /// The stored bytes of a batch are damaged.
    Damaged,
    /// A message is missing, or does not come.
    Missing,
    /// A message was delivered again, and skipped.
    Repeated,
    /// A body is damaged.
    Body,
    /// Parts of a record are not those of its head.
    Digest,
    /// A value of a record cannot be decoded.
    Value,
    /// The messages of a record are in another order.
    Order,
    /// A length or a count is above its limit.
    Length,
    /// A record has another number than the next one.
    Number,
    /// A record names another predecessor.
    Chain,
    /// A record is of another writer, without the start of a term.
    Term,
    /// An ingester requires a lower level of proof than this replica.
    Level,
    /// A generation does not start with the name of a snapshot.
    FirstRecord,
    /// A block's parent is not in the log.
    Parent,
    /// A record has no sum over all accounts.
    NoSum,
    /// The accounts after a block have another sum.
    Sum,
    /// The bank hash of a block is another one.
    BankHash,
    /// A jump found that the state had not been the one that its sum says.
    StateSum,
    /// A mark names a block that the log does not have.
    Mark,
    /// The log reverts a final block.
    FinalReverted,
    /// The log makes a block of another chain final.
    OtherChain,
    /// The tips contradict each other.
    Tips,
    /// An ingester has jumped from below the confirmed block.
    Jump,
    /// Numbers of records leave no room for write versions.
    WriteVersions,
    /// Too many blocks are not final.
    Unrooted,
}

impl FaultKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 31] = [
        Self::Unreachable,
        Self::Truncated,
        Self::Gone,
        Self::Generation,
        Self::Rewound,
        Self::Version,
        Self::Damaged,
        Self::Missing,
        Self::Repeated,
        Self::Body,
        Self::Digest,
        Self::Value,
        Self::Order,
        Self::Length,
        Self::Number,
        Self::Chain,
        Self::Term,
        Self::Level,
        Self::FirstRecord,
        Self::Parent,
        Self::NoSum,
        Self::Sum,
        Self::BankHash,
        Self::StateSum,
        Self::Mark,
        Self::FinalReverted,
        Self::OtherChain,
        Self::Tips,
        Self::Jump,
        Self::WriteVersions,
        Self::Unrooted,
    ];

    /// Returns the name: the label of `hydrant_log_losses_total{loss}` or of `hydrant_log_faults_total{fault}`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Truncated => "truncated",
            Self::Gone => "gone",
            Self::Generation => "generation",
            Self::Rewound => "rewound",
            Self::Version => "version",
            Self::Damaged => "damaged",
            Self::Missing => "missing",
            Self::Repeated => "repeated",
            Self::Body => "body",
            Self::Digest => "digest",
            Self::Value => "value",
            Self::Order => "order",
            Self::Length => "length",
            Self::Number => "number",
            Self::Chain => "chain",
            Self::Term => "term",
            Self::Level => "level",
            Self::FirstRecord => "first_record",
            Self::Parent => "parent",
            Self::NoSum => "no_sum",
            Self::Sum => "sum",
            Self::BankHash => "bank_hash",
            Self::StateSum => "state_sum",
            Self::Mark => "mark",
            Self::FinalReverted => "final_reverted",
            Self::OtherChain => "other_chain",
            Self::Tips => "tips",
            Self::Jump => "jump",
            Self::WriteVersions => "write_versions",
            Self::Unrooted => "unrooted",
        }
    }

    /// Whether it is a loss of messages or of the log, which outages and retention cause, too. All others say that
    /// something is wrong.
    pub fn is_loss(self) -> bool {
        matches!(
            self,
            Self::Unreachable | Self::Truncated | Self::Gone | Self::Generation | Self::Rewound
        )
    }

    /// Returns the kind of a refused record.
    pub(crate) fn from_wire(err: &WireError) -> Self {
        match err {
            WireError::Version { .. } => Self::Version,
            WireError::Body { .. } => Self::Body,
            WireError::Digest { .. } => Self::Digest,
            WireError::Decode(_) => Self::Value,
            WireError::Chain(ChainFault::Number { .. }) => Self::Number,
            WireError::Chain(ChainFault::Previous { .. }) => Self::Chain,
            WireError::Chain(ChainFault::Term { .. }) => Self::Term,
            WireError::Unexpected { .. } => Self::Order,
            WireError::TooLong { .. } => Self::Length,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cluster_snapshot::fault_reports::MENDABLE_FAULTS;

    use super::*;

    #[test]
    fn each_kind_is_listed_once_and_has_a_name_of_its_own() {
        for (at, kind) in FaultKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at, "{}", kind.name());
        }
        let names: BTreeSet<_> = FaultKind::ALL.map(FaultKind::name).into();
        assert_eq!(names.len(), FaultKind::ALL.len());
    }

    #[test]
    fn each_mendable_fault_is_a_fault_and_not_a_loss() {
        for (name, _) in MENDABLE_FAULTS {
            let kind = FaultKind::ALL.into_iter().find(|kind| kind.name() == name);
            assert!(kind.is_some_and(|kind| !kind.is_loss()), "{name}");
        }
    }

    #[test]
    fn a_refused_record_has_the_name_that_other_programs_give_it() {
        let names: BTreeSet<_> = FaultKind::ALL.map(FaultKind::name).into();
        assert!(WireError::NAMES.iter().all(|name| names.contains(name)));
        let err = WireError::TooLong { what: "bytes".to_owned(), found: 2, limit: 1 };
        assert_eq!(FaultKind::from_wire(&err).name(), err.name());
        let err = WireError::from(ChainFault::Number { last: 1, found: 3 });
        assert_eq!(FaultKind::from_wire(&err).name(), err.name());
    }
}
