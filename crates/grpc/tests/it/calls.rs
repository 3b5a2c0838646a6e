//! The calls besides `Subscribe`, the token, and health.

use grpc::{Config, Server};
use metrics::{Collector, Exposition};
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use yellowstone_grpc_proto::geyser::subscribe_update_gossip::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    GetBlockHeightRequest, GetLatestBlockhashRequest, GetSlotRequest, GetVersionRequest,
    IsBlockhashValidRequest, PingRequest, SubscribeDeshredRequest, SubscribeGossipRequest,
    SubscribeReplayInfoRequest,
};

use crate::client::{Client, connect};
use crate::ledger::{ScriptedLedger, key};

/// Returns the server's part of `/metrics`.
pub(crate) fn scrape(server: &Server) -> String {
    let mut text = Exposition::default();
    server.metrics().write(&mut text);
    text.into_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_calls_read_the_ledger() {
    let ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let pong = client.ping(PingRequest { count: 9 }).await.expect("a pong").into_inner();
    assert_eq!(pong.count, 9);
    let slot = client.get_slot(GetSlotRequest { commitment: Some(2) }).await.expect("a slot");
    assert_eq!(slot.into_inner().slot, 100);
    let height = client.get_block_height(GetBlockHeightRequest { commitment: None }).await;
    assert_eq!(height.expect("a height").into_inner().block_height, 77);
    let latest = client.get_latest_blockhash(GetLatestBlockhashRequest { commitment: None }).await;
    let latest = latest.expect("a blockhash").into_inner();
    assert_eq!((latest.slot, latest.last_valid_block_height), (100, 77 + 150));
    let is_valid = |blockhash: String| IsBlockhashValidRequest { blockhash, commitment: None };
    let valid = client.is_blockhash_valid(is_valid(latest.blockhash)).await.expect("an answer");
    assert!(valid.into_inner().valid);
    let other = client.is_blockhash_valid(is_valid(key(3).to_string())).await.expect("an answer");
    assert!(!other.into_inner().valid);
    let err = client.is_blockhash_valid(is_valid("x".to_owned())).await.expect_err("no hash");
    assert_eq!(err.code(), Code::InvalidArgument);
    let err = client.get_slot(GetSlotRequest { commitment: Some(7) }).await.expect_err("unknown");
    assert_eq!(err.code(), Code::InvalidArgument);
    let version = client.get_version(GetVersionRequest {}).await.expect("a version").into_inner();
    let version: serde_json::Value = serde_json::from_str(&version.version).expect("JSON");
    assert_eq!(version["version"]["package"], "test");
    let info = client.subscribe_replay_info(SubscribeReplayInfoRequest {}).await;
    assert_eq!(info.expect("an answer").into_inner().first_available, Some(101));
}

#[tokio::test(flavor = "multi_thread")]
async fn gossip_has_one_node_and_deshred_is_not_served() {
    let ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let gossip = client.subscribe_gossip(SubscribeGossipRequest {}).await.expect("a stream");
    let first = gossip.into_inner().message().await.expect("no error").expect("a message");
    let Some(UpdateOneof::Snapshot(table)) = first.update_oneof else { panic!("{first:?}") };
    assert_eq!(table.nodes.len(), 1);
    assert_eq!(table.nodes[0].pubkey, key(50).to_bytes());
    assert_eq!(table.nodes[0].rpc.as_deref(), Some("127.0.0.1:8899"));
    let requests = futures_util::stream::iter([SubscribeDeshredRequest::default()]);
    let err = client.subscribe_deshred(requests).await.expect_err("not served");
    assert_eq!(err.code(), Code::Unimplemented);
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_served_without_a_token_and_the_rest_is_not() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "secret-token\n").expect("written");
    let config = Config { x_token_file: Some(file.path().to_owned()), ..Config::default() };
    let ledger = ScriptedLedger::start(config);
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", ledger.address()))
        .expect("a URL")
        .connect()
        .await
        .expect("it listens");
    let mut health = HealthClient::new(channel);
    for service in ["", "geyser.Geyser"] {
        let check = health.check(HealthCheckRequest { service: service.to_owned() }).await;
        assert_eq!(check.expect("an answer").into_inner().status, 1, "{service:?}");
    }
    let mut client = connect(ledger.address()).await;
    for (token, code) in [
        (None, Some(Code::Unauthenticated)),
        (Some("secret-toke"), Some(Code::Unauthenticated)),
        (Some("secret-tokex"), Some(Code::Unauthenticated)),
        (Some("secret-token"), None),
    ] {
        let mut request = Request::new(PingRequest { count: 1 });
        if let Some(token) = token {
            request.metadata_mut().insert("x-token", token.parse().expect("ASCII"));
        }
        let outcome = client.ping(request).await;
        assert_eq!(outcome.err().map(|status| status.code()), code, "{token:?}");
    }
}

pub(crate) async fn ping_with_token(client: &mut Client, token: &'static str) -> Option<Code> {
    let mut request = Request::new(PingRequest { count: 1 });
    request.metadata_mut().insert("x-token", token.parse().expect("ASCII"));
    client.ping(request).await.err().map(|status| status.code())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_token_is_read_again_and_an_invalid_one_changes_nothing() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "old-token\n").expect("written");
    let config = Config { x_token_file: Some(file.path().to_owned()), ..Config::default() };
    let ledger = ScriptedLedger::start(config);
    let mut client = connect(ledger.address()).await;
    assert_eq!(ping_with_token(&mut client, "old-token").await, None);
    std::fs::write(file.path(), "not a token\n").expect("written");
    assert_eq!(ping_with_token(&mut client, "old-token").await, None);
    std::fs::write(file.path(), "new-token\n").expect("written");
    let waiting = async {
        while ping_with_token(&mut client, "new-token").await.is_some() {}
        ping_with_token(&mut client, "old-token").await
    };
    let old = tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await;
    assert_eq!(old.expect("in time"), Some(Code::Unauthenticated));
}
