//! Archives of replicas that start at different times, over a store in memory.

use std::ops::RangeInclusive;
use std::sync::atomic::AtomicU64;

use ::metrics::Exposition;
use chain_solana::HistoryLimits;
use cluster_snapshot::archive::{
    ArchiveFault, ArchiveHoleKey, check_archive, list_archive, list_holes,
};
use depot::DepotConfig;
use futures_util::future::{BoxFuture, ready};
use replicated_log::{
    AppendError, Log, LogError, LogMessage, LogReader, ReadError, StoredMessage, Tail,
};
use tempfile::TempDir;
use testkit::cluster_info::cluster_info;
use testkit::test_ledger::{TestLedger, TestLedgerConfig, block_info};

use super::*;
use crate::cluster_log::{ClusterLogConfig, open_log};

/// A store in memory, and a log without generations.
struct Stores {
    depot: Depot,
    space: Arc<dyn LogSpace>,
    _dir: TempDir,
}

impl Stores {
    async fn open() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let url = format!("file://{}", dir.path().display());
        let space = open_log(&ClusterLogConfig::new(&url, "")).await.expect("a log");
        let depot = Depot::open("memory:", &DepotConfig::default()).expect("a store");
        Self { depot, space, _dir: dir }
    }

    /// An archiver that waits for other replicas up to `hole_timeout`.
    fn archiver(&self, ledger: &TestLedger, hole_timeout: Duration) -> Archiver {
        let space = Arc::clone(&self.space);
        let history = Arc::clone(ledger.history());
        let archiver = Archiver::new(self.depot.clone(), space, "c", cluster_info(), history);
        Archiver { hole_timeout, ..archiver }
    }

    /// Archives the final blocks of a ledger at once. Returns the metrics.
    async fn archive(&self, ledger: &TestLedger) -> String {
        let archiver = self.archiver(ledger, Duration::ZERO);
        archiver.run_once(&mut ArchiverState::default()).await.expect("a store");
        expose(&archiver)
    }

    async fn objects(&self) -> Vec<RangeInclusive<Slot>> {
        let objects = list_archive(&self.depot, "c").await.expect("a list");
        objects.iter().map(ArchiveObject::slots).collect()
    }

    async fn holes(&self) -> Vec<RangeInclusive<Slot>> {
        let holes = list_holes(&self.depot, "c").await.expect("a list");
        holes.iter().map(ArchiveHoleKey::slots).collect()
    }
}

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

fn expose(archiver: &Archiver) -> String {
    let mut out = Exposition::default();
    archiver.metrics().write(&mut out);
    out.into_string()
}

#[tokio::test]
async fn final_blocks_are_archived_once_and_another_replica_continues() {
    let stores = Stores::open().await;
    let mut first = ledger(991..=1_099);
    let archiver = stores.archiver(&first, HOLE_TIMEOUT);
    let mut state = ArchiverState::default();
    archiver.run_once(&mut state).await.expect("a store");
    assert!(stores.objects().await.is_empty());
    add_final_block(&mut first, 1_100);
    archiver.run_once(&mut state).await.expect("a store");
    assert_eq!(stores.objects().await, [1_000..=1_099]);
    let text = expose(&archiver);
    assert!(text.contains("hydrant_archive_last_slot 1099\n"), "{text}");

    let other = stores.archiver(&first, HOLE_TIMEOUT);
    let mut state = ArchiverState::default();
    other.run_once(&mut state).await.expect("a store");
    assert_eq!(stores.objects().await, [1_000..=1_099]);
    let text = expose(&other);
    assert!(text.contains("events_total{event=\"object\"} 0\n"), "{text}");
}

#[tokio::test]
async fn a_replica_waits_for_another_one_before_it_records_a_hole() {
    let stores = Stores::open().await;
    let first = ledger(1_000..=1_100);
    let mut state = ArchiverState::default();
    stores.archiver(&first, HOLE_TIMEOUT).run_once(&mut state).await.expect("a store");
    // The history of this one begins later.
    let late = ledger(1_251..=1_450);
    let archiver = stores.archiver(&late, HOLE_TIMEOUT);
    let mut state = ArchiverState::default();
    for _ in 0..3 {
        archiver.run_once(&mut state).await.expect("a store");
        assert_eq!(stores.objects().await, [1_000..=1_099]);
        assert!(stores.holes().await.is_empty());
    }
    // Another one archives a part of the missing blocks.
    let other = ledger(1_000..=1_200);
    stores
        .archiver(&other, HOLE_TIMEOUT)
        .run_once(&mut ArchiverState::default())
        .await
        .expect("a store");
    archiver.run_once(&mut state).await.expect("a store");
    assert_eq!(stores.objects().await, [1_000..=1_099, 1_100..=1_199]);
    assert!(stores.holes().await.is_empty());
    // Its time is over.
    let archiver = Archiver { hole_timeout: Duration::ZERO, ..archiver };
    archiver.run_once(&mut state).await.expect("a store");
    assert_eq!(stores.holes().await, [1_200..=1_299]);
    let expected = [1_000..=1_099, 1_100..=1_199, 1_300..=1_399];
    assert_eq!(stores.objects().await, expected);
}

#[tokio::test]
async fn a_hole_is_counted_and_filled_by_a_replica_that_has_its_blocks() {
    let stores = Stores::open().await;
    let first = ledger(1_000..=1_150);
    stores
        .archiver(&first, Duration::ZERO)
        .run_once(&mut ArchiverState::default())
        .await
        .expect("a store");
    let late = ledger(1_251..=1_450);
    let archiver = stores.archiver(&late, Duration::ZERO);
    archiver.run_once(&mut ArchiverState::default()).await.expect("a store");
    assert_eq!(stores.holes().await, [1_100..=1_299]);
    assert_eq!(stores.objects().await, [1_000..=1_099, 1_300..=1_399]);
    let text = expose(&archiver);
    assert!(text.contains("hydrant_archive_hole_slots 200\n"), "{text}");
    assert!(text.contains("events_total{event=\"hole\"} 1\n"), "{text}");
    // It has a part of the blocks.
    let middle = ledger(1_090..=1_210);
    stores
        .archiver(&middle, HOLE_TIMEOUT)
        .run_once(&mut ArchiverState::default())
        .await
        .expect("a store");
    assert_eq!(stores.objects().await, [1_000..=1_099, 1_100..=1_199, 1_300..=1_399]);

    let whole = ledger(990..=1_350);
    let archiver = stores.archiver(&whole, HOLE_TIMEOUT);
    archiver.run_once(&mut ArchiverState::default()).await.expect("a store");
    let expected = [1_000..=1_099, 1_100..=1_199, 1_200..=1_299, 1_300..=1_399];
    assert_eq!(stores.objects().await, expected);
    let text = expose(&archiver);
    assert!(text.contains("hydrant_archive_hole_slots 0\n"), "{text}");
    assert!(text.contains("events_total{event=\"disagreement\"} 0\n"), "{text}");
    let faults = check_archive(&stores.depot, "c", true).await.expect("a store");
    assert!(faults.is_empty(), "{faults:?}");
}

#[tokio::test]
async fn whole_ranges_of_a_hole_without_its_start_are_archived() {
    let stores = Stores::open().await;
    stores.archive(&ledger(1_000..=1_150)).await;
    stores.archive(&ledger(1_451..=1_650)).await;
    assert_eq!(stores.holes().await, [1_100..=1_499]);
    // The last range has no block after it.
    let text = stores.archive(&ledger(1_190..=1_399)).await;
    let expected = [1_000..=1_099, 1_200..=1_299, 1_300..=1_399, 1_500..=1_599];
    assert_eq!(stores.objects().await, expected);
    assert!(text.contains("hydrant_archive_hole_slots 200\n"), "{text}");
    let faults = check_archive(&stores.depot, "c", true).await.expect("a store");
    let is_open = |fault: &ArchiveFault| matches!(fault, ArchiveFault::Open { .. });
    assert!(faults.len() == 2 && faults.iter().all(is_open), "{faults:?}");

    stores.archive(&ledger(1_090..=1_200)).await;
    let text = stores.archive(&ledger(1_380..=1_520)).await;
    assert!(text.contains("hydrant_archive_hole_slots 0\n"), "{text}");
    assert!(text.contains("events_total{event=\"disagreement\"} 0\n"), "{text}");
    let faults = check_archive(&stores.depot, "c", true).await.expect("a store");
    assert!(faults.is_empty(), "{faults:?}");
}

#[tokio::test]
async fn a_history_with_a_gap_fills_a_hole_on_both_sides_of_it() {
    let stores = Stores::open().await;
    stores.archive(&ledger(1_000..=1_150)).await;
    stores.archive(&ledger(1_551..=1_750)).await;
    assert_eq!(stores.holes().await, [1_100..=1_599]);
    // It jumped to a snapshot.
    let mut jumped = ledger(1_090..=1_210);
    jumped.jump(1_389, Vec::new());
    (1_390..=1_500).for_each(|slot| add_final_block(&mut jumped, slot));
    stores.archive(&jumped).await;
    let expected = [1_000..=1_099, 1_100..=1_199, 1_400..=1_499, 1_600..=1_699];
    assert_eq!(stores.objects().await, expected);
}

/// A log with one generation, whose readers end before its first message.
#[derive(Default)]
struct CutLog {
    /// Sequence of the last message.
    last: AtomicU64,
    reads: AtomicU64,
}

struct CutReader;

impl LogReader for CutReader {
    fn next(&mut self) -> BoxFuture<'_, Result<StoredMessage, ReadError>> {
        Box::pin(ready(Err(ReadError::Gone)))
    }
}

/// A log that is its own generation.
struct CutLogSpace(Arc<CutLog>);

impl Log for CutLog {
    fn append(&self, _: u64, _: Vec<LogMessage>) -> BoxFuture<'_, Result<u64, AppendError>> {
        unreachable!("an archiver reads")
    }

    fn tail(&self) -> BoxFuture<'_, Result<Tail, LogError>> {
        // It has lost its first message.
        let last = self.last.load(Ordering::Relaxed);
        Box::pin(ready(Ok(Tail { first: 2, last })))
    }

    fn read(&self, _: u64) -> BoxFuture<'_, Result<Box<dyn LogReader>, LogError>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Box::pin(ready(Ok(Box::new(CutReader) as Box<dyn LogReader>)))
    }
}

impl LogSpace for CutLogSpace {
    fn newest_generation(&self) -> BoxFuture<'_, Result<Option<u64>, LogError>> {
        Box::pin(ready(Ok(Some(0))))
    }

    fn create_generation(&self, _: u64) -> BoxFuture<'_, Result<bool, LogError>> {
        unreachable!("an archiver reads")
    }

    fn remove_generations_below(&self, _: u64) -> BoxFuture<'_, Result<usize, LogError>> {
        unreachable!("an archiver reads")
    }

    fn open_generation(&self, _: u64) -> BoxFuture<'_, Result<Arc<dyn Log>, LogError>> {
        let log: Arc<dyn Log> = self.0.clone();
        Box::pin(ready(Ok(log)))
    }

    fn durability_faults(&self) -> BoxFuture<'_, Result<Vec<String>, LogError>> {
        unreachable!("an archiver reads")
    }
}

#[tokio::test]
async fn a_silent_log_is_read_again_before_a_hole_is_recorded() {
    let stores = Stores::open().await;
    stores.archive(&ledger(1_000..=1_150)).await;
    let late = ledger(1_251..=1_450);
    let log = Arc::new(CutLog::default());
    log.last.store(9, Ordering::Relaxed);
    let space: Arc<dyn LogSpace> = Arc::new(CutLogSpace(Arc::clone(&log)));
    let archiver = Archiver { space, ..stores.archiver(&late, HOLE_TIMEOUT) };
    let mut state = ArchiverState::default();
    for reads in 1..=3 {
        archiver.run_once(&mut state).await.expect("a store");
        assert_eq!(log.reads.load(Ordering::Relaxed), reads);
        assert!(stores.holes().await.is_empty());
    }
    // A log without these blocks is read once.
    for last in [0, 9, 9] {
        log.last.store(last, Ordering::Relaxed);
        archiver.run_once(&mut state).await.expect("a store");
        assert_eq!(log.reads.load(Ordering::Relaxed), 3);
    }
    // A hole is recorded although the log is silent.
    let archiver = Archiver { hole_timeout: Duration::ZERO, ..archiver };
    archiver.run_once(&mut state).await.expect("a store");
    assert_eq!(stores.holes().await, [1_100..=1_299]);
}
