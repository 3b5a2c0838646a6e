//! One server without faults: what an append and a reader promise.

use std::error::Error;
use std::sync::Arc;

use replicated_log::nats::NatsLogSpace;
use replicated_log::{
    AppendError, BATCH_MESSAGES_MAX, Log, LogConfig, LogMessage, LogSpace, MESSAGE_BYTES_MAX,
};
use testkit::nats_servers::NatsOptions;

use crate::world::{World, check_reader, check_records, read_message, record};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn batches_are_read_as_they_were_appended() {
    let world = World::start(1).await;
    let log = world.open_log().await;
    let empty = log.tail().await.expect("a tail");
    assert_eq!((empty.first, empty.last), (0, 0));
    let records = [record(1, 0, 0), record(2, 3, 1_000), record(3, 40, 10)];
    assert_eq!(log.append(0, records[0].clone()).await.expect("appended"), 1);
    assert_eq!(log.append(1, records[1].clone()).await.expect("appended"), 5);
    assert_eq!(log.append(5, records[2].clone()).await.expect("appended"), 46);
    check_records(&*log, 0, &records).await;
    check_records(&*log, 5, &records[2..]).await;
    let tail = log.tail().await.expect("a tail");
    assert_eq!((tail.first, tail.last), (1, 46));
    let mut reader = log.read(44).await.expect("a reader");
    assert_eq!(read_message(&mut *reader).await.pending, 1);
    assert_eq!(read_message(&mut *reader).await.pending, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn a_reader_at_the_end_waits() {
    let world = World::start(1).await;
    let log = world.open_log().await;
    let mut reader = log.read(0).await.expect("a reader");
    // The caller stops waiting, and waits again.
    let tick = std::time::Duration::from_millis(20);
    for _ in 0..10 {
        assert!(tokio::time::timeout(tick, reader.next()).await.is_err());
    }
    let records = [record(1, 2, 100), record(2, 0, 0)];
    assert_eq!(log.append(0, records[0].clone()).await.expect("appended"), 3);
    check_reader(&mut *reader, 0, &records[..1]).await;
    assert_eq!(log.append(3, records[1].clone()).await.expect("appended"), 4);
    check_reader(&mut *reader, 3, &records[1..]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn only_one_writer_appends_at_a_position() {
    let world = World::start(1).await;
    let first = world.open_log().await;
    let second = world.connect(|_| {}).await.open_generation(1).await.expect("the stream");
    assert_eq!(first.append(0, record(1, 2, 100)).await.expect("appended"), 3);
    for bodies in [0, 5] {
        match second.append(0, record(9, bodies, 100)).await {
            Err(AppendError::Fenced { last }) => assert_eq!(last, 3),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(second.append(3, record(2, 1, 100)).await.expect("appended"), 5);
    let both =
        |log: Arc<dyn Log>, number| async move { log.append(5, record(number, 3, 100)).await };
    let results = tokio::join!(both(first.clone(), 3), both(second, 4));
    let results = [results.0, results.1];
    assert_eq!(results.iter().filter(|result| matches!(result, Ok(9))).count(), 1, "{results:?}");
    let is_fenced =
        |result: &&Result<u64, _>| matches!(result, Err(AppendError::Fenced { last: 9 }));
    assert_eq!(results.iter().filter(is_fenced).count(), 1, "{results:?}");
    assert_eq!(first.tail().await.expect("a tail").last, 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn batches_up_to_the_limits_are_appended() {
    let world = World::start(1).await;
    let log = world.open_log().await;
    let records =
        [record(1, BATCH_MESSAGES_MAX - 1, 10), record(2, 170, MESSAGE_BYTES_MAX), record(3, 0, 0)];
    let mut last = 0;
    for record in &records {
        last = log.append(last, record.clone()).await.expect("appended");
    }
    check_records(&*log, 0, &records).await;
    let long = vec![LogMessage::head(vec![0; MESSAGE_BYTES_MAX + 1].into())];
    assert!(matches!(log.append(last, long).await, Err(AppendError::Refused(_))));
    assert_eq!(log.tail().await.expect("a tail").last, last);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn one_of_several_creators_creates_a_generation() {
    let world = World::start(1).await;
    let space = world.connect(|_| {}).await;
    assert_eq!(space.newest_generation().await.expect("generations"), None);
    let mut created = Vec::new();
    for _ in 0..3 {
        let other = world.connect(|_| {}).await;
        created.push(other.create_generation(7).await.expect("an answer"));
    }
    assert_eq!(created, [true, false, false]);
    assert!(space.create_generation(10).await.expect("an answer"));
    assert!(space.create_generation(9).await.expect("an answer"));
    let other = world.connect(|config| config.cluster = "test-2".to_owned()).await;
    assert!(other.create_generation(50).await.expect("an answer"));
    assert_eq!(space.newest_generation().await.expect("generations"), Some(10));
    assert_eq!(other.newest_generation().await.expect("generations"), Some(50));
    assert!(space.open_generation(8).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn a_client_with_another_password_is_refused() {
    let world = World::start(1).await;
    for user in ["", "hydrant:secret@"] {
        let url = format!("nats://{user}{}", world.servers.client_address(0));
        let config = LogConfig { url, ..world.config.clone() };
        let err = NatsLogSpace::open(&config).await.err().expect("an error");
        let source = err.source().expect("a source").to_string();
        assert!(source.contains("authorization violation"), "{source}");
        assert!(!format!("{err} {source}").contains("secret"), "{err} {source}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn what_a_single_server_can_lose_is_told() {
    let world = World::start(1).await;
    let space = world.connect(|_| {}).await;
    space.create_generation(1).await.expect("a stream");
    let faults = space.durability_faults().await.expect("faults");
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults.iter().all(|fault| fault.contains("is stored by one server")), "{faults:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn a_server_that_syncs_late_is_told() {
    let lazy = NatsOptions { syncs_always: false, ..NatsOptions::safe(1) };
    let world = World::start_with(lazy, 1).await;
    let faults = world.connect(|_| {}).await.durability_faults().await.expect("faults");
    assert!(faults.iter().any(|fault| fault.starts_with("server n0 acknowledges")), "{faults:?}");
    let silent = NatsOptions { exports_settings: false, ..NatsOptions::safe(1) };
    let world = World::start_with(silent, 1).await;
    let faults = world.connect(|_| {}).await.durability_faults().await.expect("faults");
    assert!(faults.iter().any(|fault| fault.starts_with("no server reports")), "{faults:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn the_space_of_old_generations_is_given_to_the_next() {
    let world = World::start(1).await;
    // The server has room for one such stream and a half.
    let space = world.connect(|config| config.max_bytes = 650 << 20).await;
    for generation in 0..3 {
        assert!(space.create_generation(generation).await.expect("a stream"), "{generation}");
        let log = space.open_generation(generation).await.expect("the stream");
        assert_eq!(log.append(0, record(generation, 3, 100_000)).await.expect("appended"), 4);
    }
    let oldest = space.open_generation(0).await.expect("the stream");
    check_records(&*oldest, 0, &[record(0, 3, 100_000)]).await;
    let large = world.connect(|config| config.max_bytes = 2 << 30).await;
    let err = large.create_generation(3).await.expect_err("no server has the space");
    assert!(err.lacks_space(), "{err}");
    let err = err.to_string();
    assert!(err.contains("--log-max-bytes") && err.contains("2147483648"), "{err}");
    assert_eq!(space.remove_generations_below(2).await.expect("deleted"), 2);
    assert_eq!(space.remove_generations_below(2).await.expect("nothing is left"), 0);
    assert!(space.open_generation(1).await.is_err());
    assert_eq!(space.newest_generation().await.expect("generations"), Some(2));
}
