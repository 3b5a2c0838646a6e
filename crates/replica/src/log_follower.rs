//! Reads the log: messages to whole, checked records for the writer.
//!
//! In: messages of one generation after another. Out: records, in order, to the writer's queue.
//! Shape: one future on a thread of its own, so that decoding holds up neither the writer nor a thread that serves
//! sockets. A fault ends the reading of a generation (`read_generation`), and `recover` finds out how to continue.
//! Bounds: one record, which is held unpacked and decoded for a moment, and the writer's queue. The queue counts decoded
//! records only.
//! Invariant: a record is passed on only if it continues the chain of records ([`RecordChain`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use chain_solana::Reader;
use chain_solana::wire::{
    BlockName, BlockRecord, MarksRecord, ReadRecord, Record, RecordChain, RecordDigest,
    RecordReader, WireError,
};
use follow::bank::LandedVotes;
use replicated_log::{Log, MessageKind, ReadError, StoredMessage};
use solana_account::ReadableAccount;
use tokio::sync::mpsc;

use crate::clock::now;
use crate::config::ReplicaConfig;
use crate::fault::{Fault, check_level, level_name};
use crate::fault_kind::FaultKind;
use crate::input_queue::{BlockInput, Input, InputSender, WriterEnded};
use crate::log_position::{LogPosition, RecentBlocks, RecordPosition};
use crate::snapshot_cache::SnapshotCopies;
use crate::snapshots::SnapshotSources;
use crate::status::{ReplicaStatus, error_text};
use crate::stuck_time::StuckTime;

mod recover;

/// Checks of the log's extent without a new message, after which messages that it counts are missing.
const IDLE_CHECKS_MAX: u32 = 5;

/// The reader of the log.
pub(crate) struct LogFollower {
    pub(crate) config: Arc<ReplicaConfig>,
    pub(crate) sources: SnapshotSources,
    pub(crate) reader: Reader,
    pub(crate) status: Arc<ReplicaStatus>,
    pub(crate) inputs: InputSender,
    /// The faults that halted the writer.
    pub(crate) faults: mpsc::Receiver<Fault>,
    pub(crate) at: LogPosition,
    /// Digest of the first record of the current generation, if it is known.
    pub(crate) first_digest: Option<RecordDigest>,
    pub(crate) recent: RecentBlocks,
    /// Attempts to read a damaged record again, since the last good record.
    pub(crate) rereads: u32,
    /// The time that the replica has been stuck since the last good record.
    pub(crate) stuck_time: StuckTime,
    /// Generation and sequence of the last report of a fault.
    pub(crate) reported: Option<(u64, u64)>,
    pub(crate) copies: SnapshotCopies,
}

/// Why the reading of a generation ended.
pub(crate) enum ReadEnd {
    Fault(Fault),
    WriterEnded,
}

impl From<Fault> for ReadEnd {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<WriterEnded> for ReadEnd {
    fn from(_: WriterEnded) -> Self {
        Self::WriterEnded
    }
}

impl LogFollower {
    /// Reads until the writer has ended.
    pub(crate) async fn run(mut self) {
        loop {
            let ReadEnd::Fault(mut fault) = self.read_generation().await else { return };
            self.show_fault(&fault);
            if let Some(cause) = self.find_cause(&fault).await {
                self.show_fault(&cause);
                fault = cause;
            }
            if self.recover(fault).await.is_err() {
                return;
            }
        }
    }

    fn show_fault(&self, fault: &Fault) {
        tracing::warn!(what = fault.name(), "reading the log: {}", error_text(fault));
        self.status.set_fault(fault);
    }

    /// Finds the cause of an outage in the list of generations: the generation was deleted, or another one has followed
    /// it. Returns `None` if the generation exists, or if no server replies.
    async fn find_cause(&self, fault: &Fault) -> Option<Fault> {
        if !fault.is_outage() {
            return None;
        }
        let generation = self.at.generation;
        let newest = self.sources.newest_generation(Some(generation)).await.ok()?;
        match newest {
            Some(newest) if newest > generation => Some(Fault::Generation { generation, newest }),
            Some(newest) if newest == generation => None,
            _ => Some(Fault::Gone { generation }),
        }
    }

    /// Reads the current generation from the current position. Returns at a fault.
    async fn read_generation(&mut self) -> ReadEnd {
        match self.try_read_generation().await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn try_read_generation(&mut self) -> Result<std::convert::Infallible, ReadEnd> {
        let idle = self.config.idle_check_interval;
        let log =
            self.sources.space.open_generation(self.at.generation).await.map_err(Fault::from)?;
        let start = self.at.sequence;
        self.check_extent(&*log, start).await?;
        let mut reader = log.read(start).await.map_err(Fault::from)?;
        let mut records = RecordReader::after(self.at.chain);
        let mut last = start;
        let mut checked = now();
        let mut idle_checks = 0;
        if let Ok(fault) = self.faults.try_recv() {
            return Err(fault.into());
        }
        let mut is_following = self.status.pending() == 0;
        if is_following {
            self.status.set_following();
        }
        loop {
            let next = tokio::select! {
                biased;
                fault = self.faults.recv() => match fault {
                    Some(fault) => return Err(fault.into()),
                    None => return Err(ReadEnd::WriterEnded),
                },
                next = tokio::time::timeout(idle, reader.next()) => next,
            };
            let Ok(next) = next else {
                self.check_newest(&*log, last).await?;
                checked = now();
                let pending = self.status.pending();
                idle_checks = if pending > 0 { idle_checks + 1 } else { 0 };
                if idle_checks == IDLE_CHECKS_MAX {
                    let wanted = last + 1;
                    return Err(Fault::NotDelivered { wanted, last: last + pending }.into());
                }
                continue;
            };
            idle_checks = 0;
            let StoredMessage { sequence, kind, payload, pending } =
                next.map_err(|err| self.read_fault(err))?;
            if sequence <= last {
                self.status.count_fault(FaultKind::Repeated);
                continue;
            }
            let wanted = last + 1;
            if sequence != wanted {
                return Err(Fault::Missing { wanted, found: sequence }.into());
            }
            last = sequence;
            if let Some(read) = self.push(&mut records, kind, payload)? {
                self.take_record(read, sequence).await?;
                if !is_following {
                    // Not before: a record that is refused again must not look like progress.
                    is_following = true;
                    self.status.set_following();
                }
            }
            self.status.record_message(pending);
            let bytes = self.inputs.bytes() as u64;
            self.status.queued_bytes.store(bytes, Ordering::Relaxed);
            if pending == 0 && is_due(checked, idle) {
                self.check_newest(&*log, last).await?;
                checked = now();
            }
        }
    }

    fn read_fault(&self, err: ReadError) -> Fault {
        match err {
            ReadError::Truncated { wanted, first } => Fault::Truncated { wanted, first },
            ReadError::Damaged { sequence: _, error } => Fault::Damaged(error),
            ReadError::Missing { wanted, found } => Fault::Missing { wanted, found },
            ReadError::Gone => Fault::Gone { generation: self.at.generation },
            ReadError::Log(err) => err.into(),
        }
    }

    fn push(
        &self,
        records: &mut RecordReader,
        kind: MessageKind,
        payload: Bytes,
    ) -> Result<Option<ReadRecord>, Fault> {
        let is_head = matches!(kind, MessageKind::Head);
        records.push(is_head, payload).map_err(|err| match err {
            WireError::Version { found, known } => Fault::Version { found, known },
            err => Fault::Record { number: self.at.chain.number, err },
        })
    }

    /// Checks the next record of the chain, and passes it on.
    async fn take_record(&mut self, read: ReadRecord, sequence: u64) -> Result<(), ReadEnd> {
        let ReadRecord { record, digest } = read;
        if self.at.sequence == 0 && !matches!(record, Record::Snapshot(_)) {
            let kind = record.name();
            return Err(Fault::FirstRecord { generation: self.at.generation, kind }.into());
        }
        let writer = record.writer();
        let chain = RecordChain { number: record.link().number, digest, writer: Some(writer) };
        check_level(writer, chain.number, self.config.level_min)?;
        let generation = self.at.generation;
        let at = LogPosition { generation, sequence, chain };
        match record {
            Record::Block(record) => {
                let slot = record.block.id.slot;
                let number = chain.number;
                let bytes = record_bytes(&record);
                let mut votes = LandedVotes::default();
                votes.read(0, &record.block.transactions);
                let position = RecordPosition { generation, sequence, number, digest };
                let block = BlockInput { record: *record, position, votes };
                self.inputs.send(Input::Block(Box::new(block)), bytes).await?;
                self.recent.push(BlockName { slot, number }, digest);
                self.status.record_read_block(slot);
            }
            Record::Marks(record) => {
                let bytes = size_of_val(&record.marks[..]);
                let MarksRecord { marks, made_at_ms, writer, .. } = record;
                let marks = Input::Marks { marks, made_at_ms, level: writer.level };
                self.inputs.send(marks, bytes).await?;
            }
            Record::Term(record) => {
                tracing::info!(
                    term = record.writer.term,
                    level = level_name(record.writer.level),
                    "the log has a new writer: {}",
                    record.reason
                );
            }
            Record::Snapshot(record) => self.status.record_snapshot(record.made_at_ms),
        }
        if self.at.sequence == 0 {
            self.first_digest = Some(digest);
        }
        self.at = at;
        self.rereads = 0;
        self.stuck_time = StuckTime::default();
        self.status.record_position(&at);
        Ok(())
    }

    /// Fails if the log no longer has the message after `last`, or ends before `last`.
    async fn check_extent(&self, log: &dyn Log, last: u64) -> Result<(), Fault> {
        let tail = log.tail().await?;
        if tail.last < last {
            return Err(Fault::Rewound { last: tail.last, read: last });
        }
        let wanted = last + 1;
        if tail.first > wanted {
            return Err(Fault::Truncated { wanted, first: tail.first });
        }
        self.status.record_pending(tail.last - last);
        Ok(())
    }

    /// Fails if the log does not continue from here, or if a newer generation follows it.
    async fn check_newest(&self, log: &dyn Log, last: u64) -> Result<(), Fault> {
        let generation = self.at.generation;
        match self.sources.newest_generation(Some(generation)).await? {
            Some(newest) if newest > generation => Err(Fault::Generation { generation, newest }),
            Some(newest) if newest == generation => self.check_extent(log, last).await,
            _ => Err(Fault::Gone { generation }),
        }
    }
}

fn is_due(checked: Instant, interval: Duration) -> bool {
    now().saturating_duration_since(checked) >= interval
}

/// Estimates the bytes of a decoded record.
fn record_bytes(record: &BlockRecord) -> usize {
    let accounts = record.accounts.iter().map(|write| {
        size_of_val(write) + write.account.as_ref().map_or(0, |account| account.0.data().len())
    });
    accounts.sum::<usize>() + usize::try_from(record.block.bytes()).unwrap_or(usize::MAX)
}
