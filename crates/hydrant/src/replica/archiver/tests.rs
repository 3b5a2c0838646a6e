//! Archives of replicas that start at different times, over a store in memory.

mod generations;
mod silent_log;

use std::ops::RangeInclusive;

use ::metrics::Exposition;
use chain_solana::HistoryLimits;
use cluster_snapshot::archive::{
    ArchiveFault, ArchiveHoleKey, check_archive, list_archive, list_holes,
};
use depot::DepotConfig;
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
        run_once(&archiver, &mut None).await;
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

/// Archives the final blocks that are known by now, and fills holes.
async fn run_once(archiver: &Archiver, progress: &mut Option<ArchiveProgress>) {
    archiver.archive_once(progress).await.expect("a store");
    archiver.fill_holes(&mut LogReads::default()).await.expect("a store");
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

/// Returns the bytes of the open objects that are reported.
fn object_bytes(archiver: &Archiver) -> u64 {
    let memory = archiver.metrics().memory();
    let object = memory.iter().find(|(part, _)| *part == "archive_object");
    object.map_or(0, |(_, bytes)| *bytes)
}

#[tokio::test]
async fn final_blocks_are_archived_once_and_another_replica_continues() {
    let stores = Stores::open().await;
    let mut first = ledger(991..=1_099);
    let archiver = stores.archiver(&first, HOLE_TIMEOUT);
    let mut progress = None;
    run_once(&archiver, &mut progress).await;
    assert!(stores.objects().await.is_empty());
    add_final_block(&mut first, 1_100);
    run_once(&archiver, &mut progress).await;
    assert_eq!(stores.objects().await, [1_000..=1_099]);
    let text = expose(&archiver);
    assert!(text.contains("hydrant_archive_last_slot 1099\n"), "{text}");

    let other = stores.archiver(&first, HOLE_TIMEOUT);
    let mut progress = None;
    run_once(&other, &mut progress).await;
    assert_eq!(stores.objects().await, [1_000..=1_099]);
    let text = expose(&other);
    assert!(text.contains("events_total{event=\"object\"} 0\n"), "{text}");
}

#[tokio::test]
async fn a_replica_waits_for_another_one_before_it_records_a_hole() {
    let stores = Stores::open().await;
    let first = ledger(1_000..=1_100);
    run_once(&stores.archiver(&first, HOLE_TIMEOUT), &mut None).await;
    // The history of this one begins later.
    let late = ledger(1_251..=1_450);
    let archiver = stores.archiver(&late, HOLE_TIMEOUT);
    let mut progress = None;
    for _ in 0..3 {
        run_once(&archiver, &mut progress).await;
        assert_eq!(stores.objects().await, [1_000..=1_099]);
        assert!(stores.holes().await.is_empty());
    }
    // Another one archives a part of the missing blocks.
    let other = ledger(1_000..=1_200);
    run_once(&stores.archiver(&other, HOLE_TIMEOUT), &mut None).await;
    run_once(&archiver, &mut progress).await;
    assert_eq!(stores.objects().await, [1_000..=1_099, 1_100..=1_199]);
    assert!(stores.holes().await.is_empty());
    // Its time is over.
    let archiver = Archiver { hole_timeout: Duration::ZERO, ..archiver };
    run_once(&archiver, &mut progress).await;
    assert_eq!(stores.holes().await, [1_200..=1_299]);
    let expected = [1_000..=1_099, 1_100..=1_199, 1_300..=1_399];
    assert_eq!(stores.objects().await, expected);
}

#[tokio::test]
async fn a_hole_is_counted_and_filled_by_a_replica_that_has_its_blocks() {
    let stores = Stores::open().await;
    let first = ledger(1_000..=1_150);
    run_once(&stores.archiver(&first, Duration::ZERO), &mut None).await;
    let late = ledger(1_251..=1_450);
    let archiver = stores.archiver(&late, Duration::ZERO);
    run_once(&archiver, &mut None).await;
    assert_eq!(stores.holes().await, [1_100..=1_299]);
    assert_eq!(stores.objects().await, [1_000..=1_099, 1_300..=1_399]);
    let text = expose(&archiver);
    assert!(text.contains("hydrant_archive_hole_slots 200\n"), "{text}");
    assert!(text.contains("events_total{event=\"hole\"} 1\n"), "{text}");
    // It has a part of the blocks.
    let middle = ledger(1_090..=1_210);
    run_once(&stores.archiver(&middle, HOLE_TIMEOUT), &mut None).await;
    assert_eq!(stores.objects().await, [1_000..=1_099, 1_100..=1_199, 1_300..=1_399]);

    let whole = ledger(990..=1_350);
    let archiver = stores.archiver(&whole, HOLE_TIMEOUT);
    run_once(&archiver, &mut None).await;
    let expected = [1_000..=1_099, 1_100..=1_199, 1_200..=1_299, 1_300..=1_399];
    assert_eq!(stores.objects().await, expected);
    let text = expose(&archiver);
    assert!(text.contains("hydrant_archive_hole_slots 0\n"), "{text}");
    assert!(text.contains("events_total{event=\"disagreement\"} 0\n"), "{text}");
    let faults = check_archive(&stores.depot, "c", true).await.expect("a store");
    assert!(faults.is_empty(), "{faults:?}");
}

#[tokio::test]
async fn the_open_objects_of_the_archive_and_of_a_fill_are_reported() {
    let stores = Stores::open().await;
    stores.archive(&ledger(1_000..=1_150)).await;
    stores.archive(&ledger(1_251..=1_450)).await;
    assert_eq!(stores.holes().await, [1_100..=1_299]);
    let whole = ledger(1_090..=1_450);
    let archiver = stores.archiver(&whole, HOLE_TIMEOUT);
    let mut progress = None;
    archiver.archive_once(&mut progress).await.expect("a store");
    let archive_bytes = object_bytes(&archiver);
    assert!(archive_bytes > 0);
    let mut bytes_max = 0;
    {
        let mut log_reads = LogReads::default();
        let mut fill = std::pin::pin!(archiver.fill_holes(&mut log_reads));
        // A fill yields after each block.
        loop {
            tokio::select! {
                biased;
                filled = &mut fill => break filled.expect("a store"),
                () = tokio::task::yield_now() => {
                    bytes_max = bytes_max.max(object_bytes(&archiver));
                }
            }
        }
    }
    assert_eq!(
        stores.objects().await,
        [1_000..=1_099, 1_100..=1_199, 1_200..=1_299, 1_300..=1_399]
    );
    assert!(bytes_max > archive_bytes, "{bytes_max}, {archive_bytes}");
    // That of the fill is closed.
    assert_eq!(object_bytes(&archiver), archive_bytes);
    drop(progress);
    assert_eq!(object_bytes(&archiver), 0);
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
