//! Clients that do not complete their messages: each message has a deadline, all together a limit, and each client a
//! share of it.

use std::sync::atomic::Ordering;

use rpc_solana::pubsub::Config;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::node::{Node, TEST_TIMEOUT, key};
use super::protocol::{frame, frames, header};

/// Returns the frames that a connection gets until its end.
async fn remaining_frames(mut socket: TcpStream) -> Vec<(u8, Vec<u8>)> {
    let mut received = Vec::new();
    let read = timeout(TEST_TIMEOUT, socket.read_to_end(&mut received)).await;
    read.expect("the server ends it").expect("it ends it in order, not by a reset");
    frames(&received)
}

/// Returns a call that subscribes to one address, padded to `bytes`.
fn padded_call(bytes: usize) -> String {
    let params = json!([[key(1).to_string()]]);
    let call =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "addressesSubscribe", "params": params });
    let call = call.to_string();
    let padding = " ".repeat(bytes - call.len());
    call + &padding
}

#[tokio::test]
async fn a_message_that_does_not_end_closes_its_connection_though_pings_are_answered() {
    // This is long enough for a client on a busy machine to send each pong.
    let config = Config { message_timeout_ms: 2_000, ping_ms: 200, ..Config::default() };
    let node = Node::start(config).await;
    let long = padded_call(900_000);
    let incomplete: [(&str, Vec<u8>); 4] = [
        ("half of a header", vec![0x81]),
        ("half of a frame", frame(0x81, b"{}")[..7].to_vec()),
        ("a piece", frame(0x01, &[b' '; 4_000])),
        (
            "half of a long message",
            [header(0x81, 900_000), long.into_bytes()].concat()[..500_000].to_vec(),
        ),
    ];
    for (what, bytes) in incomplete {
        let mut socket = node.socket().await;
        socket.write_all(&bytes).await.expect("it is open");
        // The client sends each pong where a control frame is allowed.
        let mut frames = Vec::new();
        let end = loop {
            let mut head = [0; 2];
            let read = timeout(TEST_TIMEOUT, socket.read_exact(&mut head)).await;
            read.expect("something comes").expect("the end is a frame");
            let mut payload = vec![0; usize::from(head[1])];
            socket.read_exact(&mut payload).await.expect("it is whole");
            match head[0] {
                0x88 => break payload,
                first => frames.push(first),
            }
            if what == "a piece" {
                // The stream may have ended: then the next read fails.
                let _ = socket.write_all(&frame(0x8a, b"")).await;
            }
        };
        assert!(frames.iter().all(|first| *first == 0x89), "{what}: {frames:x?}");
        let reason = String::from_utf8_lossy(&end[2..]);
        match what {
            "a piece" => {
                let late = "a message was not whole within 2000 ms (pubsub.message_timeout_ms)";
                assert_eq!(reason, late);
            }
            // A client that cannot send pongs may be closed for that.
            _ => assert!(reason.contains("(pubsub."), "{what}: {reason}"),
        }
        assert_eq!(end[..2], [0x03, 0xf0], "{what}: 1008");
    }
    node.wait_until_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_clients_unfinished_messages_leave_memory_for_others() {
    let message = 256 * 1024;
    let bound = 4 * message;
    let config = Config {
        addresses_message_bytes_max: message,
        incoming_bytes_max: bound,
        message_timeout_ms: 60_000,
        ..Config::default()
    };
    let node = Node::start(config).await;
    let mut incomplete = Vec::new();
    let text = padded_call(message);
    for n in 0..30 {
        let mut socket = node.socket().await;
        let first = if n % 2 == 0 { 0x81 } else { 0x01 };
        let header = header(first, message - n);
        // Not all of it is read: that would be 7 MiB.
        let sent = [&header, &text.as_bytes()[..message / 2]].concat();
        incomplete.push(tokio::spawn(async move {
            let _ = socket.write_all(&sent).await;
            socket
        }));
    }
    node.wait_until(|stats| stats.incoming_bytes > bound / 4 && stats.connections == 30).await;
    // Another client sends long messages and gets responses.
    node.next_client.store(8, Ordering::SeqCst);
    let mut other = node.connect().await;
    for _ in 0..10 {
        let reply = other.request(padded_call(message - 100)).await;
        assert!(reply["result"]["subscription"].is_u64(), "{reply}");
        let reserved = node.pubsub.stats().incoming_bytes;
        assert!(reserved <= bound, "{reserved} bytes are reserved");
    }
    // The hostile client still uses at most half, and its short messages still get responses.
    node.next_client.store(7, Ordering::SeqCst);
    let mut same = node.connect().await;
    same.subscribe("slot", json!([])).await;
    assert!(node.pubsub.stats().incoming_bytes <= bound / 2 + message);
    drop((other, same));
    for socket in incomplete {
        drop(socket.await.expect("no panic"));
    }
    node.wait_until_empty().await;
}

#[tokio::test]
async fn a_message_for_which_there_is_no_room_closes_its_connection() {
    let message = 64 * 1024;
    let config = Config {
        addresses_message_bytes_max: message,
        incoming_bytes_max: 2 * message,
        message_timeout_ms: 400,
        ..Config::default()
    };
    let node = Node::start(config).await;
    let text = padded_call(message);
    let incomplete = [&header(0x81, message), &text.as_bytes()[..message - 1]].concat();
    let mut sockets = Vec::new();
    for _ in 0..4 {
        let mut socket = node.socket().await;
        socket.write_all(&incomplete).await.expect("it is open");
        sockets.push(socket);
    }
    // One message has the client's share, and times out like the others. Which of them finds memory in between is open.
    let mut reasons = Vec::new();
    for socket in sockets {
        let ended = remaining_frames(socket).await;
        let Some((0x88, payload)) = ended.last() else { panic!("{ended:x?}") };
        reasons.push(String::from_utf8_lossy(&payload[2..]).into_owned());
    }
    let count = |text: &str| reasons.iter().filter(|reason| reason.contains(text)).count();
    assert!(count("(pubsub.message_timeout_ms)") >= 1, "{reasons:?}");
    assert_eq!(
        count("(pubsub.message_timeout_ms)") + count("131072 bytes of all clients"),
        4,
        "{reasons:?}"
    );
    node.wait_until_empty().await;
}
