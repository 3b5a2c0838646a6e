//! The shapes of replies in JSON against those of a kaspad: names and kinds of fields, not their values.

use kaspa::Method;
use serde_json::{Value, json};
use testkit::kaspa_golden;
use testkit::kaspa_node::{KaspaNode, MINER, Payment, default_miner, simnet_address};

use crate::world::{BorshClient, JsonClient, assert_end};

/// A message of a kaspad.
pub(crate) fn golden(name: &str, kind: &str) -> Value {
    serde_json::from_str(kaspa_golden::expect(kaspa_golden::JSON, name, kind)).expect("JSON")
}

/// Checks that two values have the same names and kinds. `null` stands for any value, as does an empty list.
pub(crate) fn assert_shape(value: &Value, golden: &Value) {
    match (value, golden) {
        (Value::Object(fields), Value::Object(expected)) => {
            let names: Vec<&String> = fields.keys().collect();
            assert_eq!(names, expected.keys().collect::<Vec<_>>(), "{value} {golden}");
            fields.iter().for_each(|(name, field)| assert_shape(field, &expected[name]));
        }
        (Value::Array(elements), Value::Array(expected)) => {
            let is_tuple = expected.len() > 1
                && std::mem::discriminant(&expected[0]) != std::mem::discriminant(&expected[1]);
            if is_tuple {
                assert_eq!(elements.len(), expected.len(), "{value} {golden}");
                let pairs = elements.iter().zip(expected);
                pairs.for_each(|(element, expected)| assert_shape(element, expected));
            } else if let Some(expected) = expected.first() {
                elements.iter().for_each(|element| assert_shape(element, expected));
            }
        }
        (Value::Null, _) | (_, Value::Null) => {}
        (value, golden) => {
            let kinds = [value, golden].map(std::mem::discriminant);
            assert_eq!(kinds[0], kinds[1], "{value} {golden}");
        }
    }
}

#[tokio::test]
async fn replies_have_kaspads_shapes() {
    let node = KaspaNode::start().await;
    node.mine(10);
    let script = default_miner().script;
    let payment = Payment { from: MINER, to: vec![(script, 7)], fee: 10 };
    node.pay(&payment).expect("the miner has coins");
    node.mine(2);
    let id = node.pay(&payment).expect("the miner has coins").to_string();
    let genesis = node.with_dag(|dag| dag.genesis()).to_string();
    let address = simnet_address(MINER).to_string();
    let addresses = json!({ "addresses": [address] });
    let pool = json!({ "addresses": [address], "includeOrphanPool": true, "filterTransactionPool": false });
    let whole_pool = json!({ "includeOrphanPool": true, "filterTransactionPool": false });
    let entry =
        json!({ "transactionId": id, "includeOrphanPool": true, "filterTransactionPool": false });
    let start = json!({ "startHash": genesis, "includeAcceptedTransactionIds": true });
    let full = json!({ "startHash": genesis, "dataVerbosityLevel": "Full" });
    let block = json!({ "hash": node.chain()[10].to_string(), "includeTransactions": true });
    let calls = [
        ("ping", "ping", json!({})),
        ("getServerInfo", "getServerInfo", json!({})),
        ("getInfo", "getInfo", json!({})),
        ("getSyncStatus", "getSyncStatus", json!({})),
        ("getCurrentNetwork", "getCurrentNetwork", json!({})),
        ("getSink", "getSink", json!({})),
        ("getSinkBlueScore", "getSinkBlueScore", json!({})),
        ("getConnectedPeerInfo", "getConnectedPeerInfo", json!({})),
        ("getPeerAddresses", "getPeerAddresses", json!({})),
        ("getBlockCount", "getBlockCount", json!({})),
        ("getBlockDagInfo", "getBlockDagInfo", json!({})),
        ("getCoinSupply", "getCoinSupply", json!({})),
        ("getFeeEstimate", "getFeeEstimate", json!({})),
        ("getUtxosByAddresses", "getUtxosByAddresses", addresses.clone()),
        ("getBalancesByAddresses", "getBalancesByAddresses", addresses),
        ("getBalanceByAddress", "getBalanceByAddress", json!({ "address": address })),
        ("getMempoolEntriesByAddresses", "getMempoolEntriesByAddresses", pool),
        ("getMempoolEntry", "getMempoolEntry", entry),
        ("getMempoolEntries", "getMempoolEntries", whole_pool),
        ("getVirtualChainFromBlock", "getVirtualChainFromBlock", start),
        ("getVirtualChainFromBlockV2", "getVirtualChainFromBlockV2_Full", full),
        ("getBlock", "getBlock", block),
        (
            "getCurrentBlockColor",
            "getCurrentBlockColor",
            json!({ "hash": node.chain()[1].to_string() }),
        ),
        (
            "getBlockTemplate",
            "getBlockTemplate",
            json!({ "payAddress": address, "extraData": [1] }),
        ),
    ];
    let mut client = JsonClient::connect(&node).await;
    for (method, name, params) in calls {
        let reply = client.call(method, params).await;
        let reply = reply.unwrap_or_else(|error| panic!("{method}: {error}"));
        let expected = golden(name, "response");
        let empty = json!({});
        assert_shape(&reply, expected.get("params").unwrap_or(&empty));
    }
    let blocks = json!({ "lowHash": null, "includeBlocks": true, "includeTransactions": true });
    let blocks = client.call("getBlocks", blocks).await.expect("blocks");
    assert_eq!(blocks["blockHashes"].as_array().map(Vec::len), Some(13));
    assert_shape(&blocks["blocks"][0], &golden("getBlock", "response")["params"]["block"]);
}

#[tokio::test]
async fn a_client_mines_a_template() {
    let node = KaspaNode::start().await;
    node.mine(2);
    let mut client = JsonClient::connect(&node).await;
    let address = simnet_address(MINER).to_string();
    let template = json!({ "payAddress": address, "extraData": [] });
    let mut block =
        client.call("getBlockTemplate", template).await.expect("a template")["block"].take();
    block["header"]["nonce"] = json!(77);
    let submitted = json!({ "block": block, "allowNonDaaBlocks": false });
    let reply = client.call("submitBlock", submitted).await.expect("a report");
    assert_eq!(reply, golden("submitBlock", "response")["params"]);
    assert_eq!(node.with_dag(|dag| dag.block_count()), 3);
    assert_eq!(node.with_dag(|dag| dag.sink().header.nonce), 77);

    block["header"]["daaScore"] = json!(99);
    let submitted = json!({ "block": block, "allowNonDaaBlocks": false });
    let reply = client.call("submitBlock", submitted).await.expect("a report");
    assert_eq!(reply, json!({ "report": { "reason": "blockInvalid", "type": "reject" } }));
    let other = "kaspa:qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqkx9awp4e";
    let params = json!({ "payAddress": other, "extraData": [] });
    let error = client.call("getBlockTemplate", params).await.expect_err("another network");
    assert_eq!(error, "The address has an invalid prefix kaspa");
    // Others are answered by their script.
    let balance = client.call("getBalanceByAddress", json!({ "address": other })).await;
    assert_eq!(balance, Ok(json!({ "balance": 0 })));
}

#[tokio::test]
async fn a_client_submits_a_transaction() {
    let node = KaspaNode::start().await;
    node.mine(8);
    let params = golden("submitTransaction", "request")["params"].clone();
    let mut client = JsonClient::connect(&node).await;
    let error = client.call("submitTransaction", params.clone()).await.expect_err("no such output");
    assert!(error.starts_with("Rejected transaction "), "{error}");
    assert!(error.ends_with("is an orphan where orphan is disallowed"), "{error}");

    let utxos = node.utxos();
    let spendable = utxos.keys().find(|outpoint| node.with_dag(|dag| dag.is_spendable(outpoint)));
    let outpoint = spendable.expect("a mature coinbase");
    let mut params = params;
    params["transaction"]["inputs"][0]["previousOutpoint"] =
        json!({ "transactionId": outpoint.transaction_id.to_string(), "index": outpoint.index });
    let reply = client.call("submitTransaction", params.clone()).await.expect("an id");
    let again = client.call("submitTransaction", params).await.expect_err("twice");
    assert!(again.ends_with("is already in the mempool"), "{again}");
    node.mine(2);
    let id =
        kaspa::Hash::from_hex(reply["transactionId"].as_str().expect("a text")).expect("a hash");
    assert!(node.utxos().keys().any(|outpoint| outpoint.transaction_id == id));
    assert!(node.with_dag(|dag| dag.mempool().is_empty()));
}

#[tokio::test]
async fn errors_have_kaspads_texts() {
    let node = KaspaNode::start().await;
    node.mine(1);
    let unknown = "ab".repeat(32);
    let mut client = JsonClient::connect(&node).await;
    let calls = [
        (
            "getVirtualChainFromBlockV2",
            json!({ "startHash": unknown }),
            format!("cannot find header {unknown}"),
        ),
        (
            "getBlock",
            json!({ "hash": unknown, "includeTransactions": true }),
            format!("cannot find header {unknown}"),
        ),
        (
            "getCurrentBlockColor",
            json!({ "hash": unknown }),
            format!("Block {unknown} doesn't have any merger block."),
        ),
        (
            "getMempoolEntry",
            json!({ "transactionId": unknown }),
            format!("Transaction {unknown} not found"),
        ),
        ("getHeaders", json!({}), "Not implemented".to_owned()),
        ("getBalanceByAddress", json!({}), "request deserialization error".to_owned()),
        ("blockAddedNotification", json!({}), "RPC method not found".to_owned()),
    ];
    for (method, params, expected) in calls {
        assert_eq!(client.call(method, params).await, Err(expected), "{method}");
    }
    let golden = golden("error_getVirtualChainFromBlockV2", "response");
    assert!(golden["error"]["message"].as_str().is_some_and(|text| text.contains(&unknown)));
}

#[tokio::test]
async fn a_request_over_16_mib_is_read_as_in_kaspad() {
    let node = KaspaNode::start().await;
    let mut client = JsonClient::connect(&node).await;
    let params = json!({ "unknown": "a".repeat(17 << 20) });
    let refused = Err("request deserialization error".to_owned());
    assert_eq!(client.call("getBalanceByAddress", params).await, refused);
}

#[tokio::test]
async fn unknown_messages_end_the_connection() {
    let node = KaspaNode::start().await;
    let unknown =
        [r#"{"id":9,"method":"nothing","params":{}}"#, r#"{"id":5,"method":"ping"}"#, r#"{"id":1"#];
    for message in unknown {
        let mut client = JsonClient::connect(&node).await;
        client.connection.send_text(message).await;
        assert_end(&mut client.connection).await;
    }
    let mut unknown_operation = Method::Ping.encode_borsh_request(1);
    unknown_operation[kaspa::OPERATION_OFFSET] = 0xff;
    for message in [unknown_operation, vec![1], Vec::new()] {
        let mut client = BorshClient::connect(&node).await;
        client.connection.send_binary(message).await;
        assert_end(&mut client.connection).await;
    }
    let mut client = BorshClient::connect(&node).await;
    client.connection.send_text("text").await;
    assert_end(&mut client.connection).await;
    // Bytes are read as a text, and a message without an id gets no reply.
    let mut client = JsonClient::connect(&node).await;
    client.connection.send_text(r#"{"method":"ping","params":{}}"#).await;
    client.connection.send_binary(br#"{"id":5,"method":"ping","params":{}}"#.to_vec()).await;
    let reply = client.connection.read_text().await;
    assert_eq!(
        reply,
        golden("ping", "response")
            .to_string()
            .replace(&golden("ping", "response")["id"].to_string(), "5")
    );
}
