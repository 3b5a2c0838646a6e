//! Spans of a real node's requests, at a collector of OpenTelemetry, which is a socket of this test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use anyhow::{Context, Result, ensure};
use http_client::{Client, Endpoint};
use serde_json::{Value, json};
use testkit::node::Node;

use crate::node::start_node;
use crate::observability::metrics;
use crate::world::{WAIT_TIMEOUT, wait_until};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// A collector with one connection.
struct TraceCollector {
    listener: TcpListener,
    connection: Option<BufReader<TcpStream>>,
}

impl TraceCollector {
    fn start() -> Result<Self> {
        Ok(Self { listener: TcpListener::bind("127.0.0.1:0")?, connection: None })
    }

    fn url(&self) -> Result<String> {
        Ok(format!("http://{}", self.listener.local_addr()?))
    }

    /// The spans of the next batch, which is accepted.
    fn receive(&mut self) -> Result<Vec<Value>> {
        if self.connection.is_none() {
            let (socket, _) = self.listener.accept()?;
            socket.set_read_timeout(Some(WAIT_TIMEOUT))?;
            self.connection = Some(BufReader::new(socket));
        }
        let reader = self.connection.as_mut().context("it is connected")?;
        let mut length = 0;
        let mut first = String::new();
        reader.read_line(&mut first)?;
        ensure!(first == "POST /v1/traces HTTP/1.1\r\n", "{first}");
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            match line.trim().to_ascii_lowercase().split_once(": ") {
                Some(("content-length", value)) => length = value.parse()?,
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let response =
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
        reader.get_mut().write_all(response.as_bytes())?;
        let body: Value = serde_json::from_slice(&body)?;
        let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
        Ok(spans.as_array().context("spans")?.clone())
    }
}

fn call(node: &Node, method: &str, params: &Value, headers: &[(&str, &str)]) -> Result<Value> {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let request =
        Endpoint::from(node.rpc).request_with("POST", "/", headers, Some(&body.to_string()));
    let mut client = Client::open(node.rpc)?;
    let response = client.exchange(&request)?;
    ensure!(response.status == 200, "{method}: HTTP {}", response.status);
    Ok(serde_json::from_slice(response.body)?)
}

fn attribute<'a>(span: &'a Value, key: &str) -> Option<&'a Value> {
    let attributes = span["attributes"].as_array()?;
    attributes.iter().find(|it| it["key"] == key).map(|it| &it["value"]["stringValue"])
}

#[test]
fn requests_of_a_recorded_trace_are_exported_and_others_are_not() -> Result<()> {
    let mut collector = TraceCollector::start()?;
    let node = start_node(&["--otlp-endpoint", &collector.url()?])?;
    let header = |flags: &str| format!("00-{TRACE}-{SPAN}-{flags}");
    call(&node, "getSlot", &json!([]), &[])?;
    call(&node, "getSlot", &json!([]), &[("traceparent", &header("00"))])?;
    let recorded = header("01");
    let params = json!(["BPFLoader2111111111111111111111111111111111", { "encoding": "base64" }]);
    let headers = [("traceparent", recorded.as_str()), ("x-request-id", "traced-1")];
    call(&node, "getProgramAccounts", &params, &headers)?;
    call(&node, "getNothing", &json!([]), &[("traceparent", &recorded)])?;
    let mut spans = Vec::new();
    while !spans.iter().any(|span: &Value| span["name"] == "other") {
        spans.extend(collector.receive()?);
    }
    ensure!(spans.iter().all(|span| span["traceId"] == TRACE), "{spans:?}");
    let named =
        |name: &str| spans.iter().find(|span| span["name"] == name).context(name.to_owned());
    let list = named("getProgramAccounts")?;
    ensure!(list["parentSpanId"] == SPAN, "{list}");
    ensure!(attribute(list, "hydrant.request_id") == Some(&json!("traced-1")), "{list}");
    ensure!(attribute(list, "hydrant.class") == Some(&json!("medium")), "{list}");
    for child in ["queue", "run"].map(named) {
        let child = child?;
        ensure!(child["parentSpanId"] == list["spanId"], "{child}");
    }
    let refused = named("other")?;
    ensure!(refused["status"]["code"] == 2, "{refused}");
    ensure!(!spans.iter().any(|span| span["name"] == "getSlot"), "{spans:?}");
    wait_until("the count of exported requests", WAIT_TIMEOUT, || {
        let count = "hydrant_traced_requests_total{result=\"exported\"} 2\n";
        Ok(metrics(&node)?.contains(count).then_some(()))
    })
}

#[test]
fn a_collector_that_is_gone_costs_spans_and_no_request() -> Result<()> {
    let collector = TraceCollector::start()?;
    let url = collector.url()?;
    drop(collector);
    let node = start_node(&["--otlp-endpoint", &url])?;
    let recorded = format!("00-{TRACE}-{SPAN}-01");
    let response = call(&node, "getSlot", &json!([]), &[("traceparent", &recorded)])?;
    ensure!(response["result"].is_u64(), "{response}");
    wait_until("the count of spans that failed", WAIT_TIMEOUT, || {
        let metrics = metrics(&node)?;
        let count = "hydrant_traced_requests_total{result=\"failed\"} 1\n";
        let is_empty = metrics.contains("hydrant_traced_requests_queued 0\n");
        Ok((metrics.contains(count) && is_empty).then_some(()))
    })
}
