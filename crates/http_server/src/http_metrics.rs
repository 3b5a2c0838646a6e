//! Metrics of HTTP and its sockets: connections, bytes, responses by status.

use metrics::{Counters, Exposition, MetricKind};

use crate::tls;

/// An event that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpEvent {
    /// Bytes read from sockets.
    BytesIn,
    /// Bytes written to sockets.
    BytesOut,
    /// A connection was accepted.
    Accepted,
    /// A connection has ended.
    Ended,
    /// A connection waited until another one closed (`rpc.connections_max`).
    Delayed,
    /// A connection was refused because its address has too many (`rpc.connections_per_address_max`, and the part of
    /// `rpc.connections_max` that is reserved for other addresses).
    Refused,
    /// A connection could not be accepted: the system is out of descriptors.
    AcceptFailed,
    /// A connection became a WebSocket.
    Upgraded,
    /// A connection ended because the head of a request was incomplete, or missing, when the time limit was over.
    HeadTimeout,
    /// A connection ended because its client read the response too slowly.
    WriteTimeout,
    /// A connection ended in the middle of a request or response, or because of a protocol error.
    Broken,
    /// A connection ended because its task panicked.
    Panicked,
    /// A connection used up the budget of a poll and was queued.
    Yielded,
    /// A connection that was queued continues.
    Resumed,
    /// Bytes received of request bodies that were incomplete.
    BodyStarted,
    /// Of those, the bytes of bodies that are now complete or abandoned.
    BodyEnded,
    /// The drain of the server has started.
    DrainBegun,
    /// A connection started its TLS handshake.
    TlsStarted,
    /// A connection that had started its handshake has ended.
    TlsEnded,
    /// A handshake is complete.
    TlsCompleted,
    /// A handshake failed: the client does not speak TLS, or does not trust the certificate.
    TlsFailed,
    /// A handshake was not complete in time.
    TlsLate,
    /// A certificate was loaded.
    CertificateLoaded,
    /// A reloaded certificate was invalid. The previous one stays in use.
    CertificateRefused,
    /// Bytes of computed responses that wait for their sockets.
    UnsentAdded,
    /// Of those, the bytes that are now written or dropped.
    UnsentReleased,
}

const HTTP_EVENTS: usize = 26;

/// The memory of an open connection that waits for a request: its task, the buffers of its socket, and the state of
/// HTTP. Measured over 1,000 of them.
const CONNECTION_BYTES: u64 = 26 * 1024;

/// Statuses with their own counter. All others share the last one.
const STATUSES: [(u16, &str); 24] = [
    (200, "200"),
    (101, "101"),
    (202, "202"),
    (204, "204"),
    (304, "304"),
    (400, "400"),
    (401, "401"),
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

/// The counters.
pub struct HttpCounters(Counters);

impl Default for HttpCounters {
    fn default() -> Self {
        Self::new()
    }
}

impl HttpCounters {
    /// All counters are zero.
    pub fn new() -> Self {
        Self(Counters::new(HTTP_EVENTS + STATUSES.len()))
    }

    /// Counts an event.
    pub fn record(&self, event: HttpEvent) {
        self.add(event, 1);
    }

    /// Counts an event of a number of bytes.
    pub fn add(&self, event: HttpEvent, by: u64) {
        self.0.add(event as usize, by);
    }

    /// Counts a response.
    pub fn record_response(&self, status: u16) {
        // Nearly all responses have the first status.
        let at = STATUSES.iter().position(|(known, _)| *known == status);
        self.0.add(HTTP_EVENTS + at.unwrap_or(STATUSES.len() - 1), 1);
    }

    /// Memory of connections, their TLS, incomplete request bodies and unsent responses, by part of `hydrant_memory_bytes`.
    pub fn memory(&self) -> [(&'static str, u64); 4] {
        // The ends first, as below.
        let ended = self.total(HttpEvent::Ended);
        let body_ended = self.total(HttpEvent::BodyEnded);
        let open = self.total(HttpEvent::Accepted).saturating_sub(ended);
        let bodies = self.total(HttpEvent::BodyStarted).saturating_sub(body_ended);
        let released = self.total(HttpEvent::UnsentReleased);
        let unsent = self.total(HttpEvent::UnsentAdded).saturating_sub(released);
        let tls_ended = self.total(HttpEvent::TlsEnded);
        let tls = self.total(HttpEvent::TlsStarted).saturating_sub(tls_ended);
        [
            ("tls_connections", tls * tls::CONNECTION_BYTES),
            ("connections", open * CONNECTION_BYTES),
            ("request_bodies", bodies),
            ("unsent_responses", unsent),
        ]
    }

    /// Returns the number of occurrences of an event, or its bytes.
    pub fn total(&self, event: HttpEvent) -> u64 {
        self.0.sum(event as usize)
    }

    /// Writes the metric families.
    pub fn write(&self, exposition: &mut Exposition) {
        let mut bytes = exposition.family(
            "hydrant_http_bytes_total",
            MetricKind::Counter,
            "Bytes received and sent on HTTP connections, WebSocket included.",
        );
        bytes.put(&[("direction", "in")], self.total(HttpEvent::BytesIn));
        bytes.put(&[("direction", "out")], self.total(HttpEvent::BytesOut));
        // The end first: a connection that ends in between must not make the difference negative.
        let ended = self.total(HttpEvent::Ended);
        let accepted = self.total(HttpEvent::Accepted);
        let name = "hydrant_http_connections_open";
        let help = "Open connections, including those upgraded to WebSocket.";
        exposition.single(name, MetricKind::Gauge, help, accepted.saturating_sub(ended));
        let name = "hydrant_http_connections_accepted_total";
        exposition.single(name, MetricKind::Counter, "Accepted connections.", accepted);
        let name = "hydrant_http_connections_queued_total";
        let help = "Connections that waited until another one closed (rpc.connections_max).";
        exposition.single(name, MetricKind::Counter, help, self.total(HttpEvent::Delayed));
        let name = "hydrant_http_connections_rejected_total";
        let help = "Connections refused because their address has too many \
                    (rpc.connections_per_address_max, rpc.connections_max).";
        exposition.single(name, MetricKind::Counter, help, self.total(HttpEvent::Refused));
        let name = "hydrant_http_accept_failures_total";
        let help = "Connections that failed because the system was out of file descriptors.";
        exposition.single(name, MetricKind::Counter, help, self.total(HttpEvent::AcceptFailed));
        let name = "hydrant_http_upgrades_total";
        exposition.single(
            name,
            MetricKind::Counter,
            "Connections upgraded to WebSocket.",
            self.total(HttpEvent::Upgraded),
        );
        self.write_tls(exposition);
        let name = "hydrant_http_draining";
        let help = "Whether the node ends: it finishes the requests that run, and refuses others.";
        let draining = self.total(HttpEvent::DrainBegun).min(1);
        exposition.single(name, MetricKind::Gauge, help, draining);
        let mut cut = exposition.family(
            "hydrant_http_connections_aborted_total",
            MetricKind::Counter,
            "Connections closed because of a time limit, a protocol error or a panic.",
        );
        cut.put(&[("cause", "head_timeout")], self.total(HttpEvent::HeadTimeout));
        cut.put(&[("cause", "write_timeout")], self.total(HttpEvent::WriteTimeout));
        cut.put(&[("cause", "broken")], self.total(HttpEvent::Broken));
        cut.put(&[("cause", "panicked")], self.total(HttpEvent::Panicked));
        let resumed = self.total(HttpEvent::Resumed);
        let yielded = self.total(HttpEvent::Yielded);
        let name = "hydrant_http_connections_yielded";
        let help = "Connections that used up the budget of a poll and wait to continue.";
        exposition.single(name, MetricKind::Gauge, help, yielded.saturating_sub(resumed));
        let name = "hydrant_http_yields_total";
        let help =
            "Times that a connection used up the budget of a poll and was queued behind others.";
        exposition.single(name, MetricKind::Counter, help, yielded);
        let mut responses = exposition.family(
            "hydrant_http_responses_total",
            MetricKind::Counter,
            "Responses by HTTP status.",
        );
        for (at, (_, status)) in STATUSES.iter().enumerate() {
            let count = self.0.sum(HTTP_EVENTS + at);
            if count > 0 {
                responses.put(&[("status", status)], count);
            }
        }
    }

    fn write_tls(&self, exposition: &mut Exposition) {
        let ended = self.total(HttpEvent::TlsEnded);
        let open = self.total(HttpEvent::TlsStarted).saturating_sub(ended);
        let name = "hydrant_tls_connections_open";
        let help = "Open connections with TLS, handshakes included.";
        exposition.single(name, MetricKind::Gauge, help, open);
        let name = "hydrant_tls_handshakes_total";
        let help = "TLS handshakes by result.";
        let mut handshakes = exposition.family(name, MetricKind::Counter, help);
        handshakes.put(&[("result", "completed")], self.total(HttpEvent::TlsCompleted));
        handshakes.put(&[("result", "failed")], self.total(HttpEvent::TlsFailed));
        handshakes.put(&[("result", "late")], self.total(HttpEvent::TlsLate));
        let name = "hydrant_tls_certificates_total";
        let help = "Certificates that were read, by result.";
        let mut certificates = exposition.family(name, MetricKind::Counter, help);
        certificates.put(&[("result", "loaded")], self.total(HttpEvent::CertificateLoaded));
        certificates.put(&[("result", "refused")], self.total(HttpEvent::CertificateRefused));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_and_status_has_its_own_counter() {
        assert_eq!(HttpEvent::UnsentReleased as usize + 1, HTTP_EVENTS);
        let counters = HttpCounters::new();
        counters.record(HttpEvent::Broken);
        counters.record_response(200);
        counters.record_response(418);
        assert_eq!(counters.total(HttpEvent::Broken), 1);
        let mut text = Exposition::default();
        counters.write(&mut text);
        let text = text.into_string();
        for line in ["{cause=\"broken\"} 1", "{status=\"200\"} 1", "{status=\"other\"} 1"] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("status=\"101\""), "{text}");
    }
}
