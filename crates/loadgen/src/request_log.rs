//! A recorded log of requests: one JSON object a line, in the order of their times.
//!
//! Shape: `at_ms` since the first request, then either `body`, a JSON-RPC request or batch that is
//! posted to the endpoint's own path, or `path` with `method` (default GET) and perhaps a `body`.
//!
//! ```json
//! {"at_ms": 0, "body": {"jsonrpc": "2.0", "id": 1, "method": "height"}}
//! {"at_ms": 3.5, "path": "/v1/node"}
//! ```
//!
//! A response is classified by its request: a JSON-RPC call by the caller's classifier, on any path;
//! any other request must have a status of 2xx.
//! Bounds: the whole log is in memory, at most [`LOG_REQUESTS_MAX`] requests. The caller reads the file, and bounds its
//! length. The last request is due at most [`RUN_TIME_MAX`] after the first one.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_client::Endpoint;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::classify::{Classifier, status_ok};
use crate::plan::RUN_TIME_MAX;
use crate::{Arrival, LoadError, Stream};

/// Requests of a log. Each needs about a kilobyte of memory.
pub const LOG_REQUESTS_MAX: usize = 1_000_000;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogEntry {
    /// Milliseconds since the first.
    pub at_ms: f64,
    /// The HTTP method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Path with its query. Without it the request goes to the path of the URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// JSON, or text that is sent unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
}

/// A log that is ready to be replayed.
pub struct Replay {
    requests: Vec<Vec<u8>>,
    times: Vec<Duration>,
    classifiers: Vec<Classifier>,
}

/// Writes a log.
pub fn write_log(path: &Path, entries: &[LogEntry]) -> Result<(), LoadError> {
    let failed = |err| LoadError::File { path: path.to_owned(), err };
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).map_err(failed)?);
    for entry in entries {
        let line = serde_json::to_string(entry).map_err(|err| failed(err.into()))?;
        writeln!(file, "{line}").map_err(failed)?;
    }
    file.flush().map_err(failed)
}

/// Parses the text of a log.
///
/// Errors: a line is not a request, or there are more than [`LOG_REQUESTS_MAX`].
pub fn parse_log(text: &str) -> Result<Vec<LogEntry>, LoadError> {
    let mut entries: Vec<LogEntry> = Vec::new();
    for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty()) {
        let line_error = |why: String| LoadError::Log { line, why };
        let entry: LogEntry =
            serde_json::from_str(text).map_err(|err| line_error(err.to_string()))?;
        if entry.path.is_none() && entry.body.is_none() {
            return Err(line_error("neither a body nor a path".to_owned()));
        }
        if !entry.at_ms.is_finite() || entry.at_ms < 0.0 {
            return Err(line_error(format!("at_ms {}: not a time", entry.at_ms)));
        }
        if entries.len() == LOG_REQUESTS_MAX {
            return Err(line_error(format!("a log has at most {LOG_REQUESTS_MAX} requests")));
        }
        entries.push(entry);
    }
    entries.sort_by(|one, other| one.at_ms.total_cmp(&other.at_ms));
    Ok(entries)
}

impl Replay {
    /// The requests of a log, sent `speed` times as fast as recorded. `json_rpc` classifies the
    /// responses of JSON-RPC.
    pub fn new(
        entries: &[LogEntry],
        endpoint: &Endpoint,
        speed: f64,
        json_rpc: Classifier,
    ) -> Result<Self, LoadError> {
        if entries.is_empty() {
            return Err(LoadError::Plan("the log has no request".to_owned()));
        }
        if !speed.is_finite() || speed <= 0.0 {
            return Err(LoadError::Plan(format!("a speed of {speed}: must be above 0")));
        }
        let first = entries[0].at_ms;
        let seconds = |entry: &LogEntry| (entry.at_ms - first) / 1e3 / speed;
        let seconds_max = RUN_TIME_MAX.as_secs_f64();
        if let Some(late) = entries.iter().find(|entry| seconds(entry) > seconds_max) {
            return Err(LoadError::Plan(format!(
                "at_ms {:?}: due {:?} s after the first request at a speed of {speed:?}, the maximum \
                 is {seconds_max} s",
                late.at_ms,
                seconds(late)
            )));
        }
        let times = entries.iter().map(seconds);
        Ok(Self {
            requests: entries.iter().map(|entry| entry.request(endpoint)).collect(),
            times: times.map(Duration::from_secs_f64).collect(),
            classifiers: entries.iter().map(|entry| entry.classifier(json_rpc)).collect(),
        })
    }

    /// Returns a stream that sends the requests in a closed loop, not at their times.
    pub fn closed_loop(self, name: &str, connections: usize) -> Stream {
        let classifiers = Some(Arc::new(self.classifiers));
        Stream { classifiers, ..Stream::closed_loop(name, self.requests, connections) }
    }

    /// The stream of the replay, for [`RunLength::Once`](crate::RunLength::Once).
    pub fn stream(self, name: &str, connections: usize, threads: usize) -> Stream {
        let arrival = Arrival::At(Arc::new(self.times));
        let classifiers = Some(Arc::new(self.classifiers));
        Stream {
            arrival,
            threads,
            classifiers,
            ..Stream::closed_loop(name, self.requests, connections)
        }
    }
}

impl LogEntry {
    /// A JSON-RPC call at the time `at`.
    pub fn call(at: Duration, method: &str, params: &Value) -> Self {
        let body =
            serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        Self { at_ms: at.as_secs_f64() * 1e3, method: None, path: None, body: Some(body) }
    }

    /// Makes a request to a path at the time 0: POST with a body, otherwise GET.
    pub fn with_path(path: String, body: Option<Value>) -> Self {
        Self { at_ms: 0.0, method: None, path: Some(path), body }
    }

    /// The classifier of this request. A body without a path is JSON-RPC.
    fn classifier(&self, json_rpc: Classifier) -> Classifier {
        let is_call = |body: &Value| body.get("jsonrpc").is_some();
        let has_call = |body: &Value| match body {
            Value::Array(calls) => calls.iter().any(is_call),
            body => is_call(body),
        };
        let has_calls = match &self.body {
            Some(Value::String(text)) => {
                serde_json::from_str(text).is_ok_and(|body| has_call(&body))
            }
            Some(body) => has_call(body),
            None => false,
        };
        if has_calls || self.path.is_none() { json_rpc } else { status_ok }
    }

    pub(crate) fn request(&self, endpoint: &Endpoint) -> Vec<u8> {
        let body = self.body.as_ref().map(|body| match body {
            Value::String(text) => text.clone(),
            body => body.to_string(),
        });
        let default = if body.is_some() { "POST" } else { "GET" };
        match (&self.path, &body) {
            (None, Some(body)) => endpoint.body(body),
            (path, body) => endpoint.request(
                self.method.as_deref().unwrap_or(default),
                path.as_deref().unwrap_or("/"),
                body.as_deref(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_client::testing::{respond, serve};

    use super::*;
    use crate::classify::json_rpc;
    use crate::{LoadPlan, RunLength};

    #[test]
    fn a_log_is_read_in_the_order_of_its_times_and_written_as_it_was() {
        let text =
            "{\"at_ms\":7.5,\"body\":{\"method\":\"b\"}}\n\n{\"at_ms\":1.0,\"path\":\"/a\"}\n";
        let entries = parse_log(text).expect("a log");
        let endpoint = Endpoint::parse("127.0.0.1:1/rpc").expect("a URL");
        let replay = Replay::new(&entries, &endpoint, 2.0, json_rpc).expect("two requests");
        assert_eq!(replay.times, [Duration::ZERO, Duration::from_micros(3_250)]);
        let text = |nth: usize| String::from_utf8(replay.requests[nth].clone()).expect("text");
        assert!(text(0).starts_with("GET /a HTTP/1.1\r\n"), "{}", text(0));
        assert!(text(1).starts_with("POST /rpc HTTP/1.1\r\n"), "{}", text(1));
        assert!(text(1).ends_with("{\"method\":\"b\"}"), "{}", text(1));
        let path = std::env::temp_dir().join(format!("hydrant-log-{}", std::process::id()));
        write_log(&path, &entries).expect("it is written");
        let read = std::fs::read_to_string(&path).expect("it was written");
        std::fs::remove_file(&path).expect("it was written");
        assert_eq!(parse_log(&read).expect("a log"), entries);
    }

    #[test]
    fn each_response_of_a_mixed_log_is_classified_by_its_request() {
        let address = serve(|request, socket| {
            let has = |name: &str| String::from_utf8_lossy(request).contains(name);
            match () {
                () if has("nope") => respond(socket, 200, r#"{"error":{"code":-32601},"id":1}"#),
                () if has("height") => respond(socket, 200, r#"{"result":1,"id":1}"#),
                () if has("/gone") => respond(socket, 404, r#"{"result":1}"#),
                () => respond(socket, 200, r#"{"slot":1}"#),
            }
        });
        let text = r#"{"at_ms":0,"path":"/v1/node"}
            {"at_ms":1,"path":"/gone"}
            {"at_ms":2,"body":{"jsonrpc":"2.0","id":1,"method":"nope"}}
            {"at_ms":3,"path":"/","body":"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"nope\"}"}
            {"at_ms":4,"path":"/v1/transactions","body":{"transaction":"AA=="}}
            {"at_ms":5,"body":[{"jsonrpc":"2.0","id":1,"method":"nope"}]}
            {"at_ms":6,"body":{"jsonrpc":"2.0","id":1,"method":"height"}}"#;
        let replay = Replay::new(&parse_log(text).expect("a log"), &address.into(), 1.0, json_rpc);
        let stream = replay.expect("it can be replayed").stream("x", 1, 1);
        let run = LoadPlan::new(address.into(), stream, RunLength::Once).run().expect("it listens");
        let counts = run.stats[0].counts;
        assert_eq!((counts.ok, counts.errors), (3, 4), "{counts:?}");
    }

    #[test]
    fn a_request_that_is_due_too_late_is_refused() {
        let endpoint = Endpoint::parse("127.0.0.1:1").expect("a URL");
        let replay = |last_ms: &str, speed| {
            let text =
                format!("{{\"at_ms\":0,\"path\":\"/\"}}\n{{\"at_ms\":{last_ms},\"path\":\"/\"}}");
            Replay::new(&parse_log(&text).expect("a log"), &endpoint, speed, json_rpc)
        };
        for (last_ms, speed) in
            [("1e22", 1.0), ("1e300", 1.0), ("1e300", 1e-300), ("1", 1e-300), ("1.1e9", 1.0)]
        {
            let err = replay(last_ms, speed).err().expect(last_ms).to_string();
            assert!(err.ends_with("the maximum is 1000000 s"), "{err}");
            assert!(err.contains(&format!("a speed of {speed:?},")), "{err}");
        }
        let last = replay("1.1e9", 2.0).expect("it is soon enough").times[1];
        assert_eq!(last, Duration::from_secs(550_000));
        // Only the time since the first request counts.
        let entry = |at_ms| LogEntry { at_ms, ..LogEntry::call(Duration::ZERO, "a", &Value::Null) };
        let entries = [entry(1.8e12), entry(1.8e12 + 1e3)];
        let times = Replay::new(&entries, &endpoint, 1.0, json_rpc).expect("a second").times;
        assert_eq!(times, [Duration::ZERO, Duration::from_secs(1)]);
    }

    #[test]
    fn a_log_has_a_maximum_of_requests() {
        let text = "{\"at_ms\":0,\"path\":\"/\"}\n".repeat(LOG_REQUESTS_MAX + 1);
        let err = parse_log(&text).expect_err("one too many").to_string();
        assert_eq!(err, "line 1000001 of the log: a log has at most 1000000 requests");
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, line) in [
            ("{\"at_ms\":1,\"path\":\"/\"}\n{}", 2),
            ("{\"at_ms\":1}", 1),
            ("{\"at_ms\":-1,\"path\":\"/\"}", 1),
            ("{\"at_ms\":1,\"paht\":\"/\"}", 1),
        ] {
            match parse_log(text).expect_err("a bad line") {
                LoadError::Log { line: named, .. } => assert_eq!(named, line, "{text}"),
                err => panic!("{err}"),
            }
        }
    }
}
