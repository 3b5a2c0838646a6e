//! Archives the final blocks of a replica in the store of its snapshots.
//!
//! In: the history, which is read at an interval, so that blocks do not wait in a queue of their own. The log, for blocks
//! that the history lacks, because this replica started later than the archive ends, or jumped to a snapshot.
//! Out: the objects of [`cluster_snapshot::archive`].
//! Behaviour on faults: a store or a log that fails is tried again. If neither the history nor the log has a block, the
//! archive waits [`HOLE_TIMEOUT`] for another replica, and reads a log again that could not be read to its end, after
//! pauses that double. Then it records a hole, and continues after it. Each range of an open hole is filled if a
//! replica has its blocks (`fill`). The log and the metrics report it.
//! Shape: one task runs two loops, for new blocks and for holes. A fill may read the whole log; meanwhile the history
//! could drop blocks that are not archived.
//! Memory: for archiving and for fills, an open object and a reader of the log each.
//! Not here: the format of an archive, how a log is read (`replica::LoggedBlocks`), the final blocks that the history
//! lacks (`close_gap`).

mod close_gap;
mod fill;
mod gap;
mod log_reads;
mod logged_block_reader;
mod metrics;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::metrics::Collector;
use anyhow::Result;
use chain_solana::{Block, ClusterInfo, History};
use cluster_snapshot::archive::{ArchiveError, ArchiveLimits, ArchiveObject, ArchiveWriter};
use depot::Depot;
use ledger::{Commitment, Slot};
use replicated_log::LogSpace;
use solana::VerificationLevel;
use tokio::time::{Interval, MissedTickBehavior};

use self::gap::ArchiveGap;
use self::log_reads::LogReads;
use self::metrics::{ArchiveMetrics, ReportedBytes};

/// Interval at which new final blocks are archived. An object has the blocks of minutes.
const INTERVAL: Duration = Duration::from_secs(2);
/// Interval at which open holes are tried again.
const FILL_INTERVAL: Duration = Duration::from_secs(600);
/// Time for which a missing block is left to another replica, which may still archive it. A history retains an hour by
/// default; a hole that is recorded too early is filled later.
const HOLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Blocks that are taken out of the history at once.
const BLOCKS_MAX: usize = 256;

/// Archives final blocks.
pub(super) struct Archiver {
    depot: Depot,
    /// The log, which may have blocks that the history lacks.
    space: Arc<dyn LogSpace>,
    cluster: String,
    /// It has the epochs of the chain, at which objects end.
    info: ClusterInfo,
    history: Arc<History>,
    /// The lowest level of proof of an ingester whose blocks are read from the log.
    level_min: Option<VerificationLevel>,
    hole_timeout: Duration,
    metrics: Arc<ArchiveMetrics>,
}

/// An open archive.
struct ArchiveProgress {
    writer: ArchiveWriter,
    /// The first slot that was not pushed.
    next: Slot,
    /// The final block that is waited for.
    gap: Option<ArchiveGap>,
    /// The bytes of the open object.
    reported: ReportedBytes,
}

impl ArchiveProgress {
    fn new(writer: ArchiveWriter, metrics: &ArchiveMetrics) -> Self {
        let next = writer.next_slot().unwrap_or_default();
        Self { writer, next, gap: None, reported: ReportedBytes::new(&metrics.object_bytes) }
    }

    /// Reports the bytes of the open object, after they have changed.
    fn report_bytes(&mut self) {
        self.reported.set(self.writer.open_bytes());
    }
}

impl Archiver {
    /// Creates an archiver of the final blocks of a history, and of the log that it follows.
    pub(super) fn new(
        depot: Depot,
        space: Arc<dyn LogSpace>,
        cluster: &str,
        info: ClusterInfo,
        history: Arc<History>,
    ) -> Self {
        Self {
            depot,
            space,
            cluster: cluster.to_owned(),
            info,
            history,
            level_min: None,
            hole_timeout: HOLE_TIMEOUT,
            metrics: Arc::default(),
        }
    }

    /// Reads blocks of the log only if their ingester has this level of proof.
    pub(super) fn with_level_min(self, level_min: Option<VerificationLevel>) -> Self {
        Self { level_min, ..self }
    }

    /// Returns the progress of the archive.
    pub(super) fn metrics(&self) -> Arc<dyn Collector> {
        Arc::clone(&self.metrics) as Arc<dyn Collector>
    }

    /// Archives until the task is aborted.
    pub(super) async fn run(self) {
        tokio::join!(self.run_archive(), self.run_fills());
    }

    async fn run_archive(&self) {
        let mut progress = None;
        let mut ticks = start_ticks(INTERVAL);
        loop {
            ticks.tick().await;
            if let Err(err) = self.archive_once(&mut progress).await {
                self.metrics.failures.fetch_add(1, Ordering::Relaxed);
                tracing::warn!("cannot archive final blocks: {err:#}");
            }
        }
    }

    async fn run_fills(&self) {
        let mut log_reads = LogReads::default();
        let mut ticks = start_ticks(FILL_INTERVAL);
        loop {
            ticks.tick().await;
            if let Err(err) = self.fill_holes(&mut log_reads).await {
                self.metrics.failures.fetch_add(1, Ordering::Relaxed);
                tracing::warn!("cannot fill the holes of the archive: {err:#}");
            }
        }
    }

    /// Archives the final blocks that are known by now. Opens the archive first, unless it is open.
    async fn archive_once(&self, progress: &mut Option<ArchiveProgress>) -> Result<()> {
        if progress.is_none() {
            *progress = Some(self.open().await?);
        }
        if let Some(progress) = progress {
            // After a failure the same block is pushed again.
            self.archive(progress).await?;
        }
        Ok(())
    }

    /// Opens the archive after its newest object or hole.
    async fn open(&self) -> Result<ArchiveProgress> {
        let limits = ArchiveLimits::default();
        let schedule = self.info.epoch_schedule.clone();
        let depot = self.depot.clone();
        let writer = ArchiveWriter::open(depot, &self.cluster, schedule, limits).await?;
        let progress = ArchiveProgress::new(writer, &self.metrics);
        self.metrics.last_slot.fetch_max(progress.next.saturating_sub(1), Ordering::Relaxed);
        Ok(progress)
    }

    /// Archives the final blocks of the history, and those of the log that are missing before them.
    async fn archive(&self, progress: &mut ArchiveProgress) -> Result<()> {
        loop {
            let blocks = self.final_blocks(progress.next);
            if blocks.is_empty() {
                return Ok(());
            }
            for block in &blocks {
                if self.push(progress, block).await? {
                    continue;
                }
                if !self.close_gap(progress, block).await? {
                    return Ok(());
                }
                break;
            }
        }
    }

    /// Pushes a block. Returns `false` if a final block before it is missing, or if it is of another chain than the end of
    /// the hole that is filled.
    async fn push(&self, progress: &mut ArchiveProgress, block: &Block) -> Result<bool> {
        let disagreements = progress.writer.disagreements();
        let pushed = progress.writer.push(block).await;
        progress.report_bytes();
        let found = progress.writer.disagreements() - disagreements;
        self.metrics.disagreements.fetch_add(found, Ordering::Relaxed);
        // A block takes milliseconds to compress, on a thread that serves requests, too.
        tokio::task::yield_now().await;
        let written = match pushed {
            Ok(written) => written,
            Err(ArchiveError::Hole { .. }) => return Ok(false),
            Err(err @ ArchiveError::OtherChain { .. }) => {
                self.metrics.disagreements.fetch_add(1, Ordering::Relaxed);
                tracing::error!("{err}");
                return Ok(false);
            }
            Err(err) => return Err(err.into()),
        };
        progress.next = progress.next.max(block.id.slot.saturating_add(1));
        written.iter().for_each(|object| self.note_object(object));
        Ok(true)
    }

    fn note_object(&self, object: &ArchiveObject) {
        self.metrics.objects.fetch_add(1, Ordering::Relaxed);
        self.metrics.last_slot.fetch_max(object.last, Ordering::Relaxed);
        tracing::info!(key = object.key, "archived final blocks");
    }

    /// Returns final blocks of the history from a slot on, at most [`BLOCKS_MAX`].
    fn final_blocks(&self, from: Slot) -> Vec<Arc<Block>> {
        let history = self.history.snapshot();
        let blocks = history.blocks(from.., Commitment::Finalized);
        blocks.take(BLOCKS_MAX).cloned().collect()
    }
}

/// Starts ticks that are at least an interval apart.
fn start_ticks(interval: Duration) -> Interval {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
