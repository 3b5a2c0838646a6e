//! Load for a server that answers JSON over HTTP/1.1: offered, measured, reported.
//!
//! In: requests as bytes, in [`Stream`]s that run at once, each at its own pace: so many connections
//! with one request in flight each (closed loop), or at times that were fixed before (open loop, and
//! the replay of a log). Out: an [`Outcome`] a stream, whatever became of each request counted in, and
//! what the server's process used meanwhile.
//! Invariant: in an open loop a latency begins when the request should have been sent, so a server
//! that stalls hides nothing; what was due and not even sent is counted as unserved.
//! Bounds: memory is three histograms and a count for each second, per thread; an answer's bytes beyond
//! [`KEPT_BYTES`] are read and dropped.
//! Not here: any chain (suites name methods as text and know JSON alone), HTTP/2, WebSocket.
#![forbid(unsafe_code)]

mod client;
mod clock;
mod endpoint;
mod error;
mod found;
mod html;
mod http;
mod judge;
mod log;
mod mix;
mod outcome;
mod plan;
mod process;
mod report;
mod rest;
mod run;
mod scans;
mod socket;
mod suites;
#[cfg(test)]
mod testing;

pub use client::Client;
pub use endpoint::Endpoint;
pub use error::LoadError;
pub use found::{Found, Needs, Wanted};
pub use http::{Answer, Connection};
pub use judge::{Judge, Verdict, json_rpc, not_modified, status_ok};
pub use log::{LogEntry, Replay, read_log, write_log};
pub use mix::{Mix, Zipf};
pub use outcome::{Counts, Outcome, Second};
pub use plan::{Pace, Plan, Span, Stream};
pub use process::{Process, Sample, Used};
pub use report::{Report, Row, Spread};
pub use rest::RestSuite;
pub use run::{KEPT_BYTES, Run};
pub use scans::scans;
pub use suites::Suite;
