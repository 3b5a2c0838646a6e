//! Batches, notifications and other envelopes.

use rpc_solana::Config;
use serde_json::{Value, json};

use testkit::sample_ledger::PROGRAM;
use testkit::solana_node::SolanaNode;

fn call(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[test]
fn a_batch_mixes_cheap_and_heavy_and_keeps_their_order() {
    let world = SolanaNode::new();
    let calls: Vec<Value> = (0..100)
        .map(|id| match id % 3 {
            0 => call(id, "getSlot", json!([{ "commitment": "confirmed" }])),
            1 => call(
                id,
                "getProgramAccounts",
                json!([PROGRAM.to_string(), { "encoding": "base64" }]),
            ),
            _ => call(id, "noSuchMethod", json!([])),
        })
        .collect();
    let replies = world.client().post(&Value::Array(calls).to_string()).json();
    let replies = replies.as_array().expect("a batch");
    assert_eq!(replies.len(), 100);
    for (id, reply) in replies.iter().enumerate() {
        assert_eq!(reply["id"], json!(id));
        match id % 3 {
            0 => assert_eq!(reply["result"], json!(101)),
            1 => assert_eq!(reply["result"].as_array().map(Vec::len), Some(3)),
            _ => {
                assert_eq!(reply["error"], json!({ "code": -32601, "message": "Method not found" }))
            }
        }
    }
}

#[test]
fn nothing_to_answer_is_an_empty_response() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let notification = r#"{"jsonrpc":"2.0","method":"getSlot"}"#;
    for body in
        [notification.to_owned(), "[]".to_owned(), format!("[{notification},{notification}]")]
    {
        let response = client.post(&body);
        assert_eq!((response.status, response.body.as_str()), (200, ""), "{body}");
    }
    let mixed = format!("[{notification},{}]", call(7, "getSlot", json!([])));
    assert_eq!(client.post(&mixed).json(), json!([{ "jsonrpc": "2.0", "result": 100, "id": 7 }]));
}

#[test]
fn a_batch_has_a_longest_length() {
    let config = Config { batch_max: 3, ..Config::default() };
    let world = SolanaNode::with_config(config, cpu_pool::Config::default());
    let mut client = world.client();
    let batch =
        |len| Value::from_iter((0..len).map(|id| call(id, "getSlot", json!([])))).to_string();
    assert_eq!(client.post(&batch(3)).json().as_array().map(Vec::len), Some(3));
    assert_eq!(
        client.post(&batch(4)).json()["error"],
        json!({ "code": -32600, "message": "a batch of 4 calls, at most 3 (rpc.batch_max)" })
    );
}
