//! Streamed replies: one message in many frames, made no faster than its client reads.

use std::sync::atomic::Ordering;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Bytes;

use crate::blob_protocol::{
    BlobProtocol, ECHO, HEAD_BYTES, SUBSCRIBE, list_part, list_request, request,
};
use crate::world::{World, config, frame, read_frame};

const PART_BYTES: u32 = 64 * 1024;

fn whole_list(id: u64, parts: u32, bytes: u32) -> Vec<u8> {
    let mut list = list_request(id, parts, bytes)[..HEAD_BYTES].to_vec();
    for number in 0..parts {
        list.extend_from_slice(&list_part(number, bytes as usize));
    }
    list
}

#[tokio::test]
async fn a_streamed_reply_is_one_message_in_as_many_frames_as_parts() {
    let world = World::start(config()).await;
    let mut client = world.connect().await;
    // Parts that are copied, parts that are shared, and one part only.
    for (parts, bytes) in [(100, 1_000), (50, PART_BYTES), (1, 10), (1, PART_BYTES)] {
        client.send(Bytes::from(list_request(3, parts, bytes))).await;
        assert!(client.bytes().await == whole_list(3, parts, bytes), "{parts} of {bytes}");
    }
    assert_eq!(client.call(ECHO, b"next").await, b"next");
    let mut socket = world.socket().await;
    socket.write_all(&frame(0x82, &list_request(3, 4, 9_000))).await.expect("it is open");
    let mut firsts = Vec::new();
    for _ in 0..4 {
        firsts.push(read_frame(&mut socket).await.0);
    }
    assert_eq!(firsts, [0x02, 0x00, 0x00, 0x80]);
}

#[tokio::test]
async fn notifications_and_later_calls_wait_for_the_end_of_a_streamed_reply() {
    let world = World::start(config()).await;
    let mut client = world.connect().await;
    client.call(SUBSCRIBE, b"blob").await;
    // More than the buffers of the sockets take, so it cannot end before the client reads.
    let parts = 500;
    client.send(Bytes::from(list_request(3, parts, PART_BYTES))).await;
    client.send(Bytes::from(request(4, ECHO, b"later"))).await;
    world.wait_for_list().await;
    for _ in 0..3 {
        BlobProtocol::publish(&world.server, b"blob", false);
    }
    world.wait_until(|stats| stats.queue_messages == 3).await;
    let made = world.server.list_parts.load(Ordering::SeqCst);
    assert!(made < parts as usize, "all parts were made, and nothing was read");
    assert!(client.bytes().await == whole_list(3, parts, PART_BYTES));
    let mut next = Vec::new();
    for _ in 0..4 {
        next.push(client.bytes().await);
    }
    // Notifications and replies have no order.
    next.sort_unstable_by_key(Bytes::len);
    assert_eq!(next[..3], [&b"blob"[..]; 3]);
    assert_eq!(next[3], request(4, ECHO, b"later"));
}

#[tokio::test]
async fn notifications_wait_for_one_streamed_reply_and_not_for_the_next() {
    let mut limited = config();
    limited.limits.queue_messages_max = 5_000;
    let world = World::start(limited).await;
    let mut client = world.connect().await;
    client.call(SUBSCRIBE, b"blob").await;
    // More than the buffers of the sockets take, so it cannot end before the client reads.
    let parts = 500;
    client.send(Bytes::from(list_request(3, parts, PART_BYTES))).await;
    client.send(Bytes::from(list_request(4, 2, PART_BYTES))).await;
    world.wait_for_list().await;
    let notifications = 3_000;
    for _ in 0..notifications {
        BlobProtocol::publish(&world.server, b"blob", false);
    }
    assert!(client.bytes().await == whole_list(3, parts, PART_BYTES));
    for _ in 0..notifications {
        assert_eq!(client.bytes().await, b"blob"[..]);
    }
    assert!(client.bytes().await == whole_list(4, 2, PART_BYTES));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_list_to_a_slow_reader_is_made_as_fast_as_it_is_read() {
    let world = World::start(config()).await;
    let mut socket = world.socket().await;
    let parts = 2_368; // 148 MiB
    let request = list_request(3, parts, PART_BYTES);
    socket.write_all(&frame(0x82, &request)).await.expect("it is open");
    let head_bytes = 10;
    let expected = parts as usize * (PART_BYTES as usize + head_bytes) + HEAD_BYTES;
    let mut buffer = vec![0; 256 * 1024];
    let mut read = 0;
    let mut in_memory = 0;
    let mut ahead = 0;
    while read < expected {
        read += socket.read(&mut buffer).await.expect("it is open");
        let stats = world.server.stats();
        in_memory = in_memory.max(stats.notification_bytes + stats.unwritten_bytes);
        let made = world.server.list_parts.load(Ordering::SeqCst) * PART_BYTES as usize;
        ahead = ahead.max(made.saturating_sub(read));
    }
    assert_eq!(read, expected);
    // A part in the queue's memory, which is also the one that is being written.
    let part_bytes = PART_BYTES as usize + HEAD_BYTES;
    assert!(in_memory <= 2 * (part_bytes + 100), "{in_memory} bytes were in memory");
    // The system's buffers of both sockets, and the part in memory.
    assert!(ahead <= 16 << 20, "the list was made {ahead} bytes ahead of its reader");
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_list() {
    let world = World::start(config()).await;
    let mut client = world.connect().await;
    client.send(Bytes::from(list_request(3, u32::MAX, PART_BYTES))).await;
    world.wait_for_list().await;
    drop(client);
    world.wait_until_empty().await;
}
