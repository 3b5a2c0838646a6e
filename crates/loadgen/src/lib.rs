//! A load generator for servers that answer JSON over HTTP/1.1: it sends requests, measures and
//! reports.
//!
//! In: requests as bytes, in concurrent [`Stream`]s. Each stream has its own arrival process: a
//! number of connections with one request in flight each (closed loop), or send times that are
//! fixed before (open loop, and the replay of a log). Out: a [`StreamStats`] for each stream, in
//! which every request is counted, and the resources that the server's process used.
//! Invariant: in an open loop a latency starts when the request should have been sent, so a stalled
//! server hides nothing. A request that was due but not sent is counted as unsent.
//! Bounds: memory is three histograms and a count for each second, per thread. Bytes of a
//! response's body beyond [`BODY_PREFIX_BYTES`] are read and dropped. A plan has at most
//! [`CONNECTIONS_MAX`] connections, [`THREADS_MAX`] threads and [`RATE_MAX`] for each stream, and
//! runs for at most [`RUN_TIME_MAX`]. A log has at most [`LOG_REQUESTS_MAX`] requests.
//! Not here: any chain and any method of JSON-RPC (`loadgen_solana` has suites of those), HTTP itself
//! (`http_client`), WebSocket.
#![forbid(unsafe_code)]

mod classify;
mod clock;
mod error;
pub mod html_report;
mod markup;
mod mix;
mod plan;
mod report;
mod request_log;
mod resource_usage;
mod run;
mod run_control;
mod stats;
pub mod svg;

pub use classify::{
    Classifier, JsonRpcError, Verdict, json_rpc, json_rpc_with, not_modified, status_ok,
};
pub use error::LoadError;
pub use mix::Mix;
pub use plan::{
    Arrival, CONNECTIONS_MAX, LoadPlan, RATE_MAX, RUN_TIME_MAX, RunLength, Stream, THREADS_MAX,
};
pub use report::{Report, Row, Spread};
pub use request_log::{LOG_REQUESTS_MAX, LogEntry, Replay, parse_log, write_log};
pub use resource_usage::{ResourceUsage, Sample};
pub use run::{BODY_PREFIX_BYTES, Run};
pub use stats::{Counts, Second, StreamStats};
