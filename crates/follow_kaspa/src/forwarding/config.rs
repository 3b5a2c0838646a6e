//! The settings of a forwarder: its upstreams and its limits.

use std::time::Duration;

use crate::config::SourceConfig;

/// The settings of a forwarder.
#[derive(Clone, Debug)]
pub struct ForwarderConfig {
    /// The upstreams, by their ports for Borsh. The first one that accepts a connection is used.
    pub sources: Vec<SourceConfig>,
    /// The upstreams, by their ports for JSON. Without one, calls in JSON are refused.
    pub json_sources: Vec<SourceConfig>,
    /// The limits of common methods, for each encoding.
    pub common: CallLimits,
    /// The limits of slow methods, for each encoding.
    pub slow: CallLimits,
    /// Time limit of a connection attempt. Default: 5 s.
    pub connect_timeout: Duration,
    /// Bytes of a request. Default: 16 MiB, above a full block in JSON.
    pub request_bytes_max: usize,
    /// Bytes of all requests that wait or are being processed. Default: 64 MiB.
    pub queue_bytes_max: usize,
    /// Bytes of all replies that their clients have not taken: a client takes its reply once its socket has accepted
    /// the messages before it, and the reply is checked and translated. One that does not fit is dropped, and the call
    /// fails. Default: 512 MiB.
    pub replies_bytes_max: usize,
}

/// The limits of one kind of methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Connections to the upstream.
    pub connections: usize,
    /// Calls of all clients that wait or are being processed.
    pub calls_max: usize,
    /// Calls of one client that wait or are being processed.
    pub client_calls_max: usize,
    /// Time limit of a call, from its start at the upstream. It waits at most as long before.
    pub call_timeout: Duration,
    /// Bytes of a reply. Each connection may hold as many.
    pub response_bytes_max: usize,
}

impl ForwarderConfig {
    /// Creates the default settings for upstreams.
    pub fn new(sources: Vec<SourceConfig>, json_sources: Vec<SourceConfig>) -> Self {
        Self {
            sources,
            json_sources,
            common: CallLimits {
                connections: 4,
                calls_max: 512,
                client_calls_max: 32,
                call_timeout: Duration::from_secs(10),
                response_bytes_max: 16 << 20,
            },
            slow: CallLimits {
                connections: 2,
                calls_max: 32,
                client_calls_max: 2,
                call_timeout: Duration::from_secs(90),
                response_bytes_max: 256 << 20,
            },
            connect_timeout: Duration::from_secs(5),
            request_bytes_max: 16 << 20,
            queue_bytes_max: 64 << 20,
            replies_bytes_max: 512 << 20,
        }
    }
}
