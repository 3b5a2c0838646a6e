//! Filters at every limit, and beyond it.

use grpc::Config;
use tonic::{Code, Status};
use yellowstone_grpc_proto::geyser::{
    CuckooFilter, SubscribeRequest, SubscribeRequestAccountsDataSlice,
    SubscribeRequestFilterAccounts, SubscribeRequestFilterAccountsFilter,
    SubscribeRequestFilterBlocksMeta, SubscribeRequestFilterTransactions,
};

use crate::client::{Subscription, connect};
use crate::ledger::{TestLedger, key};

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

async fn outcome(ledger: &TestLedger, request: SubscribeRequest) -> Result<(), Status> {
    let mut client = connect(ledger.address()).await;
    let mut subscription = Subscription::unchecked(&mut client).await;
    let ping = Some(yellowstone_grpc_proto::geyser::SubscribeRequestPing { id: 1 });
    subscription.send(SubscribeRequest { ping, ..request }).await;
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
    let ledger = TestLedger::start(config());
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
        (metas(&["abcd"]), metas(&["abcde"]), "grpc.name_bytes_max"),
        (owners(3), owners(4), "grpc.addresses_max"),
        (excluded(3), excluded(4), "grpc.addresses_max"),
        (conditions(1), conditions(2), "grpc.data_filters_max"),
        (slices(1), slices(2), "grpc.data_slices_max"),
    ];
    for (valid, invalid, setting) in cases {
        outcome(&ledger, valid).await.unwrap_or_else(|err| panic!("{setting}: {err}"));
        let err = outcome(&ledger, invalid).await.expect_err(setting);
        assert_eq!(err.code(), Code::InvalidArgument, "{err}");
        assert!(err.message().contains(setting), "{err}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cuckoo_filter_of_a_wrong_shape_is_refused() {
    let ledger = TestLedger::start(Config::default());
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
    let ledger = TestLedger::start(bounds);
    let mut client = connect(ledger.address()).await;
    let of = |count| {
        accounts(SubscribeRequestFilterAccounts { account: keys(count), ..Default::default() })
    };
    let first = Subscription::start(&mut client, of(20)).await;
    let mut second = Subscription::unchecked(&mut client).await;
    second.send(of(20)).await;
    let status = second.end().await;
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("grpc.filters_bytes_max"), "{status}");
    drop(second);
    let is_one = || crate::calls::scrape(&ledger.server).contains("subscriptions_open 1\n");
    crate::client::wait_until(is_one).await;

    let _second = Subscription::start(&mut client, of(1)).await;
    let (_requests, third) = tokio::sync::mpsc::channel::<SubscribeRequest>(1);
    let third = futures_util::stream::unfold(third, |mut third| async {
        Some((third.recv().await?, third))
    });
    let status = client.subscribe(third).await.expect_err("two are open");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("grpc.subscriptions_max"), "{status}");
    drop(first);
}
