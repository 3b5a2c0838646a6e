//! Pages of UTXOs and of transactions, while blocks arrive.

use std::collections::BTreeSet;

use hyper::StatusCode;
use serde_json::Value;
use testkit::kaspa_chain::{address, pay};

use crate::world::World;

/// A chain with 50 UTXOs of an address, in five blocks.
fn world_with_utxos() -> World {
    let mut world = World::new();
    for _ in 0..5 {
        let payments: Vec<_> = (0..10).map(|at| pay(1, at + 1)).collect();
        world.chain.add_block(&[], &payments);
    }
    world.chain.publish();
    world
}

#[tokio::test]
async fn pages_have_each_utxo_once_while_blocks_arrive() {
    for limit in [1, 7, 8, 20, 1_000] {
        let mut world = world_with_utxos();
        let path = format!("/addresses/{}/utxos", address(1));
        let all = world.get_json(&path).await;
        let name = |utxo: &Value| utxo["outpoint"].to_string();
        let expected: BTreeSet<String> = all.as_array().expect("a list").iter().map(name).collect();
        assert_eq!(expected.len(), 50);
        let mut found = BTreeSet::new();
        let mut page = String::new();
        loop {
            let response = world.get(&format!("{path}?limit={limit}{page}")).await;
            assert_eq!(response.status, StatusCode::OK, "{}", response.text());
            for utxo in response.json().as_array().expect("a list") {
                assert!(found.insert(name(utxo)), "twice: {utxo}");
            }
            let Some(next) = response.header("hydrant-next-page") else { break };
            page = format!("&page={next}");
            if found.len() < 40 {
                world.chain.add_block(&[], &[pay(1, 1_000), pay(2, 1)]);
                world.chain.publish();
            }
        }
        assert!(found.is_superset(&expected), "limit {limit}");
    }
}

/// A chain with 30 transactions of an address, which had these times before they were accepted.
fn world_with_transactions(time_ms: impl Fn(u64) -> u64) -> World {
    let mut world = World::new();
    for number in 0..30 {
        world.chain.block_time_ms = time_ms(number);
        world.chain.add_block(&[], &[pay(1, number + 1), pay(2, 1)]);
    }
    world.chain.publish();
    world
}

fn transaction_ids(list: &Value) -> Vec<String> {
    let id = |transaction: &Value| transaction["transaction_id"].to_string();
    list.as_array().expect("a list").iter().map(id).collect()
}

#[tokio::test]
async fn pages_have_each_transaction_once_while_blocks_arrive() {
    let mut world = world_with_transactions(|number| number);
    let path = format!("/addresses/{}/full-transactions", address(1));
    let expected = transaction_ids(&world.get_json(&path).await);
    assert_eq!(expected.len(), 30);
    let mut found = Vec::new();
    let mut page = String::new();
    loop {
        let response = world.get(&format!("{path}?limit=7{page}&fields=transaction_id")).await;
        assert_eq!(response.status, StatusCode::OK, "{}", response.text());
        found.extend(transaction_ids(&response.json()));
        let Some(next) = response.header("hydrant-next-page") else { break };
        page = format!("&page={next}");
        world.chain.add_block(&[], &[pay(1, 1)]);
        world.chain.publish();
    }
    assert_eq!(found, expected, "the same order, and none of the new ones");
    let skipped = world.get_json(&format!("{path}?limit=3&offset=4")).await;
    assert_eq!(transaction_ids(&skipped), expected[..3], "four are newer");
}

#[tokio::test]
async fn pages_by_time_have_each_transaction_once() {
    // Times in another order than that of acceptance, and each of them twice.
    let world = world_with_transactions(|number| 1_000 + (number * 7 % 30) / 2);
    let path = format!("/addresses/{}/full-transactions-page", address(1));
    let fields = "fields=transaction_id,block_time";
    let time = |transaction: &Value| transaction["block_time"].as_u64().expect("a time");
    let mut found = BTreeSet::new();
    let mut before = u64::MAX;
    let mut start = String::new();
    loop {
        let response = world.get(&format!("{path}?limit=4{start}&{fields}")).await;
        assert_eq!(response.status, StatusCode::OK, "{}", response.text());
        let list = response.json();
        let transactions = list.as_array().expect("a list");
        let count = transactions.len().to_string();
        assert_eq!(response.header("x-page-count"), Some(count.as_str()));
        for transaction in transactions {
            assert!(time(transaction) < before, "{transaction}");
            assert!(found.insert(transaction["transaction_id"].to_string()), "twice");
        }
        assert!(transactions.is_sorted_by_key(|it| std::cmp::Reverse(time(it))), "{list}");
        let Some(next) = response.header("x-next-page-before") else { break };
        before = next.parse().expect("a time");
        start = format!("&before={next}");
    }
    assert_eq!(found.len(), 30);

    let oldest = world.get(&format!("{path}?limit=3&after=1001&{fields}")).await;
    let times: Vec<u64> = oldest.json().as_array().expect("a list").iter().map(time).collect();
    assert_eq!(times, [1_003, 1_003, 1_002, 1_002], "the oldest ones, the newest of them first");
    assert_eq!(oldest.header("x-next-page-after"), Some("1003"));
    let newer = world.get_json(&format!("{path}?limit=500&after=1003&{fields}")).await;
    assert_eq!(newer.as_array().map(Vec::len), Some(22));
}

#[tokio::test]
async fn a_reorganization_between_pages_shows_only_the_new_chain() {
    let mut world = world_with_transactions(|number| number);
    let path = format!("/addresses/{}/full-transactions", address(1));
    let first = world.get(&format!("{path}?limit=5")).await;
    let left = transaction_ids(&first.json());
    let next = first.header("hydrant-next-page").expect("more").to_owned();
    world.chain.replace_blocks(10, vec![(Vec::new(), vec![pay(3, 1)]); 11]);
    world.chain.publish();
    let second = world.get_json(&format!("{path}?limit=50&page={next}")).await;
    let rest = transaction_ids(&second);
    assert_eq!(rest.len(), 20, "those below the fork");
    assert!(!rest.iter().any(|id| left.contains(id)));
}
