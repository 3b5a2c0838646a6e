//! Calls that are forwarded to an upstream's JSON-RPC, with its results unchanged.
//!
//! In: calls from any thread. Out: the upstream's result, or its error.
//! Bounds: [`CALLS_MAX`] calls wait; more are refused. [`THREADS`] are at the upstream at once, each for at most
//! [`RESPONSE_TIMEOUT`]. A response has at most [`RESPONSE_BYTES_MAX`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use chain_solana::{UpstreamCall, UpstreamError, UpstreamReply, UpstreamResult, UpstreamRpc};
use http_client::{Connection, Endpoint, HttpClientError, shorten_message};
use metrics::{Collector, Exposition, MetricKind};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::runtime::Runtime;

/// Maximum number of queued calls.
const CALLS_MAX: usize = 256;
/// Number of threads that call the upstream.
const THREADS: usize = 2;
/// Timeout of a call at the upstream; shorter than the deadline of a light task (`pool.light.deadline_ms`).
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a response: a signature or two slots.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

struct Queued {
    body: String,
    reply: UpstreamReply,
}

#[derive(Default)]
struct Counters {
    waiting: AtomicU64,
    answered: AtomicU64,
    refused: AtomicU64,
    unreachable: AtomicU64,
}

/// Forwards calls to an upstream over JSON-RPC.
pub struct UpstreamCalls {
    queue: SyncSender<Queued>,
    counters: Arc<Counters>,
}

/// The response of an upstream.
#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<ResponseError>,
}

#[derive(Deserialize)]
struct ResponseError {
    code: i64,
    message: String,
    data: Option<Value>,
}

impl UpstreamCalls {
    /// Starts the threads that call. They end when this is dropped.
    pub fn start(upstream: &Endpoint) -> std::io::Result<Self> {
        let (queue, receiver) = sync_channel(CALLS_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        let counters = Arc::<Counters>::default();
        for _ in 0..THREADS {
            let upstream = upstream.clone();
            let receiver = Arc::clone(&receiver);
            let counters = Arc::clone(&counters);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let thread = std::thread::Builder::new().name("upstream".into());
            thread.spawn(move || call_all(&runtime, &upstream, &receiver, &counters))?;
        }
        Ok(Self { queue, counters })
    }
}

impl UpstreamRpc for UpstreamCalls {
    fn call(&self, method: &'static str, params: &str) -> Result<UpstreamCall, UpstreamError> {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let (call, reply) = UpstreamCall::new();
        // Counted before: a thread may take it at once.
        self.counters.waiting.fetch_add(1, Ordering::Relaxed);
        match self.queue.try_send(Queued { body, reply }) {
            Ok(()) => Ok(call),
            Err(err) => {
                self.counters.waiting.fetch_sub(1, Ordering::Relaxed);
                Err(match err {
                    TrySendError::Full(_) => UpstreamError::TooMany { limit: CALLS_MAX },
                    TrySendError::Disconnected(_) => {
                        UpstreamError::Unreachable("the node ends".to_owned())
                    }
                })
            }
        }
    }
}

impl Collector for UpstreamCalls {
    fn write(&self, out: &mut Exposition) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let help = "Calls that wait for the upstream.";
        let waiting = count(&self.counters.waiting);
        out.single("hydrant_upstream_pending", MetricKind::Gauge, help, waiting);
        let help = "Calls of the upstream: answered with a result, answered with an error, and not answered.";
        let mut family = out.family("hydrant_upstream_calls_total", MetricKind::Counter, help);
        family.put(&[("result", "ok")], count(&self.counters.answered));
        family.put(&[("result", "refused")], count(&self.counters.refused));
        family.put(&[("result", "unreachable")], count(&self.counters.unreachable));
    }
}

fn call_all(
    runtime: &Runtime,
    upstream: &Endpoint,
    queue: &Mutex<Receiver<Queued>>,
    counters: &Counters,
) {
    loop {
        // The lock is held while a thread waits; the others wait for the lock.
        let next = queue.lock().recv();
        let Ok(Queued { body, reply }) = next else { return };
        counters.waiting.fetch_sub(1, Ordering::Relaxed);
        if reply.is_abandoned() {
            continue;
        }
        let called = call(upstream, &body);
        let result =
            runtime.block_on(async { tokio::time::timeout(RESPONSE_TIMEOUT, called).await });
        let nothing = || UpstreamError::Unreachable(format!("nothing within {RESPONSE_TIMEOUT:?}"));
        let result = result.unwrap_or_else(|_| Err(nothing()));
        let counter = match &result {
            Ok(_) => &counters.answered,
            Err(UpstreamError::Refused { .. }) => &counters.refused,
            Err(_) => &counters.unreachable,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        reply.send(result);
    }
}

/// Over a connection of its own: calls are rare, and one that was idle may be closed by the time of the next.
async fn call(upstream: &Endpoint, body: &str) -> UpstreamResult {
    let unreachable = |err: HttpClientError| {
        tracing::warn!(err = &err as &dyn std::error::Error, "the upstream did not answer");
        UpstreamError::Unreachable(err.to_string())
    };
    let opened = Connection::open_with_body_limit(upstream.clone(), RESPONSE_BYTES_MAX);
    let mut connection = opened.await.map_err(unreachable)?;
    let response = connection.exchange_bounded(&upstream.body(body)).await.map_err(unreachable)?;
    parse(response.status, response.body)
}

fn parse(status: u16, body: &[u8]) -> UpstreamResult {
    let no_response = || UpstreamError::Unreachable(format!("HTTP {status} without a response"));
    let response: Response<'_> = serde_json::from_slice(body).map_err(|_| no_response())?;
    match (response.result, response.error) {
        (_, Some(ResponseError { code, message, data })) => {
            let message = shorten_message(&message);
            Err(UpstreamError::Refused { code, message, data })
        }
        (Some(result), None) => Ok(result.get().as_bytes().to_vec()),
        (None, None) => Err(no_response()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_and_an_error_are_passed_on_and_anything_else_is_no_response() {
        let parse = |body: &str| parse(200, body.as_bytes());
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","result":{"full":7},"id":1}"#),
            Ok(br#"{"full":7}"#.into())
        );
        let error = r#"{"jsonrpc":"2.0","error":{"code":-32008,"message":"No snapshot"},"id":1}"#;
        let refused =
            UpstreamError::Refused { code: -32008, message: "No snapshot".to_owned(), data: None };
        assert_eq!(parse(error), Err(refused));
        for body in ["", "<html>", "{}", "[]"] {
            assert!(matches!(parse(body), Err(UpstreamError::Unreachable(_))), "{body}");
        }
    }
}
