//! Counters of requests, by format and method, and of refused ones, by cause.

use kaspa::{Method, Operation, OwnMethod};
use metrics::{Collector, Counters, Exposition, MetricKind};

use crate::message_format::MessageFormat;

/// Codes of operations: a counter for each, in each format.
const CODES: usize = 1 << u8::BITS;

/// Why a request is refused here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalCause {
    /// The message has no known operation, so its connection is closed.
    Malformed,
    /// There is no such method, or the parameters have another shape.
    Rejected,
    /// The method is for unsafe mode.
    SafeMode,
    /// The client is over a limit.
    Limited,
}

const CAUSES: [(RefusalCause, &str); 4] = [
    (RefusalCause::Malformed, "malformed"),
    (RefusalCause::Rejected, "rejected"),
    (RefusalCause::SafeMode, "safe_mode"),
    (RefusalCause::Limited, "limited"),
];

/// Counts the requests of all connections.
pub struct RequestMetrics {
    requests: Counters,
    refused: Counters,
}

impl RequestMetrics {
    pub(crate) fn new() -> Self {
        let requests = Counters::new(MessageFormat::ALL.len() * CODES);
        Self { requests, refused: Counters::new(CAUSES.len()) }
    }

    pub(crate) fn record(&self, format: MessageFormat, operation: Operation) {
        self.requests.add(request_index(format, operation), 1);
    }

    pub(crate) fn record_refused(&self, cause: RefusalCause) {
        self.refused.add(cause as usize, 1);
    }
}

fn request_index(format: MessageFormat, operation: Operation) -> usize {
    format as usize * CODES + usize::from(operation.code())
}

impl Collector for RequestMetrics {
    fn write(&self, out: &mut Exposition) {
        let help = "Requests of wRPC and gRPC, by encoding and method.";
        let mut family = out.family("hydrant_kaspa_requests_total", MetricKind::Counter, help);
        let methods = Method::ALL.iter().map(|method| Operation::Method(*method));
        let scopes = [Operation::Subscribe, Operation::Unsubscribe];
        let own = OwnMethod::ALL.iter().map(|method| Operation::Own(*method));
        let operations: Vec<Operation> = methods.chain(scopes).chain(own).collect();
        for format in MessageFormat::ALL {
            let encoding_name = match format {
                MessageFormat::Borsh => "borsh",
                MessageFormat::Json => "json",
                MessageFormat::Protobuf => "protobuf",
            };
            for operation in &operations {
                let labels = [("encoding", encoding_name), ("method", operation.name())];
                family.put(&labels, self.requests.sum(request_index(format, *operation)));
            }
        }
        let help = "Requests of wRPC and gRPC that are refused, by cause.";
        let name = "hydrant_kaspa_refused_requests_total";
        let mut family = out.family(name, MetricKind::Counter, help);
        for (cause, name) in CAUSES {
            family.put(&[("cause", name)], self.refused.sum(cause as usize));
        }
    }
}
