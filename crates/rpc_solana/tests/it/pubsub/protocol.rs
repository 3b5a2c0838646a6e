//! Frames that violate the protocol: each closes its connection with the standard's code.

use rpc_solana::pubsub::Config;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::node::Node;

const VERSION: &str = r#"{"jsonrpc":"2.0","id":1,"method":"getVersion"}"#;

/// Returns the header of a frame as a client sends it, masked with zeros.
pub(super) fn header(first: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![first];
    match len {
        0..126 => bytes.push(0x80 | len as u8),
        126..65_536 => {
            bytes.push(0xfe);
            bytes.extend_from_slice(&(len as u16).to_be_bytes());
        }
        _ => {
            bytes.push(0xff);
            bytes.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(&[0; 4]);
    bytes
}

/// Returns a frame as a client sends it, masked with zeros.
pub(super) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    [header(first, payload.len()), payload.to_vec()].concat()
}

/// Sends bytes and reads the frames that come until the end of the stream: first bytes and payloads.
async fn response_frames(node: &Node, bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut socket = node.socket().await;
    socket.write_all(bytes).await.expect("it is open");
    let mut received = Vec::new();
    let reading = socket.read_to_end(&mut received);
    let read = tokio::time::timeout(std::time::Duration::from_secs(20), reading);
    read.await.expect("the server ends it").expect("it ends it in order, not by a reset");
    frames(&received)
}

/// Splits the bytes of a server into frames: their first bytes and payloads. The last one may be incomplete.
pub(super) fn frames(mut rest: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while let [first, len, after @ ..] = rest {
        let (len, after) = match len {
            126 => {
                let (len, after) = after.split_at(2);
                (usize::from(u16::from_be_bytes([len[0], len[1]])), after)
            }
            127 => {
                let (len, after) = after.split_at(8);
                (u64::from_be_bytes(len.try_into().expect("eight bytes")) as usize, after)
            }
            len => (usize::from(*len), after),
        };
        let (payload, after) = after.split_at(len.min(after.len()));
        frames.push((*first, payload.to_vec()));
        rest = after;
    }
    frames
}

#[tokio::test]
async fn a_protocol_violation_closes_with_its_code() {
    let node = Node::start(Config { close_timeout_ms: 2_000, ..Config::default() }).await;
    let long = frame(0x81, &[b' '; 4_097]);
    let in_pieces = [frame(0x01, &[b' '; 3_000]), frame(0x80, &[b' '; 3_000])].concat();
    let announced = [&[0x81, 0xff][..], &u64::MAX.to_be_bytes(), &[0; 4]].concat();
    // The rest of these is never sent.
    let incomplete = [header(0x81, 1 << 20), vec![b' '; 5_000]].concat();
    let incomplete_in_frames = [frame(0x01, &[b' '; 4_000]), header(0x00, 97)].concat();
    let incomplete_in_frames = [incomplete_in_frames, vec![b' '; 97]].concat();
    let unmasked = [&[0x81, 2][..], b"{}"].concat();
    let cases: [(&str, Vec<u8>, u16); 16] = [
        ("unmasked", unmasked, 1002),
        ("a reserved bit", frame(0xc1, b"{}"), 1002),
        ("another reserved bit", frame(0x91, b"{}"), 1002),
        ("a reserved data opcode", frame(0x83, b"{}"), 1002),
        ("a reserved control opcode", frame(0x8b, b""), 1002),
        ("a continuation of nothing", frame(0x80, b"{}"), 1002),
        ("a message within a message", [frame(0x01, b"{"), frame(0x81, b"}")].concat(), 1002),
        ("a ping in pieces", frame(0x09, b""), 1002),
        ("a ping of 126 bytes", frame(0x89, &[0; 126]), 1002),
        ("text that is not UTF-8", frame(0x81, &[0xff, 0xfe]), 1007),
        ("bytes that are not UTF-8", frame(0x82, &[0xff, 0xfe]), 1007),
        ("4,097 bytes", long, 1009),
        ("6,000 bytes in two pieces", in_pieces, 1009),
        ("2^64 bytes announced", announced, 1009),
        ("the beginning of 1 MiB that is not about addresses", incomplete, 1009),
        ("4,097 bytes of an incomplete message", incomplete_in_frames, 1009),
    ];
    for (what, bytes, code) in cases {
        let frames = response_frames(&node, &bytes).await;
        let [(0x88, payload)] = frames.as_slice() else {
            panic!("{what}: one closing frame was expected, not {frames:?}")
        };
        let (received, reason) = payload.split_at(2);
        assert_eq!(u16::from_be_bytes([received[0], received[1]]), code, "{what}");
        assert!(std::str::from_utf8(reason).is_ok_and(|reason| !reason.is_empty()), "{what}");
    }
    node.wait_until_empty().await;
}

#[tokio::test]
async fn a_goodbye_is_answered_in_kind() {
    let node = Node::start(Config::default()).await;
    let frames = response_frames(&node, &frame(0x88, &[0x03, 0xe8])).await;
    assert_eq!(frames, [(0x88, vec![0x03, 0xe8])]);
    let frames = response_frames(&node, &frame(0x88, &[])).await;
    assert_eq!(frames, [(0x88, vec![])]);
    // A code that must not be sent.
    let frames = response_frames(&node, &frame(0x88, &[0x03, 0xed])).await;
    assert_eq!(frames[0].1[..2], [0x03, 0xea], "1002");
    node.wait_until_empty().await;
}

#[tokio::test]
async fn pieces_pings_and_bytes_are_all_understood() {
    let node = Node::start(Config::default()).await;
    let (start, rest) = VERSION.as_bytes().split_at(10);
    let bytes = [
        frame(0x01, start),
        frame(0x89, b"hello"),
        frame(0x80, rest),
        frame(0x82, VERSION.as_bytes()),
        frame(0x88, &[0x03, 0xe8]),
    ];
    let frames = response_frames(&node, &bytes.concat()).await;
    let firsts: Vec<_> = frames.iter().map(|(first, _)| *first).collect();
    assert_eq!(firsts, [0x8a, 0x81, 0x81, 0x88]);
    assert_eq!(frames[0].1, b"hello");
    assert_eq!(frames[1].1, frames[2].1);
}

#[tokio::test]
async fn a_message_with_4096_bytes_is_accepted() {
    let node = Node::start(Config::default()).await;
    let mut client = node.connect().await;
    let padded = format!("{VERSION}{}", " ".repeat(4_096 - VERSION.len()));
    assert_eq!(client.request(padded).await["result"]["feature-set"], 77);
}

#[tokio::test]
async fn half_a_frame_and_then_nothing_is_no_harm() {
    let node = Node::start(Config::default()).await;
    let mut other = node.connect().await;
    for half in 1..frame(0x81, VERSION.as_bytes()).len() {
        let mut socket = node.socket().await;
        let bytes = &frame(0x81, VERSION.as_bytes())[..half];
        socket.write_all(bytes).await.expect("it is open");
        drop(socket);
    }
    other.subscribe("slot", json!([])).await;
    other.socket.close(None).await.expect("it is open");
    node.wait_until_empty().await;
}
