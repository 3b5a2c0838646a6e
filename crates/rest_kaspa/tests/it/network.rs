//! The routes about the network: supply, scores, health.

use hyper::StatusCode;
use jsonrpc::Status;
use serde_json::{Value, json};
use testkit::kaspa_chain::pay;

use crate::world::World;

#[tokio::test]
async fn the_supply_is_the_sum_of_all_utxos() {
    let mut world = World::new();
    world.chain.add_block(&[], &[pay(1, 123_456_789_000), pay(2, 11)]);
    world.chain.publish();
    let supply = world.get_json("/info/coinsupply").await;
    let expected = json!({
        "circulatingSupply": "123456789011",
        "totalSupply": "123456789011",
        "maxSupply": "2900000000000000000",
    });
    assert_eq!(supply, expected);
    for path in ["/info/coinsupply/circulating", "/info/coinsupply/total"] {
        let coins = world.get(path).await;
        assert_eq!((coins.status, coins.text().as_str()), (StatusCode::OK, "1234.56789011"));
        assert_eq!(coins.header("content-type"), Some("text/plain; charset=utf-8"));
        let etag = coins.header("etag").expect("an ETag").to_owned();
        let again = world.get_with(path, "if-none-match", &etag).await;
        assert_eq!(again.status, StatusCode::NOT_MODIFIED);
        let billions = world.get(&format!("{path}?in_billion=true")).await;
        assert_eq!(billions.text(), "0.0");
        let plain = world.get_with(path, "accept", "text/plain").await;
        assert_eq!(plain.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn the_network_has_only_what_the_chain_knows() {
    let mut world = World::new();
    world.chain.add_block(&[], &[pay(1, 1)]);
    world.chain.publish();
    let status = world.chain.chain.status();
    let dag = world.get_json("/info/blockdag").await;
    assert_eq!(dag["networkName"], json!("kaspa-simnet"));
    assert_eq!(dag["sink"], json!(status.sink.hash.to_string()));
    assert_eq!(dag["virtualDaaScore"], json!(status.virtual_daa_score.to_string()));
    assert_eq!(dag.as_object().map(serde_json::Map::len), Some(4), "{dag}");
    assert_eq!(world.get_json("/info/network").await, dag);
    let score = world.get_json("/info/virtual-chain-blue-score").await;
    assert_eq!(score, json!({ "blueScore": status.sink.blue_score }));
}

#[tokio::test]
async fn a_node_that_is_not_in_sync_is_not_healthy() {
    let mut world = World::new();
    world.chain.add_block(&[], &[pay(1, 1)]);
    world.chain.publish();
    let status = world.chain.chain.status();
    let health = world.get("/info/health").await;
    let mut expected = json!({
        "kaspadServers": [],
        "database": {
            "isSynced": true,
            "blueScore": status.sink.blue_score,
            "blueScoreDiff": null,
            "acceptedTxBlockTime": null,
            "acceptedTxBlockTimeDiff": null,
            "sinkTime": status.sink.timestamp_ms,
        },
    });
    assert_eq!((health.status, health.json()), (StatusCode::OK, expected.clone()));
    assert_eq!(health.header("cache-control"), Some("no-store"));
    world.server.context.health.set(Status::Unknown);
    expected["database"]["isSynced"] = Value::Bool(false);
    let health = world.get("/info/health").await;
    assert_eq!((health.status, health.json()), (StatusCode::SERVICE_UNAVAILABLE, expected));
    let sink = status.sink.hash.to_string();
    assert_eq!(health.header("hydrant-proven-block"), Some(sink.as_str()));
    assert_eq!(health.header("hydrant-chain-block"), Some(sink.as_str()));
}
