//! The inputs and outputs of a plan: events and outcomes of actions, actions, and notices for operators.
//!
//! Not here: the decisions (`plan`), operations and lines of the log (`driver`, `notices`).

use std::sync::Arc;
use std::time::Duration;

use chain_solana::wire::{BlockName, RecordDigest};
use cluster_snapshot::fault_reports::{DIFFERENT_BLOCK, FaultReport};
use ledger::Slot;
use replicated_log::{StoredMessage, Tail};
use solana_hash::Hash;

use super::phase::{SnapshotRequest, ViewBlock, WrittenSnapshot};
use crate::batch::Batch;
use crate::log_chain::Damage;
use crate::own_chain::OwnEvent;
use crate::scan::ScanResult;

/// An operation on the log or on the store of snapshots.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Nothing to do before an input, or before this time.
    Wait(Option<Duration>),
    /// Find the snapshots of the cluster.
    CheckChain,
    /// Find the newest generation.
    FindGeneration,
    /// Open an existing generation, which later actions are about.
    OpenGeneration(u64),
    /// Read the extent of the log.
    ReadTail,
    /// Read the log after this message. Replaces an earlier reader.
    Read(u64),
    /// Append a batch.
    Append(Box<Batch>),
    /// Retain the final view for a snapshot.
    RetainView,
    /// Write a snapshot of the retained view.
    WriteSnapshot(SnapshotRequest),
    /// Create a generation.
    CreateGeneration(u64),
    /// Check that the log does not lose acknowledged messages.
    CheckLog,
    /// Append nothing more: this ingester cannot serve this log.
    Stop,
}

/// The outcome of an action. It is `Err(())` if the operation failed; the driver has logged the reason.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The snapshots of the cluster, if it has some.
    ChainChecked(Result<Option<FoundSnapshots>, ()>),
    GenerationFound(Result<Option<u64>, ()>),
    GenerationOpened(Result<(), ()>),
    TailRead(Result<Tail, ()>),
    ReaderOpened(Result<(), ()>),
    /// The sequence of the last message.
    Appended(Result<u64, AppendFailure>),
    ViewRetained(ViewBlock),
    SnapshotWritten(Result<WrittenSnapshot, ()>),
    GenerationCreated(Result<(), ()>),
    LogChecked(Result<(), ()>),
}

/// The chain and the generations that the snapshots of a cluster name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundSnapshots {
    pub(crate) genesis_hash: Hash,
    /// The newest generation of the log that a snapshot is of. It may have no record.
    pub(crate) newest_generation: u64,
    /// The generation of the newest snapshot, if the snapshot proves that the generation had records.
    pub(crate) logged_generation: Option<u64>,
}

/// A block of the log that a snapshot can be taken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoggedBlock {
    pub(crate) generation: u64,
    /// Sequence of the last message of its record; 0 if a generation starts with the snapshot.
    pub(crate) position: u64,
    pub(crate) name: BlockName,
    /// Digest of its record.
    pub(crate) digest: RecordDigest,
}

/// Why an append failed, as far as the plan reacts to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AppendFailure {
    Fenced { last: u64 },
    Unknown,
    Full,
    Refused(String),
}

/// Why a reader ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadFailure {
    /// The log said that messages from the requested sequence on were removed before they were read.
    Truncated { wanted: u64 },
    /// This message is missing between others, or damaged in the log itself.
    Damaged { sequence: u64 },
    /// The log was deleted or replaced.
    Gone,
    /// It may work again.
    Failed,
}

/// An input of the plan.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Own(OwnEvent),
    Message(StoredMessage),
    ReadFailed(ReadFailure),
    /// A replica has reported a fault of the log.
    Reported(CheckedReport),
    /// The store has this snapshot.
    Snapshot(KnownSnapshot),
    /// The snapshots were listed since this ingester started this term. The newest one was an input before.
    SnapshotsListed {
        term: u64,
    },
    Done(Outcome),
}

/// A report, and the log at its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckedReport {
    pub(crate) report: FaultReport,
    /// `None` if the log was not scanned.
    pub(crate) scan: Option<ScanResult>,
}

impl CheckedReport {
    /// Whether another ingester reports that a block of the log differs from its own one.
    pub(crate) fn is_difference(&self) -> bool {
        self.report.what == DIFFERENT_BLOCK
    }
}

/// A block of the log that differs from the own one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockDifference {
    pub(crate) generation: u64,
    /// Sequence of the last message of its record.
    pub(crate) position: u64,
    pub(crate) name: BlockName,
}

impl BlockDifference {
    /// Returns the report for the leader, whose own block the log has.
    pub(crate) fn to_report(self, cluster: &str, made_at_ms: u64) -> FaultReport {
        let Self { generation, position, name } = self;
        FaultReport {
            cluster: cluster.to_owned(),
            generation,
            sequence: position.saturating_sub(1),
            record: name.number,
            slot: name.slot,
            confirmed: 0,
            what: DIFFERENT_BLOCK.to_owned(),
            made_at_ms,
        }
    }
}

/// A snapshot of a block of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownSnapshot {
    pub(crate) generation: u64,
    /// Sequence of the last message of the block's record; 0 if the generation starts with the snapshot.
    pub(crate) position: u64,
}

/// The result of the check of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportOutcome {
    /// The log is intact at the position.
    Intact,
    /// A record is damaged: a snapshot of a block behind it is written.
    Damaged,
    /// A replica refuses the blocks that the records describe, and not all of them were compared with the own blocks: the
    /// next snapshot is due earlier.
    Chain,
    /// A replica refuses the blocks that the records describe, and one of them differs from the own block: a snapshot
    /// of a block behind it is written.
    Different,
    /// A replica refuses the blocks that the records describe, and they equal the own blocks: the next snapshot is
    /// written earlier.
    Equal,
    /// Another ingester has another block than the log. A replica that refuses the block is right.
    Disagreement,
    /// No snapshot mends such a fault.
    Lasting,
    /// The limits of the log have removed the position.
    Removed,
}

/// The names of [`ReportOutcome`], in the order of its variants.
pub(crate) const REPORT_OUTCOMES: [&str; 8] =
    ["intact", "damaged", "chain", "different", "equal", "disagreement", "lasting", "removed"];

impl ReportOutcome {
    /// Returns the name, as in `hydrant_ingest_reports_total{outcome}`.
    pub(crate) fn name(self) -> &'static str {
        REPORT_OUTCOMES[self as usize]
    }
}

/// A change that an operator is informed of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// This ingester leads.
    Leads { generation: u64, term: u64 },
    /// Another ingester leads.
    Follows { generation: u64, term: u64 },
    /// The log ends, and a new generation follows.
    OpensGeneration { generation: u64, reason: Arc<str> },
    /// The generation that is followed from now on.
    Generation(u64),
    /// The own block differs from that of the log.
    Disagrees { slot: Slot, what: &'static str },
    /// A record does not continue the log.
    Damaged(Damage),
    /// Messages that the reader needs are gone.
    LostLog(ReadFailure),
    /// A node has reported a fault. The slot is that of a block that differs, or else the newest one that a replica
    /// had read.
    Reported { sequence: u64, slot: Slot, what: String, outcome: ReportOutcome },
    /// The leader appends behind a damaged message, after the end of its log.
    PassesDamage { sequence: u64, end: u64 },
    /// The log does not respond.
    Silent,
    /// The log responds again after this time.
    Responds { after: Duration },
    /// A batch was refused.
    RefusedBatch(String),
    /// Blocks were dropped while the snapshot of a new generation was written, which is written again.
    SnapshotTooSlow { took: Duration, queue_bytes_max: usize },
    /// The log takes no more messages for now.
    Full,
    /// This ingester appends nothing more.
    Stopped(String),
}
