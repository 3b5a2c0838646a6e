//! Observability: all metrics, and the log as JSON.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_client::{Client, Endpoint};
use serde_json::{Value, json};
use testkit::node::Node;

use crate::node::start_node;
use crate::world::wait_until;

/// Requests `/metrics`, and returns its text.
pub(crate) fn metrics(node: &Node) -> Result<String> {
    let request = Endpoint::from(node.rpc).request("GET", "/metrics", None);
    let mut client = Client::open(node.rpc)?;
    let response = client.exchange(&request)?;
    ensure!(response.status == 200, "HTTP {}", response.status);
    Ok(String::from_utf8(response.body.to_vec())?)
}

#[test]
fn every_part_has_metrics_and_the_log_is_json() -> Result<()> {
    let node = start_node(&["--log-format", "json", "--slow-request-ms", "1"])?;
    // Each compresses another part of a program of 130 KB, so that together they take more than a millisecond.
    let call = |offset: usize| {
        let slice = json!({ "offset": offset, "length": 100_000 });
        let config = json!({ "encoding": "base64+zstd", "dataSlice": slice });
        let params = json!(["TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", config]);
        json!({ "jsonrpc": "2.0", "id": 1, "method": "getAccountInfo", "params": params })
    };
    let body = Value::from_iter((0..100).map(call)).to_string();
    let id = [("x-request-id", "slow-1")];
    let request = Endpoint::from(node.rpc).request_with("POST", "/", &id, Some(&body));
    let mut client = Client::open(node.rpc)?;
    let response = client.exchange(&request)?;
    ensure!(response.status == 200, "{}", String::from_utf8_lossy(response.body));
    assert_eq!(response.header("x-request-id"), Some("slow-1"));
    let metrics = metrics(&node)?;
    for metric in [
        "hydrant_requests_total{method=\"getAccountInfo\",path=\"pool\",class=\"medium\",transport=\"http\"} 100\n",
        "hydrant_slow_requests_total 1\n",
        "hydrant_websocket_connections 0\n",
        "hydrant_notifications_sent_total 0\n",
        "hydrant_quic_connections_open 0\n",
        "hydrant_quic_transaction_duration_seconds_count 0\n",
        "# TYPE hydrant_rest_requests_total counter\n",
        "hydrant_memory_bytes{part=\"addresses\"} ",
        "hydrant_ready 1\n",
        "process_resident_memory_bytes ",
    ] {
        ensure!(metrics.contains(metric), "{metric} is not in {metrics}");
    }
    let docs = include_str!("../../../../docs/operations.md");
    for family in metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = family.split(' ').next().unwrap_or_default();
        ensure!(docs.contains(&format!("`{name}`")), "{name} is not in docs/operations.md");
    }
    let slow = wait_until("the line of the slow request", Duration::from_secs(30), || {
        let log = node.log();
        // The last line may be incomplete.
        let whole = log.rsplit_once('\n').map(|(whole, _)| whole).unwrap_or_default();
        let lines =
            whole.lines().map(|line| serde_json::from_str::<Value>(line).context(line.to_owned()));
        let lines: Vec<Value> = lines.collect::<Result<_>>()?;
        Ok(lines.into_iter().find(|line| line["request"] == "slow-1"))
    })?;
    ensure!(slow["level"] == "WARN" && slow["method"] == "batch", "{slow}");
    ensure!(slow["client"] == "127.0.0.1" && slow["class"] == "medium", "{slow}");
    ensure!(slow["slices"].as_u64() >= Some(1) && slow["bytes"].as_u64() > Some(10_000), "{slow}");
    let ms = |name: &str| slow[name].as_f64().context(name.to_owned());
    ensure!(ms("took_ms")? >= 1.0 && ms("took_ms")? >= ms("waited_ms")?, "{slow}");
    ensure!(ms("ran_ms")? > 0.0 && slow["left_out"] == 0, "{slow}");
    Ok(())
}
