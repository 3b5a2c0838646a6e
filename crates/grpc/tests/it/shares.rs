//! A hostile client at each bound, and an honest one of another address alongside it.
//! Not here: filters that change all the time, and as many as a client may have (`filter_load`).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use grpc::Config;
use prost::Message;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use tonic::{Code, Status};
use yellowstone_grpc_proto::geyser::subscribe_request_filter_accounts_filter::Filter;
use yellowstone_grpc_proto::geyser::{
    PingRequest, SubscribeRequest, SubscribeRequestFilterAccounts,
    SubscribeRequestFilterAccountsFilter, SubscribeRequestFilterBlocksMeta,
};

use crate::calls::scrape;
use crate::client::{Client, Subscription, connect, connect_with, wait_until};
use crate::hostile::{CONNECTION_BYTES, handshake, incomplete, memory, raw_call};
use crate::ledger::{FIRST, ScriptedLedger, key};

pub(crate) const HOSTILE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

pub(crate) async fn connect_hostile(ledger: &ScriptedLedger) -> Client {
    connect_with(ledger.address(), |it| it.local_address(Some(IpAddr::V4(HOSTILE)))).await
}

pub(crate) async fn hostile_socket(ledger: &ScriptedLedger) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from((HOSTILE, 0))).expect("a free port");
    socket.connect(ledger.address()).await.expect("it listens")
}

pub(crate) fn metas() -> SubscribeRequest {
    let meta = ("meta".to_owned(), SubscribeRequestFilterBlocksMeta {});
    SubscribeRequest { blocks_meta: [meta].into(), ..Default::default() }
}

fn accounts(count: u8) -> SubscribeRequest {
    let account = (1..=count).map(|n| key(n).to_string()).collect();
    let filter = SubscribeRequestFilterAccounts { account, ..Default::default() };
    SubscribeRequest { accounts: [("a".to_owned(), filter)].into(), ..Default::default() }
}

/// Filters that match no account, and that the index has no key for.
fn scans(count: usize) -> SubscribeRequest {
    let never = SubscribeRequestFilterAccountsFilter { filter: Some(Filter::Datasize(1 << 60)) };
    let filter = SubscribeRequestFilterAccounts { filters: vec![never], ..Default::default() };
    let accounts = (0..count).map(|n| (n.to_string(), filter.clone())).collect();
    SubscribeRequest { accounts, ..Default::default() }
}

/// Returns the number of refusals with a cause.
pub(crate) fn refusals(ledger: &ScriptedLedger, cause: &str) -> u64 {
    let metrics = scrape(&ledger.server);
    let label = format!("cause=\"{cause}\"}} ");
    let value = metrics.split(&label).nth(1).and_then(|rest| rest.lines().next());
    value.expect("a cause").parse().expect("a number")
}

pub(crate) async fn refusal(client: &mut Client, request: SubscribeRequest) -> Status {
    let mut subscription = Subscription::start_unchecked(client).await;
    subscription.send(request).await;
    let status = subscription.end().await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    status
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_one_address_leave_some_for_others() {
    let ledger = ScriptedLedger::start(Config { connections_max: 20, ..Config::default() });
    let mut all = Vec::new();
    for _ in 0..18 {
        all.push(hostile_socket(&ledger).await);
    }
    let mut refused = hostile_socket(&ledger).await;
    let mut frames = Vec::new();
    refused.read_to_end(&mut frames).await.expect("it is closed");
    let text = String::from_utf8_lossy(&frames);
    assert!(text.contains("this address has 18 connections"), "{text}");
    assert!(text.ends_with("(grpc.connections_max, grpc.connections_per_address_max)"), "{text}");
    assert!(scrape(&ledger.server).contains("cause=\"connections\"} 1\n"));
    let mut honest = connect(ledger.address()).await;
    honest.ping(PingRequest { count: 1 }).await.expect("it is served");
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_of_one_address_leave_some_for_others() {
    let mut ledger = ScriptedLedger::start(Config { subscriptions_max: 20, ..Config::default() });
    let mut hostile = connect_hostile(&ledger).await;
    let mut all = Vec::new();
    for _ in 0..18 {
        all.push(Subscription::start_unchecked(&mut hostile).await);
    }
    let status = hostile.subscribe(futures_util::stream::pending()).await.expect_err("its share");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("this client has 18 subscriptions"), "{status}");
    assert!(status.message().contains("grpc.subscriptions_max"), "{status}");
    let mut honest = connect(ledger.address()).await;
    let mut subscription = Subscription::start(&mut honest, metas()).await;
    ledger.bank_with_write(FIRST, 1);
    assert_eq!(subscription.take(1).await, ["meta: meta 101 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_requests_of_one_address_leave_space_for_others() {
    let config = Config { incoming_bytes_max: 100_000, ..Config::default() };
    let ledger = ScriptedLedger::start(config);
    let (mut sender, _connection) = handshake(hostile_socket(&ledger).await).await;
    wait_until(|| memory(&ledger, "grpc_connections") > 0).await;
    let base = memory(&ledger, "grpc_connections");
    let mut open = Vec::new();
    for sent in [40_000, 45_000] {
        let (body, call) =
            raw_call(&ledger, "Subscribe", incomplete(1 << 20, sent), "identity").await;
        open.push((body, sender.send_request(call).await.expect("a response")));
        let expected = base + open.len() as u64 * 40_000;
        wait_until(|| memory(&ledger, "grpc_connections") >= expected).await;
    }
    let mut honest = connect(ledger.address()).await;
    let _subscription = Subscription::start(&mut honest, accounts(200)).await;
    let mut hostile = connect_hostile(&ledger).await;
    let status = refusal(&mut hostile, accounts(240)).await;
    assert!(status.message().contains("grpc.incoming_bytes_max"), "{status}");
    assert_eq!([refusals(&ledger, "bound"), refusals(&ledger, "filter")], [1, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_not_completed_in_time_ends_its_call_alone() {
    let config = Config { message_timeout_ms: 300, ..Config::default() };
    let mut ledger = ScriptedLedger::start(config);
    let mut honest = connect(ledger.address()).await;
    let mut subscription = Subscription::start(&mut honest, metas()).await;
    let (mut sender, _connection) = handshake(hostile_socket(&ledger).await).await;
    let (_subscribe, call) =
        raw_call(&ledger, "Subscribe", incomplete(1 << 20, 40_000), "identity").await;
    let mut response = sender.send_request(call).await.expect("a response").into_body();
    let frame = http_body_util::BodyExt::frame(&mut response).await.expect("a frame");
    let trailers = frame.expect("no error").into_trailers().expect("a status");
    assert_eq!(trailers["grpc-status"], "4");
    let (_ping, call) = raw_call(&ledger, "Ping", incomplete(1_000, 500), "identity").await;
    let response = sender.send_request(call).await.expect("a response");
    assert_eq!(response.headers()["grpc-status"], "4");
    assert_eq!([refusals(&ledger, "request_late"), refusals(&ledger, "filter")], [2, 0]);
    ledger.bank_with_write(FIRST, 1);
    assert_eq!(subscription.take(1).await, ["meta: meta 101 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_a_call_is_closed_and_one_with_a_call_is_not() {
    let mut ledger = ScriptedLedger::start(Config { idle_timeout_ms: 300, ..Config::default() });
    let mut honest = connect(ledger.address()).await;
    let mut subscription = Subscription::start(&mut honest, metas()).await;
    let (_sender, idle) = handshake(hostile_socket(&ledger).await).await;
    // It ends with or without an error.
    let _ = idle.await.expect("no panic");
    wait_until(|| scrape(&ledger.server).contains("cause=\"idle\"} 1\n")).await;
    ledger.bank_with_write(FIRST, 1);
    assert_eq!(subscription.take(1).await, ["meta: meta 101 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_of_one_address_leave_space_for_others() {
    let config = Config { filters_bytes_max: 50_000, ..Config::default() };
    let ledger = ScriptedLedger::start(config);
    let mut hostile = connect_hostile(&ledger).await;
    let _most = Subscription::start(&mut hostile, accounts(250)).await;
    let status = refusal(&mut hostile, accounts(50)).await;
    assert!(status.message().contains("grpc.filters_bytes_max"), "{status}");
    assert_eq!([refusals(&ledger, "bound"), refusals(&ledger, "filter")], [1, 0]);
    let invalid = SubscribeRequestFilterAccounts {
        account: vec!["\u{7}".repeat(1_000)],
        ..Default::default()
    };
    let invalid =
        SubscribeRequest { accounts: [("a".to_owned(), invalid)].into(), ..Default::default() };
    let mut subscription = Subscription::start_unchecked(&mut hostile).await;
    subscription.send(invalid).await;
    let status = subscription.end().await;
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(!status.message().contains('\u{7}') && status.message().len() < 500, "{status}");
    assert_eq!([refusals(&ledger, "bound"), refusals(&ledger, "filter")], [1, 1]);
    let mut honest = connect(ledger.address()).await;
    let _subscription = Subscription::start(&mut honest, accounts(20)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_without_an_address_are_bounded_for_each_client() {
    let config = Config { unindexed_cost_max: 100, ..Config::default() };
    let mut ledger = ScriptedLedger::start(config);
    let mut hostile = connect_hostile(&ledger).await;
    // One costs 2.
    let _most = Subscription::start(&mut hostile, scans(45)).await;
    assert!(scrape(&ledger.server).contains("hydrant_grpc_unindexed_cost 90\n"));
    let status = refusal(&mut hostile, scans(1)).await;
    assert!(status.message().contains("grpc.unindexed_cost_max"), "{status}");
    let mut honest = connect(ledger.address()).await;
    let everything = SubscribeRequestFilterAccounts::default();
    let request = SubscribeRequest {
        accounts: [("all".to_owned(), everything)].into(),
        ..Default::default()
    };
    let mut subscription = Subscription::start(&mut honest, request).await;
    ledger.bank_with_write(FIRST, 1);
    assert_eq!(subscription.take(1).await, ["all: account 101 1 data"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_requests_of_one_client_wait_for_its_rate() {
    const REQUESTS: usize = 200;
    let mut ledger = ScriptedLedger::start(Config::default());
    // Unknown bytes that become 4 MiB: 800 MiB in all, which would take a minute and a half at the client's rate.
    let content = SubscribeRequest::default().encode_to_vec();
    let mut content = [content, vec![0x7a, 0x80, 0x80, 0xff, 0x01]].concat();
    content.resize(content.len() + 0x3f_c000, 0);
    let compressed = zstd::stream::encode_all(&content[..], 1).expect("memory");
    assert!(compressed.len() < 10_000, "{} bytes", compressed.len());
    let mut message = vec![1];
    message.extend_from_slice(&(compressed.len() as u32).to_be_bytes());
    message.extend_from_slice(&compressed);
    let (mut sender, _connection) = handshake(hostile_socket(&ledger).await).await;
    let mut open = Vec::new();
    for _ in 0..20 {
        let flood = message.repeat(REQUESTS / 20).into();
        let (body, call) = raw_call(&ledger, "Subscribe", flood, "zstd").await;
        open.push((body, sender.send_request(call).await.expect("a response")));
    }
    let mut honest = connect(ledger.address()).await;
    let mut subscription = Subscription::start(&mut honest, metas()).await;
    let _long = Subscription::start(&mut honest, accounts(250)).await;
    ledger.bank_with_write(FIRST, 1);
    assert_eq!(subscription.take(1).await, ["meta: meta 101 0"]);
    let requests = memory(&ledger, "grpc_connections");
    assert!(requests > 2 * CONNECTION_BYTES, "those of the hostile client wait: {requests}");
    assert!(!scrape(&ledger.server).contains("hydrant_grpc_requests_delayed_total 0\n"));
}
