//! The values of each route, member by member, in the shape of api.kaspa.org.

use hyper::StatusCode;
use kaspa::{Outpoint, UtxoChanges};
use serde_json::{Value, json};
use testkit::kaspa_chain::{address, pay};

use crate::world::World;

/// The script of a test's key without its version.
fn script(key: u8) -> String {
    format!("20{}ac", format!("{key:02x}").repeat(32))
}

fn utxo(key: u8, outpoint: Outpoint, sompi: u64, daa_score: u64, is_coinbase: bool) -> Value {
    json!({
        "address": address(key).to_string(),
        "outpoint": {
            "transactionId": outpoint.transaction_id.to_string(),
            "index": outpoint.index,
        },
        "utxoEntry": {
            "amount": sompi.to_string(),
            "scriptPublicKey": { "scriptPublicKey": script(key) },
            "blockDaaScore": daa_score.to_string(),
            "isCoinbase": is_coinbase,
        },
    })
}

#[tokio::test]
async fn balances_are_those_of_the_virtual_block() {
    let mut world = World::new();
    world.chain.add_block(&[], &[pay(1, 100), pay(2, 5)]);
    let added = world.chain.virtual_utxo(50, &pay(1, 7));
    world.chain.change_virtual(&UtxoChanges { added: vec![added], removed: Vec::new() });
    world.chain.publish();
    let one = address(1).to_string();
    let two = address(2).to_string();
    let balance = world.get_json(&format!("/addresses/{one}/balance")).await;
    assert_eq!(balance, json!({ "address": one, "balance": 107 }));
    let unknown = address(9).to_string();
    let balance = world.get_json(&format!("/addresses/{unknown}/balance")).await;
    assert_eq!(balance, json!({ "address": unknown, "balance": 0 }));
    let body = json!({ "addresses": [two, one, two] }).to_string();
    let balances = world.post("/addresses/balances", &body).await;
    assert_eq!(balances.status, StatusCode::OK);
    let expected = json!([
        { "address": two, "balance": 5 },
        { "address": one, "balance": 107 },
        { "address": two, "balance": 5 },
    ]);
    assert_eq!(balances.json(), expected);
}

#[tokio::test]
async fn utxos_have_texts_in_place_of_numbers() {
    let mut world = World::new();
    let made = world.chain.add_block(&[], &[pay(1, 100), pay(2, 5)]);
    let daa_score = world.chain.chain.sink().daa_score;
    world.chain.publish();
    let one = address(1).to_string();
    let two = address(2).to_string();
    let first = utxo(1, made[0], 100, daa_score, true);
    let second = utxo(2, made[1], 5, daa_score, true);
    assert_eq!(world.get_json(&format!("/addresses/{one}/utxos")).await, json!([first]));
    assert_eq!(world.get_json(&format!("/addresses/{one}/utxos?limit=5")).await, json!([first]));
    let unknown = address(9).to_string();
    assert_eq!(world.get_json(&format!("/addresses/{unknown}/utxos")).await, json!([]));
    let body = json!({ "addresses": [two, one, two] }).to_string();
    let utxos = world.post("/addresses/utxos", &body).await;
    assert_eq!((utxos.status, utxos.json()), (StatusCode::OK, json!([second, first])));
}

#[tokio::test]
async fn a_transaction_names_the_block_that_accepted_it() {
    let mut world = World::new();
    let outputs = world.chain.add_block(&[], &[pay(1, 100)]);
    world.chain.block_time_ms = 1_700_000_000_123;
    let made = world.chain.add_block(&outputs, &[pay(2, 60), pay(1, 40)]);
    let accepting = world.chain.chain.sink();
    world.chain.add_block(&[], &[pay(3, 1)]);
    world.chain.publish();
    let id = made[0].transaction_id.to_string();
    let path = format!("/transactions/{id}");
    let mut found = world.get_json(&path).await;
    let hash = found["hash"].take();
    assert_eq!(hash.as_str().map(str::len), Some(64));
    let output = |index: u32, key: u8, amount: u64| {
        json!({
            "transaction_id": id,
            "index": index,
            "amount": amount,
            "script_public_key": script(key),
            "script_public_key_address": address(key).to_string(),
            "script_public_key_type": "pubkey",
        })
    };
    let spent_id = outputs[0].transaction_id.to_string();
    let expected = json!({
        "subnetwork_id": "0".repeat(40),
        "transaction_id": id,
        "hash": null,
        "mass": null,
        "payload": "0200000000000000",
        "block_hash": [accepting.hash.to_string()],
        "block_time": 1_700_000_000_123_u64,
        "is_accepted": true,
        "accepting_block_hash": accepting.hash.to_string(),
        "accepting_block_blue_score": accepting.blue_score,
        "accepting_block_time": accepting.timestamp_ms,
        "inputs": [{
            "transaction_id": id,
            "index": 0,
            "previous_outpoint_hash": spent_id,
            "previous_outpoint_index": "0",
            "previous_outpoint_resolved": null,
            "previous_outpoint_address": null,
            "previous_outpoint_amount": null,
            "signature_script": "01".repeat(65),
            "sig_op_count": "1",
        }],
        "outputs": [output(0, 2, 60), output(1, 1, 40)],
    });
    assert_eq!(found, expected);

    let light = world.get_json(&format!("{path}?resolve_previous_outpoints=light")).await;
    let input = &light["inputs"][0];
    assert_eq!(input["previous_outpoint_address"], json!(address(1).to_string()));
    assert_eq!(input["previous_outpoint_amount"], json!(100));
    assert_eq!(input["previous_outpoint_resolved"], Value::Null);
    let full = world.get_json(&format!("{path}?resolve_previous_outpoints=full")).await;
    let resolved = json!({
        "transaction_id": spent_id,
        "index": 0,
        "amount": 100,
        "script_public_key": script(1),
        "script_public_key_address": address(1).to_string(),
        "script_public_key_type": "pubkey",
    });
    assert_eq!(full["inputs"][0]["previous_outpoint_resolved"], resolved);

    let short = world.get_json(&format!("{path}?inputs=false&outputs=false")).await;
    assert_eq!((&short["inputs"], &short["outputs"]), (&Value::Null, &Value::Null));
    let coinbase = world.get_json(&format!("/transactions/{spent_id}?blockHash={spent_id}")).await;
    assert_eq!(coinbase["inputs"], Value::Null);
    assert_eq!(coinbase["subnetwork_id"], json!(format!("01{}", "0".repeat(38))));
}

#[tokio::test]
async fn lists_of_transactions_have_the_shape_of_one() {
    let mut world = World::new();
    let outputs = world.chain.add_block(&[], &[pay(1, 100)]);
    let made = world.chain.add_block(&outputs, &[pay(2, 60), pay(1, 40)]);
    world.chain.publish();
    let one = address(1).to_string();
    let first_id = outputs[0].transaction_id.to_string();
    let second_id = made[0].transaction_id.to_string();
    let first = world.get_json(&format!("/transactions/{first_id}")).await;
    let second = world.get_json(&format!("/transactions/{second_id}")).await;
    let list = world.get_json(&format!("/addresses/{one}/full-transactions")).await;
    assert_eq!(list, json!([second, first]));
    let two = address(2).to_string();
    let list = world.get_json(&format!("/addresses/{two}/full-transactions-page")).await;
    assert_eq!(list, json!([second]));
    let path = format!("/addresses/{one}/full-transactions?fields=transaction_id,is_accepted");
    let expected = json!([
        { "transaction_id": second_id, "is_accepted": true },
        { "transaction_id": first_id, "is_accepted": true },
    ]);
    assert_eq!(world.get_json(&path).await, expected);
    let all = world.get_json(&format!("/addresses/{one}/full-transactions?fields=")).await;
    assert_eq!(all, json!([second, first]), "no name is all of them");
    let unknown = address(9).to_string();
    for route in ["full-transactions", "full-transactions-page"] {
        assert_eq!(world.get_json(&format!("/addresses/{unknown}/{route}")).await, json!([]));
    }
}
