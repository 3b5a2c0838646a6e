//! A client that makes more calls than its rate, over sockets, and an honest one of another address alongside it.
//! Not here: the exact rates, in paused time (`grpc_server`).

use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use grpc::Config;
use tokio::task::JoinSet;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use yellowstone_grpc_proto::geyser::{GetVersionRequest, PingRequest};

use crate::calls::{ping_with_token, scrape};
use crate::client::{Subscription, connect, wait_until};
use crate::hostile::{handshake, raw_call};
use crate::ledger::{FIRST, ScriptedLedger};
use crate::raw_client::{END_HEADERS, GOAWAY, HEADERS, RawClient, call_headers, frame};
use crate::shares::{HOSTILE, connect_hostile, hostile_socket, metas, refusals};

/// Calls of the hostile client at once. Those of a second are handled, those of two more wait, and the refusals of the
/// rest wait as well.
const FLOOD: usize = 100;

fn config() -> Config {
    Config { calls_per_s: 10, ..Config::default() }
}

/// Waits until calls were refused because of their rate, and checks that an honest client is served.
async fn check_honest_client(ledger: &mut ScriptedLedger) {
    wait_until(|| refusals(ledger, "calls") > 0).await;
    let metrics = scrape(&ledger.server);
    assert!(!metrics.contains("hydrant_grpc_calls_delayed_total 0\n"), "{metrics}");
    let mut honest = connect(ledger.address()).await;
    honest.ping(PingRequest { count: 1 }).await.expect("it is served");
    let mut subscription = Subscription::start(&mut honest, metas()).await;
    ledger.bank_with_write(FIRST, 1);
    assert_eq!(subscription.take(1).await, ["meta: meta 101 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_beyond_the_rate_of_an_address_wait_or_are_refused() {
    let mut ledger = ScriptedLedger::start(config());
    let hostile = [connect_hostile(&ledger).await, connect_hostile(&ledger).await];
    let mut calls = JoinSet::new();
    for hostile in hostile.iter().cycle().take(FLOOD) {
        let mut hostile = hostile.clone();
        calls.spawn(async move { hostile.get_version(GetVersionRequest {}).await });
    }
    check_honest_client(&mut ledger).await;
    let status = loop {
        let response = calls.join_next().await.expect("one is refused").expect("no panic");
        if let Err(status) = response {
            break status;
        }
    };
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("10 calls a second (grpc.calls_per_s)"), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_an_unknown_service_wait_as_well() {
    let mut ledger = ScriptedLedger::start(config());
    let (sender, _connection) = handshake(hostile_socket(&ledger).await).await;
    let mut open = Vec::new();
    let mut calls = JoinSet::new();
    for _ in 0..FLOOD {
        let message = Bytes::from_static(&[0; 5]);
        let (body, mut request) = raw_call(&ledger, "Ping", message, "identity").await;
        let uri = format!("http://{}/other.Service/Ping", ledger.address());
        *request.uri_mut() = uri.parse().expect("a URI");
        open.push(body);
        let mut sender = sender.clone();
        calls.spawn(async move { sender.send_request(request).await });
    }
    loop {
        let response = calls.join_next().await.expect("some are in time").expect("no panic");
        if response.expect("a response").headers()["grpc-status"] == "12" {
            break;
        }
    }
    check_honest_client(&mut ledger).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_with_a_wrong_token_wait_as_well() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "secret-token\n").expect("written");
    let x_token_file = Some(file.path().to_owned());
    let ledger = ScriptedLedger::start(Config { x_token_file, ..config() });
    let hostile = connect_hostile(&ledger).await;
    let mut calls = JoinSet::new();
    for _ in 0..FLOOD {
        let mut hostile = hostile.clone();
        calls.spawn(async move { ping_with_token(&mut hostile, "wrong-token").await });
    }
    loop {
        let code = calls.join_next().await.expect("some are in time").expect("no panic");
        if code == Some(Code::Unauthenticated) {
            break;
        }
    }
    wait_until(|| refusals(&ledger, "calls") > 0).await;
    let mut honest = connect(ledger.address()).await;
    assert_eq!(ping_with_token(&mut honest, "secret-token").await, None);
}

async fn connect_health(ledger: &ScriptedLedger, local: Ipv4Addr) -> HealthClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", ledger.address())).expect("a URL");
    let endpoint = endpoint.local_address(Some(IpAddr::V4(local)));
    HealthClient::new(endpoint.connect().await.expect("it listens"))
}

#[tokio::test(flavor = "multi_thread")]
async fn health_checks_beyond_the_rate_of_an_address_wait_as_well() {
    let ledger = ScriptedLedger::start(config());
    let hostile = connect_health(&ledger, HOSTILE).await;
    let mut calls = JoinSet::new();
    for _ in 0..FLOOD {
        let mut hostile = hostile.clone();
        calls.spawn(async move { hostile.check(HealthCheckRequest::default()).await });
    }
    wait_until(|| refusals(&ledger, "calls") > 0).await;
    let mut honest = connect_health(&ledger, Ipv4Addr::LOCALHOST).await;
    let check = honest.check(HealthCheckRequest::default()).await;
    assert_eq!(check.expect("it is served").into_inner().status, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn health_checks_do_not_wait_for_the_calls_of_their_address() {
    let ledger = ScriptedLedger::start(config());
    let hostile = connect_hostile(&ledger).await;
    let mut calls = JoinSet::new();
    for _ in 0..FLOOD {
        let mut hostile = hostile.clone();
        calls.spawn(async move { hostile.get_version(GetVersionRequest {}).await });
    }
    wait_until(|| refusals(&ledger, "calls") > 0).await;
    // A load balancer has the address of its clients here, and opens a connection for each check.
    let mut balancer = connect_health(&ledger, HOSTILE).await;
    let check = balancer.check(HealthCheckRequest::default()).await;
    assert_eq!(check.expect("it is served").into_inner().status, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_too_many_calls_ends_with_goaway_and_the_reason() {
    const ENHANCE_YOUR_CALM: u8 = 11;
    let ledger = ScriptedLedger::start(Config { connection_streams_max: 1_000, ..config() });
    let mut client = RawClient::connect(&ledger, &[]).await;
    for stream in (1..1_000).step_by(2) {
        client.send(&frame(HEADERS, END_HEADERS, stream, &call_headers("GetVersion"))).await;
    }
    let goaway = client.next_frame(GOAWAY).await.expect("the reason of the end");
    let (head, reason) = goaway.payload.split_at(8);
    // Any of its calls may have been processed.
    assert_eq!(head, [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, ENHANCE_YOUR_CALM]);
    let reason = String::from_utf8_lossy(reason);
    assert!(reason.contains("10 calls a second (grpc.calls_per_s)"), "{reason}");
    assert!(client.next().await.is_none(), "it is the last frame");
    wait_until(|| scrape(&ledger.server).contains("hydrant_grpc_connections_open 0\n")).await;
    assert_eq!(refusals(&ledger, "calls_excess"), 1);
}
