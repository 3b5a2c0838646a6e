//! Logs without the message that a reader wants: truncated, deleted, created again, or with a foreign one at its sequence.

use std::time::Duration;

use replicated_log::{LogSpace, ReadError};

use crate::world::{World, check_records, read_end, read_message, record, stream_name, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn a_reader_before_the_first_message_is_truncated() {
    let world = World::start(1).await;
    let space = world.connect(|config| config.max_bytes = 1 << 20).await;
    space.create_generation(1).await.expect("a stream");
    let log = space.open_generation(1).await.expect("the stream");
    let mut reader = log.read(0).await.expect("a reader");
    let mut last = log.append(0, record(0, 3, 100)).await.expect("appended");
    assert_eq!(read_message(&mut *reader).await.sequence, 1);
    for number in 1..=20 {
        last = log.append(last, record(number, 3, 100_000)).await.expect("appended");
    }
    let tail = log.tail().await.expect("a tail");
    assert!(tail.first > 5 && tail.last == last, "{tail:?}");
    // The new reader requests a removed message. The old one had requests open while the messages were appended.
    let mut behind = log.read(0).await.expect("a reader");
    match behind.next().await {
        Err(ReadError::Truncated { wanted: 1, first }) => assert_eq!(first, tail.first),
        other => panic!("{other:?}"),
    }
    let mut sequence = 1;
    while let Ok(message) = reader.next().await {
        sequence += 1;
        assert_eq!(message.sequence, sequence);
        if sequence == last {
            break;
        }
    }
    if sequence < last {
        match reader.next().await {
            Err(ReadError::Truncated { wanted, first }) => {
                assert_eq!((wanted, first), (sequence + 1, tail.first));
            }
            other => panic!("{other:?}"),
        }
    }
    let newest = record(20, 3, 100_000);
    check_records(&*log, last - 4, &[newest]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn readers_notice_a_deleted_stream() {
    let world = World::start(1).await;
    let log = world.open_log().await;
    log.append(0, record(1, 1, 10)).await.expect("appended");
    let mut waiting = log.read(2).await.expect("a reader");
    let tick = std::time::Duration::from_millis(100);
    assert!(tokio::time::timeout(tick, waiting.next()).await.is_err());
    world.admin().await.delete_stream(stream_name(1)).await.expect("deleted");
    assert!(matches!(read_end(&mut *waiting).await, ReadError::Gone));
    let mut late = log.read(0).await.expect("a reader");
    assert!(matches!(read_end(&mut *late).await, ReadError::Gone));
    let err = log.tail().await.expect_err("the stream is gone");
    assert!(err.to_string().contains("read the end of the log"), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn a_stream_that_is_created_again_is_another_one() {
    let world = World::start(1).await;
    let space = world.connect(|_| {}).await;
    space.create_generation(1).await.expect("a stream");
    let log = space.open_generation(1).await.expect("the stream");
    log.append(0, record(1, 1, 10)).await.expect("appended");
    let mut reader = log.read(2).await.expect("a reader");
    let tick = std::time::Duration::from_millis(100);
    assert!(tokio::time::timeout(tick, reader.next()).await.is_err());
    world.admin().await.delete_stream(stream_name(1)).await.expect("deleted");
    assert!(space.create_generation(1).await.expect("a stream"));
    let again = space.open_generation(1).await.expect("the stream");
    again.append(0, record(5, 4, 10)).await.expect("appended");
    // The new stream has a message at the position of the reader.
    assert!(matches!(read_end(&mut *reader).await, ReadError::Gone));
    let err = log.tail().await.expect_err("another stream");
    assert!(err.to_string().contains("was deleted and created again"), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn a_position_after_the_end_is_gone() {
    let world = World::start(1).await;
    let log = world.open_log().await;
    log.append(0, record(1, 1, 10)).await.expect("appended");
    let mut reader = log.read(3).await.expect("a reader");
    assert!(matches!(read_end(&mut *reader).await, ReadError::Gone));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn a_foreign_message_is_damage() {
    let world = World::start(1).await;
    let log = world.open_log().await;
    log.append(0, record(1, 1, 10)).await.expect("appended");
    let admin = world.admin().await;
    let stream = admin.get_stream(stream_name(1)).await.expect("the stream");
    let mut settings = stream.cached_info().config.clone();
    settings.subjects.push("foreign".to_owned());
    admin.update_stream(settings).await.expect("another subject");
    let published = admin.publish("foreign", "x".into()).await.expect("sent");
    assert_eq!(published.await.expect("stored").sequence, 3);
    let mut reader = log.read(1).await.expect("a reader");
    assert_eq!(read_message(&mut *reader).await.sequence, 2);
    for _ in 0..2 {
        match read_end(&mut *reader).await {
            ReadError::Damaged { sequence: 3, error } => assert!(error.is_damage(), "{error}"),
            other => panic!("{other}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn a_log_whose_messages_aged_out_begins_after_its_end() {
    let world = World::start(1).await;
    let space = world.connect(|config| config.max_age = Duration::from_secs(1)).await;
    space.create_generation(1).await.expect("a stream");
    let log = space.open_generation(1).await.expect("the stream");
    assert_eq!(log.append(0, record(1, 2, 10)).await.expect("appended"), 3);
    let aged_out = async {
        loop {
            let tail = log.tail().await.expect("a tail");
            if tail.first > tail.last {
                return tail;
            }
        }
    };
    let tail = within(aged_out).await;
    assert_eq!((tail.first, tail.last), (4, 3));
    let mut reader = log.read(0).await.expect("a reader");
    match read_end(&mut *reader).await {
        ReadError::Truncated { wanted: 1, first: 4 } => {}
        other => panic!("{other}"),
    }
    assert_eq!(log.append(3, record(2, 0, 10)).await.expect("appended"), 4);
}
