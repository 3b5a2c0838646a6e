//! A method that fails after it has returned a stream: what its client sees, depending on how much was sent.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::{Value, json};

use crate::toy_api::{TIMEOUT, Toy};

/// The error of `counterBroken`.
const BROKEN: i64 = -32_050;

/// The longest part of a stream.
const PART_BYTES: usize = 128 * 1024;

impl Toy {
    fn error_code(&self, parts: usize, bytes: usize) -> Value {
        self.call("counterBroken", json!([parts, bytes]))["error"]["code"].clone()
    }

    /// Waits until no task is left, and no byte of a response is in memory.
    #[expect(clippy::disallowed_methods, reason = "a timeout is a matter of time")]
    fn wait_idle(&self) {
        let started = Instant::now();
        let context = &self.server.context;
        let is_idle = || {
            let counters = context.pool.counters();
            let active = cpu_pool::Class::ALL.iter().map(|class| counters.class(*class).active);
            let [.., (_, unsent)] = context.http.metrics.memory();
            active.sum::<usize>() == 0 && unsent == 0 && context.response_cache.used_bytes() == 0
        };
        while !is_idle() {
            assert!(started.elapsed() < TIMEOUT, "{:?}", context.pool.counters());
            std::thread::yield_now();
        }
    }

    fn assert_metric(&self, line: &str) {
        let metrics = self.get("/metrics");
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
}

#[test]
fn an_error_before_the_first_byte_is_the_error_of_the_call() {
    let toy = Toy::start();
    assert_eq!(toy.error_code(0, 0), json!(BROKEN));
    toy.wait_idle();
    // Codes that neither JSON-RPC nor Agave defines are counted together.
    toy.assert_metric(
        r#"hydrant_request_errors_total{method="counterBroken",code="other",transport="http"} 1"#,
    );
}

#[test]
fn an_error_after_a_part_that_was_not_sent_is_an_internal_error() {
    let toy = Toy::start();
    let response = toy.call("counterBroken", json!([1, 100]));
    assert_eq!(response["error"]["code"], json!(-32603));
    assert_eq!((&response["id"], response.get("result")), (&json!(1), None));
    // The response is sent before its task has ended.
    toy.wait_idle();
    // The next equal call computes it again: no task is left that it would wait for, and nothing is cached.
    assert_eq!(toy.error_code(1, 100), json!(-32603));
    toy.wait_idle();
    let cache = toy.server.context.response_cache.counters();
    assert_eq!((cache.misses, cache.hits, cache.entries), (2, 0, 0), "{cache:?}");
    toy.assert_metric(
        r#"hydrant_request_errors_total{method="counterBroken",code="-32603",transport="http"} 2"#,
    );
}

#[test]
fn a_cut_body_over_http_1_0_ends_in_a_reset() {
    let toy = Toy::start();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "counterBroken", "params": [200, PART_BYTES] });
    let body = body.to_string();
    let mut socket = TcpStream::connect(toy.address).expect("it listens");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    write!(
        socket,
        "POST / HTTP/1.0\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("it reads");
    let mut response = Vec::new();
    let end = socket.read_to_end(&mut response).map_err(|err| err.kind());
    assert!(response.starts_with(b"HTTP/1.0 200"), "{} bytes", response.len());
    // Without a length and without chunks the end of the connection would be the end of the body.
    assert_eq!(end, Err(ErrorKind::ConnectionReset), "{} bytes", response.len());
}

#[test]
fn an_error_after_a_part_that_was_sent_truncates_the_response() {
    let toy = Toy::start();
    // More than the channel and the buffers of the sockets have space for.
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "counterBroken", "params": [200, PART_BYTES] });
    let body = body.to_string();
    let response = toy.exchange(&format!(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let (head, sent) = response.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.to_ascii_lowercase().contains("transfer-encoding: chunked"), "{head}");
    // The value starts in a chunk of its own.
    let start = r#"{"jsonrpc":"2.0","result":"#;
    assert!(sent.contains(start) && sent.contains("[[["), "{}", &sent[..100.min(sent.len())]);
    assert!(sent.len() > 100 * PART_BYTES, "{} bytes", sent.len());
    assert!(
        !sent.ends_with("0\r\n\r\n"),
        "the last chunk is missing, and the connection is closed"
    );
    assert!(!sent.contains("error"), "an error within a value would be no JSON");
    toy.wait_idle();
    toy.assert_metric(
        r#"hydrant_request_errors_total{method="counterBroken",code="-32603",transport="http"} 1"#,
    );
}

#[test]
fn an_error_in_a_batch_ends_the_whole_batch_and_counts_each_call() {
    let toy = Toy::start();
    let call = |id: u32, method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    let response = toy.post(&json!([
        call(1, "counterSum", json!([])),
        call(2, "counterBroken", json!([1, 100])),
        call(3, "counterTop", json!([])),
    ]));
    assert_eq!(response["error"]["code"], json!(-32603), "{response}");
    assert_eq!(response["id"], Value::Null);
    toy.wait_idle();
    for (method, errors) in [("counterBroken", 1), ("counterTop", 1)] {
        toy.assert_metric(&format!(
            r#"hydrant_request_errors_total{{method="{method}",code="-32603",transport="http"}} {errors}"#
        ));
    }
    let metrics = toy.get("/metrics");
    let failed = r#"hydrant_request_errors_total{method="counterSum""#;
    assert!(!metrics.contains(failed), "it had succeeded");
}
