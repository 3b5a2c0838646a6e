//! The methods that kaspad does not have.

use std::collections::BTreeSet;

use jsonrpc::Api;
use jsonrpc::params::Params;
use kaspa::{Network, Outpoint, UtxoChanges};
use rpc_kaspa::KaspaApi;
use serde_json::{Value, json};
use testkit::kaspa_chain::{TestChain, address, pay};

fn call(api: &KaspaApi, method: &str, params: &Value) -> Result<Value, String> {
    let mut methods = KaspaApi::METHODS.iter().copied().flatten();
    let method = methods.find(|spec| spec.name == method).expect("a method");
    let params = params.to_string();
    let output = (method.run)(api, Params::new(Some(&params))).map_err(|error| error.message)?;
    let json = output.into_json().map_err(|error| error.message)?;
    Ok(serde_json::from_slice(&json).expect("JSON"))
}

fn api(chain: &TestChain) -> KaspaApi {
    KaspaApi::new(chain.chain.reader(), Network::Simnet)
}

#[test]
fn a_result_names_the_block_that_it_is_true_at() {
    let mut chain = TestChain::new(Vec::new());
    chain.add_block(&[], &[pay(1, 100)]);
    let added = chain.virtual_utxo(50, &pay(1, 7));
    chain.change_virtual(&UtxoChanges { added: vec![added], removed: Vec::new() });
    chain.publish();
    let api = api(&chain);
    let sink = chain.sink_hash().to_string();
    let address = address(1).to_string();
    let balance = call(&api, "getBalance", &json!([address])).expect("a balance");
    assert_eq!(balance["value"], json!({ "sompi": 107, "utxoCount": 2 }));
    assert_eq!(balance["position"]["chainBlock"], json!(sink));
    assert_eq!(balance["position"]["isVirtual"], json!(true));
    assert_eq!(balance["position"]["isProven"], json!(false));
    let at_sink = call(&api, "getBalance", &json!([address, { "at": "sink" }])).expect("a balance");
    assert_eq!(at_sink["value"], json!({ "sompi": 100, "utxoCount": 1 }));
    assert_eq!(at_sink["position"]["isProven"], json!(true));
    let position = call(&api, "getPosition", &json!([{ "at": "sink" }])).expect("a position");
    assert_eq!(position, at_sink["position"]);
    let final_one = call(&api, "getBalance", &json!([address, { "at": "final" }]));
    assert_eq!(final_one.expect("a balance")["value"], json!({ "sompi": 0, "utxoCount": 0 }));
}

#[test]
fn pages_have_each_utxo_once() {
    let mut chain = TestChain::new(Vec::new());
    for _ in 0..5 {
        let payments: Vec<_> = (0..10).map(|at| pay(1, at + 1)).collect();
        chain.add_block(&[], &payments);
    }
    chain.publish();
    let api = api(&chain);
    for limit in [1, 7, 8, 9, 20, 1_000] {
        let mut found = BTreeSet::new();
        let mut after = Value::Null;
        loop {
            let options = json!({ "limit": limit, "after": after });
            let page = call(&api, "getUtxos", &json!([address(1).to_string(), options]));
            let page = page.expect("a page")["value"].take();
            for utxo in page["utxos"].as_array().expect("UTXOs") {
                assert_eq!(utxo["address"], json!(address(1).to_string()));
                assert!(found.insert(utxo["outpoint"].to_string()), "twice: {utxo}");
            }
            after = page["next"].clone();
            if after.is_null() {
                break;
            }
        }
        assert_eq!(found.len(), 50, "limit {limit}");
    }
}

#[test]
fn history_has_the_chain_blocks_that_accepted_transactions() {
    let mut chain = TestChain::new(Vec::new());
    let outputs: Vec<Outpoint> = chain.add_block(&[], &[pay(1, 100)]);
    let first = chain.sink_hash().to_string();
    let spent = chain.add_block(&outputs, &[pay(2, 60), pay(1, 40)]);
    let second = chain.sink_hash().to_string();
    chain.add_block(&[], &[pay(3, 1)]);
    chain.publish();
    let api = api(&chain);
    let id = spent[0].transaction_id.to_string();
    let found = call(&api, "getTransaction", &json!([id])).expect("a transaction")["value"].take();
    assert_eq!(found["acceptingBlockHash"], json!(second));
    assert_eq!(found["confirmations"], json!(1));
    assert_eq!(found["inputs"][0]["address"], json!(address(1).to_string()));
    assert_eq!(found["inputs"][0]["amount"], json!(100));
    assert_eq!(found["outputs"][0]["address"], json!(address(2).to_string()));
    let address = address(1).to_string();
    let page = call(&api, "getTransactions", &json!([address, { "limit": 1 }]));
    let page = page.expect("a page")["value"].take();
    assert_eq!(page["transactions"][0], found);
    let options = json!({ "limit": 1, "before": page["next"] });
    let page = call(&api, "getTransactions", &json!([address, options]));
    let page = page.expect("a page")["value"].take();
    assert_eq!(page["transactions"][0]["acceptingBlockHash"], json!(first));
    assert_eq!(page["next"], Value::Null);
    let unknown = call(&api, "getTransaction", &json!(["00".repeat(32)])).expect("a result");
    assert_eq!(unknown["value"], Value::Null);
}

#[test]
fn a_page_of_large_transactions_is_short() {
    let mut chain = TestChain::new(Vec::new());
    for _ in 0..6 {
        let payments: Vec<_> = (0..2_000).map(|_| pay(1, 1)).collect();
        chain.add_block(&[], &payments);
    }
    chain.publish();
    let api = api(&chain);
    let address = address(1).to_string();
    let page = |options: Value| {
        let page = call(&api, "getTransactions", &json!([address, options]));
        page.expect("a page")["value"].take()
    };
    let first = page(json!({ "limit": 1_000 }));
    let transactions = first["transactions"].as_array().expect("transactions");
    assert_eq!(transactions.len(), 5, "10,000 outputs");
    let second = page(json!({ "limit": 1_000, "before": first["next"] }));
    let rest = second["transactions"].as_array().expect("transactions");
    assert_eq!((rest.len(), &second["next"]), (1, &Value::Null));
    let ids = transactions.iter().chain(rest).map(|found| found["transactionId"].to_string());
    assert_eq!(ids.collect::<BTreeSet<_>>().len(), 6, "each once");
}

#[test]
fn parameters_out_of_bounds_are_refused() {
    let chain = TestChain::new(Vec::new());
    let api = api(&chain);
    let good = address(1).to_string();
    let calls = [
        ("getBalance", json!([])),
        ("getBalance", json!(["kaspa:q"])),
        ("getBalance", json!([good, { "at": "yesterday" }])),
        ("getUtxos", json!([good, { "limit": 0 }])),
        ("getUtxos", json!([good, { "limit": 1_001 }])),
        ("getUtxos", json!([good, { "after": "zz" }])),
        ("getTransactions", json!([good, { "before": "7" }])),
        ("getTransaction", json!(["12"])),
        ("getPosition", json!([{ "unknown": 1 }])),
    ];
    for (method, params) in calls {
        assert!(call(&api, method, &params).is_err(), "{method} {params}");
    }
}
