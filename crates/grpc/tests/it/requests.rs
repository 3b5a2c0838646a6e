//! Requests of an open subscription: they replace filters, ping, and may be refused.

use grpc::Config;
use tonic::Code;
use tonic::codec::CompressionEncoding;
use yellowstone_grpc_proto::geyser::{
    CommitmentLevel, SubscribeRequest, SubscribeRequestAccountsDataSlice,
    SubscribeRequestFilterAccounts, SubscribeRequestPing,
};

use crate::client::{Subscription, connect, short};
use crate::commitments::everything;
use crate::ledger::{FIRST, ScriptedLedger, key};

fn account(name: &str, n: u8) -> SubscribeRequest {
    let filter =
        SubscribeRequestFilterAccounts { account: vec![key(n).to_string()], ..Default::default() };
    SubscribeRequest { accounts: [(name.to_owned(), filter)].into(), ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_replaces_all_filters_and_a_ping_none() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let mut subscription = Subscription::start(&mut client, account("one", 1)).await;
    ledger.open(FIRST);
    ledger.write(FIRST, 1, 9, b"a", None);
    assert_eq!(subscription.take(1).await, ["one: account 101 1 a"]);

    let ping = Some(SubscribeRequestPing { id: 5 });
    subscription.send(SubscribeRequest { ping, ..SubscribeRequest::default() }).await;
    assert_eq!(subscription.take(1).await, [": pong 5"]);
    ledger.write(FIRST, 1, 9, b"b", None);
    assert_eq!(subscription.take(1).await, ["one: account 101 1 b"]);

    subscription.replace(account("two", 2)).await;
    ledger.write(FIRST, 1, 9, b"c", None);
    ledger.write(FIRST, 2, 9, b"d", None);
    assert_eq!(subscription.take(1).await, ["two: account 101 2 d"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_a_ping_is_only_a_ping() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let mut subscription = Subscription::start(&mut client, account("one", 1)).await;
    ledger.open(FIRST);
    let slice = SubscribeRequestAccountsDataSlice { offset: 0, length: 0 };
    let requests = [
        SubscribeRequest { commitment: Some(0), ..Default::default() },
        SubscribeRequest { commitment: Some(1), ..Default::default() },
        SubscribeRequest { commitment: Some(99), ..Default::default() },
        SubscribeRequest { accounts_data_slice: vec![slice], ..Default::default() },
        SubscribeRequest { from_slot: Some(0), ..Default::default() },
        everything(CommitmentLevel::Finalized),
        account("two", 2),
        account("one", 1),
    ];
    for (id, request) in (0..).zip(requests) {
        let ping = Some(SubscribeRequestPing { id });
        subscription.send(SubscribeRequest { ping, ..request }).await;
        assert_eq!(subscription.take(1).await, [format!(": pong {id}")]);
        ledger.write(FIRST, 2, 9, b"no", None);
        ledger.write(FIRST, 1, 9, b"yes", None);
        assert_eq!(subscription.take(1).await, ["one: account 101 1 yes"], "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_request_with_a_ping_has_no_filters() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let mut subscription = Subscription::start_unchecked(&mut client).await;
    let ping = Some(SubscribeRequestPing { id: 3 });
    subscription.send(SubscribeRequest { ping, ..account("one", 1) }).await;
    assert_eq!(subscription.take(1).await, [": pong 3"]);
    ledger.open(FIRST);
    ledger.write(FIRST, 1, 9, b"a", None);
    subscription.replace(account("two", 2)).await;
    ledger.write(FIRST, 2, 9, b"b", None);
    assert_eq!(subscription.take(1).await, ["two: account 101 2 b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_ends_its_requests_still_gets_updates() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let Subscription { requests, mut updates } =
        Subscription::start(&mut client, account("one", 1)).await;
    drop(requests);
    ledger.open(FIRST);
    ledger.write(FIRST, 1, 9, b"a", None);
    let update = updates.message().await.expect("no error").expect("an update");
    assert_eq!(short(&update), "one: account 101 1 a");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_pings() {
    let ledger = ScriptedLedger::start(Config { ping_ms: 20, ..Config::default() });
    let mut client = connect(ledger.address()).await;
    let Subscription { updates, requests } =
        &mut Subscription::start(&mut client, account("one", 1)).await;
    for _ in 0..3 {
        let update = updates.message().await.expect("no error").expect("an update");
        assert_eq!(short(&update), ": Ping(SubscribeUpdatePing)");
        assert!(update.created_at.is_some());
    }
    assert!(!requests.is_closed());
}

#[tokio::test(flavor = "multi_thread")]
async fn both_compressions_work_both_ways() {
    let mut ledger = ScriptedLedger::start(Config::default());
    ledger.open(FIRST);
    for encoding in [CompressionEncoding::Gzip, CompressionEncoding::Zstd] {
        let client = connect(ledger.address()).await;
        let mut client = client.send_compressed(encoding).accept_compressed(encoding);
        let mut subscription = Subscription::start(&mut client, account("one", 1)).await;
        let data = "x".repeat(100_000);
        ledger.write(FIRST, 1, 9, data.as_bytes(), None);
        assert_eq!(subscription.take(1).await, [format!("one: account 101 1 {data}")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_with_equal_filters_share_their_messages() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let mut all = Vec::new();
    for _ in 0..10 {
        all.push(Subscription::start(&mut client, account("one", 1)).await);
    }
    // Another name: a message of its own.
    all.push(Subscription::start(&mut client, account("two", 1)).await);
    ledger.open(FIRST);
    ledger.write(FIRST, 1, 9, b"a", None);
    for subscription in &mut all {
        assert!(subscription.take(1).await[0].ends_with("account 101 1 a"));
    }
    let metrics = crate::calls::scrape(&ledger.server);
    assert!(metrics.contains("hydrant_grpc_messages_total 11\n"), "{metrics}");
    assert!(metrics.contains("hydrant_grpc_messages_encoded_total 2\n"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_filter_ends_the_stream_and_says_why() {
    let ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let invalid = SubscribeRequestFilterAccounts { owner: vec!["x".into()], ..Default::default() };
    let mut request = everything(CommitmentLevel::Processed);
    request.accounts.insert("bad".to_owned(), invalid);
    let mut subscription = Subscription::start_unchecked(&mut client).await;
    subscription.send(request).await;
    let status = subscription.end().await;
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), r#"accounts["bad"]: owner: "x" is no address"#);
}
