//! What HTTP and its sockets do: connections, bytes, answers by status.

use std::time::Duration;

use super::counters::Counters;
use super::exposition::{Exposition, MetricKind};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpEvent {
    /// Bytes read from sockets.
    BytesIn,
    /// Bytes written to sockets.
    BytesOut,
    /// A connection was accepted.
    Accepted,
    /// A connection has ended.
    Ended,
    /// A connection waited until another ended (`rpc.connections_max`).
    Delayed,
    /// A connection was refused because its address has enough (`rpc.connections_per_address_max`, and the part of
    /// `rpc.connections_max` that is for others).
    Refused,
    /// A connection could not be accepted: the system is out of descriptors.
    AcceptFailed,
    /// A connection became a WebSocket.
    Upgraded,
    /// A connection ended because a request's head, or none at all, came in time.
    HeadTimeout,
    /// A connection ended because its client read too little of an answer in time.
    WriteTimeout,
    /// A connection ended in the middle of something, or out of protocol.
    Broken,
    /// A connection ended because its task panicked.
    Panicked,
    /// A connection had more to do than one poll may, and was queued.
    Yielded,
    /// A connection that was queued may go on.
    Resumed,
    /// Bytes of request bodies that are not whole yet.
    BodyStarted,
    /// Of those, the bytes of bodies that are whole by now, or given up.
    BodyEnded,
}

const HTTP_EVENTS: usize = 16;

/// The memory of an open connection that waits for a request: its task, the buffers of its socket, and the state of
/// HTTP. Measured over 1,000 of them.
const CONNECTION_BYTES: u64 = 26 * 1024;

/// Statuses that are told apart; any other is the last one's number.
const STATUSES: [(u16, &str); 23] = [
    (200, "200"),
    (101, "101"),
    (202, "202"),
    (204, "204"),
    (304, "304"),
    (400, "400"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (406, "406"),
    (408, "408"),
    (409, "409"),
    (413, "413"),
    (414, "414"),
    (415, "415"),
    (422, "422"),
    (426, "426"),
    (429, "429"),
    (431, "431"),
    (500, "500"),
    (501, "501"),
    (503, "503"),
    (0, "other"),
];

/// The counts.
pub(crate) struct HttpCounters(Counters);

impl HttpCounters {
    pub(crate) fn new() -> Self {
        Self(Counters::new(HTTP_EVENTS + STATUSES.len()))
    }

    /// Counts one.
    pub(crate) fn record(&self, what: HttpEvent) {
        self.add(what, 1);
    }

    pub(crate) fn add(&self, what: HttpEvent, by: u64) {
        self.0.add(what as usize, by);
    }

    /// Counts an answer.
    pub(crate) fn record_response(&self, status: u16) {
        // Nearly all are the first.
        let at = STATUSES.iter().position(|(known, _)| *known == status);
        self.0.add(HTTP_EVENTS + at.unwrap_or(STATUSES.len() - 1), 1);
    }

    /// What connections and unfinished request bodies hold, by part of `hydrant_memory_bytes`.
    pub(super) fn memory(&self) -> [(&'static str, u64); 2] {
        // The ends first, as below.
        let (ended, body_ended) = (self.total(HttpEvent::Ended), self.total(HttpEvent::BodyEnded));
        let open = self.total(HttpEvent::Accepted).saturating_sub(ended);
        let bodies = self.total(HttpEvent::BodyStarted).saturating_sub(body_ended);
        [("connections", open * CONNECTION_BYTES), ("request_bodies", bodies)]
    }

    pub(super) fn total(&self, what: HttpEvent) -> u64 {
        self.0.sum(what as usize)
    }

    pub(super) fn write(&self, to: &mut Exposition) {
        let mut bytes = to.family(
            "hydrant_http_bytes_total",
            MetricKind::Counter,
            "Bytes on the sockets of HTTP, WebSocket included.",
        );
        bytes.put(&[("direction", "in")], self.total(HttpEvent::BytesIn));
        bytes.put(&[("direction", "out")], self.total(HttpEvent::BytesOut));
        // The end first: a connection that ends in between must not make the difference negative.
        let ended = self.total(HttpEvent::Ended);
        let accepted = self.total(HttpEvent::Accepted);
        let name = "hydrant_http_connections_open";
        let help = "Connections, those that are WebSockets by now included.";
        to.single(name, MetricKind::Gauge, help, accepted.saturating_sub(ended));
        let name = "hydrant_http_connections_accepted_total";
        to.single(name, MetricKind::Counter, "Connections taken on.", accepted);
        let name = "hydrant_http_connections_delayed_total";
        let help = "Connections that waited until another ended (rpc.connections_max).";
        to.single(name, MetricKind::Counter, help, self.total(HttpEvent::Delayed));
        let name = "hydrant_http_connections_refused_total";
        let help = "Connections of an address that has enough (rpc.connections_per_address_max, rpc.connections_max).";
        to.single(name, MetricKind::Counter, help, self.total(HttpEvent::Refused));
        let name = "hydrant_http_accept_failures_total";
        let help = "Connections that the system had no descriptor for.";
        to.single(name, MetricKind::Counter, help, self.total(HttpEvent::AcceptFailed));
        let name = "hydrant_http_upgrades_total";
        to.single(
            name,
            MetricKind::Counter,
            "Connections that became WebSockets.",
            self.total(HttpEvent::Upgraded),
        );
        let mut cut = to.family(
            "hydrant_http_connections_cut_total",
            MetricKind::Counter,
            "Connections that ended by a time limit or out of protocol.",
        );
        cut.put(&[("cause", "head_timeout")], self.total(HttpEvent::HeadTimeout));
        cut.put(&[("cause", "write_timeout")], self.total(HttpEvent::WriteTimeout));
        cut.put(&[("cause", "broken")], self.total(HttpEvent::Broken));
        cut.put(&[("cause", "panicked")], self.total(HttpEvent::Panicked));
        let resumed = self.total(HttpEvent::Resumed);
        let yielded = self.total(HttpEvent::Yielded);
        let name = "hydrant_http_connections_queued";
        let help = "Connections that wait to go on after they used up the budget of a poll.";
        to.single(name, MetricKind::Gauge, help, yielded.saturating_sub(resumed));
        let name = "hydrant_http_yields_total";
        let help = "Times that a connection used up the budget of a poll, and others went first.";
        to.single(name, MetricKind::Counter, help, yielded);
        let mut answers = to.family(
            "hydrant_http_responses_total",
            MetricKind::Counter,
            "Responses by HTTP status.",
        );
        for (at, (_, status)) in STATUSES.iter().enumerate() {
            let count = self.0.sum(HTTP_EVENTS + at);
            if count > 0 {
                answers.put(&[("status", status)], count);
            }
        }
    }
}

/// A duration as Prometheus has it.
pub(super) fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_and_status_has_its_own_counter() {
        assert_eq!(HttpEvent::BodyEnded as usize + 1, HTTP_EVENTS);
        let counts = HttpCounters::new();
        counts.record(HttpEvent::Broken);
        counts.record_response(200);
        counts.record_response(418);
        assert_eq!(counts.total(HttpEvent::Broken), 1);
        let mut text = Exposition::default();
        counts.write(&mut text);
        let text = text.into_string();
        for line in ["{cause=\"broken\"} 1", "{status=\"200\"} 1", "{status=\"other\"} 1"] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("status=\"101\""), "{text}");
    }
}
