//! Clients that read too slowly, or send what no client should.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use grpc::Config;
use http_body_util::StreamBody;
use metrics::Collector;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tonic::Code;
use tonic::transport::Endpoint;
use yellowstone_grpc_proto::geyser::{
    CommitmentLevel, PingRequest, SubscribeRequest, SubscribeRequestFilterAccounts,
    SubscribeRequestFilterBlocksMeta, SubscribeRequestFilterTransactions,
};

use crate::calls::scrape;
use crate::client::{Client, Subscription, connect, connect_with, wait_until};
use crate::commitments::everything;
use crate::ledger::{FIRST, ScriptedLedger, block_id, key, transaction};

/// The memory of a connection in the metrics, without bytes of its requests that are read.
pub(crate) const CONNECTION_BYTES: u64 = 264 * 1_024;

pub(crate) fn memory(ledger: &ScriptedLedger, part: &str) -> u64 {
    let parts = ledger.server.metrics().memory();
    parts.iter().find(|(name, _)| *name == part).expect("a part").1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lagging_client_is_closed_and_the_others_are_not() {
    let config = Config { queue_bytes_max: 1 << 20, ..Config::default() };
    let mut ledger = ScriptedLedger::start(config);
    let mut slow = connect(ledger.address()).await;
    let mut fast = connect(ledger.address()).await;
    let mut lagging = Subscription::start(&mut slow, everything(CommitmentLevel::Processed)).await;
    let of_one =
        SubscribeRequestFilterAccounts { account: vec![key(1).to_string()], ..Default::default() };
    let one =
        SubscribeRequest { accounts: [("one".to_owned(), of_one)].into(), ..Default::default() };
    let mut reading = Subscription::start(&mut fast, one).await;
    ledger.open(FIRST);
    let data = [b'x'; 10_000];
    for _ in 0..1_000 {
        ledger.write(FIRST, 2, 9, &data, None);
    }
    ledger.write(FIRST, 1, 9, b"still here", None);
    assert_eq!(reading.take(1).await, ["one: account 101 1 still here"]);
    assert!(scrape(&ledger.server).contains("hydrant_grpc_lagged_total 1\n"));
    assert!(memory(&ledger, "grpc_queues") < 100_000, "its queue was emptied");
    let status = lagging.end().await;
    assert_eq!(status.code(), Code::Internal);
    assert_eq!(status.message(), "lagged to send an update");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_is_disconnected() {
    let config = Config { queue_bytes_max: 1 << 20, close_timeout_ms: 50, ..Config::default() };
    let mut ledger = ScriptedLedger::start(config);
    let small = |endpoint: Endpoint| endpoint.initial_stream_window_size(65_535);
    let mut client = connect_with(ledger.address(), small).await;
    let lagging = Subscription::start(&mut client, everything(CommitmentLevel::Processed)).await;
    ledger.open(FIRST);
    let data = [b'x'; 100_000];
    ledger.write(FIRST, 2, 9, &data, None);
    // HTTP/2 has a part of the message, and the client's window has no space for the rest.
    wait_until(|| memory(&ledger, "grpc_sending") > data.len() as u64).await;
    for _ in 0..20 {
        ledger.write(FIRST, 2, 9, &data, None);
    }
    wait_until(|| scrape(&ledger.server).contains("cause=\"status_unread\"} 1")).await;
    wait_until(|| scrape(&ledger.server).contains("hydrant_grpc_connections_open 0\n")).await;
    assert!(scrape(&ledger.server).contains("hydrant_grpc_lagged_total 1\n"));
    wait_until(|| memory(&ledger, "grpc_queues") == 0 && memory(&ledger, "grpc_filters") == 0)
        .await;
    wait_until(|| memory(&ledger, "grpc_sending") == 0).await;
    drop(lagging);
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_bounded_together_and_the_largest_is_closed() {
    let config = Config { queues_bytes_max: 3 << 20, ..Config::default() };
    let mut ledger = ScriptedLedger::start(config);
    let mut all = Vec::new();
    for _ in 0..8 {
        let mut client = connect(ledger.address()).await;
        all.push(Subscription::start(&mut client, everything(CommitmentLevel::Processed)).await);
    }
    ledger.open(FIRST);
    for _ in 0..200 {
        ledger.write(FIRST, 2, 9, &[b'x'; 20_000], None);
        let bytes = memory(&ledger, "grpc_queues") + memory(&ledger, "grpc_sending");
        assert!(bytes <= 3 << 20, "{bytes} bytes");
    }
    wait_until(|| !scrape(&ledger.server).contains("hydrant_grpc_lagged_total 0\n")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_too_large_ends_its_stream_only() {
    let config = Config { request_bytes_max: 10_000, ..Config::default() };
    let ledger = ScriptedLedger::start(config);
    let mut client = connect(ledger.address()).await;
    let filter =
        SubscribeRequestFilterAccounts { account: vec!["x".repeat(20_000)], ..Default::default() };
    let request =
        SubscribeRequest { accounts: [("a".to_owned(), filter)].into(), ..Default::default() };
    let mut subscription = Subscription::start_unchecked(&mut client).await;
    subscription.send(request).await;
    assert_eq!(subscription.end().await.code(), Code::OutOfRange);
    let pong = client.ping(PingRequest { count: 3 }).await.expect("the connection works");
    assert_eq!(pong.into_inner().count, 3);
}

pub(crate) type Frames = BoxStream<'static, Result<hyper::body::Frame<Bytes>, Infallible>>;
pub(crate) type Sender = hyper::client::conn::http2::SendRequest<StreamBody<Frames>>;

/// A client of HTTP/2 without gRPC, and the task of its connection.
pub(crate) async fn handshake(socket: TcpStream) -> (Sender, JoinHandle<hyper::Result<()>>) {
    let executor = hyper_util::rt::TokioExecutor::new();
    let socket = hyper_util::rt::TokioIo::new(socket);
    let (sender, connection) =
        hyper::client::conn::http2::handshake(executor, socket).await.expect("a handshake");
    (sender, tokio::spawn(connection))
}

/// A call with these first bytes. Its body ends with the returned sender.
pub(crate) async fn raw_call(
    ledger: &ScriptedLedger,
    method: &str,
    first: Bytes,
    encoding: &str,
) -> (mpsc::Sender<Bytes>, hyper::Request<StreamBody<Frames>>) {
    let (sent, body) = mpsc::channel::<Bytes>(1);
    sent.send(first).await.expect("space");
    let frames = futures_util::stream::unfold(body, |mut body| async {
        let frame = hyper::body::Frame::data(body.recv().await?);
        Some((Ok(frame), body))
    });
    let request =
        hyper::Request::post(format!("http://{}/geyser.Geyser/{method}", ledger.address()))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("grpc-encoding", encoding)
            .body(StreamBody::new(frames.boxed()))
            .expect("a request");
    (sent, request)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_announces_a_gibibyte_is_refused_at_its_head() {
    let ledger = ScriptedLedger::start(Config::default());
    let socket = TcpStream::connect(ledger.address()).await.expect("it listens");
    let (mut sender, _connection) = handshake(socket).await;
    let (_open, request) = raw_call(&ledger, "Ping", incomplete(1 << 30, 10), "identity").await;
    let response = sender.send_request(request).await.expect("a response");
    assert_eq!(response.headers()["grpc-status"], "11");
    wait_until(|| memory(&ledger, "grpc_connections") == CONNECTION_BYTES).await;
    let (open, request) = raw_call(&ledger, "Ping", Bytes::from_static(&[0; 5]), "identity").await;
    drop(open);
    let response = sender.send_request(request).await.expect("the connection works");
    assert!(!response.headers().contains_key("grpc-status"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_becomes_too_large_when_it_is_decompressed_is_refused() {
    let ledger = ScriptedLedger::start(Config::default());
    let zeros = std::io::Read::take(std::io::repeat(0), 64 << 20);
    let compressed = zstd::stream::encode_all(zeros, 1).expect("memory");
    assert!(compressed.len() < 10_000, "{} bytes", compressed.len());
    let mut message = vec![1];
    message.extend_from_slice(&(compressed.len() as u32).to_be_bytes());
    message.extend_from_slice(&compressed);
    let socket = TcpStream::connect(ledger.address()).await.expect("it listens");
    let (mut sender, _connection) = handshake(socket).await;
    let (_open, request) = raw_call(&ledger, "Ping", message.into(), "zstd").await;
    let response = sender.send_request(request).await.expect("a response");
    assert_eq!(response.headers()["grpc-status"], "8");
}

/// A gRPC message head that announces `length` bytes, and some of them.
pub(crate) fn incomplete(length: u32, sent: usize) -> Bytes {
    let mut message = vec![0];
    message.extend_from_slice(&length.to_be_bytes());
    message.resize(5 + sent, b'x');
    message.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn incomplete_requests_are_counted_bounded_and_released() {
    let config = Config { incoming_bytes_max: 30_000, ..Config::default() };
    let ledger = ScriptedLedger::start(config);
    let socket = TcpStream::connect(ledger.address()).await.expect("it listens");
    let (mut sender, connection) = handshake(socket).await;
    wait_until(|| memory(&ledger, "grpc_connections") > 0).await;
    let base = memory(&ledger, "grpc_connections");
    let mut responses = Vec::new();
    for _ in 0..4 {
        let (sent, request) =
            raw_call(&ledger, "Ping", incomplete(15_000, 10_000), "identity").await;
        responses.push((sent, tokio::spawn(sender.send_request(request))));
    }
    // Three do not fit into the share of one client, so at least two are refused; the others wait for the rest of their message.
    let mut refused = 0;
    let mut waiting = Vec::new();
    wait_until(|| memory(&ledger, "grpc_connections") > base).await;
    while refused < 2 {
        for (sent, response) in std::mem::take(&mut responses) {
            if !response.is_finished() {
                waiting.push((sent, response));
                continue;
            }
            let response = response.await.expect("no panic").expect("a response");
            assert_eq!(response.headers()["grpc-status"], "8");
            refused += 1;
        }
        std::mem::swap(&mut responses, &mut waiting);
        tokio::task::yield_now().await;
    }
    assert!(memory(&ledger, "grpc_connections") <= base + 30_000 + 16 * 1_024);
    connection.abort();
    drop(responses);
    wait_until(|| memory(&ledger, "grpc_connections") == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_bound_wait_and_bytes_that_are_no_http2_end_theirs() {
    let ledger = ScriptedLedger::start(Config { connections_max: 1, ..Config::default() });
    let mut first = connect(ledger.address()).await;
    first.ping(PingRequest { count: 1 }).await.expect("a pong");
    let mut second = TcpStream::connect(ledger.address()).await.expect("the backlog has space");
    second.write_all(b"GET / HTTP/1.1\r\n\r\nnot HTTP/2 at all").await.expect("sent");
    assert!(scrape(&ledger.server).contains("hydrant_grpc_connections_total 1\n"));
    drop(first);
    let mut rest = Vec::new();
    // It ends with or without a reset.
    let _ = second.read_to_end(&mut rest).await;
    wait_until(|| scrape(&ledger.server).contains("hydrant_grpc_connections_total 2\n")).await;
    let mut third = connect(ledger.address()).await;
    third.ping(PingRequest { count: 1 }).await.expect("a pong");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_writes_close_each_client_of_accounts_once() {
    lose_events(Config { events_max: 1, ..Config::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_beyond_their_bytes_are_lost_and_the_ledger_does_not_wait() {
    lose_events(Config { events_bytes_max: 1, ..Config::default() }).await;
}

async fn lose_events(config: Config) {
    let mut ledger = ScriptedLedger::start(config);
    let mut client = connect(ledger.address()).await;
    let mut subscription =
        Subscription::start(&mut client, everything(CommitmentLevel::Processed)).await;
    let meta = ("meta".to_owned(), SubscribeRequestFilterBlocksMeta {});
    let metas = SubscribeRequest { blocks_meta: [meta].into(), ..Default::default() };
    let mut others = Subscription::start(&mut client, metas).await;
    ledger.open(FIRST);
    wait_until(|| memory(&ledger, "grpc_events") == 0).await;
    for _ in 0..10_000 {
        ledger.write(FIRST, 2, 9, b"x", None);
    }
    assert_eq!(subscription.end().await.message(), "lagged to send an update");
    assert!(!scrape(&ledger.server).contains("hydrant_grpc_writes_lost_total 0\n"));
    // Clients that want no accounts lose nothing.
    assert!(scrape(&ledger.server).contains("hydrant_grpc_events_lost_total 0\n"));
    wait_until(|| memory(&ledger, "grpc_events") == 0).await;
    ledger.freeze(FIRST);
    assert_eq!(others.take(1).await, ["meta: meta 101 0"]);
    events_are_published(&ledger).await;
    // A client of accounts that subscribes now is closed only if its commitment still lacks this bank.
    let open = async |client: &mut Client, commitment| {
        Subscription::start(client, accounts_at(commitment)).await
    };
    let mut processed = open(&mut client, CommitmentLevel::Processed).await;
    let mut confirmed = open(&mut client, CommitmentLevel::Confirmed).await;
    ledger.confirm(block_id(FIRST));
    assert_eq!(confirmed.end().await.message(), "lagged to send an update");
    let mut confirmed = open(&mut client, CommitmentLevel::Confirmed).await;
    ledger.root(block_id(FIRST));
    events_are_published(&ledger).await;
    ledger.open(FIRST + 1);
    events_are_published(&ledger).await;
    ledger.write(FIRST + 1, 1, 9, b"data", None);
    events_are_published(&ledger).await;
    ledger.freeze(FIRST + 1);
    events_are_published(&ledger).await;
    ledger.confirm(block_id(FIRST + 1));
    for subscription in [&mut processed, &mut confirmed] {
        assert_eq!(subscription.take(1).await, ["all: account 102 1 data"]);
    }
}

async fn events_are_published(ledger: &ScriptedLedger) {
    wait_until(|| memory(ledger, "grpc_events") == 0).await;
}

fn accounts_at(commitment: CommitmentLevel) -> SubscribeRequest {
    SubscribeRequest {
        accounts: [("all".to_owned(), SubscribeRequestFilterAccounts::default())].into(),
        commitment: Some(commitment.into()),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_transactions_are_sent_at_the_end_of_their_bank() {
    let mut ledger = ScriptedLedger::start(Config { events_max: 4, ..Config::default() });
    let mut client = connect(ledger.address()).await;
    let all = ("all".to_owned(), SubscribeRequestFilterTransactions::default());
    let request = SubscribeRequest { transactions: [all].into(), ..Default::default() };
    let mut subscription = Subscription::start(&mut client, request).await;
    ledger.open(FIRST);
    wait_until(|| memory(&ledger, "grpc_events") == 0).await;
    let mut count = 0;
    let is_lost =
        |ledger: &ScriptedLedger| !scrape(&ledger.server).contains("transactions_lost_total 0\n");
    for _ in 0..100 {
        for _ in 0..1_000 {
            ledger.execute(transaction(FIRST, count, 1, &[1]));
            count += 1;
        }
        if is_lost(&ledger) {
            break;
        }
    }
    wait_until(|| is_lost(&ledger)).await;
    assert!(scrape(&ledger.server).contains("hydrant_grpc_writes_lost_total 0\n"));
    wait_until(|| memory(&ledger, "grpc_events") == 0).await;
    ledger.freeze(FIRST);
    let mut received = subscription.take(count as usize).await;
    received.sort_unstable();
    let mut expected: Vec<_> =
        (0..count).map(|index| format!("all: transaction 101 {index} 1")).collect();
    expected.sort_unstable();
    assert!(received == expected, "each transaction once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_may_wait_does_so_at_the_bound_of_bytes_and_loses_nothing() {
    const EVENTS: usize = 500;
    let mut ledger = ScriptedLedger::start(Config { events_bytes_max: 1, ..Config::default() });
    let mut client = connect(ledger.address()).await;
    let request = SubscribeRequest {
        accounts: [("all".to_owned(), SubscribeRequestFilterAccounts::default())].into(),
        ..Default::default()
    };
    let mut subscription = Subscription::start(&mut client, request).await;
    ledger.open(FIRST);
    wait_until(|| memory(&ledger, "grpc_events") == 0).await;
    for _ in 0..EVENTS {
        ledger.write_and_wait(FIRST, 2, &[7; 1_000]);
        // One event, which is longer than the bound, and never two.
        assert!(memory(&ledger, "grpc_events") < 2_000);
    }
    assert_eq!(subscription.take(EVENTS).await.len(), EVENTS);
    assert!(scrape(&ledger.server).contains("hydrant_grpc_events_lost_total 0\n"));
}
