//! Clients that never read, send slowly, or flood: each is closed with a reason, and harms no other.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::tungstenite::{Bytes, Message};
use websocket::Config;

use crate::blob_protocol::{
    BlobProtocol, ECHO, ECHO_ON_POOL, FORWARD, SPIN, STORE, SUBSCRIBE, WAIT, list_request, request,
};
use crate::world::{World, config, exchange, frame, header};

/// More than the system's buffers of two sockets take.
const FLOOD_BYTES: usize = 64 << 20;

#[tokio::test]
async fn a_subscriber_that_never_reads_is_closed_and_the_publisher_does_not_wait() {
    close_by_publishing(None).await;
}

#[tokio::test]
async fn a_subscriber_that_never_reads_is_closed_during_its_call() {
    close_by_publishing(Some(FORWARD)).await;
    close_by_publishing(Some(WAIT)).await;
}

/// Publishes to a client that does not read, and has a call that does not end, until the client is closed.
async fn close_by_publishing(call: Option<u8>) {
    let mut limited = config();
    limited.limits.queue_messages_max = 10;
    let world = World::start(limited).await;
    let mut client = world.connect().await;
    let blob = vec![7; 4_000];
    client.call(SUBSCRIBE, &blob).await;
    if let Some(operation) = call {
        client.send(Bytes::from(request(1, operation, b""))).await;
        world.wait_until(|_| world.server.forwarded_calls.load(Ordering::SeqCst) == 1).await;
    }
    let mut published = 0;
    while world.server.stats().connections == 1 && published * blob.len() < FLOOD_BYTES {
        BlobProtocol::publish(&world.server, &blob, false);
        published += 1;
        if published % 8 == 0 {
            // The connection may write: what stops it is the socket that is full.
            tokio::task::yield_now().await;
        }
    }
    // The end of a connection may take some polls on a busy machine.
    world.wait_until(|stats| stats.connections == 0).await;
    assert!(published > 10, "{published}");
    let reason = "too slow: 10 messages were waiting (pubsub.queue_messages_max)".to_owned();
    assert_eq!(client.read_close().await, (1008, reason));
    drop(client);
    world.wait_until_empty().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_during_its_task_delays_no_task_of_another() {
    let config = Config { set_tasks_max: 1, write_timeout_ms: 3_600_000, ..config() };
    let world = World::start(config).await;
    let mut slow = world.connect().await;
    let blob = vec![7; 4_000];
    slow.call(SUBSCRIBE, &blob).await;
    slow.send(Bytes::from(request(1, SPIN, b""))).await;
    world.wait_until(|_| world.server.forwarded_calls.load(Ordering::SeqCst) == 1).await;
    let mut published = 0;
    while world.server.stats().unwritten_bytes == 0 {
        BlobProtocol::publish(&world.server, &blob, false);
        published += 1;
        assert!(published < 16_000, "the socket accepts everything");
        tokio::task::yield_now().await;
    }
    world.server.forwarded.add_permits(1);
    let mut other = world.connect().await;
    assert_eq!(other.call(ECHO_ON_POOL, b"other").await, b"other");
    drop((slow, other));
    world.wait_until_empty().await;
}

#[tokio::test]
async fn a_client_that_never_reads_a_streamed_reply_is_closed() {
    let world = World::start(Config { write_timeout_ms: 300, ..config() }).await;
    let mut socket = world.socket().await;
    let request = frame(0x82, &list_request(3, u32::MAX, 64 * 1024));
    socket.write_all(&request).await.expect("it is open");
    world.wait_until(|stats| stats.connections == 1).await;
    world.wait_until(|stats| stats.connections == 0).await;
    // It finds the frames up to then, and the reason after them.
    let (firsts, closed) = exchange(&mut socket, b"").await;
    let reason = "less than 64 KiB was read within 300 ms (pubsub.write_timeout_ms)".to_owned();
    assert_eq!(closed, (1008, reason));
    assert_eq!(firsts[0], 0x02);
    assert!(firsts[1..].iter().all(|first| *first == 0x00), "it is not complete");
    drop(socket);
    world.wait_until_empty().await;
}

#[tokio::test]
async fn a_client_that_reads_no_end_of_a_stream_is_closed_when_its_queue_is_full() {
    let mut limited = config();
    limited.limits.queue_messages_max = 10;
    let world = World::start(limited).await;
    let mut client = world.connect().await;
    client.call(SUBSCRIBE, b"blob").await;
    client.send(Bytes::from(list_request(3, u32::MAX, 64 * 1024))).await;
    let mut published = 0;
    while world.server.stats().connections == 1 {
        BlobProtocol::publish(&world.server, b"blob", false);
        published += 1;
        tokio::task::yield_now().await;
    }
    assert!(published > 10, "{published}");
    let reason = "too slow: 10 messages were waiting (pubsub.queue_messages_max)".to_owned();
    assert_eq!(client.read_close().await, (1008, reason));
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_pending_call() {
    let world = World::start(Config { ping_ms: 20, ..config() }).await;
    for (calls, operation) in [(1, FORWARD), (2, WAIT)] {
        let mut client = world.connect().await;
        client.send(Bytes::from(request(1, operation, b""))).await;
        world.wait_until(|_| world.server.forwarded_calls.load(Ordering::SeqCst) == calls).await;
        drop(client);
        world.wait_until_empty().await;
    }
}

#[tokio::test]
async fn a_message_that_is_sent_slowly_is_read_until_its_deadline() {
    let world = World::start(Config { message_timeout_ms: 300, ..config() }).await;
    let whole = frame(0x82, &request(1, STORE, &[7; 100_000]));
    let mut socket = world.socket().await;
    let started = Instant::now();
    let mut late = None;
    for (at, chunk) in whole.chunks(100).enumerate() {
        // Slow enough to be late, with a byte for each moment.
        let until = started + Duration::from_millis(10) * at as u32;
        tokio::time::sleep_until(until).await;
        if socket.write_all(chunk).await.is_err() {
            break;
        }
        let mut first = [0];
        let peeked = timeout_at(Instant::now(), socket.peek(&mut first)).await;
        if peeked.is_ok() {
            late = Some(exchange(&mut socket, b"").await);
            break;
        }
    }
    let reason = "a message was not whole within 300 ms (pubsub.message_timeout_ms)".to_owned();
    assert_eq!(late, Some((vec![], (1008, reason))));
    let mut client = world.connect().await;
    assert_eq!(client.call(ECHO, b"another is served").await, b"another is served");
}

#[tokio::test]
async fn unfinished_messages_have_a_bound_and_leave_memory_for_others() {
    let bound = 400_000;
    let world = World::start(Config {
        incoming_bytes_max: bound,
        message_timeout_ms: 500,
        addresses_message_bytes_max: 200_000,
        ..config()
    })
    .await;
    let long = request(1, STORE, &[7; 190_000]);
    let unfinished = [header(0x82, long.len()), long[..long.len() - 1].to_vec()].concat();
    let mut one = world.socket().await;
    one.write_all(&unfinished).await.expect("it is open");
    world.wait_until(|stats| stats.incoming_bytes > 190_000).await;
    // All connections of a test are of one client, so its half is in use.
    let mut other = world.socket().await;
    let (_, closed) = exchange(&mut other, &unfinished).await;
    let reason = "no room for a message: 400000 bytes of all clients, a share of each \
        (pubsub.incoming_bytes_max)";
    assert_eq!(closed, (1013, reason.to_owned()));
    assert!(world.server.stats().incoming_bytes <= bound / 2);
    drop((one, other));
    world.wait_until_empty().await;
}

#[tokio::test]
async fn a_flood_of_pings_without_a_reader_is_closed_before_it_uses_memory() {
    let world = World::start(Config { write_timeout_ms: 300, ..config() }).await;
    let mut socket = world.socket().await;
    let pings = frame(0x89, &[7; 125]).repeat(500);
    let mut sent = 0;
    let mut in_use = 0;
    world.wait_until(|stats| stats.connections == 1).await;
    let flood = async {
        while sent < FLOOD_BYTES {
            if socket.write_all(&pings).await.is_err() {
                return;
            }
            sent += pings.len();
            let stats = world.server.stats();
            let bytes = stats.unwritten_bytes + stats.notification_bytes + stats.incoming_bytes;
            in_use = in_use.max(bytes);
        }
    };
    let closed = world.wait_until(|stats| stats.connections == 0);
    tokio::select! {
        () = flood => {}
        () = closed => {}
    }
    assert!(sent < FLOOD_BYTES, "it is never stopped");
    assert!(in_use < 64 * 1024, "{in_use} bytes were in use");
}

#[tokio::test]
async fn a_flood_of_pings_with_a_reader_gets_its_pongs_and_delays_no_other() {
    use futures_util::{SinkExt, StreamExt};

    let world = World::start(config()).await;
    let (mut sink, mut stream) = world.connect().await.socket.split();
    let count = 50_000_u32;
    let flood = tokio::spawn(async move {
        for number in 0..count {
            let ping = Message::Ping(Bytes::copy_from_slice(&number.to_le_bytes()));
            sink.feed(ping).await.expect("it is open");
        }
        sink.flush().await.expect("it is open");
        sink
    });
    let pongs = tokio::spawn(async move {
        for number in 0..count {
            let pong = stream.next().await.expect("it is open").expect("it is whole");
            assert_eq!(pong, Message::Pong(Bytes::copy_from_slice(&number.to_le_bytes())));
        }
        stream
    });
    let mut other = world.connect().await;
    let mut served = 0;
    while !pongs.is_finished() {
        assert_eq!(other.call(ECHO, b"meanwhile").await, b"meanwhile");
        served += 1;
    }
    assert!(served > 10, "{served} calls of the other client were served");
    drop((flood.await.expect("no panic"), pongs.await.expect("all pongs")));
}
