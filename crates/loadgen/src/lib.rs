//! Load for a server that answers JSON over HTTP/1.1: offered, measured, reported.
//!
//! In: requests as bytes, in [`Stream`]s that run at once, each at its own pace: so many connections
//! with one request in flight each (closed loop), or at times that were fixed before (open loop, and
//! the replay of a log). Out: an [`StreamStats`] a stream, whatever became of each request counted in, and
//! what the server's process used meanwhile.
//! Invariant: in an open loop a latency begins when the request should have been sent, so a server
//! that stalls hides nothing; what was due and not even sent is counted as unserved.
//! Bounds: memory is three histograms and a count for each second, per thread; an answer's bytes beyond
//! [`BODY_PREFIX_BYTES`] are read and dropped.
//! Not here: any chain (suites name methods as text and know JSON alone), HTTP/2, WebSocket.
#![forbid(unsafe_code)]

mod classify;
mod client;
mod clock;
mod connection_io;
mod discovery;
mod endpoint;
mod error;
mod html_report;
mod http;
mod mix;
mod plan;
mod process;
mod report;
mod request_log;
mod rest_suites;
mod run;
mod scans;
mod stats;
mod suites;
#[cfg(test)]
mod testing;

pub use classify::{Classifier, Verdict, json_rpc, not_modified, status_ok};
pub use client::Client;
pub use discovery::{DiscoveryConfig, InputKinds, Inputs};
pub use endpoint::Endpoint;
pub use error::LoadError;
pub use http::{Connection, HttpResponse};
pub use mix::{Mix, Zipf};
pub use plan::{Arrival, LoadPlan, RunLength, Stream};
pub use process::{Process, ResourceUsage, Sample};
pub use report::{Report, Row, Spread};
pub use request_log::{LogEntry, Replay, read_log, write_log};
pub use rest_suites::RestSuite;
pub use run::{BODY_PREFIX_BYTES, Run};
pub use scans::scan_requests;
pub use stats::{Counts, Second, StreamStats};
pub use suites::Suite;
