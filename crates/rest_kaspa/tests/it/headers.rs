//! The headers of responses: the position, the proven block, the start of the history, `ETag`s.

use hyper::StatusCode;
use kaspa::UtxoChanges;
use ledger::Commitment;
use serde_json::json;
use testkit::kaspa_chain::{DEPTH, address, pay};

use crate::world::World;

#[tokio::test]
async fn each_response_names_its_state_and_what_is_proven() {
    let mut world = World::new();
    world.chain.add_block(&[], &[pay(1, 100)]);
    let added = world.chain.virtual_utxo(50, &pay(1, 7));
    world.chain.change_virtual(&UtxoChanges { added: vec![added], removed: Vec::new() });
    world.chain.publish();
    let status = world.chain.chain.status();
    let sink = status.sink.hash.to_string();
    let blue_score = status.sink.blue_score.to_string();
    let daa_score = status.sink.daa_score.to_string();
    let virtual_daa_score = status.virtual_daa_score.to_string();
    let one = address(1).to_string();
    for (path, state) in [
        (format!("/addresses/{one}/balance"), "virtual"),
        (format!("/addresses/{one}/utxos"), "virtual"),
        (format!("/addresses/{one}/utxos?limit=3"), "virtual"),
        ("/info/coinsupply".to_owned(), "virtual"),
        ("/info/coinsupply/total".to_owned(), "virtual"),
        ("/info/blockdag".to_owned(), "virtual"),
        ("/info/virtual-chain-blue-score".to_owned(), "sink"),
        (format!("/addresses/{one}/full-transactions"), "sink"),
        (format!("/addresses/{one}/full-transactions-page"), "sink"),
    ] {
        let response = world.get(&path).await;
        assert_eq!(response.status, StatusCode::OK, "{path}");
        let expected_score = if state == "virtual" { &virtual_daa_score } else { &daa_score };
        for (name, expected) in [
            ("hydrant-state", state),
            ("hydrant-chain-block", sink.as_str()),
            ("hydrant-daa-score", expected_score.as_str()),
            ("hydrant-blue-score", blue_score.as_str()),
            ("hydrant-proven-block", sink.as_str()),
            ("hydrant-proven-daa-score", daa_score.as_str()),
            ("cache-control", "no-cache"),
        ] {
            assert_eq!(response.header(name), Some(expected), "{path}: {name}");
        }
        assert!(response.header("hydrant-virtual-state").is_some(), "{path}");
        let is_history = path.contains("transactions");
        assert_eq!(response.header("hydrant-history-from").is_some(), is_history, "{path}");
    }
}

#[tokio::test]
async fn an_etag_leads_to_304_until_the_value_changes() {
    let mut world = World::new();
    world.chain.add_block(&[], &[pay(1, 100)]);
    world.chain.publish();
    let one = address(1).to_string();
    for path in [
        format!("/addresses/{one}/balance"),
        format!("/addresses/{one}/utxos"),
        format!("/addresses/{one}/utxos?limit=3"),
        format!("/addresses/{one}/full-transactions"),
    ] {
        let etag = world.get(&path).await.header("etag").expect("an ETag").to_owned();
        world.chain.add_block(&[], &[pay(2, 1)]);
        world.chain.publish();
        let sink = world.chain.sink_hash().to_string();
        let same = world.get_with(&path, "if-none-match", &etag).await;
        assert_eq!((same.status, same.body.len()), (StatusCode::NOT_MODIFIED, 0), "{path}");
        assert_eq!(same.header("hydrant-chain-block"), Some(sink.as_str()), "{path}");
        world.chain.add_block(&[], &[pay(1, 1)]);
        world.chain.publish();
        let changed = world.get_with(&path, "if-none-match", &etag).await;
        assert_eq!(changed.status, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn an_unknown_transaction_is_not_said_to_be_nonexistent() {
    let mut world = World::new();
    let before_any = world.get(&format!("/transactions/{}", "0".repeat(64))).await;
    assert_eq!(before_any.status, StatusCode::NOT_FOUND);
    world.chain.add_block(&[], &[pay(1, 100)]);
    let first = world.chain.chain.sink().daa_score.to_string();
    for _ in 0..DEPTH {
        world.chain.add_block(&[], &[pay(2, 1)]);
    }
    world.chain.publish();
    let id = "ab".repeat(32);
    let missing = world.get(&format!("/transactions/{id}")).await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    let expected = json!({ "detail": format!(
        "Transaction {id} is not in the history of this node, which starts at DAA score {first}. \
         An older transaction may exist."
    ) });
    assert_eq!(missing.json(), expected);
    assert_eq!(missing.header("hydrant-history-from"), Some(first.as_str()));
    let sink = world.chain.sink_hash().to_string();
    assert_eq!(missing.header("hydrant-chain-block"), Some(sink.as_str()));
    assert_eq!(missing.header("hydrant-proven-block"), Some(sink.as_str()));
    let unknown = address(9).to_string();
    let none = world.get(&format!("/addresses/{unknown}/full-transactions")).await;
    assert_eq!(none.json(), json!([]));
    assert_eq!(none.header("hydrant-history-from"), Some(first.as_str()));
}

#[tokio::test]
async fn every_own_header_of_a_response_is_described() {
    let mut world = World::new();
    world.chain.add_block(&[], &[pay(1, 100), pay(1, 1)]);
    world.chain.publish();
    let document = world.get_json("/openapi.json").await;
    let path = "/addresses/{kaspaAddress}/full-transactions-page";
    let described = &document["paths"][path]["get"]["responses"]["200"]["headers"];
    let described = described.as_object().expect("headers");
    let one = address(1).to_string();
    let response = world.get(&format!("/addresses/{one}/full-transactions-page?limit=1")).await;
    assert_eq!(response.status, StatusCode::OK);
    let names = response.headers.keys().map(|name| name.as_str());
    let own: Vec<&str> = names.filter(|name| name.starts_with("hydrant-")).collect();
    assert!(own.len() > 5, "{own:?}");
    for name in own {
        assert!(described.keys().any(|key| key.eq_ignore_ascii_case(name)), "no {name}");
    }
}

#[test]
fn a_pinned_server_stays_at_one_version() {
    let mut world = World::new();
    world.chain.add_block(&[], &[pay(1, 100)]);
    world.chain.publish();
    let before = world.chain.sink_hash();
    let pinned = world.server.pinned();
    world.chain.add_block(&[], &[pay(2, 1)]);
    world.chain.publish();
    let chain = pinned.api.chain();
    assert_eq!(chain.status().sink.hash, before);
    assert_eq!(chain.utxos.view(Commitment::Confirmed).meta().hash, before);
    let history = chain.history();
    assert_eq!(history.newest_block().map(|block| block.hash), Some(before));
}
