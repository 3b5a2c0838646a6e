//! Messages of both kinds, whole and in frames, short and long, and the notifications in between.

use std::sync::atomic::Ordering;

use futures_util::StreamExt;
use metrics::{Collector, Exposition};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{Bytes, Message};
use websocket::Config;

use crate::blob_protocol::{
    BlobProtocol, COUNT, ECHO, ECHO_ON_POOL, FORWARD, IGNORE, PAUSE, STORE, SUBSCRIBE, WAIT,
    list_request, request,
};
use crate::world::{TIMEOUT, World, config, exchange, frame, header, read_frame};

#[tokio::test]
async fn binary_messages_and_texts_get_replies_of_their_kind() {
    let world = World::start(config()).await;
    let mut client = world.connect().await;
    assert_eq!(client.call(ECHO, b"\xff\x00").await, b"\xff\x00");
    assert_eq!(client.call(ECHO_ON_POOL, b"\xfe").await, b"\xfe");
    client.send("déjà vu").await;
    assert_eq!(client.receive().await, Ok(Message::text("déjà vu")));
    let long = vec![0xff; 4_000];
    assert_eq!(client.call(ECHO, &long).await, long);
    let long = vec![0xfe; 4_000];
    assert_eq!(client.call(ECHO_ON_POOL, &long).await, long);
}

#[tokio::test]
async fn calls_of_a_connection_run_one_at_a_time_in_order() {
    let world = World::start(config()).await;
    let mut client = world.connect().await;
    for id in 0..100 {
        // Half of them run on the pool, and would overtake each other there.
        let operation = [ECHO, ECHO_ON_POOL, IGNORE, ECHO_ON_POOL][id as usize % 4];
        client.send(Bytes::from(request(id, operation, b""))).await;
    }
    for id in (0..100_u64).filter(|id| id % 4 != 2) {
        assert_eq!(client.bytes().await[1..9], id.to_le_bytes());
    }
    assert_eq!(client.call(COUNT, b"").await, 100_u64.to_le_bytes());
    assert_eq!(world.connect().await.call(COUNT, b"").await, [0; 8], "each connection has its own");
}

#[tokio::test]
async fn a_reply_of_another_server_delays_later_calls_and_no_notifications() {
    let world = World::start(config()).await;
    let mut client = world.connect().await;
    client.call(SUBSCRIBE, b"blob").await;
    client.send(Bytes::from(request(1, FORWARD, b""))).await;
    client.send(Bytes::from(request(2, ECHO, b""))).await;
    for _ in 0..3 {
        BlobProtocol::publish(&world.server, b"blob", false);
        assert_eq!(client.bytes().await, b"blob"[..]);
    }
    world.server.forwarded.add_permits(1);
    assert_eq!(client.bytes().await, request(1, FORWARD, b""));
    assert_eq!(client.bytes().await, request(2, ECHO, b""));
    client.send(Bytes::from(request(3, FORWARD, b""))).await;
    world.wait_until(|_| world.server.forwarded_calls.load(Ordering::SeqCst) == 2).await;
    world.server.shut_down();
    let ping = timeout(TIMEOUT, client.socket.next()).await.expect("a message comes");
    assert!(matches!(ping, Some(Ok(Message::Ping(_)))), "{ping:?}");
    world.server.forwarded.add_permits(1);
    assert_eq!(client.bytes().await, request(3, FORWARD, b""));
    assert_eq!(client.read_close().await, (1001, "the node is shutting down".to_owned()));
    world.wait_until_empty().await;
}

#[tokio::test]
async fn a_shutdown_while_notifications_are_written_loses_no_reply_of_another_server() {
    let world = World::start(config()).await;
    let mut client = world.connect().await;
    let blob = vec![7; 4_000];
    client.call(SUBSCRIBE, &blob).await;
    client.send(Bytes::from(request(1, FORWARD, b""))).await;
    world.wait_until(|_| world.server.forwarded_calls.load(Ordering::SeqCst) == 1).await;
    let mut published = 0;
    while world.server.stats().unwritten_bytes == 0 {
        BlobProtocol::publish(&world.server, &blob, false);
        published += 1;
        assert!(published < 16_000, "the socket accepts everything");
        tokio::task::yield_now().await;
    }
    world.server.shut_down();
    world.server.forwarded.add_permits(1);
    let mut message = client.bytes().await;
    while message == blob[..] {
        message = client.bytes().await;
    }
    assert_eq!(message, request(1, FORWARD, b""));
    assert_eq!(client.read_close().await, (1001, "the node is shutting down".to_owned()));
    world.wait_until_empty().await;
}

#[tokio::test]
async fn a_long_reply_of_another_server_is_written_after_a_shutdown() {
    let world = World::start(Config { message_bytes_max: 100_000, ..config() }).await;
    let mut client = world.connect().await;
    let call = request(1, FORWARD, &[7; 50_000]);
    client.send(Bytes::from(call.clone())).await;
    world.wait_until(|_| world.server.forwarded_calls.load(Ordering::SeqCst) == 1).await;
    world.server.shut_down();
    let ping = timeout(TIMEOUT, client.socket.next()).await.expect("a message comes");
    assert!(matches!(ping, Some(Ok(Message::Ping(_)))), "{ping:?}");
    world.server.forwarded.add_permits(1);
    assert!(client.bytes().await == call);
    assert_eq!(client.read_close().await, (1001, "the node is shutting down".to_owned()));
    world.wait_until_empty().await;
}

#[tokio::test]
async fn several_bursts_of_notifications_are_sent_during_a_call() {
    // More than three bursts, and fewer than the queue may have.
    let count = 900;
    let world = World::start(config()).await;
    let mut client = world.connect().await;
    client.call(SUBSCRIBE, b"blob").await;
    for (calls, operation) in [(1, FORWARD), (2, WAIT)] {
        client.send(Bytes::from(request(1, operation, b""))).await;
        world.wait_until(|_| world.server.forwarded_calls.load(Ordering::SeqCst) == calls).await;
        for _ in 0..count {
            BlobProtocol::publish(&world.server, b"blob", false);
        }
        for _ in 0..count {
            assert_eq!(client.bytes().await, b"blob"[..], "{operation}");
        }
        world.server.forwarded.add_permits(1);
        assert_eq!(client.bytes().await, request(1, operation, b""));
    }
    drop(client);
    world.wait_until_empty().await;
}

#[tokio::test]
async fn notifications_of_a_paused_subscription_delay_no_others() {
    let world = World::start(config()).await;
    let mut client = world.connect().await;
    let paused = client.call(SUBSCRIBE, b"paused").await;
    client.call(SUBSCRIBE, b"blob").await;
    client.send(Bytes::from(request(1, PAUSE, &paused))).await;
    world.wait_until(|_| world.server.forwarded_calls.load(Ordering::SeqCst) == 1).await;
    for _ in 0..3 {
        BlobProtocol::publish(&world.server, b"paused", false);
        BlobProtocol::publish(&world.server, b"blob", false);
        assert_eq!(client.bytes().await, b"blob"[..]);
    }
    world.server.forwarded.add_permits(1);
    assert_eq!(client.bytes().await, request(1, PAUSE, &paused));
    for _ in 0..3 {
        assert_eq!(client.bytes().await, b"paused"[..]);
    }
}

#[tokio::test]
async fn pings_get_pongs_during_a_call_and_within_a_streamed_reply() {
    use tokio::io::AsyncWriteExt;

    let world = World::start(config()).await;
    let mut socket = world.socket().await;
    for operation in [FORWARD, WAIT] {
        let call = request(1, operation, b"");
        let sent = [frame(0x82, &call), frame(0x89, b"1"), frame(0x8a, b"")].concat();
        socket.write_all(&sent).await.expect("it is open");
        assert_eq!(read_frame(&mut socket).await, (0x8a, b"1".to_vec()));
        socket.write_all(&frame(0x89, b"2")).await.expect("it is open");
        assert_eq!(read_frame(&mut socket).await, (0x8a, b"2".to_vec()));
        // One after a message waits for the reply to that.
        let next = request(2, ECHO, b"");
        let sent = [frame(0x82, &next), frame(0x89, b"3")].concat();
        socket.write_all(&sent).await.expect("it is open");
        world.server.forwarded.add_permits(1);
        assert_eq!(read_frame(&mut socket).await, (0x82, call));
        assert_eq!(read_frame(&mut socket).await, (0x82, next));
        assert_eq!(read_frame(&mut socket).await, (0x8a, b"3".to_vec()));
    }
    let list = list_request(3, 500, 64 * 1024);
    let sent = [frame(0x82, &list), frame(0x89, b"4")].concat();
    socket.write_all(&sent).await.expect("it is open");
    let mut firsts = Vec::new();
    while firsts.last() != Some(&0x80) {
        firsts.push(read_frame(&mut socket).await.0);
    }
    assert_eq!(firsts.iter().filter(|first| **first == 0x8a).count(), 1);
}

#[tokio::test]
async fn a_binary_message_in_frames_with_pings_in_between_is_read_whole() {
    use tokio::io::AsyncWriteExt;

    let world = World::start(config()).await;
    let mut socket = world.socket().await;
    let message = request(9, ECHO, b"in three frames");
    let sent = [
        frame(0x02, &message[..5]),
        frame(0x89, b"1"),
        frame(0x00, &message[5..12]),
        frame(0x89, b"2"),
        frame(0x80, &message[12..]),
    ];
    // Byte by byte: no read ends where a frame does.
    for byte in sent.concat() {
        socket.write_u8(byte).await.expect("it is open");
    }
    assert_eq!(read_frame(&mut socket).await, (0x8a, b"1".to_vec()));
    assert_eq!(read_frame(&mut socket).await, (0x8a, b"2".to_vec()));
    assert_eq!(read_frame(&mut socket).await, (0x82, message));
}

#[tokio::test]
async fn the_operation_of_a_long_message_decides_its_bound() {
    let world = World::start(config()).await;
    let mut client = world.connect().await;
    let long = vec![7; 900_000];
    assert_eq!(client.call(STORE, &long).await, 900_000_u64.to_le_bytes());
    drop(client);
    // The rest is never sent. A text is not long, whatever its tenth byte is.
    let short = "a message over 4096 bytes (pubsub.message_bytes_max)";
    let long = "a message over 1048576 bytes (pubsub.addresses_message_bytes_max)";
    let cases = [
        (0x82, ECHO, 900_000, short),
        (0x81, STORE, 900_000, short),
        (0x02, ECHO, 900_000, short),
        (0x82, STORE, (1 << 20) + 1, long),
    ];
    for (first, operation, len, reason) in cases {
        let mut socket = world.socket().await;
        let beginning = request(1, operation, &[7; 5_000]);
        let sent = [header(first, len), beginning].concat();
        let ended = exchange(&mut socket, &sent).await;
        assert_eq!(ended, (vec![], (1009, reason.to_owned())), "{first:x} {operation}");
    }
    world.wait_until_empty().await;
}

#[tokio::test]
async fn each_listener_gets_what_was_encoded_once() {
    let world = World::start(config()).await;
    let mut clients = [world.connect().await, world.connect().await];
    let id = clients[0].call(SUBSCRIBE, b"blob").await;
    assert_eq!(clients[1].call(SUBSCRIBE, b"blob").await, id, "they share the subscription");
    for is_split in [false, true, true] {
        BlobProtocol::publish(&world.server, b"blob", is_split);
    }
    for client in &mut clients {
        assert_eq!(client.bytes().await, b"blob"[..]);
        for sequence in 0..2_u64 {
            let expected = [b"blob", &id[..], &sequence.to_le_bytes()].concat();
            assert_eq!(client.bytes().await, expected);
        }
    }
    let mut exposition = Exposition::default();
    world.server.write(&mut exposition);
    let text = exposition.into_string();
    for line in ["hydrant_websocket_connections 2\n", "hydrant_notifications_sent_total 6\n"] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    drop(clients);
    world.wait_until_empty().await;
}
