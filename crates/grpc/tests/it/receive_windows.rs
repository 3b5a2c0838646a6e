//! Requests that the server has accepted and not read, or not handled: bounded by the windows of HTTP/2, and counted.

use grpc::Config;
use yellowstone_grpc_proto::geyser::{
    CommitmentLevel, PingRequest, SubscribeRequest, SubscribeRequestPing,
};

use crate::calls::scrape;
use crate::client::{connect, wait_until};
use crate::commitments::everything;
use crate::hostile::{CONNECTION_BYTES, memory};
use crate::http2::is_served;
use crate::ledger::{FIRST, ScriptedLedger};
use crate::raw_client::{
    ACK, CLOSED_WINDOW, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM,
    RawClient, call_headers, encode_message, frame, subscribe_headers,
};
use crate::send_windows::{FRAME_BYTES_MAX, SendWindows};

/// The memory of a connection in the metrics, without the window for requests that are not read.
const BUFFER_BYTES: u64 = 100 * 1_024;

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_requests_behind_a_closed_response_window_are_counted() {
    const CONNECTIONS: u64 = 8;
    let ledger = ScriptedLedger::start(Config::default());
    let mut other = connect(ledger.address()).await;
    is_served(&mut other).await;
    // A message that never ends: the bytes of it that the server accepts stay in memory.
    let mut message = vec![0; 1 << 20];
    message[1..5].copy_from_slice(&(2_u32 << 20).to_be_bytes());
    let mut clients = Vec::new();
    let mut accepted = 0;
    for _ in 0..CONNECTIONS {
        let mut client = RawClient::connect(&ledger, &CLOSED_WINDOW).await;
        client.send(&frame(HEADERS, END_HEADERS, 1, &subscribe_headers())).await;
        accepted += SendWindows::new().push(&mut client, 1, &message).await as u64;
        clients.push(client);
    }
    assert!(accepted > CONNECTIONS << 18, "the server reads {accepted} bytes");
    // The server reads all of them, so they count in addition to the windows.
    let expected = (CONNECTIONS + 1) * CONNECTION_BYTES + accepted;
    wait_until(|| memory(&ledger, "grpc_connections") == expected).await;
    is_served(&mut other).await;
    drop(clients);
    wait_until(|| memory(&ledger, "grpc_connections") == CONNECTION_BYTES).await;
    is_served(&mut other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_not_read_stay_within_the_counted_window() {
    let ledger = ScriptedLedger::start(Config::default());
    let mut client = RawClient::connect(&ledger, &CLOSED_WINDOW).await;
    client.send(&frame(HEADERS, END_HEADERS, 1, &subscribe_headers())).await;
    // Complete requests. The server reads the next one when it has space for the response.
    let ping = Some(SubscribeRequestPing { id: 1 });
    let request = encode_message(&SubscribeRequest { ping, ..SubscribeRequest::default() });
    let requests = request.repeat((1 << 20) / request.len());
    let accepted = SendWindows::new().push(&mut client, 1, &requests).await;
    assert!(accepted < requests.len(), "the server reads on without an end");
    assert!(accepted > FRAME_BYTES_MAX, "{accepted}");
    let counted = memory(&ledger, "grpc_connections");
    assert!(counted >= BUFFER_BYTES + accepted as u64, "{counted} for {accepted}");
    drop(client);
    wait_until(|| memory(&ledger, "grpc_connections") == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_call_on_every_stream_at_once_is_served() {
    let config = Config::default();
    let streams_max = config.connection_streams_max;
    let ledger = ScriptedLedger::start(config);
    let mut client = RawClient::connect(&ledger, &[]).await;
    let streams = || (1..).step_by(2).take(streams_max);
    let message = encode_message(&PingRequest { count: 1 });
    let headers = streams().map(|it| frame(HEADERS, END_HEADERS, it, &call_headers("Ping")));
    let messages = streams().map(|it| frame(DATA, 0, it, &message));
    let ends = streams().map(|it| frame(DATA, END_STREAM, it, &[]));
    let calls: Vec<_> = headers.chain(messages).chain(ends).collect();
    client.send(&calls.concat()).await;
    let mut responses = 0;
    let mut ended = 0;
    while ended < streams_max {
        let received = client.next().await.expect("the connection continues");
        assert!(![RST_STREAM, GOAWAY].contains(&received.kind), "{:?}", received.payload);
        responses += usize::from(received.kind == DATA);
        let is_last = received.kind == HEADERS && received.flags & END_STREAM != 0;
        ended += usize::from(is_last);
    }
    assert_eq!(responses, streams_max);
}

/// Sends a subscription beyond the connection's limit, and waits until it is refused. Its request is in a write of its
/// own, after the server has read the headers. The requests do not end, because h2 charges no last frame.
async fn send_refused_subscription(client: &mut RawClient, stream: u32) {
    let request = encode_message(&SubscribeRequest::default());
    client.send(&frame(HEADERS, END_HEADERS, stream, &subscribe_headers())).await;
    client.send(&frame(PING, 0, 0, b"received")).await;
    let mut is_sent = false;
    let mut is_refused = false;
    while !(is_sent && is_refused) {
        let received = client.next().await.expect("the connection continues");
        assert_ne!(received.kind, GOAWAY, "{:?}", received.payload);
        if received.kind == PING && received.flags & ACK != 0 {
            client.send(&frame(DATA, 0, stream, &request)).await;
            is_sent = true;
        }
        is_refused |= received.kind == HEADERS && received.stream == stream;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_subscriptions_do_not_end_their_connection() {
    const SUBSCRIPTIONS: usize = 18;
    const REFUSALS: usize = 400;
    let config = Config { connection_streams_max: 20, ping_ms: 600_000, ..Config::default() };
    let mut ledger = ScriptedLedger::start(config);
    let mut client = RawClient::connect(&ledger, &[]).await;
    let mut streams = (1..).step_by(2);
    for stream in streams.by_ref().take(SUBSCRIPTIONS) {
        client.send(&frame(HEADERS, END_HEADERS, stream, &subscribe_headers())).await;
    }
    let request = encode_message(&everything(CommitmentLevel::Processed));
    client.send(&frame(DATA, 0, 1, &request)).await;
    let open = format!("hydrant_grpc_subscriptions_open {SUBSCRIPTIONS}\n");
    wait_until(|| scrape(&ledger.server).contains(&open)).await;
    wait_until(|| memory(&ledger, "grpc_filters") > 0).await;
    for stream in streams.take(REFUSALS) {
        send_refused_subscription(&mut client, stream).await;
    }
    ledger.open(FIRST);
    let update = client.next_frame(DATA).await.expect("the connection continues");
    assert_eq!(update.stream, 1);
}
