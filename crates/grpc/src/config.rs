//! Settings of the server: bounds, times and limits of filters.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::unread_streams::UNREAD_STREAMS_MAX;

/// Bytes of requests that a client may send on a stream before they are read. A smaller value delays long requests: a
/// client sends one window in a round trip.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 64 << 10;
/// h2 charges an unread DATA frame that is shorter than this as if it had this many bytes.
const SHORT_FRAME_BYTES: u32 = 256;
/// Maximum window of a connection, whatever its number of streams, without the space for unread streams.
const CONNECTION_WINDOW_BYTES_MAX: u32 = 1 << 20;

/// Settings of the gRPC server.
///
/// Fields with `serde(skip)` have no key in the configuration file: only tests and benchmarks change them.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Threads that poll sockets, compress, and replay.
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
    /// Subscriptions of all connections; one more gets `RESOURCE_EXHAUSTED`.
    pub subscriptions_max: usize,
    /// Bytes of one request message.
    pub request_bytes_max: usize,
    /// Bytes of request messages of all connections that are incomplete or not decoded.
    pub incoming_bytes_max: usize,
    /// Time in which a new connection must start HTTP/2.
    #[serde(skip)]
    pub handshake_timeout_ms: u64,
    /// Time after which a connection without an accepted call is closed.
    #[serde(skip)]
    pub idle_timeout_ms: u64,
    /// Time from the first wait for the rest of a request message in which it must be complete.
    #[serde(skip)]
    pub message_timeout_ms: u64,
    /// Interval of HTTP/2's pings, and the time for their acknowledgement.
    pub keep_alive_ms: u64,
    /// Messages that wait for one client.
    pub queue_messages_max: usize,
    /// Bytes that wait for one client, in its queue or in HTTP/2.
    pub queue_bytes_max: usize,
    /// Bytes that wait for all clients, in queues or in HTTP/2. A message of several clients counts for each.
    pub queues_bytes_max: usize,
    /// Events of the ledger that wait for the publisher.
    pub events_max: usize,
    /// Bytes of them; one event may have more. A followed bank is one event, and has megabytes.
    pub events_bytes_max: usize,
    /// Slots with a bank that `from_slot` can go back. Slots above the finalized one are retained beyond it. 160 KB for
    /// an empty one.
    pub replay_slots_max: u64,
    /// Bytes of them; also of the slots that wait to be confirmed or finalized. A slot that a reorganisation left is
    /// removed first.
    pub replay_bytes_max: usize,
    /// Interval of the server's pings.
    pub ping_ms: u64,
    /// Time in which a client must read what its ended subscription has for it, before its connection is closed.
    #[serde(skip)]
    pub close_timeout_ms: u64,
    /// Filters of one kind in a request.
    pub filters_max: usize,
    /// Maximum bytes of a filter's name.
    #[serde(skip)]
    pub name_bytes_max: usize,
    /// Addresses in one list of a filter.
    pub addresses_max: usize,
    /// Data filters (memcmp, datasize and the like) of one account filter.
    #[serde(skip)]
    pub data_filters_max: usize,
    /// Maximum number of data slices in a request.
    #[serde(skip)]
    pub data_slices_max: usize,
    /// Bytes of the filters of all clients, about 150 for an address.
    pub filters_bytes_max: usize,
    /// The cost of the filters of all clients that have no address, owner or signature: every update tries them. One
    /// without further conditions costs 1, each condition 1 to 8, one of blocks 4.
    #[serde(skip)]
    pub unindexed_cost_max: usize,
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
            request_bytes_max: 4 << 20,
            incoming_bytes_max: 64 << 20,
            handshake_timeout_ms: 10_000,
            idle_timeout_ms: 75_000,
            message_timeout_ms: 30_000,
            keep_alive_ms: 20_000,
            queue_messages_max: 100_000,
            queue_bytes_max: 64 << 20,
            queues_bytes_max: 256 << 20,
            events_max: 4_096,
            events_bytes_max: 256 << 20,
            replay_slots_max: 64,
            replay_bytes_max: 256 << 20,
            ping_ms: 15_000,
            close_timeout_ms: 10_000,
            filters_max: 64,
            name_bytes_max: 128,
            addresses_max: 10_000,
            data_filters_max: 8,
            data_slices_max: 16,
            filters_bytes_max: 256 << 20,
            unindexed_cost_max: 4_096,
            x_token_file: None,
        }
    }
}

impl Config {
    /// Subscriptions that are open on one connection at once.
    pub(crate) fn connection_subscriptions_max(&self) -> usize {
        let streams_max = self.connection_streams_max;
        streams_max.saturating_sub(streams_max.div_ceil(10)).max(1)
    }

    /// Bytes of requests that a client may send on a connection before they are read. h2 buffers up to this many.
    ///
    /// h2 ends a connection on which the unread short frames count for more than half of its window. So each stream may
    /// have one of them, the message of a call, and all streams together 128 more. With more than about 1,900 streams
    /// the window has its maximum, and not every stream may have one.
    pub(crate) fn connection_window_bytes(&self) -> u32 {
        let streams_max = u32::try_from(self.connection_streams_max).unwrap_or(u32::MAX);
        let short_frames = streams_max.saturating_mul(2 * SHORT_FRAME_BYTES);
        short_frames.saturating_add(STREAM_WINDOW_BYTES).min(CONNECTION_WINDOW_BYTES_MAX)
    }

    /// Bytes of requests that the clients of a connection with API keys may send before they are read. Up to
    /// [`UNREAD_STREAMS_MAX`] streams that are not read leave [`Self::connection_window_bytes`] to the others.
    pub(crate) fn shared_connection_window_bytes(&self) -> u32 {
        self.connection_window_bytes() + UNREAD_STREAMS_MAX as u32 * STREAM_WINDOW_BYTES
    }

    pub(crate) fn ping_interval(&self) -> Duration {
        Duration::from_millis(self.ping_ms)
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
}
