//! Clients that send and never read: if their messages need responses, the node stops reading before it uses more
//! memory than a buffer, and closes them.

use std::sync::Arc;

use clients::ClientId;
use rpc_solana::pubsub::Config;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::timeout;
use websocket::serve_connection;

use super::node::{Node, TEST_TIMEOUT};
use super::protocol::{frame, frames};

/// Bytes that each direction of a socket buffers.
const SOCKET_BYTES: usize = 64 * 1024;
/// Far more memory than a client may make the node use, and far less than it tries.
const NODE_BYTES_MAX: usize = 1024 * 1024;
/// Much more than all buffers can hold.
const FLOOD_BYTES: usize = 16 * 1024 * 1024;

/// Connects a client through a socket of known size, and returns the task that serves it.
fn connect(node: &Node) -> (DuplexStream, tokio::task::JoinHandle<()>) {
    let (client, server) = duplex(SOCKET_BYTES);
    let served = serve_connection(server, ClientId(7), Arc::clone(&node.pubsub));
    (client, tokio::spawn(served))
}

fn call(method: &str, params: serde_json::Value) -> Vec<u8> {
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    frame(0x81, call.to_string().as_bytes())
}

/// Sends a frame again and again until the connection is closed. Returns the bytes that were accepted, and the most
/// that were in use.
async fn flood(node: &Node, client: &mut DuplexStream, frame: &[u8]) -> (usize, usize) {
    let frames = frame.repeat(SOCKET_BYTES.div_ceil(frame.len()));
    let mut sent = 0;
    let mut in_use = 0;
    let mut at = 0;
    node.wait_until(|stats| stats.connections == 1).await;
    let flood = async {
        while sent < FLOOD_BYTES {
            let Ok(bytes) = client.write(&frames[at..]).await else { break };
            sent += bytes;
            at = (at + bytes) % frames.len();
            let stats = node.pubsub.stats();
            in_use = in_use.max(stats.unwritten_bytes + stats.notification_bytes);
        }
    };
    let closed = node.wait_until(|stats| stats.connections == 0);
    tokio::select! {
        () = flood => {}
        () = closed => {}
    }
    (sent, in_use)
}

#[tokio::test]
async fn a_client_that_sends_and_never_reads_is_closed_before_it_is_answered_much() {
    let node = Node::start(Config { write_timeout_ms: 200, ..Config::default() }).await;
    let cases: [(&str, Vec<u8>); 8] = [
        ("pings", frame(0x89, &[7; 125])),
        ("empty pings", frame(0x89, &[])),
        ("calls", call("getVersion", json!([]))),
        ("calls of nothing", call("getEverything", json!([]))),
        ("no calls", frame(0x81, b"{")),
        ("no calls as bytes", frame(0x82, b"{")),
        ("binary messages of nothing", frame(0x82, &[0xad])),
        ("calls about sets", call("addressesUpdate", json!([7, { "clear": true }]))),
    ];
    for (what, frame) in cases {
        let (mut client, serving) = connect(&node);
        let (sent, in_use) = flood(&node, &mut client, &frame).await;
        assert!(sent < NODE_BYTES_MAX, "{what}: {sent} bytes were accepted");
        assert!(in_use < NODE_BYTES_MAX, "{what}: {in_use} bytes were in use");
        // Now the client reads: the responses, then the close frame.
        let mut received = Vec::new();
        let read = timeout(TEST_TIMEOUT, client.read_to_end(&mut received)).await;
        read.expect("the server ends it").expect("it is memory");
        let last = frames(&received).pop();
        let Some((0x88, reason)) = last else { panic!("{what}: {last:?}") };
        let reason = String::from_utf8_lossy(&reason[2..]);
        let expected = "less than 64 KiB was read within 200 ms (pubsub.write_timeout_ms)";
        assert_eq!(reason, expected, "{what}");
        drop(client);
        serving.await.expect("no panic");
    }
    node.wait_until_empty().await;
}

#[tokio::test]
async fn frames_that_need_no_response_are_read_for_ever_and_use_no_memory() {
    let node = Node::start(Config::default()).await;
    let (mut client, serving) = connect(&node);
    let notification = b"[{\"jsonrpc\":\"2.0\",\"method\":\"x\"}]";
    for frame in [frame(0x8a, &[7; 125]), frame(0x81, notification), frame(0x81, b"[]")] {
        let many = frame.repeat(1_000);
        for _ in 0..20 {
            client.write_all(&many).await.expect("it is read");
            let stats = node.pubsub.stats();
            assert_eq!((stats.unwritten_bytes, stats.incoming_bytes), (0, 0));
        }
    }
    client.write_all(&call("getVersion", json!([]))).await.expect("it is read");
    let mut reply = [0; 2];
    timeout(TEST_TIMEOUT, client.read_exact(&mut reply))
        .await
        .expect("it answers")
        .expect("it is open");
    assert_eq!(reply[0], 0x81);
    drop(client);
    serving.await.expect("no panic");
    node.wait_until_empty().await;
}
