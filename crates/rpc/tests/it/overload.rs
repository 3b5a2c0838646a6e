//! What happens when the CPU pool has more to do than it may queue.

use std::sync::atomic::Ordering;

use pool::PoolConfig;
use rpc::Config;
use serde_json::json;

use crate::world::World;

const SUPPLY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"getSupply"}"#;
const SLOT: &str = r#"{"jsonrpc":"2.0","id":2,"method":"getSlot"}"#;

#[test]
fn a_full_pool_is_told_at_once_and_cheap_calls_go_on() {
    let world = World::with(Config::default(), PoolConfig { threads: 1, queue_max: 1 });
    let release = world.occupy_pool();
    world.node.pool.submit(Box::new(|| ())).expect("there is room for one");
    let mut client = world.client();
    let response = client.post(SUPPLY);
    assert_eq!(response.status, 429);
    assert_eq!(response.header("retry-after"), Some("1"));
    let message = "the CPU pool is full: 1 jobs wait, at most 1 may (--heavy-max)";
    let refusal =
        json!({ "code": -32005, "message": message, "data": { "queued": 1, "limit": 1 } });
    assert_eq!(response.json()["error"], refusal);

    let response = client.post(&format!("[{SUPPLY},{SLOT}]"));
    assert_eq!(response.status, 200);
    assert_eq!(response.json()[0]["error"], refusal);
    assert_eq!(response.json()[1]["result"], json!(100));

    let response = client.post(&format!("[{SUPPLY},{SUPPLY}]"));
    assert_eq!((response.status, response.header("retry-after")), (429, Some("1")));
    drop(release);
}

#[test]
fn a_heavy_call_of_a_client_that_left_is_not_run() {
    let config = Config { connections_max: 1, ..Config::default() };
    let world = World::with(config, PoolConfig { threads: 1, queue_max: 8 });
    let release = world.occupy_pool();
    let mut leaving = world.client();
    leaving.send(crate::wire::post(&simulate()));
    world.wait_pool(|pool| pool.queued == 1);
    drop(leaving);
    // There is one place for a connection, so an answer here means that the other is gone.
    assert_eq!(world.client().post(SLOT).json()["result"], json!(100));
    drop(release);
    world.wait_pool(|pool| pool.done == 2);
    assert_eq!(world.door.simulated.load(Ordering::SeqCst), 0);
}

#[test]
fn a_heavy_call_of_a_client_that_stays_is_run() {
    let world = World::new();
    let reply = world.client().post(&simulate()).json();
    assert_eq!(world.door.simulated.load(Ordering::SeqCst), 1, "{reply}");
}

/// A simulateTransaction of a transaction that does nothing.
fn simulate() -> String {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use solana_message::{Message, VersionedMessage};
    use solana_transaction::versioned::VersionedTransaction;
    let transaction = VersionedTransaction {
        signatures: vec![Default::default()],
        message: VersionedMessage::Legacy(Message::new(&[], Some(&crate::world::WALLET))),
    };
    let bytes = bincode::serialize(&transaction).expect("a transaction has bytes");
    let params = json!([BASE64_STANDARD.encode(bytes), { "encoding": "base64" }]);
    json!({ "jsonrpc": "2.0", "id": 1, "method": "simulateTransaction", "params": params })
        .to_string()
}
