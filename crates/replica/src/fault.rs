//! The faults of a log, by name.

use chain_solana::wire::{WireError, WriterId};
use ledger::{BlockId, Slot};
use replicated_log::LogError;
use solana::VerificationLevel;
use solana_hash::Hash;

use crate::fault_kind::FaultKind;

/// A fault of the log, or of a record in it. Nothing of such a record is shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The log cannot be reached. The replica tries again.
    #[error("the log cannot be reached")]
    Unreachable(#[source] LogError),
    /// A newer program wrote the record.
    #[error(
        "a record has version {found}, and this program knows version {known}; fix: upgrade the replicas before the ingesters"
    )]
    Version {
        /// Version of the record.
        found: u16,
        /// The newest known version.
        known: u16,
    },
    /// Messages were removed before they were read.
    #[error("the log begins at message {first}, and message {wanted} is needed")]
    Truncated {
        /// The message after the last one that was read.
        wanted: u64,
        /// The oldest message of the log.
        first: u64,
    },
    /// The log ends before the last message that was read: it was restored from an older backup, or made again.
    #[error("the log ends at message {last}, and message {read} was read before")]
    Rewound {
        /// The newest message of the log.
        last: u64,
        /// The last message that was read.
        read: u64,
    },
    /// The stored bytes of the log are not those that were appended: a batch of messages is cut or flipped.
    #[error("the log is damaged")]
    Damaged(#[source] LogError),
    /// The log counts messages that it does not deliver.
    #[error("message {wanted} does not come, and the log ends at message {last}")]
    NotDelivered {
        /// The message after the last one that was read.
        wanted: u64,
        /// The newest message of the log.
        last: u64,
    },
    /// A message is missing within the log.
    #[error("message {found} follows where message {wanted} is needed")]
    Missing {
        /// The message after the last one that was read.
        wanted: u64,
        /// The message that came.
        found: u64,
    },
    /// The log was deleted: the newest generation is an older one, or there is none.
    #[error("generation {generation} of the log is gone")]
    Gone {
        /// Number of the generation.
        generation: u64,
    },
    /// The cluster has a newer log.
    #[error("generation {newest} of the log follows generation {generation}")]
    Generation {
        /// Number of the generation that is read.
        generation: u64,
        /// Number of the newest generation.
        newest: u64,
    },
    /// A record is damaged, or does not continue the chain of records.
    #[error("after record {number}: {err}")]
    Record {
        /// Number of the last good record.
        number: u64,
        /// The reason.
        err: WireError,
    },
    /// The writer of a record requires a lower level of proof than this replica does.
    #[error(
        "record {number}: its ingester requires the level {}, and {} is needed here (--verify-min)",
        .found.map_or("off", VerificationLevel::name),
        .needed.map_or("off", VerificationLevel::name)
    )]
    Level {
        /// Number of the record.
        number: u64,
        /// The level of the writer.
        found: Option<VerificationLevel>,
        /// The lowest level that is accepted.
        needed: Option<VerificationLevel>,
    },
    /// The first record of a generation does not name a snapshot.
    #[error(
        "generation {generation} begins with a record of kind {kind}, not with the name of a snapshot"
    )]
    FirstRecord {
        /// Number of the generation.
        generation: u64,
        /// Kind of the record.
        kind: &'static str,
    },
    /// A block's parent is not in the log, or is not the block that it names.
    #[error(
        "the parent of slot {slot} (record {number}) is record {parent}, which is not that block"
    )]
    Parent {
        /// Slot of the block.
        slot: Slot,
        /// Number of its record.
        number: u64,
        /// Number of the parent's record.
        parent: u64,
    },
    /// The record has no sum to compare with: the ingester does not verify its chain.
    #[error(
        "slot {slot} has no sum over all accounts; fix: let the ingester verify its chain (--verify)"
    )]
    NoSum {
        /// Slot of the block.
        slot: Slot,
    },
    /// The accounts after a block are not those of its record.
    #[error(
        "slot {slot}: the sum over all accounts is {computed}, and {recorded} in record {number}"
    )]
    Sum {
        /// Slot of the block.
        slot: Slot,
        /// Number of its record.
        number: u64,
        /// Checksum of the computed sum.
        computed: Hash,
        /// That of the record.
        recorded: Hash,
    },
    /// The bank hash that follows from a record is not the one in it.
    #[error("slot {slot}: the bank hash is {computed}, and {recorded} in record {number}")]
    BankHash {
        /// Slot of the block.
        slot: Slot,
        /// Number of its record.
        number: u64,
        /// The computed hash.
        computed: Hash,
        /// That of the record.
        recorded: Hash,
    },
    /// A mark names a block that the log does not have.
    #[error("a mark {mark} names slot {slot}, record {number}, which is not a block of the log")]
    Mark {
        /// Kind of the mark.
        mark: &'static str,
        /// Slot that it names.
        slot: Slot,
        /// Record that it names.
        number: u64,
    },
    /// The log reverts a final block.
    #[error("the log reverts slot {slot}, which is final here")]
    FinalReverted {
        /// Slot of the block.
        slot: Slot,
    },
    /// The log makes a block final that does not descend from the final block here.
    #[error("the log makes slot {slot} final, which does not descend from the root {root:?}")]
    OtherChain {
        /// Slot of the block.
        slot: Slot,
        /// The root.
        root: BlockId,
    },
    /// The marks leave a confirmed block that the processed one does not descend from.
    #[error(
        "the confirmed block {confirmed:?} is not on the chain of the processed block {processed:?}"
    )]
    Tips {
        /// The confirmed block.
        confirmed: BlockId,
        /// The processed block.
        processed: BlockId,
    },
    /// The ingester has jumped from a block below the confirmed one: the jump leaves confirmed blocks that were shown.
    #[error(
        "the jump to slot {slot} (record {number}) does not descend from the confirmed block {confirmed:?}"
    )]
    Jump {
        /// Slot of the block that the ingester has jumped to.
        slot: Slot,
        /// Number of its record.
        number: u64,
        /// The confirmed block.
        confirmed: BlockId,
    },
    /// The number of a record leaves no room for the numbers of its writes.
    #[error(
        "record {number} with {accounts} accounts has a number too high for write versions; fix: give the cluster another name (--log-cluster)"
    )]
    WriteVersions {
        /// Number of the record.
        number: u64,
        /// Number of its account writes.
        accounts: usize,
    },
    /// The log does not make blocks final.
    #[error("{blocks} blocks are not final, at most {limit} can be held")]
    Unrooted {
        /// Blocks above the root.
        blocks: usize,
        /// The limit.
        limit: usize,
    },
}

impl Fault {
    /// Returns the name of the fault.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// Returns the kind of the fault.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Unreachable(_) => FaultKind::Unreachable,
            Self::Version { .. } => FaultKind::Version,
            Self::Truncated { .. } => FaultKind::Truncated,
            Self::Rewound { .. } => FaultKind::Rewound,
            Self::Damaged(_) => FaultKind::Damaged,
            Self::NotDelivered { .. } | Self::Missing { .. } => FaultKind::Missing,
            Self::Gone { .. } => FaultKind::Gone,
            Self::Generation { .. } => FaultKind::Generation,
            Self::Record { err, .. } => FaultKind::from_wire(err),
            Self::Level { .. } => FaultKind::Level,
            Self::FirstRecord { .. } => FaultKind::FirstRecord,
            Self::Parent { .. } => FaultKind::Parent,
            Self::NoSum { .. } => FaultKind::NoSum,
            Self::Sum { .. } => FaultKind::Sum,
            Self::BankHash { .. } => FaultKind::BankHash,
            Self::Mark { .. } => FaultKind::Mark,
            Self::FinalReverted { .. } => FaultKind::FinalReverted,
            Self::OtherChain { .. } => FaultKind::OtherChain,
            Self::Tips { .. } => FaultKind::Tips,
            Self::Jump { .. } => FaultKind::Jump,
            Self::WriteVersions { .. } => FaultKind::WriteVersions,
            Self::Unrooted { .. } => FaultKind::Unrooted,
        }
    }

    /// Whether only time helps: the log's servers come back, or this program is upgraded.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Version { .. })
    }

    /// Whether another server of the log may have the right messages.
    pub(crate) fn is_read_fault(&self) -> bool {
        matches!(
            self,
            Self::Damaged(_)
                | Self::NotDelivered { .. }
                | Self::Missing { .. }
                | Self::Record { .. }
                | Self::Rewound { .. }
                | Self::Gone { .. }
        )
    }
}

/// Fails if a writer requires a lower level of proof than is needed.
pub(crate) fn check_level(
    writer: WriterId,
    number: u64,
    needed: Option<VerificationLevel>,
) -> Result<(), Fault> {
    let found = writer.level;
    if found < needed { Err(Fault::Level { number, found, needed }) } else { Ok(()) }
}

/// Returns the name of a level in the API, or `off`.
pub(crate) fn level_name(level: Option<VerificationLevel>) -> &'static str {
    level.map_or("off", VerificationLevel::name)
}

impl From<LogError> for Fault {
    fn from(err: LogError) -> Self {
        match err.is_damage() {
            true => Self::Damaged(err),
            false => Self::Unreachable(err),
        }
    }
}
