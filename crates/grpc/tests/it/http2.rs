//! Clients that misuse HTTP/2 itself: frames by hand.

use std::io::ErrorKind;
use std::time::Duration;

use grpc::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use yellowstone_grpc_proto::geyser::{CommitmentLevel, PingRequest};

use crate::calls::scrape;
use crate::client::{Client, connect, wait_until};
use crate::commitments::everything;
use crate::hostile::memory;
use crate::ledger::{FIRST, ScriptedLedger};
use crate::raw_client::{
    CONTINUATION, DATA, END_HEADERS, HEADERS, INITIAL_WINDOW_SIZE, PING, RST_STREAM, RawClient,
    SETTINGS, call_headers, encode_message, frame, subscribe_headers,
};

const FRAME_SIZE_ERROR: u8 = 6;
const REFUSED_STREAM: u8 = 7;
const CANCEL: u8 = 8;

pub(crate) async fn is_served(client: &mut Client) {
    client.ping(PingRequest { count: 1 }).await.expect("another client is served");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_begin_http2_is_disconnected() {
    let ledger = ScriptedLedger::start(Config { handshake_timeout_ms: 1_500, ..Config::default() });
    let mut other = connect(ledger.address()).await;
    let mut slow = TcpStream::connect(ledger.address()).await.expect("it listens");
    slow.write_all(b"PRI * HTTP/2.0\r\n").await.expect("sent");
    let mut rest = Vec::new();
    // It ends with or without a reset.
    let _ = slow.read_to_end(&mut rest).await;
    wait_until(|| scrape(&ledger.server).contains("cause=\"handshake\"} 1\n")).await;
    is_served(&mut other).await;
    assert!(scrape(&ledger.server).contains("hydrant_grpc_connections_total 2\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_within_a_frame_is_disconnected() {
    let ledger = ScriptedLedger::start(Config { keep_alive_ms: 500, ..Config::default() });
    let mut slow = RawClient::connect(&ledger, &[]).await;
    slow.send(&frame(HEADERS, END_HEADERS, 1, &subscribe_headers())[..20]).await;
    while slow.next().await.is_some() {}
    wait_until(|| scrape(&ledger.server).contains("hydrant_grpc_connections_open 0\n")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_beyond_the_size_that_the_server_takes_ends_its_connection() {
    let ledger = ScriptedLedger::start(Config::default());
    let mut client = RawClient::connect(&ledger, &[]).await;
    client.send(&frame(HEADERS, END_HEADERS, 1, &subscribe_headers())).await;
    // The head of a frame of 16 MiB.
    client.send(&[0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1]).await;
    assert_eq!(client.goaway().await, Some(FRAME_SIZE_ERROR));
    while client.next().await.is_some() {}
    wait_until(|| scrape(&ledger.server).contains("hydrant_grpc_connections_open 0\n")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_beyond_the_bound_are_refused_and_the_others_are_not() {
    let config = Config { connection_streams_max: 2, ..Config::default() };
    let ledger = ScriptedLedger::start(config);
    let mut client = RawClient::connect(&ledger, &[]).await;
    // A subscription, and two calls without their message.
    client.send(&frame(HEADERS, END_HEADERS, 1, &subscribe_headers())).await;
    for stream in [3, 5] {
        client.send(&frame(HEADERS, END_HEADERS, stream, &call_headers("GetSlot"))).await;
    }
    let reset = client.next_frame(RST_STREAM).await.expect("the connection works");
    assert_eq!((reset.stream, reset.payload.as_slice()), (5, &[0, 0, 0, REFUSED_STREAM][..]));
    wait_until(|| scrape(&ledger.server).contains("hydrant_grpc_subscriptions_open 1\n")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rapid_resets_end_their_connection_and_leave_nothing() {
    let ledger = ScriptedLedger::start(Config::default());
    let mut other = connect(ledger.address()).await;
    let client = RawClient::connect(&ledger, &[]).await;
    let mut flood = Vec::new();
    for stream in (1..200_000).step_by(2) {
        flood.extend(frame(HEADERS, END_HEADERS, stream, &subscribe_headers()));
        flood.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, CANCEL]));
    }
    let (mut reading, mut writing) = client.0.into_split();
    let sent = tokio::spawn(async move { writing.write_all(&flood).await });
    let mut received = Vec::new();
    // It ends with or without a reset.
    let _ = reading.read_to_end(&mut received).await;
    assert!(sent.await.expect("no panic").is_err(), "the connection ends before the flood");
    is_served(&mut other).await;
    wait_until(|| scrape(&ledger.server).contains("hydrant_grpc_subscriptions_open 0\n")).await;
    wait_until(|| scrape(&ledger.server).contains("hydrant_grpc_connections_open 1\n")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_never_end_end_their_connection() {
    let ledger = ScriptedLedger::start(Config::default());
    let mut client = RawClient::connect(&ledger, &[]).await;
    client.send(&frame(HEADERS, 0, 1, &subscribe_headers())).await;
    // A header of 200 bytes that no table stores.
    let mut header = vec![0x00, 1, b'x', 127, 73];
    header.resize(header.len() + 200, b'x');
    let flood = frame(CONTINUATION, 0, 1, &header).repeat(50_000);
    let (mut reading, mut writing) = client.0.into_split();
    let sent = tokio::spawn(async move { writing.write_all(&flood).await });
    let mut received = Vec::new();
    // It ends with or without a reset.
    let _ = reading.read_to_end(&mut received).await;
    assert!(sent.await.expect("no panic").is_err(), "the connection ends before the flood");
    wait_until(|| scrape(&ledger.server).contains("hydrant_grpc_connections_open 0\n")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_list_beyond_its_bound_is_refused() {
    let ledger = ScriptedLedger::start(Config::default());
    let mut client = RawClient::connect(&ledger, &[]).await;
    let mut block = subscribe_headers();
    for _ in 0..100 {
        block.extend([0x00, 1, b'x', 127, 73]);
        block.resize(block.len() + 200, b'x');
    }
    let (first, rest) = block.split_at(10_000);
    client.send(&frame(HEADERS, 0, 1, first)).await;
    client.send(&frame(CONTINUATION, END_HEADERS, 1, rest)).await;
    client.round_trip().await;
    assert!(scrape(&ledger.server).contains("hydrant_grpc_subscriptions_open 0\n"));
}

/// A client writes frames that the server has to acknowledge, and reads nothing.
async fn check_flood(frame: Vec<u8>) {
    let ledger = ScriptedLedger::start(Config::default());
    let mut other = connect(ledger.address()).await;
    let client = RawClient::connect(&ledger, &[]).await;
    let flood = frame.repeat(1_000);
    let mut accepted = 0;
    let mut refused = 0;
    // The server's one thread has handled its work when it has served another client many times.
    while refused < 50 {
        match client.0.try_write(&flood[accepted % frame.len()..]) {
            Ok(bytes) => (accepted, refused) = (accepted + bytes, 0),
            Err(err) if err.kind() == ErrorKind::WouldBlock => {
                refused += 1;
                is_served(&mut other).await;
            }
            // The server has ended the connection.
            Err(_) => break,
        }
        assert!(accepted < 256 << 20, "the server reads on without an end");
    }
    is_served(&mut other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pings_whose_answers_are_not_read_are_not_read_either() {
    check_flood(frame(PING, 0, 0, b"flooding")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_whose_answers_are_not_read_are_not_read_either() {
    check_flood(frame(SETTINGS, 0, 0, &[0, INITIAL_WINDOW_SIZE, 0, 0, 0xff, 0xff])).await;
}

/// A client that subscribes to everything and lets the server send nothing. A message for it waits.
async fn subscribe_with_closed_window(ledger: &mut ScriptedLedger) -> RawClient {
    let mut client = RawClient::connect(ledger, &[0, INITIAL_WINDOW_SIZE, 0, 0, 0, 0]).await;
    client.send(&frame(HEADERS, END_HEADERS, 1, &subscribe_headers())).await;
    let message = encode_message(&everything(CommitmentLevel::Processed));
    client.send(&frame(DATA, 0, 1, &message)).await;
    wait_until(|| memory(ledger, "grpc_filters") > 0).await;
    ledger.open(FIRST);
    wait_until(|| memory(ledger, "grpc_sending") > 0).await;
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_crosses_the_goaway_of_an_idle_connection_is_served() {
    // The deadline of the handshake passes after the connection was idle, and must not end it.
    let config = Config { handshake_timeout_ms: 1_000, idle_timeout_ms: 300, ..Config::default() };
    let mut ledger = ScriptedLedger::start(config);
    let mut client = RawClient::connect(&ledger, &[]).await;
    wait_until(|| scrape(&ledger.server).contains("cause=\"idle\"} 1\n")).await;
    // It has not read GOAWAY.
    client.send(&frame(HEADERS, END_HEADERS, 1, &subscribe_headers())).await;
    let message = encode_message(&everything(CommitmentLevel::Processed));
    client.send(&frame(DATA, 0, 1, &message)).await;
    wait_until(|| memory(&ledger, "grpc_filters") > 0).await;
    // The connection outlives the time that it has without a call.
    let opened = Instant::now();
    while opened.elapsed() < Duration::from_millis(1_500) {
        client.round_trip().await;
    }
    ledger.open(FIRST);
    let update = client.next_frame(DATA).await.expect("the stream continues");
    assert_eq!(update.stream, 1);
    client.send(&frame(RST_STREAM, 0, 1, &[0, 0, 0, CANCEL])).await;
    wait_until(|| scrape(&ledger.server).contains("hydrant_grpc_connections_open 0\n")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_whose_window_is_closed_is_disconnected() {
    let config = Config { queue_messages_max: 10, close_timeout_ms: 50, ..Config::default() };
    let mut ledger = ScriptedLedger::start(config);
    let _client = subscribe_with_closed_window(&mut ledger).await;
    for _ in 0..20 {
        ledger.write(FIRST, 2, 9, b"x", None);
    }
    wait_until(|| scrape(&ledger.server).contains("cause=\"status_unread\"} 1")).await;
    wait_until(|| scrape(&ledger.server).contains("hydrant_grpc_connections_open 0\n")).await;
    wait_until(|| memory(&ledger, "grpc_sending") == 0 && memory(&ledger, "grpc_queues") == 0)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unread_error_with_messages_before_it_is_timed_too() {
    let config = Config { close_timeout_ms: 50, ..Config::default() };
    let mut ledger = ScriptedLedger::start(config);
    let mut client = subscribe_with_closed_window(&mut ledger).await;
    // It takes the message from the ledger, and ends its requests with one that is none.
    client.send(&frame(8, 0, 1, &[0, 0, 0, 10])).await;
    client.send(&frame(DATA, 0, 1, &[0, 0, 0, 0, 1, 0xff])).await;
    wait_until(|| scrape(&ledger.server).contains("cause=\"status_unread\"} 1")).await;
    wait_until(|| scrape(&ledger.server).contains("hydrant_grpc_connections_open 0\n")).await;
}
