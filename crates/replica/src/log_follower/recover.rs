//! Continues after a fault of the log: by waiting, by reading again, in a newer generation of the log, or from a
//! snapshot.
//!
//! In: the fault. Out: a new position, which the writer's state fits to.
//! Bounds: [`REREADS_MAX`] attempts to read the same record again, then one attempt each
//! [`ReplicaConfig::retry_interval`](crate::ReplicaConfig) until a snapshot is found. After
//! [`ReplicaConfig::report_delay`](crate::ReplicaConfig) a mendable fault is reported ([`FaultScope`]).
//! Not here: the jump itself (`writer/jump.rs`).

use chain_solana::wire::{BlockKey, BlockName, RecordChain, SnapshotRecord};
use cluster_snapshot::ManifestKey;
use cluster_snapshot::fault_reports::{FaultReport, FaultScope};
use ledger::Commitment;
use replicated_log::LogError;
use tokio::time::Instant;

use super::LogFollower;
use crate::clock::{now, unix_ms};
use crate::fault::{Fault, check_level};
use crate::first_record::FirstRecord;
use crate::input_queue::{Input, Jump, Rebase, WriterEnded};
use crate::log_position::{LogPosition, RecentBlocks, RecordPosition};
use crate::snapshots::{LogExtent, UsableSnapshot};
use crate::status::{LoadReason, error_text};
use crate::stuck_time::StuckTime;

/// Attempts to read a damaged record again before the replica jumps: another server of the log may have it undamaged.
const REREADS_MAX: u32 = 2;

/// Why the replica could not continue.
pub(super) enum RecoverError {
    WriterEnded,
    /// The log cannot be reached. Only time helps.
    Unreachable(String),
    /// The newest generation has no snapshot to jump to.
    NoSnapshot {
        generation: u64,
        reasons: String,
    },
    /// The first ingester of the newest generation has too low a level of proof, and the generation has no snapshot of
    /// a higher one.
    Level(Fault),
}

impl From<WriterEnded> for RecoverError {
    fn from(_: WriterEnded) -> Self {
        Self::WriterEnded
    }
}

/// Why the ledger did not jump to a snapshot.
enum JumpError {
    WriterEnded(WriterEnded),
    /// The snapshot cannot be loaded, or the ledger refuses it.
    Refused(String),
}

impl From<WriterEnded> for JumpError {
    fn from(ended: WriterEnded) -> Self {
        Self::WriterEnded(ended)
    }
}

fn log_unreachable(err: LogError) -> RecoverError {
    RecoverError::Unreachable(error_text(&err))
}

impl LogFollower {
    /// Continues after a fault. Returns when reading can be tried from [`Self::at`].
    pub(super) async fn recover(&mut self, mut fault: Fault) -> Result<(), WriterEnded> {
        if fault.is_outage() {
            self.stuck_time.note_outage(Instant::now());
            tokio::time::sleep(self.config.retry_interval).await;
            return Ok(());
        }
        if fault.is_read_fault() && self.rereads < REREADS_MAX {
            self.rereads += 1;
            tokio::time::sleep(self.config.reread_interval).await;
            return Ok(());
        }
        loop {
            let text = match self.find_continuation(&fault).await {
                Ok(()) => {
                    // Those of the time before the jump.
                    while self.faults.try_recv().is_ok() {}
                    self.rereads = 0;
                    self.stuck_time = StuckTime::default();
                    return Ok(());
                }
                Err(RecoverError::WriterEnded) => return Err(WriterEnded),
                Err(RecoverError::Unreachable(text)) => {
                    self.stuck_time.note_outage(Instant::now());
                    text
                }
                Err(RecoverError::NoSnapshot { generation, reasons }) => {
                    self.report_if_stuck(&fault, generation).await;
                    reasons
                }
                Err(RecoverError::Level(level)) => {
                    fault = level;
                    fault.to_string()
                }
            };
            tracing::warn!("no way to continue after {}: {text}", fault.name());
            self.status.show_fault(&fault);
            self.status.set_lacks_snapshot();
            tokio::time::sleep(self.config.retry_interval).await;
            if fault.is_read_fault() {
                // The log may have been repaired.
                return Ok(());
            }
        }
    }

    /// Reports a fault at which the replica has been stuck for some time, if a snapshot mends it. If all replicas meet
    /// it, none of them writes the snapshot that they need.
    async fn report_if_stuck(&mut self, fault: &Fault, generation: u64) {
        if FaultScope::from_fault(fault.name()).is_none() {
            return;
        }
        let stuck_time = self.stuck_time.note_attempt(Instant::now());
        let sequence = if generation == self.at.generation { self.at.sequence } else { 0 };
        let position = Some((generation, sequence));
        if stuck_time < self.config.report_delay || self.reported == position {
            return;
        }
        let report = FaultReport {
            cluster: self.config.cluster.clone(),
            generation,
            sequence,
            record: self.at.chain.number,
            slot: self.status.read_slot(),
            confirmed: self.reader.view(Commitment::Confirmed).block().slot,
            what: fault.name().to_owned(),
            made_at_ms: unix_ms(),
        };
        let key = report.key();
        match self.sources.depot.put_new(&key, report.to_text().into()).await {
            Ok(_) => {
                tracing::error!(key, what = fault.name(), "reported a fault to the ingesters");
                self.reported = position;
            }
            Err(err) => {
                tracing::warn!(err = &err as &dyn std::error::Error, "cannot report a fault");
            }
        }
    }

    async fn find_continuation(&mut self, fault: &Fault) -> Result<(), RecoverError> {
        let newest = self.sources.newest_generation(None).await.map_err(log_unreachable)?;
        let Some(generation) = newest else {
            return Err(RecoverError::Unreachable("the log has no records".into()));
        };
        let log = self.sources.space.open_generation(generation).await.map_err(log_unreachable)?;
        let extent = LogExtent::new(generation, &*log, self.config.idle_check_interval).await;
        let extent = extent.map_err(|err| match err.is_damage() {
            true => RecoverError::NoSnapshot { generation, reasons: error_text(&err) },
            false => log_unreachable(err),
        })?;
        let mut level = None;
        if let Some(first) = &extent.first
            && self.is_other_log(generation, first)
        {
            let SnapshotRecord { writer, link, .. } = &first.record;
            level = check_level(*writer, link.number, self.config.level_min).err();
            if level.is_none() && self.continue_in(generation, first).await? {
                return Ok(());
            }
        }
        let confirmed = self.reader.view(Commitment::Confirmed).block().slot;
        let found = self.sources.find_usable(&self.config.cluster, &extent, Some(confirmed)).await;
        let mut reasons = found.reasons_text();
        for snapshot in found.usable {
            self.status.set_loading();
            let started = now();
            match self.jump_to(&snapshot).await {
                Ok(()) => {
                    let elapsed = now().saturating_duration_since(started).as_millis() as u64;
                    self.status.record_load(LoadReason::from_fault(fault), elapsed);
                    self.first_digest = extent.first_digest();
                    return Ok(());
                }
                Err(JumpError::WriterEnded(ended)) => return Err(ended.into()),
                Err(JumpError::Refused(text)) => {
                    reasons = format!("{reasons}; {}: {text}", snapshot.manifest.key());
                }
            }
        }
        Err(level.map_or(RecoverError::NoSnapshot { generation, reasons }, RecoverError::Level))
    }

    /// Whether a log is not the one that was read so far. A generation that was deleted may have been created again.
    fn is_other_log(&self, generation: u64, first: &FirstRecord) -> bool {
        let is_replaced = self.first_digest.is_some_and(|known| known != first.digest);
        generation != self.at.generation || is_replaced
    }

    /// Continues in a new generation without a snapshot, if its first record names a block that the ledger has, or one
    /// that is not above the confirmed block. The digest of the block's record is unknown if the generation's opener
    /// did not read the generation before.
    async fn continue_in(
        &mut self,
        generation: u64,
        first: &FirstRecord,
    ) -> Result<bool, WriterEnded> {
        let FirstRecord { record, digest, sequence } = first;
        let BlockName { slot, number } = record.block;
        let known = self.recent.find(slot, &record.block_digest).map(|block| block.number);
        let key = ManifestKey::parse(&record.manifest_key).filter(|key| key.slot == slot);
        let key = key.map(|key| BlockKey { slot, blockhash: key.blockhash });
        let position =
            RecordPosition { generation, sequence: 0, number, digest: record.block_digest };
        let rebase = |done| Input::Rebase(Rebase { slot, known, key, position, done });
        if !self.inputs.request(rebase).await?.unwrap_or(false) {
            return Ok(false);
        }
        tracing::info!(generation, slot, "continues in a new generation of the log");
        self.recent.push(record.block, record.block_digest);
        let writer = Some(record.writer);
        let chain = RecordChain { number: record.link.number, digest: *digest, writer };
        self.at = LogPosition { generation, sequence: *sequence, chain };
        self.first_digest = Some(*digest);
        Ok(true)
    }

    /// Compares a snapshot with the ledger, and jumps to it.
    async fn jump_to(&mut self, snapshot: &UsableSnapshot) -> Result<(), JumpError> {
        let view = self.inputs.request(Input::State).await?;
        let Some(view) = view else { return Err(WriterEnded.into()) };
        let from = view.block();
        let compared =
            snapshot.compare(&self.config, view, self.reader.clone(), &self.status).await;
        let changes = compared.map_err(|err| JumpError::Refused(error_text(&*err)))?;
        let bank = snapshot.bank.clone();
        let position = bank.log_position();
        let name = bank.name();
        let digest = bank.position.digest;
        let jump = |done| Input::Jump(Box::new(Jump { from, bank, changes, done }));
        match self.inputs.request(jump).await? {
            None => return Err(WriterEnded.into()),
            Some(Err(refusal)) => return Err(JumpError::Refused(error_text(&refusal))),
            Some(Ok(())) => {}
        }
        self.status.record_snapshot(snapshot.manifest.made_at_ms);
        if !snapshot.is_cached {
            self.copies.request(&snapshot.manifest);
        }
        self.status.record_position(&position);
        self.at = position;
        self.recent = RecentBlocks::default();
        self.recent.push(name, digest);
        Ok(())
    }
}
