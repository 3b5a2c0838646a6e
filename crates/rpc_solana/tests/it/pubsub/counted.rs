//! Calls over WebSocket in `/metrics`: by method, apart from calls over HTTP, each counted once.

use rpc_solana::pubsub::Config;
use serde_json::json;

use super::node::{Node, key};
use crate::metrics::ScrapedMetrics;
use testkit::solana_node::SolanaNode;

/// Makes all calls that the test counts.
async fn make_calls() -> Node {
    let node = Node::start(Config::default()).await;
    let mut client = node.connect().await;
    let slot = client.subscribe("slot", json!([])).await;
    for is_there in [true, false] {
        let ended = client.call("slotUnsubscribe", json!([slot])).await;
        assert_eq!(ended.is_ok(), is_there);
    }
    client.call("getVersion", json!([])).await.expect("it is there");
    client.call("getEverything", json!([])).await.expect_err("it is not there");
    client.request("{").await;
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"getVersion"},
        {"jsonrpc":"2.0","id":2,"method":"addressesSubscribe","params":[[]]},
        {"jsonrpc":"2.0","method":"getVersion"}]"#;
    // A text that names a method of sets takes another path, whatever it is.
    assert_eq!(client.request(batch).await.as_array().map(Vec::len), Some(2));
    let set = client.call("addressesSubscribe", json!([[key(1).to_string()]])).await;
    let set = set.expect("it is right")["subscription"].clone();
    let clear = json!({ "clear": true });
    client.call("addressesUpdate", json!([set, clear])).await.expect("it is right");
    client.call("addressesUpdate", json!([77, clear])).await.expect_err("there is none");
    for is_there in [true, false] {
        let ended = client.call("addressesUnsubscribe", json!([set])).await;
        assert_eq!(ended.is_ok(), is_there);
    }
    node
}

#[test]
fn calls_over_websocket_are_counted_by_method() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let node = runtime.block_on(make_calls());
    let world = SolanaNode::new();
    jsonrpc::pubsub::add_metrics(&node.pubsub, &world.server.context.metrics);
    let mut client = world.client();
    client.result("getVersion", json!([]));
    let metrics = ScrapedMetrics::scrape(&mut client);
    for (method, class, calls) in [
        ("slotSubscribe", "none", 1.0),
        ("slotUnsubscribe", "none", 2.0),
        ("getVersion", "none", 2.0),
        ("other", "none", 1.0),
        ("none", "none", 1.0),
        ("addressesSubscribe", "medium", 2.0),
        ("addressesUpdate", "medium", 2.0),
        ("addressesUnsubscribe", "medium", 2.0),
        ("programSubscribe", "none", 0.0),
    ] {
        let path = if class == "none" { "inline" } else { "pool" };
        let labels = format!(
            "class=\"{class}\",method=\"{method}\",path=\"{path}\",transport=\"websocket\""
        );
        let labels = format!("{{{labels}}}");
        let name = format!("hydrant_requests_total{labels}");
        assert_eq!(metrics.get(&name), calls, "{name}: {:?}", metrics.all());
        let name = format!("hydrant_request_duration_seconds_count{labels}");
        assert_eq!(metrics.get(&name), calls, "{name}");
    }
    for (method, code, errors) in [
        ("slotUnsubscribe", -32602, 1.0),
        ("other", -32601, 1.0),
        ("none", -32700, 1.0),
        ("addressesSubscribe", -32600, 1.0),
        ("addressesUpdate", -32602, 1.0),
        ("addressesUnsubscribe", -32602, 1.0),
    ] {
        let labels = format!("{{code=\"{code}\",method=\"{method}\",transport=\"websocket\"}}");
        let name = format!("hydrant_request_errors_total{labels}");
        assert_eq!(metrics.get(&name), errors, "{name}: {:?}", metrics.all());
    }
    let name = "hydrant_requests_total{class=\"none\",method=\"getVersion\",path=\"inline\",transport=\"http\"}";
    assert_eq!(metrics.get(name), 1.0, "calls over HTTP are counted separately");
    drop(runtime);
}
