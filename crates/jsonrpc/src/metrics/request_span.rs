//! Spans of requests, for a tracing system.
//!
//! In: a request that has ended, if its client records its trace. Out: a [`RequestSpan`] for the [`SpanSink`].
//! Not here: the tracing system (the sink) and its storage.

use std::time::Duration;

use clients::ClientId;
use http_server::RequestId;

use super::labels::Outcome;
use crate::trace_parent::TraceParent;

/// A request that has ended.
#[derive(Clone, Copy)]
pub struct RequestSpan<'a> {
    /// The trace, and the client's span.
    pub parent: TraceParent,
    /// Id of the request in the log.
    pub request: RequestId,
    /// The client.
    pub client: ClientId,
    /// The method; `batch` for a batch that ran as one task.
    pub method: &'a str,
    /// The class of the pool, or where else it was executed.
    pub class: &'static str,
    /// Time from its arrival to the last byte of its response, until now.
    pub took: Duration,
    /// Time from its arrival to its first time slice, if it ran as a task.
    pub waited: Option<Duration>,
    /// Time in time slices, if it ran as a task.
    pub ran: Option<Duration>,
    /// The outcome of the request.
    pub outcome: Outcome,
}

/// Gets the spans. It is called by the threads that serve, so it must not block.
pub trait SpanSink: Send + Sync {
    /// Gets a span, which ends now.
    fn record(&self, span: &RequestSpan<'_>);
}
