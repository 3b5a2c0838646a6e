//! Filters at every limit, and beyond it.

use grpc::Config;
use tokio::sync::mpsc;
use tonic::{Code, Status, Streaming};
use yellowstone_grpc_proto::geyser::{
    CuckooFilter, PingRequest, SubscribeGossipRequest, SubscribeRequest,
    SubscribeRequestAccountsDataSlice, SubscribeRequestFilterAccounts,
    SubscribeRequestFilterAccountsFilter, SubscribeRequestFilterBlocksMeta,
    SubscribeRequestFilterTransactions, SubscribeUpdate,
};

use crate::client::{Client, Subscription, connect};
use crate::ledger::{FIRST, ScriptedLedger, key};

fn config() -> Config {
    Config {
        filters_max: 2,
        name_bytes_max: 4,
        addresses_max: 3,
        data_filters_max: 1,
        data_slices_max: 1,
        ..Config::default()
    }
}

async fn outcome(ledger: &ScriptedLedger, request: SubscribeRequest) -> Result<(), Status> {
    let mut client = connect(ledger.address()).await;
    let mut subscription = Subscription::start_unchecked(&mut client).await;
    subscription.send(request).await;
    let ping = Some(yellowstone_grpc_proto::geyser::SubscribeRequestPing { id: 1 });
    // A refused request has ended the stream, and then this one is not read.
    let _ = subscription.requests.send(SubscribeRequest { ping, ..Default::default() }).await;
    subscription.next().await.map(drop)
}

fn accounts(filter: SubscribeRequestFilterAccounts) -> SubscribeRequest {
    SubscribeRequest { accounts: [("a".to_owned(), filter)].into(), ..Default::default() }
}

fn metas(names: &[&str]) -> SubscribeRequest {
    let filters =
        names.iter().map(|name| ((*name).to_owned(), SubscribeRequestFilterBlocksMeta {}));
    SubscribeRequest { blocks_meta: filters.collect(), ..Default::default() }
}

fn keys(count: u8) -> Vec<String> {
    (1..=count).map(|n| key(n).to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_at_a_limit_is_accepted_and_one_beyond_is_refused_with_its_setting() {
    let ledger = ScriptedLedger::start(config());
    let slices = |count| SubscribeRequest {
        accounts_data_slice: (0..count)
            .map(|n| SubscribeRequestAccountsDataSlice { offset: n, length: 1 })
            .collect(),
        ..Default::default()
    };
    let conditions = |count| {
        let filter = SubscribeRequestFilterAccountsFilter {
            filter: Some(yellowstone_grpc_proto::geyser::subscribe_request_filter_accounts_filter::Filter::Datasize(1)),
        };
        accounts(SubscribeRequestFilterAccounts {
            filters: vec![filter; count],
            ..Default::default()
        })
    };
    let owners = |count| {
        accounts(SubscribeRequestFilterAccounts { owner: keys(count), ..Default::default() })
    };
    let excluded = |count| SubscribeRequest {
        transactions: [(
            "t".to_owned(),
            SubscribeRequestFilterTransactions {
                account_exclude: keys(count),
                ..Default::default()
            },
        )]
        .into(),
        ..Default::default()
    };
    let cases = [
        (metas(&["a", "b"]), metas(&["a", "b", "c"]), "grpc.filters_max"),
        (metas(&["abcd"]), metas(&["abcde"]), "a filter's name has 5 bytes, at most 4 are"),
        (owners(3), owners(4), "grpc.addresses_max"),
        (excluded(3), excluded(4), "grpc.addresses_max"),
        (conditions(1), conditions(2), "filters has 2 entries, at most 1 are"),
        (slices(1), slices(2), "accounts_data_slice has 2 entries, at most 1 are"),
    ];
    for (valid, invalid, expected) in cases {
        outcome(&ledger, valid).await.unwrap_or_else(|err| panic!("{expected}: {err}"));
        let err = outcome(&ledger, invalid).await.expect_err(expected);
        assert_eq!(err.code(), Code::InvalidArgument, "{err}");
        assert!(err.message().contains(expected), "{err}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cuckoo_filter_of_a_wrong_shape_is_refused() {
    let ledger = ScriptedLedger::start(Config::default());
    let valid = CuckooFilter {
        data: vec![0; 16],
        bucket_count: 2,
        entries_per_bucket: 4,
        fingerprint_bits: 16,
        hash_seed: 1,
        hash_algorithm: 0,
    };
    let with = |cuckoo: CuckooFilter| {
        accounts(SubscribeRequestFilterAccounts {
            cuckoo_accounts_filter: Some(cuckoo),
            ..Default::default()
        })
    };
    outcome(&ledger, with(valid.clone())).await.expect("valid");
    let invalid = [
        CuckooFilter { bucket_count: 3, data: vec![0; 24], ..valid.clone() },
        CuckooFilter { bucket_count: 0, data: Vec::new(), ..valid.clone() },
        CuckooFilter { bucket_count: 1 << 31, ..valid.clone() },
        CuckooFilter { data: vec![0; 15], ..valid.clone() },
        CuckooFilter { entries_per_bucket: 0, ..valid.clone() },
        CuckooFilter { fingerprint_bits: 8, ..valid.clone() },
        CuckooFilter { hash_algorithm: 1, ..valid },
    ];
    for cuckoo in invalid {
        let err = outcome(&ledger, with(cuckoo)).await.expect_err("invalid");
        assert_eq!(err.code(), Code::InvalidArgument, "{err}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_and_their_filters_are_bounded_together() {
    let bounds = Config { subscriptions_max: 2, filters_bytes_max: 5_000, ..Config::default() };
    let ledger = ScriptedLedger::start(bounds);
    let mut client = connect(ledger.address()).await;
    let of = |count| {
        accounts(SubscribeRequestFilterAccounts { account: keys(count), ..Default::default() })
    };
    let first = Subscription::start(&mut client, of(20)).await;
    let mut second = Subscription::start_unchecked(&mut client).await;
    second.send(of(20)).await;
    let status = second.end().await;
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("grpc.filters_bytes_max"), "{status}");
    drop(second);
    let is_one = || crate::calls::scrape(&ledger.server).contains("subscriptions_open 1\n");
    crate::client::wait_until(is_one).await;

    let _second = Subscription::start(&mut client, of(1)).await;
    let status = open(&mut client).await.expect_err("two are open");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("grpc.subscriptions_max"), "{status}");
    drop(first);
}

/// A subscription without a request. Dropping it ends it.
async fn open(
    client: &mut Client,
) -> Result<(mpsc::Sender<SubscribeRequest>, Streaming<SubscribeUpdate>), Status> {
    let (sender, receiver) = mpsc::channel(1);
    let requests = futures_util::stream::unfold(receiver, |mut receiver| async {
        Some((receiver.recv().await?, receiver))
    });
    Ok((sender, client.subscribe(requests).await?.into_inner()))
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_leave_streams_of_a_connection_for_calls() {
    let ledger = ScriptedLedger::start(Config { connection_streams_max: 20, ..Config::default() });
    let mut client = connect(ledger.address()).await;
    let mut all = Vec::new();
    for _ in 0..18 {
        all.push(open(&mut client).await.expect("there is a stream for it"));
    }
    let status = open(&mut client).await.expect_err("the rest is for calls");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().starts_with("18 subscriptions"), "{status}");
    assert!(status.message().contains("grpc.connection_streams_max"), "{status}");
    let status = client.subscribe_gossip(SubscribeGossipRequest {}).await.expect_err("as well");
    assert_eq!(status.code(), Code::ResourceExhausted);
    client.ping(PingRequest { count: 1 }).await.expect("a call is served");

    open(&mut connect(ledger.address()).await).await.expect("another connection");
    all.pop();
    loop {
        // The server frees the stream when it has read that the client left it.
        match open(&mut client).await {
            Ok(_) => break,
            Err(status) => assert_eq!(status.code(), Code::ResourceExhausted),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_has_a_hundred_streams_by_default() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let mut all = Vec::new();
    for _ in 0..100 {
        all.push(Subscription::start(&mut client, metas(&["a"])).await);
    }
    ledger.bank_with_write(FIRST, 1);
    for subscription in &mut all {
        assert_eq!(subscription.take(1).await, ["a: meta 101 0"]);
    }
    client.ping(PingRequest { count: 1 }).await.expect("a call is served");
}
