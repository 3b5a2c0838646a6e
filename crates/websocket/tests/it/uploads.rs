//! Messages that are read in parts: of a long one, only a part is in memory.

use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Bytes;
use websocket::Config;

use crate::blob_protocol::{
    BlobProtocol, ECHO, GREEDY, HEAD_BYTES, IGNORE_UPLOAD, REFUSE_UPLOAD, SUBSCRIBE, UPLOAD,
    request,
};
use crate::world::{World, config, exchange, frame, header, read_frame};

const LONG_BYTES: usize = 20_000_000;

/// Limits under which a long message cannot be in memory as a whole.
fn upload_config() -> Config {
    Config {
        addresses_message_bytes_max: LONG_BYTES + HEAD_BYTES,
        incoming_bytes_max: 1 << 20,
        ..config()
    }
}

/// The payload of the reply to an upload.
fn length_and_sum(payload: &[u8]) -> Vec<u8> {
    let sum = payload.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    [(payload.len() as u64).to_le_bytes(), sum.to_le_bytes()].concat()
}

#[tokio::test]
async fn a_message_longer_than_all_memory_for_messages_is_read_in_parts() {
    let world = World::start(upload_config()).await;
    let mut socket = world.socket().await;
    let payload: Vec<u8> = (0..LONG_BYTES).map(|at| (at % 251) as u8).collect();
    let message = request(5, UPLOAD, &payload);
    let sending = async {
        socket.write_all(&header(0x82, message.len())).await.expect("it is open");
        let mut reserved = 0;
        for chunk in message.chunks(100_000) {
            socket.write_all(chunk).await.expect("it is open");
            reserved = reserved.max(world.server.stats().incoming_bytes);
        }
        reserved
    };
    let reserved = sending.await;
    assert!((1..=64 * 1024).contains(&reserved), "{reserved} bytes were reserved");
    let expected = [&request(5, UPLOAD, b"")[..], &length_and_sum(&payload)].concat();
    assert_eq!(read_frame(&mut socket).await, (0x82, expected));
    drop(socket);
    world.wait_until_empty().await;
}

#[tokio::test]
async fn notifications_and_pongs_are_written_while_a_message_is_read() {
    let world = World::start(upload_config()).await;
    let mut socket = world.socket().await;
    let sent = frame(0x82, &request(1, SUBSCRIBE, b"blob"));
    socket.write_all(&sent).await.expect("it is open");
    assert_eq!(read_frame(&mut socket).await.0, 0x82);
    let message = request(5, UPLOAD, &[7; 300_000]);
    let (first, second) = message.split_at(200_000);
    socket.write_all(&frame(0x02, first)).await.expect("it is open");
    world.wait_until(|stats| stats.incoming_bytes > 0).await;
    BlobProtocol::publish(&world.server, b"blob", false);
    assert_eq!(read_frame(&mut socket).await, (0x82, b"blob".to_vec()));
    socket.write_all(&frame(0x89, b"!")).await.expect("it is open");
    assert_eq!(read_frame(&mut socket).await, (0x8a, b"!".to_vec()));
    socket.write_all(&frame(0x80, second)).await.expect("it is open");
    let expected = [&request(5, UPLOAD, b"")[..], &length_and_sum(&[7; 300_000])].concat();
    assert_eq!(read_frame(&mut socket).await, (0x82, expected));
}

#[tokio::test]
async fn the_rest_of_a_message_that_its_task_does_not_need_is_dropped() {
    let world = World::start(upload_config()).await;
    let mut client = world.connect().await;
    let refused = client.call(REFUSE_UPLOAD, &vec![7; 5_000_000]).await;
    assert_eq!(refused, length_and_sum(&[7; 64 * 1024 - HEAD_BYTES]), "its first part");
    client.send(Bytes::from(request(1, IGNORE_UPLOAD, &vec![7; 500_000]))).await;
    assert_eq!(client.call(ECHO, b"next").await, b"next");
    client.send(Bytes::from(request(1, GREEDY, &vec![7; 500_000]))).await;
    assert_eq!(client.read_close().await, (1011, "internal error".to_owned()));
    world.wait_until_empty().await;
}

#[tokio::test]
async fn a_streamed_message_over_its_bound_closes_its_connection() {
    let world = World::start(upload_config()).await;
    let mut socket = world.socket().await;
    let first = frame(0x02, &request(1, UPLOAD, &[7; 500_000]));
    let sent = [first, header(0x80, LONG_BYTES - 499_999)].concat();
    let reason = "a message over 20000010 bytes (pubsub.addresses_message_bytes_max)".to_owned();
    assert_eq!(exchange(&mut socket, &sent).await, (vec![], (1009, reason)));
}
