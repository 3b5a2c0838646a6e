//! Metrics of a server: its connections and its refusals.

use std::sync::Arc;

use ::metrics::{Collector, Exposition, MetricKind};

use crate::counters::Event;
use crate::server_state::ServerState;

/// The memory of an open connection: its task, and the buffers of its socket and of HTTP/2. Requests that are not read
/// come in addition: its window.
const CONNECTION_BYTES: u64 = 100 * 1024;
/// The memory of its TLS: the session and its buffers.
const TLS_BYTES: u64 = 16 * 1024;

/// The metrics of a server, for a scrape.
pub struct ServerMetrics {
    pub(crate) state: Arc<ServerState>,
    pub(crate) is_tls: bool,
    pub(crate) window_bytes: u32,
}

/// Connections, calls or requests that a service refused or ended.
#[derive(Clone, Copy, Debug)]
pub struct Refusals {
    /// The value of the label `cause`.
    pub cause: &'static str,
    /// Their number since the start.
    pub count: u64,
}

impl ServerMetrics {
    fn connections(&self) -> u64 {
        let counters = &self.state.counters;
        counters.sum(Event::Accepted).saturating_sub(counters.sum(Event::Ended))
    }

    /// Returns the memory of connections and of incomplete requests, in bytes.
    pub fn connections_bytes(&self) -> u64 {
        let incomplete = self.state.shares.incoming.units_in_use() as u64;
        let window_bytes = u64::from(self.window_bytes);
        let tls_bytes = if self.is_tls { TLS_BYTES } else { 0 };
        self.connections() * (CONNECTION_BYTES + window_bytes + tls_bytes) + incomplete
    }

    /// Writes the families. `refusals` are of causes that only the service knows.
    pub fn write_with(&self, out: &mut Exposition, refusals: &[Refusals]) {
        let counters = &self.state.counters;
        out.single(
            "hydrant_grpc_connections_open",
            MetricKind::Gauge,
            "Connections that are open.",
            self.connections(),
        );
        out.single(
            "hydrant_grpc_calls_waiting",
            MetricKind::Gauge,
            "Calls that wait because their client makes more than its rate.",
            self.state.shares.waiting_calls.units_in_use() as u64,
        );
        let counts = [
            (
                "hydrant_grpc_calls_delayed_total",
                "Calls and new connections that waited because their client made more than its rate.",
                Event::CallDelayed,
            ),
            (
                "hydrant_grpc_requests_delayed_total",
                "Requests that waited because their client sent more than its rate.",
                Event::RequestDelayed,
            ),
            ("hydrant_grpc_connections_total", "Connections accepted.", Event::Accepted),
        ];
        for (name, help, event) in counts {
            out.single(name, MetricKind::Counter, help, counters.sum(event));
        }
        let help = "Connections, calls and requests refused or ended, by cause.";
        let mut family = out.family("hydrant_grpc_refused_total", MetricKind::Counter, help);
        let causes = [
            ("token", Event::Unauthenticated),
            ("bound", Event::SubscriptionRefused),
            ("filter", Event::RequestRefused),
            ("status_unread", Event::Aborted),
            ("handshake", Event::Late),
            ("connections", Event::ConnectionRefused),
            ("idle", Event::Idle),
            ("request_late", Event::MessageLate),
            ("tls", Event::TlsFailed),
            ("calls", Event::CallRefused),
            ("calls_excess", Event::CallExcess),
        ];
        for (cause, event) in causes {
            family.put(&[("cause", cause)], counters.sum(event));
        }
        for Refusals { cause, count } in refusals {
            family.put(&[("cause", *cause)], *count);
        }
    }
}

impl Collector for ServerMetrics {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        vec![("grpc_connections", self.connections_bytes())]
    }

    fn write(&self, out: &mut Exposition) {
        self.write_with(out, &[]);
    }
}
