//! Parameters: the accepted ones, the refused ones, and the messages of refusals.

use serde_json::{Value, json};

use super::node::{Node, key, signature};

fn error(code: i64, message: &str) -> Result<Value, Value> {
    Err(json!({ "code": code, "message": message }))
}

#[tokio::test]
async fn what_is_wrong_is_refused_in_agaves_words() {
    let node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    let pubkey = key(1).to_string();
    let no_offset = "Invalid params: missing field `offset`.";
    let filter = json!({ "dataSize": 1 });
    let five = json!([filter, filter, filter, filter, filter]);
    let bad_bytes = json!([{ "memcmp": { "offset": 0, "bytes": "0" } }]);
    let cases = [
        ("accountSubscribe", json!(["x"]), "Invalid Request: Invalid pubkey provided"),
        ("accountSubscribe", json!([""]), "Invalid Request: Invalid pubkey provided"),
        ("accountSubscribe", json!([]), "`params` should have at least 1 argument(s)"),
        ("accountSubscribe", json!({}), "`params` should be an array"),
        (
            "accountSubscribe",
            json!([pubkey, {}, 1]),
            "Invalid parameters: Expected from 1 to 2 parameters.",
        ),
        (
            "accountSubscribe",
            json!([7]),
            "Invalid params: invalid type: integer `7`, expected a string.",
        ),
        ("accountSubscribe", json!([pubkey, { "dataSlice": { "length": 1 } }]), no_offset),
        (
            "accountSubscribe",
            json!([pubkey, { "encoding": "x" }]),
            "Invalid params: unknown variant `x`, expected one of `binary`, `base58`, `base64`, `jsonParsed`, `base64+zstd`.",
        ),
        ("programSubscribe", json!(["x"]), "Invalid Request: Invalid pubkey provided"),
        (
            "programSubscribe",
            json!(["x", { "filters": five }]),
            "Invalid params: Too many filters provided; max 4",
        ),
        (
            "programSubscribe",
            json!([pubkey, { "filters": bad_bytes }]),
            "Invalid params: Invalid param: Base58DecodeError(InvalidCharacter { character: '0', index: 0 })",
        ),
        ("logsSubscribe", json!([{ "mentions": [] }]), "Invalid Request: Only 1 address supported"),
        (
            "logsSubscribe",
            json!([{ "mentions": [pubkey, pubkey] }]),
            "Invalid Request: Only 1 address supported",
        ),
        (
            "logsSubscribe",
            json!([{ "mentions": ["x"] }]),
            "Invalid Request: Invalid mentions provided",
        ),
        ("signatureSubscribe", json!([pubkey]), "Invalid Request: Invalid signature provided"),
        (
            "blockSubscribe",
            json!(["all", { "commitment": "processed" }]),
            "Method does not support commitment below `confirmed`",
        ),
        (
            "blockSubscribe",
            json!([{ "mentionsAccountOrProgram": "x" }]),
            "Invalid Request: Invalid mentions_account_or_program provided",
        ),
        ("accountUnsubscribe", json!([0]), "Invalid subscription id."),
        (
            "accountUnsubscribe",
            json!(["0"]),
            r#"Invalid params: invalid type: string "0", expected u64."#,
        ),
    ];
    for (method, params, message) in cases {
        let result = client.call(method, params.clone()).await;
        let result = result.map_err(|mut err| {
            err.as_object_mut().map(|err| err.remove("data"));
            err
        });
        assert_eq!(result, error(-32602, message), "{method} {params}");
    }
    let unknown = client.call("getSlot", json!([])).await;
    assert_eq!(unknown, error(-32601, "Method not found"));
    assert_eq!(node.pubsub.stats().subscriptions, 0, "nothing is subscribed");
    assert!(node.reader.addresses().is_empty());
}

#[tokio::test]
async fn the_envelope_is_the_same_as_over_http() {
    let node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    let cases = [
        ("", r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#),
        ("{", r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#),
        (
            r#"{"id":1,"method":"getVersion"}"#,
            r#"{"error":{"code":-32600,"message":"Unsupported JSON-RPC protocol version"},"id":1}"#,
        ),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"slotSubscribe"},{"jsonrpc":"2.0","method":"rootSubscribe"},{"jsonrpc":"2.0","id":"b","method":"slotUnsubscribe","params":[1]}]"#,
            r#"[{"jsonrpc":"2.0","result":1,"id":1},{"jsonrpc":"2.0","result":true,"id":"b"}]"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"slotSubscribe","params":[1]}"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid parameters: No parameters were expected","data":"Array([Number(1)])"},"id":1}"#,
        ),
    ];
    for (request, reply) in cases {
        client.send(request).await;
        let text = client.message().await.expect("it comes").expect("it is text");
        assert_eq!(text.as_str(), reply, "{request}");
    }
    // Messages that need no response get none.
    client.send("[]").await;
    client.send(r#"{"jsonrpc":"2.0","method":"slotSubscribe"}"#).await;
    let version = client.call("getVersion", json!([])).await.expect("it is right");
    assert_eq!(version["feature-set"], 77);
    assert!(version["solana-core"].as_str().is_some_and(|core| core.starts_with("4.")));
    assert_eq!(node.pubsub.stats().subscriptions, 0);
}

#[tokio::test]
async fn equal_parameters_are_one_subscription() {
    let mut node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    let mut other = node.connect().await;
    let pubkey = key(1).to_string();
    let plain = client.subscribe("account", json!([pubkey])).await;
    let spelled_out = json!([pubkey, { "encoding": "binary", "commitment": "finalized" }]);
    assert_eq!(client.subscribe("account", spelled_out.clone()).await, plain, "the defaults");
    assert_eq!(other.subscribe("account", spelled_out).await, plain, "shared by connections");
    for config in [
        json!({ "encoding": "base64" }),
        json!({ "commitment": "processed" }),
        json!({ "dataSlice": { "offset": 0, "length": 0 } }),
    ] {
        assert_ne!(client.subscribe("account", json!([pubkey, config])).await, plain);
    }
    let stats = node.pubsub.stats();
    assert_eq!((stats.subscriptions, stats.distinct_subscriptions), (5, 4));

    assert_eq!(
        client.call("logsUnsubscribe", json!([plain])).await,
        Ok(json!(true)),
        "of any kind"
    );
    let again = client.call("accountUnsubscribe", json!([plain])).await;
    assert_eq!(again, error(-32602, "Invalid subscription id."), "one call ends it");
    node.write(1, 5);
    node.finalize();
    let notifications = node.notifications(&mut client).await;
    assert!(
        notifications.iter().all(|notification| notification["params"]["subscription"] != plain),
        "{notifications:?}"
    );
    assert_eq!(
        node.notifications(&mut other).await.len(),
        1,
        "the other connection's subscription continues"
    );
}

#[tokio::test]
async fn an_unknown_commitment_in_a_config_is_the_default() {
    let node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    let pubkey = key(1).to_string();
    let plain = client.subscribe("account", json!([pubkey])).await;
    let odd = json!([pubkey, { "commitment": "max", "unknown": 1 }]);
    assert_eq!(client.subscribe("account", odd).await, plain);
    let signature = json!([signature(1).to_string(), null]);
    assert_eq!(client.subscribe("signature", signature).await, plain + 1);
}
