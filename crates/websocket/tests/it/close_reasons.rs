//! The codes and reasons with which connections are closed.

use std::sync::Arc;

use clients::ClientId;
use tokio::io::{AsyncWriteExt, duplex};
use tokio_tungstenite::tungstenite::Bytes;
use websocket::{Config, serve_session};

use crate::blob_protocol::{
    CUT, ECHO, GIVE_UP, MIX, MIX_KINDS, PANIC, PANIC_ON_POOL, QUIT, QUIT_WITH, request,
};
use crate::world::{World, config, exchange, frame, header, read_frame};

#[tokio::test]
async fn what_a_protocol_does_wrong_closes_its_connection_only() {
    let world = World::start(config()).await;
    let mut other = world.connect().await;
    let cases = [
        (QUIT, 4001, "goodbye"),
        (PANIC, 1011, "internal error"),
        (PANIC_ON_POOL, 1011, "internal error"),
        (CUT, 1011, "internal error"),
        (MIX, 1011, "internal error"),
        (MIX_KINDS, 1011, "internal error"),
        (GIVE_UP, 1013, "too slow"),
        (99, 1003, "operation 99 is unknown"),
    ];
    for (operation, code, reason) in cases {
        let mut client = world.connect().await;
        client.send(Bytes::from(request(1, operation, b""))).await;
        assert_eq!(client.read_close().await, (code, reason.to_owned()), "{operation}");
        assert_eq!(other.call(ECHO, b"served").await, b"served");
    }
    drop(other);
    world.wait_until_empty().await;
}

#[tokio::test]
async fn the_close_frame_of_a_client_that_does_not_read_it_is_returned() {
    let world = World::start(Config { close_timeout_ms: 0, ..config() }).await;
    let (mut client, io) = duplex(1_024);
    client.write_all(&frame(0x82, &request(1, QUIT, b""))).await.expect("it is open");
    let server = Arc::clone(&world.server);
    let closed = serve_session(io, ClientId(7), server, Default::default()).await;
    let closed = closed.map(|closed| (u16::from(closed.code), closed.reason.to_string()));
    assert_eq!(closed, Some((4001, "goodbye".to_owned())));
}

#[tokio::test]
async fn a_long_reason_is_cut_between_characters() {
    let world = World::start(config()).await;
    // The limit, 123 bytes, is within a character of the first reason only.
    for (long, cut) in [("é".repeat(70), "é".repeat(61)), ("a".repeat(140), "a".repeat(123))] {
        let mut client = world.connect().await;
        client.send(Bytes::from(request(1, QUIT_WITH, long.as_bytes()))).await;
        assert_eq!(client.read_close().await, (4002, cut));
    }
    world.wait_until_empty().await;
}

#[tokio::test]
async fn what_a_client_does_wrong_closes_its_connection_with_a_code() {
    let world = World::start(config()).await;
    let cases: [(Vec<u8>, u16, &str); 13] = [
        (frame(0x83, b""), 1002, "an opcode that is reserved"),
        (frame(0xc2, b""), 1002, "a reserved bit is set"),
        (vec![0x82, 1, 7], 1002, "a frame that is not masked"),
        (frame(0x80, b""), 1002, "a continuation of nothing"),
        ([frame(0x02, b"1"), frame(0x82, b"2")].concat(), 1002, "a message within a message"),
        (frame(0x09, b""), 1002, "a control frame in pieces"),
        (frame(0x89, &[7; 126]), 1002, "a control frame over 125 bytes"),
        (frame(0x88, &[3]), 1002, "a close frame of one byte"),
        // 1005 is for reports of a missing code only.
        (frame(0x88, &1_005_u16.to_be_bytes()), 1002, "Protocol violation"),
        (frame(0x88, b"\x03\xe8\xff"), 1007, "a message that is not UTF-8"),
        (frame(0x81, b"\xff"), 1007, "a message that is not UTF-8"),
        (header(0x82, (1 << 20) + 1), 1009, {
            "a message over 1048576 bytes (pubsub.addresses_message_bytes_max)"
        }),
        (frame(0x82, b"short"), 1003, "no head"),
    ];
    for (bytes, code, reason) in cases {
        let mut socket = world.socket().await;
        let ended = exchange(&mut socket, &bytes).await;
        assert_eq!(ended, (vec![], (code, reason.to_owned())));
    }
    world.wait_until_empty().await;
}

#[tokio::test]
async fn a_close_frame_is_sent_back_as_it_came() {
    let world = World::start(config()).await;
    let payloads: [&[u8]; 4] = [b"", b"\x03\xe8", b"\x03\xe8bye", b"\x0f\xa1\xc3\xa9"];
    for payload in payloads {
        let mut socket = world.socket().await;
        socket.write_all(&frame(0x88, payload)).await.expect("it is open");
        assert_eq!(read_frame(&mut socket).await, (0x88, payload.to_vec()));
    }
    world.wait_until_empty().await;
}

#[tokio::test]
async fn a_node_closes_silent_clients_and_those_it_cannot_serve() {
    let mut limited = Config { ping_ms: 50, ..config() };
    limited.limits.listeners_max = 1;
    let world = World::start(limited).await;
    // This client sends no pong.
    let mut silent = world.socket().await;
    world.wait_until(|stats| stats.connections == 1).await;
    let reason = "1 connections are open (pubsub.connections_max)".to_owned();
    assert_eq!(world.connect().await.read_close().await, (1013, reason));
    let (firsts, closed) = exchange(&mut silent, b"").await;
    let reason = "no answer to 2 pings, one every 50 ms (pubsub.ping_ms)".to_owned();
    assert_eq!((firsts, closed), (vec![0x89, 0x89], (1008, reason)));
    drop(silent);
    world.wait_until_empty().await;
    let mut last = world.connect().await;
    assert_eq!(last.call(ECHO, b"").await, b"");
    world.server.shut_down();
    assert_eq!(last.read_close().await, (1001, "the node is shutting down".to_owned()));
}
