//! Archives the final blocks of a replica in the store of its snapshots.
//!
//! In: the history, which is read at an interval, so that blocks do not wait in a queue of their own.
//! Out: the objects of [`cluster_snapshot::archive`].
//! Behaviour on faults: a store that fails is tried again. If a block is missing, because this replica started later than
//! the archive ends, the archive stays at that slot until another replica has archived it; the log and the metrics say so.
//! Not here: the format of an archive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chain_solana::{Block, ClusterInfo, History};
use cluster_snapshot::archive::{ArchiveError, ArchiveLimits, ArchiveWriter};
use depot::Depot;
use ledger::{Commitment, Slot};
use metrics::{Collector, Exposition, MetricKind};
use tokio::time::MissedTickBehavior;

/// Interval at which new final blocks are archived. An object has the blocks of minutes.
const INTERVAL: Duration = Duration::from_secs(2);
/// Blocks that are taken out of the history at once.
const BLOCKS_MAX: usize = 256;

/// Archives final blocks.
pub(super) struct Archiver {
    depot: Depot,
    cluster: String,
    /// It has the epochs of the chain, at which objects end.
    info: ClusterInfo,
    history: Arc<History>,
    metrics: Arc<ArchiveMetrics>,
}

/// The progress of an archive.
#[derive(Debug, Default)]
struct ArchiveMetrics {
    last_slot: AtomicU64,
    objects: AtomicU64,
    failures: AtomicU64,
    holes: AtomicU64,
    disagreements: AtomicU64,
}

impl Archiver {
    /// Creates an archiver of the final blocks of a history.
    pub(super) fn new(
        depot: Depot,
        cluster: &str,
        info: ClusterInfo,
        history: Arc<History>,
    ) -> Self {
        let metrics = Arc::default();
        Self { depot, cluster: cluster.to_owned(), info, history, metrics }
    }

    /// Returns the progress of the archive.
    pub(super) fn metrics(&self) -> Arc<dyn Collector> {
        Arc::clone(&self.metrics) as Arc<dyn Collector>
    }

    /// Archives until the task is aborted.
    pub(super) async fn run(self) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut progress = None;
        loop {
            ticks.tick().await;
            let archived = match progress.take() {
                Some(progress) => self.archive(progress).await,
                None => self.open().await,
            };
            match archived {
                Ok(next) => progress = Some(next),
                // The archive is opened again at the next tick: another replica may have continued it.
                Err(err @ ArchiveError::Hole { .. }) => {
                    self.metrics.holes.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!("the archive cannot be continued: {err}");
                }
                Err(err) => {
                    self.metrics.failures.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!("cannot archive final blocks: {err}");
                }
            }
        }
    }

    /// Opens the archive after its newest object.
    async fn open(&self) -> Result<ArchiveProgress, ArchiveError> {
        let limits = ArchiveLimits::default();
        let schedule = self.info.epoch_schedule.clone();
        let depot = self.depot.clone();
        let writer = ArchiveWriter::open(depot, &self.cluster, schedule, limits).await?;
        let next = writer.next_slot().unwrap_or_default();
        self.metrics.last_slot.fetch_max(next.saturating_sub(1), Ordering::Relaxed);
        self.archive(ArchiveProgress { writer, next }).await
    }

    /// Archives the final blocks that the history has.
    async fn archive(
        &self,
        mut progress: ArchiveProgress,
    ) -> Result<ArchiveProgress, ArchiveError> {
        loop {
            let blocks = self.final_blocks(progress.next);
            let Some(last) = blocks.last() else { return Ok(progress) };
            progress.next = last.id.slot + 1;
            for block in &blocks {
                let disagreements = progress.writer.disagreements();
                let pushed = progress.writer.push(block).await;
                let found = progress.writer.disagreements() - disagreements;
                self.metrics.disagreements.fetch_add(found, Ordering::Relaxed);
                for object in pushed? {
                    self.metrics.objects.fetch_add(1, Ordering::Relaxed);
                    self.metrics.last_slot.fetch_max(object.last, Ordering::Relaxed);
                    tracing::info!(key = object.key, "archived final blocks");
                }
                // A block takes milliseconds to compress, on a thread that serves requests, too.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Returns final blocks from a slot on, at most [`BLOCKS_MAX`].
    fn final_blocks(&self, from: Slot) -> Vec<Arc<Block>> {
        let history = self.history.snapshot();
        let blocks = history.blocks(from.., Commitment::Finalized);
        blocks.take(BLOCKS_MAX).cloned().collect()
    }
}

/// An open archive.
struct ArchiveProgress {
    writer: ArchiveWriter,
    /// The first slot that was not pushed.
    next: Slot,
}

impl Collector for ArchiveMetrics {
    fn write(&self, out: &mut Exposition) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let help = "The last slot of the archive's newest object.";
        let last = count(&self.last_slot);
        out.single("hydrant_archive_last_slot", MetricKind::Gauge, help, last);
        let help = "Objects that this node has written, attempts that failed because of the store or because a final \
                    block is missing, and objects that another node has written with other content.";
        let mut family = out.family("hydrant_archive_events_total", MetricKind::Counter, help);
        for (event, counter) in [
            ("object", &self.objects),
            ("failure", &self.failures),
            ("hole", &self.holes),
            ("disagreement", &self.disagreements),
        ] {
            family.put(&[("event", event)], count(counter));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use chain_solana::HistoryLimits;
    use cluster_snapshot::archive::{ArchiveObject, list_archive};
    use depot::DepotConfig;
    use testkit::cluster_info::cluster_info;
    use testkit::test_ledger::{TestLedger, TestLedgerConfig, block_info};

    use super::*;

    /// A ledger with final blocks in these slots.
    fn ledger(slots: RangeInclusive<Slot>) -> TestLedger {
        let history = HistoryLimits { blocks_max: 5_000, bytes_max: 1 << 30 };
        let config = TestLedgerConfig { history, ..TestLedgerConfig::default() };
        let mut ledger = TestLedger::new(block_info(slots.start() - 1), Vec::new(), config);
        slots.for_each(|slot| add_final_block(&mut ledger, slot));
        ledger
    }

    fn add_final_block(ledger: &mut TestLedger, slot: Slot) {
        ledger.open(slot);
        ledger.complete();
        ledger.confirm();
        ledger.finalize();
    }

    fn archiver(depot: &Depot, ledger: &TestLedger) -> Archiver {
        Archiver::new(depot.clone(), "c", cluster_info(), Arc::clone(ledger.history()))
    }

    async fn objects(depot: &Depot) -> Vec<RangeInclusive<Slot>> {
        let objects = list_archive(depot, "c").await.expect("a list");
        objects.iter().map(ArchiveObject::slots).collect()
    }

    #[tokio::test]
    async fn final_blocks_are_archived_once_and_another_replica_continues() {
        let depot = Depot::open("memory:", &DepotConfig::default()).expect("a store");
        let mut first = ledger(991..=1_099);
        let archived = archiver(&depot, &first);
        let progress = archived.open().await.expect("an archive");
        assert_eq!((progress.next, objects(&depot).await), (1_100, Vec::new()));
        add_final_block(&mut first, 1_100);
        let progress = archived.archive(progress).await.expect("an object");
        assert_eq!((progress.next, objects(&depot).await), (1_101, vec![1_000..=1_099]));
        let mut out = Exposition::default();
        archived.metrics().write(&mut out);
        let text = out.into_string();
        assert!(text.contains("hydrant_archive_last_slot 1099\n"), "{text}");

        let other = archiver(&depot, &first).open().await.expect("an archive");
        assert_eq!((other.next, objects(&depot).await), (1_101, vec![1_000..=1_099]));
        // A replica whose history begins later cannot fill the slots in between.
        let late = archiver(&depot, &ledger(1_201..=1_202)).open().await;
        assert!(matches!(late.err(), Some(ArchiveError::Hole { slot: 1_201, .. })));
        assert_eq!(objects(&depot).await.len(), 1);
    }
}
