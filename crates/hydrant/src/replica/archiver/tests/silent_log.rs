//! Archives while the log is silent, does not respond, or lacks the missing blocks.

use std::sync::atomic::AtomicU64;

use futures_util::future::{BoxFuture, pending, ready};
use replicated_log::{
    AppendError, Log, LogError, LogMessage, LogReader, ReadError, StoredMessage, Tail,
};
use tokio::time::Instant;

use super::generations::GenerationWriter;
use super::*;

/// A log with one generation, whose readers end before its first message.
#[derive(Default)]
struct CutLog {
    /// Sequence of the last message.
    last: AtomicU64,
    reads: AtomicU64,
    /// Whether no reader opens.
    is_unresponsive: bool,
}

impl CutLog {
    fn new(last: u64) -> Arc<Self> {
        Arc::new(Self { last: AtomicU64::new(last), ..Self::default() })
    }

    fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }
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
        if self.is_unresponsive {
            return Box::pin(pending());
        }
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

/// Another log, whose reads are counted.
struct CountedSpace {
    space: Arc<dyn LogSpace>,
    reads: Arc<AtomicU64>,
}

/// A generation of a [`CountedSpace`].
struct CountedLog {
    log: Arc<dyn Log>,
    reads: Arc<AtomicU64>,
}

impl Log for CountedLog {
    fn append(&self, _: u64, _: Vec<LogMessage>) -> BoxFuture<'_, Result<u64, AppendError>> {
        unreachable!("an archiver reads")
    }

    fn tail(&self) -> BoxFuture<'_, Result<Tail, LogError>> {
        self.log.tail()
    }

    fn read(&self, after: u64) -> BoxFuture<'_, Result<Box<dyn LogReader>, LogError>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.log.read(after)
    }
}

impl LogSpace for CountedSpace {
    fn newest_generation(&self) -> BoxFuture<'_, Result<Option<u64>, LogError>> {
        self.space.newest_generation()
    }

    fn create_generation(&self, _: u64) -> BoxFuture<'_, Result<bool, LogError>> {
        unreachable!("an archiver reads")
    }

    fn remove_generations_below(&self, _: u64) -> BoxFuture<'_, Result<usize, LogError>> {
        unreachable!("an archiver reads")
    }

    fn open_generation(&self, generation: u64) -> BoxFuture<'_, Result<Arc<dyn Log>, LogError>> {
        Box::pin(async move {
            let log = self.space.open_generation(generation).await?;
            let counted: Arc<dyn Log> =
                Arc::new(CountedLog { log, reads: Arc::clone(&self.reads) });
            Ok(counted)
        })
    }

    fn durability_faults(&self) -> BoxFuture<'_, Result<Vec<String>, LogError>> {
        unreachable!("an archiver reads")
    }
}

/// A store whose archive ends before slot 1,100.
async fn start_archive() -> Stores {
    let stores = Stores::open().await;
    stores.archive(&ledger(1_000..=1_150)).await;
    stores
}

fn create_archiver(stores: &Stores, ledger: &TestLedger, log: &Arc<CutLog>) -> Archiver {
    let space: Arc<dyn LogSpace> = Arc::new(CutLogSpace(Arc::clone(log)));
    Archiver { space, ..stores.archiver(ledger, HOLE_TIMEOUT) }
}

#[tokio::test]
async fn a_silent_log_is_read_a_few_times_before_a_hole_is_recorded() {
    let stores = start_archive().await;
    let late = ledger(1_251..=1_450);
    let log = CutLog::new(9);
    let archiver = create_archiver(&stores, &late, &log);
    tokio::time::pause();
    let mut progress = None;
    let mut read_at = Vec::new();
    let started = Instant::now();
    while started.elapsed() < HOLE_TIMEOUT {
        let before = log.reads();
        archiver.archive_once(&mut progress).await.expect("a store");
        if log.reads() > before {
            read_at.push(started.elapsed().as_secs());
        }
        assert!(stores.holes().await.is_empty());
        tokio::time::advance(INTERVAL).await;
    }
    assert_eq!(read_at, [0, 2, 6, 14, 30, 62]);
    // A hole is recorded although the log is silent.
    archiver.archive_once(&mut progress).await.expect("a store");
    assert_eq!(stores.holes().await, [1_100..=1_299]);
}

#[tokio::test]
async fn a_log_that_does_not_open_is_waited_for_up_to_a_limit() {
    let stores = start_archive().await;
    let late = ledger(1_251..=1_450);
    let last = AtomicU64::new(9);
    let log = Arc::new(CutLog { last, is_unresponsive: true, ..CutLog::default() });
    let archiver = create_archiver(&stores, &late, &log);
    tokio::time::pause();
    archiver.archive_once(&mut None).await.expect("a store");
    assert_eq!(log.reads(), 1);
    assert!(stores.holes().await.is_empty());
}

#[tokio::test]
async fn a_log_without_messages_is_not_read_again_for_a_gap() {
    let stores = start_archive().await;
    let late = ledger(1_251..=1_450);
    let log = CutLog::new(0);
    let archiver = create_archiver(&stores, &late, &log);
    tokio::time::pause();
    let mut progress = None;
    for last in [0, 9, 9] {
        log.last.store(last, Ordering::Relaxed);
        archiver.archive_once(&mut progress).await.expect("a store");
        assert_eq!(log.reads(), 0);
        tokio::time::advance(INTERVAL).await;
    }
}

#[tokio::test]
async fn a_log_with_later_blocks_only_is_not_read_again_for_a_gap() {
    let stores = start_archive().await;
    let mut writer = GenerationWriter::create(&*stores.space, 1, 1_200).await;
    writer.append_blocks(1_201..=1_300).await;
    let late = ledger(1_251..=1_450);
    let reads = Arc::new(AtomicU64::new(0));
    let space = CountedSpace { space: Arc::clone(&stores.space), reads: Arc::clone(&reads) };
    let archiver = Archiver { space: Arc::new(space), ..stores.archiver(&late, HOLE_TIMEOUT) };
    let mut progress = None;
    archiver.archive_once(&mut progress).await.expect("a store");
    let first_reads = reads.load(Ordering::Relaxed);
    assert!(first_reads > 0);
    tokio::time::pause();
    for _ in 0..2 {
        tokio::time::advance(INTERVAL).await;
        archiver.archive_once(&mut progress).await.expect("a store");
        assert_eq!(reads.load(Ordering::Relaxed), first_reads);
    }
    assert!(stores.holes().await.is_empty());
}

#[tokio::test]
async fn final_blocks_are_archived_while_a_fill_waits_for_the_log() {
    let stores = start_archive().await;
    let mut late = ledger(1_251..=1_450);
    stores.archive(&late).await;
    assert_eq!(stores.holes().await, [1_100..=1_299]);
    let last = AtomicU64::new(9);
    let log = Arc::new(CutLog { last, is_unresponsive: true, ..CutLog::default() });
    let archiver = create_archiver(&stores, &late, &log);
    tokio::time::pause();
    let archived = async {
        let mut ticks = tokio::time::interval(INTERVAL);
        while log.reads() == 0 {
            ticks.tick().await;
        }
        (1_451..=1_500).for_each(|slot| add_final_block(&mut late, slot));
        while stores.objects().await.last() != Some(&(1_400..=1_499)) {
            ticks.tick().await;
        }
    };
    tokio::select! {
        () = archiver.run() => unreachable!("it runs until it is aborted"),
        archived = tokio::time::timeout(HOLE_TIMEOUT, archived) => {
            archived.expect("the object is written");
        }
    }
    assert_eq!(log.reads(), 1);
}
