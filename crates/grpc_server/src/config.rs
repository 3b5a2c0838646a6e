//! Settings of a server: bounds and times of its connections and streams.

use std::path::PathBuf;
use std::time::Duration;

use crate::unread_streams::UNREAD_STREAMS_MAX;

/// Bytes of requests that a client may send on a stream before they are read. A smaller value delays long requests: a
/// client sends one window in a round trip.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 64 << 10;
/// h2 charges an unread DATA frame that is shorter than this as if it had this many bytes.
const SHORT_FRAME_BYTES: u32 = 256;
/// Maximum window of a connection, whatever its number of streams, without the space for unread streams.
const CONNECTION_WINDOW_BYTES_MAX: u32 = 1 << 20;

/// Settings of a server. In the configuration file they are keys of the table `grpc`, with those of the service.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of threads that poll sockets.
    pub threads: usize,
    /// Open connections. The next one waits until another ends. About 270 KB each, 670 KB with API keys.
    pub connections_max: usize,
    /// Connections at once from one address (an IPv6 network of 64 bits). Default none: an address may have all
    /// connections except the last tenth, of which it gets one only if it has fewer than are left. One more is closed.
    /// Behind a proxy all connections come from one address: a value of `connections_max` lets it have all of them.
    pub connections_per_address_max: Option<usize>,
    /// HTTP/2 streams that are open on one connection at once. A tenth of them is for calls that end by themselves: a
    /// subscription beyond the rest gets `RESOURCE_EXHAUSTED`. The window of a connection has 512 bytes for each, up to
    /// 1 MiB (about 1,900 streams).
    pub connection_streams_max: usize,
    /// Subscriptions of all connections; one more gets `RESOURCE_EXHAUSTED`. As many calls may wait for the rates of
    /// their clients.
    pub subscriptions_max: usize,
    /// Calls of one client a second, refused ones included; one second's worth may come at once. A call beyond them
    /// waits for up to two seconds, then it is refused. Each address may also open as many connections, and make as many
    /// health checks. 0: no limit. A larger value lets one client delay the others more: 23,000 calls a second used two
    /// cores.
    pub calls_per_s: u32,
    /// Bytes of one request message.
    pub request_bytes_max: usize,
    /// Bytes that a shorter request counts as, in the rate of its client: 8 MiB a second. A larger value limits the work
    /// of short requests more; a smaller one lets a client send more of them.
    pub request_cost_bytes_min: usize,
    /// Bytes of request messages of all connections that are incomplete or not decoded.
    pub incoming_bytes_max: usize,
    /// Time in which a new connection must start HTTP/2.
    pub handshake_timeout_ms: u64,
    /// Time after which a connection without an accepted call is closed.
    pub idle_timeout_ms: u64,
    /// Time from the first wait for the rest of a request message in which it must be complete.
    pub message_timeout_ms: u64,
    /// Interval of HTTP/2's pings, and the time for their acknowledgement.
    pub keep_alive_ms: u64,
    /// Time in which a client must read what its ended subscription has for it, before its connection is closed.
    pub close_timeout_ms: u64,
    /// Time in which the calls of a connection may end when the server shuts down.
    pub shutdown_timeout_ms: u64,
    /// Threads for blocking work, such as decoding long requests. More of them take time from other servers, and each has
    /// a heap of the allocator, which retains some 4 MiB after a large request: that memory does not grow with clients.
    pub request_threads: usize,
    /// A file with the token that clients must send as `x-token`. Without it, no token is needed.
    pub x_token_file: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            threads: 1,
            connections_max: 256,
            connections_per_address_max: None,
            connection_streams_max: 200,
            subscriptions_max: 1_000,
            calls_per_s: 500,
            request_bytes_max: 4 << 20,
            request_cost_bytes_min: 4 << 10,
            incoming_bytes_max: 64 << 20,
            handshake_timeout_ms: 10_000,
            idle_timeout_ms: 75_000,
            message_timeout_ms: 30_000,
            keep_alive_ms: 20_000,
            close_timeout_ms: 10_000,
            shutdown_timeout_ms: 1_000,
            request_threads: 1,
            x_token_file: None,
        }
    }
}

impl Config {
    /// Returns how many subscriptions may be open on one connection at once.
    pub(crate) fn connection_subscriptions_max(&self) -> usize {
        let streams_max = self.connection_streams_max;
        streams_max.saturating_sub(streams_max.div_ceil(10)).max(1)
    }

    /// Returns the bytes of requests that a client may send on a connection before they are read. h2 buffers up to this
    /// many.
    ///
    /// h2 ends a connection on which the unread short frames count for more than half of its window. So each stream may
    /// have one of them, the message of a call, and all streams together 128 more. With more than about 1,900 streams
    /// the window has its maximum, and not every stream may have one.
    pub(crate) fn connection_window_bytes(&self) -> u32 {
        let streams_max = u32::try_from(self.connection_streams_max).unwrap_or(u32::MAX);
        let short_frames = streams_max.saturating_mul(2 * SHORT_FRAME_BYTES);
        short_frames.saturating_add(STREAM_WINDOW_BYTES).min(CONNECTION_WINDOW_BYTES_MAX)
    }

    /// Returns the bytes of requests that the clients of a connection with API keys may send before they are read. Up
    /// to [`UNREAD_STREAMS_MAX`] streams that are not read leave [`Self::connection_window_bytes`] to the others.
    pub(crate) fn shared_connection_window_bytes(&self) -> u32 {
        self.connection_window_bytes() + UNREAD_STREAMS_MAX as u32 * STREAM_WINDOW_BYTES
    }

    pub(crate) fn handshake_timeout(&self) -> Duration {
        Duration::from_millis(self.handshake_timeout_ms)
    }

    pub(crate) fn idle_timeout(&self) -> Duration {
        Duration::from_millis(self.idle_timeout_ms)
    }

    pub(crate) fn message_timeout(&self) -> Duration {
        Duration::from_millis(self.message_timeout_ms)
    }

    pub(crate) fn keep_alive(&self) -> Duration {
        Duration::from_millis(self.keep_alive_ms)
    }

    pub(crate) fn close_timeout(&self) -> Duration {
        Duration::from_millis(self.close_timeout_ms)
    }

    pub(crate) fn shutdown_timeout(&self) -> Duration {
        Duration::from_millis(self.shutdown_timeout_ms)
    }
}
