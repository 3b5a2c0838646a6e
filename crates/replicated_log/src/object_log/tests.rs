//! Logs of objects: damage, replaced generations, removed batches, writers with old knowledge.

use bytes::Bytes;
use tokio::runtime::Builder;
use tokio::time::{Instant, advance, timeout};

use super::*;
use crate::{AppendError, LogMessage, LogReader, ReadError};

const GENERATION: u64 = 1;

/// Batches of a page of the list.
const LIST_PAGE: usize = 999;

impl ObjectLogSpace {
    /// Removes the batches that end before `first`, whatever their age is.
    pub(crate) async fn truncate_generation(&self, generation: u64, first: u64) {
        let files = self.open_files(generation).await;
        let retention = Retention { bytes_max: 0, age_max: Duration::ZERO };
        remove_old(&files, retention, u64::MAX, first).await;
    }

    async fn open_files(&self, generation: u64) -> GenerationFiles {
        let files = GenerationFiles::open(&self.depot, &self.cluster, generation).await;
        files.expect("the marker is read").expect("the generation exists")
    }

    /// Replaces the bytes of a batch.
    async fn replace_batch(&self, first: u64, change: impl FnOnce(&mut Vec<u8>)) {
        let files = self.open_files(GENERATION).await;
        let key = files.batch_key(first);
        let mut bytes = self.depot.get(&key, usize::MAX).await.expect("it exists").to_vec();
        change(&mut bytes);
        files.delete_batch(first).await.expect("it is deleted");
        self.depot.put_new(&key, bytes.into()).await.expect("it is created");
    }
}

fn sample_config() -> LogConfig {
    LogConfig {
        url: "memory:".to_owned(),
        cluster: "test".to_owned(),
        replicas: 1,
        max_age: Duration::from_secs(3_600),
        max_bytes: u64::MAX,
        in_flight_bytes: 1 << 20,
        request_timeout: Duration::from_secs(10),
    }
}

/// Runs a test on a log in memory with a paused clock.
fn run_test<F: Future<Output = ()>>(test: impl FnOnce(ObjectLogSpace) -> F) {
    let depot = Depot::open("memory:", &DepotConfig::default()).expect("it opens");
    let space = ObjectLogSpace::with_depot(depot, &sample_config());
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime starts").block_on(test(space));
}

/// Removes the batches of a list. Returns their number.
async fn remove_old(
    files: &GenerationFiles,
    limits: Retention,
    now_ms: u64,
    needed_from: u64,
) -> usize {
    let listed = files.list_all().await.expect("it is listed");
    let removed = retention::remove_old(files, &listed, limits, now_ms, needed_from).await;
    removed.expect("old batches are removed")
}

async fn open_generation(space: &ObjectLogSpace) -> Arc<dyn Log> {
    space.create_generation(GENERATION).await.expect("it is created");
    space.open_generation(GENERATION).await.expect("it opens")
}

/// Appends a batch of two messages.
async fn append_pair(log: &Arc<dyn Log>, after: u64) -> Result<u64, AppendError> {
    let head = LogMessage::head(Bytes::from(format!("head after {after}")));
    let body = LogMessage::body(Bytes::from(format!("body after {after}")));
    log.append(after, vec![head, body]).await
}

async fn append_pairs(log: &Arc<dyn Log>, count: u64) {
    for pair in 0..count {
        append_pair(log, 2 * pair).await.expect("it is appended");
    }
}

/// Reads until the reader waits for a minute or fails.
async fn read_to_end(reader: &mut dyn LogReader) -> (Vec<u64>, Option<ReadError>) {
    let mut sequences = Vec::new();
    loop {
        match timeout(Duration::from_secs(60), reader.next()).await {
            Err(_) => return (sequences, None),
            Ok(Ok(message)) => sequences.push(message.sequence),
            Ok(Err(error)) => return (sequences, Some(error)),
        }
    }
}

async fn read_from(log: &Arc<dyn Log>, after: u64) -> (Vec<u64>, Option<ReadError>) {
    let mut reader = log.read(after).await.expect("it opens");
    read_to_end(&mut *reader).await
}

#[test]
fn a_reader_starts_anywhere() {
    run_test(|space| async move {
        let log = open_generation(&space).await;
        append_pairs(&log, 3).await;
        for after in 0..=6 {
            let (sequences, error) = read_from(&log, after).await;
            assert_eq!(sequences, (after + 1..=6).collect::<Vec<_>>());
            assert!(error.is_none(), "{error:?}");
        }
        let (_, error) = read_from(&log, 7).await;
        assert!(matches!(error, Some(ReadError::Gone)), "{error:?}");
    });
}

#[test]
fn a_reader_of_many_batches_counts_down_to_the_end() {
    run_test(|space| async move {
        let log = open_generation(&space).await;
        let pairs = LIST_PAGE as u64 + 20;
        append_pairs(&log, pairs).await;
        let other = ObjectLogSpace { open_generations: Mutex::default(), ..space };
        let log = other.open_generation(GENERATION).await.expect("it opens");
        let mut reader = log.read(0).await.expect("it opens");
        for sequence in 1..=2 * pairs {
            let message = reader.next().await.expect("it is read");
            assert_eq!(message.sequence, sequence);
            let is_end = sequence == 2 * pairs;
            assert_eq!(message.pending == 0, is_end, "{sequence}: {}", message.pending);
        }
    });
}

#[test]
fn a_directory_of_many_batches_is_listed_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let url = format!("file://{}", dir.path().display());
    let depot = Depot::open(&url, &DepotConfig::default()).expect("it opens");
    let space = ObjectLogSpace::with_depot(depot, &sample_config());
    let runtime = Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime starts").block_on(async move {
        let log = open_generation(&space).await;
        append_pairs(&log, 1).await;
        let files = space.open_files(GENERATION).await;
        // A put takes two syncs of the disk.
        for first in (3..=40_000).step_by(2) {
            std::fs::write(dir.path().join(files.batch_key(first)), "").expect("a file");
        }
        let page = files.list_batches(0, files.list_page()).await.expect("it is listed");
        assert!(page.is_last && page.batches.len() == 20_000, "{}", page.batches.len());
        assert_eq!(files.list_all().await.expect("it is listed"), page.batches);
    });
}

#[test]
fn a_reader_starts_among_short_batches() {
    run_test(|space| async move {
        let log = open_generation(&space).await;
        let last = LIST_PAGE as u64 + 100;
        for after in 0..last {
            let batch = vec![LogMessage::head(Bytes::new())];
            log.append(after, batch).await.expect("it is appended");
        }
        for after in [last - 1, last] {
            let (sequences, error) = read_from(&log, after).await;
            assert_eq!(sequences, (after + 1..=last).collect::<Vec<_>>());
            assert!(error.is_none(), "{error:?}");
        }
        let (_, error) = read_from(&log, last + 1).await;
        assert!(matches!(error, Some(ReadError::Gone)), "{error:?}");
    });
}

#[test]
fn an_append_of_the_same_process_wakes_a_reader_at_once() {
    run_test(|space| async move {
        let hour = Duration::from_secs(3_600);
        let space = space.with_poll_interval(hour, hour);
        let log = open_generation(&space).await;
        let mut reader = log.read(0).await.expect("it opens");
        let started_at = Instant::now();
        let wait = async { reader.next().await.expect("it is read").sequence };
        let append = async { append_pair(&log, 0).await.expect("it is appended") };
        let (read, appended) = futures_util::future::join(wait, append).await;
        assert_eq!([read, appended], [1, 2]);
        assert!(started_at.elapsed() < hour);
    });
}

#[test]
fn damage_is_named_by_key_and_offset() {
    run_test(|space| async move {
        let log = open_generation(&space).await;
        append_pairs(&log, 2).await;
        space.replace_batch(3, |bytes| *bytes.last_mut().expect("it has bytes") ^= 1).await;
        let (sequences, error) = read_from(&log, 0).await;
        assert_eq!(sequences, [1, 2]);
        let error = find_damage(error, 3).to_string();
        assert!(
            error.contains("/00000000000000000003: cannot decode it: damaged at byte"),
            "{error}"
        );
        let error = log.tail().await.expect_err("the newest batch is damaged");
        assert!(error.is_damage(), "{error}");
        let other = ObjectLogSpace { open_generations: Mutex::default(), ..space };
        let log = other.open_generation(GENERATION).await.expect("it opens");
        match append_pair(&log, 4).await {
            Err(AppendError::Unknown(error)) => assert!(error.is_damage(), "{error}"),
            other => panic!("{other:?}"),
        }
    });
}

/// Returns the damage that a reader found at a message.
fn find_damage(error: Option<ReadError>, at: u64) -> LogError {
    match error {
        Some(ReadError::Damaged { sequence, error }) if sequence == at => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_reader_within_a_damaged_batch_is_told() {
    run_test(|space| async move {
        let log = open_generation(&space).await;
        append_pairs(&log, 3).await;
        space.replace_batch(3, |bytes| bytes.truncate(20)).await;
        for after in [2, 3] {
            let (sequences, error) = read_from(&log, after).await;
            assert!(sequences.is_empty() && find_damage(error, after + 1).is_damage());
        }
    });
}

#[test]
fn a_batch_of_a_newer_version_is_not_damage() {
    run_test(|space| async move {
        let log = open_generation(&space).await;
        append_pairs(&log, 2).await;
        let seal_as_newer = |bytes: &mut Vec<u8>| {
            bytes[4] = 2;
            let crc_offset = batch_object::BATCH_HEADER_BYTES - 4;
            let crc = crc32fast::hash(&bytes[..crc_offset]).to_le_bytes();
            bytes[crc_offset..crc_offset + 4].copy_from_slice(&crc);
        };
        space.replace_batch(3, seal_as_newer).await;
        let (_, error) = read_from(&log, 2).await;
        match error {
            Some(ReadError::Log(error)) => {
                assert!(!error.is_damage() && error.to_string().contains("upgrade readers"));
            }
            other => panic!("{other:?}"),
        }
        assert!(!log.tail().await.expect_err("it is newer").is_damage());
    });
}

#[test]
fn a_damaged_marker_of_a_generation_is_damage() {
    run_test(|space| async move {
        let log = open_generation(&space).await;
        append_pairs(&log, 1).await;
        let key = format_marker_key(&space.cluster, GENERATION);
        for marker in [&b"HYLE"[..], &[0; 100]] {
            space.depot.delete(&key).await.expect("it is deleted");
            let put = space.depot.put_new(&key, Bytes::copy_from_slice(marker)).await;
            put.expect("it is created");
            assert!(log.tail().await.expect_err("the marker is damaged").is_damage());
            let (_, error) = read_from(&log, 0).await;
            find_damage(error, 1);
        }
    });
}

#[test]
fn a_batch_of_another_place_is_damage() {
    run_test(|space| async move {
        let log = open_generation(&space).await;
        append_pairs(&log, 2).await;
        let files = space.open_files(GENERATION).await;
        let other = space.depot.get(&files.batch_key(1), usize::MAX).await.expect("it exists");
        space.replace_batch(3, |bytes| *bytes = other.to_vec()).await;
        let (sequences, error) = read_from(&log, 0).await;
        assert_eq!(sequences, [1, 2]);
        let error = find_damage(error, 3).to_string();
        assert!(error.ends_with("begins at message 1, its name says 3"), "{error}");
    });
}

#[test]
fn a_missing_batch_is_named() {
    run_test(|space| async move {
        let log = open_generation(&space).await;
        append_pairs(&log, 3).await;
        space.open_files(GENERATION).await.delete_batch(3).await.expect("it is deleted");
        for after in [0, 1, 2, 3] {
            let next = after.max(2) + 1;
            let mut reader = log.read(after).await.expect("it opens");
            for _ in 0..2 {
                let (_, error) = read_to_end(&mut *reader).await;
                match error {
                    Some(ReadError::Missing { wanted, found: 5 }) => assert_eq!(wanted, next),
                    other => panic!("{after}: {other:?}"),
                }
            }
        }
    });
}

#[test]
fn a_reader_notices_a_truncation() {
    run_test(|space| async move {
        let log = open_generation(&space).await;
        append_pairs(&log, 4).await;
        let mut reader = log.read(2).await.expect("it opens");
        assert_eq!(reader.next().await.expect("it is read").sequence, 3);
        space.truncate_generation(GENERATION, 7).await;
        let (sequences, error) = read_to_end(&mut *reader).await;
        // Batches that were requested in advance are still delivered.
        assert!(
            sequences.starts_with(&[4]) && error.is_none() || sequences == [4],
            "{sequences:?}"
        );
        let (_, error) = read_from(&log, 1).await;
        assert!(matches!(error, Some(ReadError::Truncated { wanted: 2, first: 7 })), "{error:?}");
        let tail = log.tail().await.expect("it has a tail");
        assert_eq!([tail.first, tail.last], [7, 8]);
    });
}

#[test]
fn needed_and_young_batches_stay() {
    run_test(|space| async move {
        let log = open_generation(&space).await;
        append_pairs(&log, 3).await;
        assert_eq!(log.remove_old(99).await.expect("nothing is removed"), 0);
        let files = space.open_files(GENERATION).await;
        let small = Retention { bytes_max: 0, age_max: Duration::from_secs(3_600) };
        let now_ms = generation_files::read_clock_ms();
        assert_eq!(remove_old(&files, small, now_ms, 99).await, 0, "all are young");
        let later_ms = now_ms + 30_000;
        assert_eq!(remove_old(&files, small, later_ms, 4).await, 1, "only the first is not needed");
        assert_eq!(remove_old(&files, small, later_ms, 99).await, 1, "all but the newest");
        let large = Retention { bytes_max: u64::MAX, age_max: Duration::from_secs(60) };
        assert_eq!(remove_old(&files, large, u64::MAX, 99).await, 0, "the newest stays");
    });
}

#[test]
fn a_clock_that_is_ahead_removes_nothing_that_was_just_the_newest() {
    run_test(|space| async move {
        let log = open_generation(&space).await;
        append_pairs(&log, 3).await;
        let files = Arc::new(space.open_files(GENERATION).await);
        let retention = Retention { bytes_max: 0, age_max: Duration::ZERO };
        let leader = GenerationLog::new(files, retention, space.read_settings);
        let remove = async || leader.remove_old_at(u64::MAX, 99).await.expect("it is listed");
        // No list shows for how long the third batch is the newest.
        assert_eq!(remove().await, 0);
        for pair in 3..5 {
            append_pair(&log, 2 * pair).await.expect("it is appended");
        }
        advance(Duration::from_secs(19)).await;
        assert_eq!(remove().await, 0);
        advance(Duration::from_secs(1)).await;
        assert_eq!(remove().await, 2, "the third batch was the newest 20 seconds before");
        assert_eq!(remove().await, 0);
        advance(Duration::from_secs(20)).await;
        assert_eq!(remove().await, 2, "all but the newest");
        assert_eq!(log.tail().await.expect("it has a tail").first, 9);
    });
}

#[test]
fn a_replaced_generation_is_another_log() {
    run_test(|space| async move {
        let log = open_generation(&space).await;
        append_pairs(&log, 2).await;
        let mut reader = log.read(4).await.expect("it opens");
        assert!(timeout(Duration::from_secs(1), reader.next()).await.is_err(), "it waits");
        assert!(space.delete_generation(GENERATION).await.expect("it is deleted"));
        assert!(!space.delete_generation(GENERATION).await.expect("it is deleted already"));
        let replaced = open_generation(&space).await;
        append_pairs(&replaced, 1).await;
        let (sequences, error) = read_to_end(&mut *reader).await;
        assert!(sequences.is_empty() && matches!(error, Some(ReadError::Gone)), "{error:?}");
        advance(generation_log::KNOWN_END_TIMEOUT).await;
        let error = append_pair(&log, 4).await.expect_err("its generation was deleted");
        assert!(matches!(error, AppendError::Unknown(_)), "{error:?}");
        assert_eq!(read_from(&replaced, 0).await.0, [1, 2]);
    });
}

#[test]
fn the_generations_below_a_generation_are_removed() {
    run_test(|space| async move {
        let log = open_generation(&space).await;
        append_pairs(&log, 3).await;
        let mut reader = log.read(6).await.expect("it opens");
        for generation in [0, 2, 10] {
            assert!(space.create_generation(generation).await.expect("it is created"));
        }
        let damaged = format_marker_key(&space.cluster, 0);
        space.depot.delete(&damaged).await.expect("it is deleted");
        space.depot.put_new(&damaged, Bytes::new()).await.expect("it is created");
        let kept = space.open_generation(2).await.expect("it opens");
        append_pairs(&kept, 2).await;
        for removed in [2, 0] {
            let found = space.remove_generations_below(2).await.expect("they are removed");
            assert_eq!(found, removed);
        }
        let (_, error) = read_to_end(&mut *reader).await;
        assert!(matches!(error, Some(ReadError::Gone)), "{error:?}");
        assert_eq!(read_from(&kept, 0).await.0, [1, 2, 3, 4]);
        assert_eq!(space.newest_generation().await.expect("it is listed"), Some(10));
        // Two batches, and two markers.
        assert_eq!(space.depot.list("").await.expect("it is listed").len(), 4);
    });
}

#[test]
fn a_stopped_writer_creates_nothing_below_the_log() {
    run_test(|space| async move {
        let stopped = open_generation(&space).await;
        append_pairs(&stopped, 1).await;
        let leader = space.open_generation(GENERATION).await.expect("it opens");
        for after in [2, 4, 6] {
            append_pair(&leader, after).await.expect("it is appended");
        }
        advance(generation_log::KNOWN_END_TIMEOUT).await;
        space.truncate_generation(GENERATION, 7).await;
        let error = append_pair(&stopped, 2).await.expect_err("another writer leads");
        assert!(matches!(error, AppendError::Fenced { last: 8 }), "{error:?}");
        let files = space.open_files(GENERATION).await;
        let listed = files.list_all().await.expect("it is listed");
        assert_eq!(listed.iter().map(|batch| batch.first).collect::<Vec<_>>(), [7]);
    });
}

#[test]
fn an_append_beyond_the_end_is_fenced() {
    run_test(|space| async move {
        let log = open_generation(&space).await;
        append_pairs(&log, 1).await;
        for after in [0, 1, 3] {
            let error = append_pair(&log, after).await.expect_err("the log ends at 2");
            assert!(matches!(error, AppendError::Fenced { last: 2 }), "{after}: {error:?}");
        }
    });
}

#[test]
fn the_newest_generation_is_found_and_a_missing_one_is_named() {
    run_test(|space| async move {
        assert_eq!(space.newest_generation().await.expect("it is listed"), None);
        for generation in [2, 10, 9] {
            assert!(space.create_generation(generation).await.expect("it is created"));
        }
        assert_eq!(space.newest_generation().await.expect("it is listed"), Some(10));
        let error = space.open_generation(7).await.err().expect("it does not exist");
        assert!(error.is_missing_generation());
        let error = error.to_string();
        assert_eq!(error, "memory:/hydrant-test: cannot open generation 7: it does not exist");
        assert_eq!(space.durability_faults().await.expect("it is checked"), [""; 0]);
    });
}
