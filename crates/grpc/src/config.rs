//! Settings of the server: bounds, times and limits of filters.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

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
    /// Calls of one client a second, refused ones included; one second's worth may come at once. A call beyond them
    /// waits for up to two seconds, then it is refused. Each address may also open as many connections, and make as many
    /// health checks. 0: no limit.
    pub calls_per_s: u32,
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
        let transport = grpc_server::Config::default();
        Self {
            threads: transport.threads,
            connections_max: transport.connections_max,
            connections_per_address_max: transport.connections_per_address_max,
            connection_streams_max: transport.connection_streams_max,
            subscriptions_max: transport.subscriptions_max,
            calls_per_s: transport.calls_per_s,
            request_bytes_max: transport.request_bytes_max,
            incoming_bytes_max: transport.incoming_bytes_max,
            handshake_timeout_ms: transport.handshake_timeout_ms,
            idle_timeout_ms: transport.idle_timeout_ms,
            message_timeout_ms: transport.message_timeout_ms,
            keep_alive_ms: transport.keep_alive_ms,
            queue_messages_max: 100_000,
            queue_bytes_max: 64 << 20,
            queues_bytes_max: 256 << 20,
            events_max: 4_096,
            events_bytes_max: 256 << 20,
            replay_slots_max: 64,
            replay_bytes_max: 256 << 20,
            ping_ms: 15_000,
            close_timeout_ms: transport.close_timeout_ms,
            filters_max: 64,
            name_bytes_max: 128,
            addresses_max: 10_000,
            data_filters_max: 8,
            data_slices_max: 16,
            filters_bytes_max: 256 << 20,
            unindexed_cost_max: 4_096,
            x_token_file: transport.x_token_file,
        }
    }
}

impl Config {
    /// Returns the settings of connections, streams and requests.
    pub fn transport(&self) -> grpc_server::Config {
        grpc_server::Config {
            threads: self.threads,
            connections_max: self.connections_max,
            connections_per_address_max: self.connections_per_address_max,
            connection_streams_max: self.connection_streams_max,
            subscriptions_max: self.subscriptions_max,
            calls_per_s: self.calls_per_s,
            request_bytes_max: self.request_bytes_max,
            incoming_bytes_max: self.incoming_bytes_max,
            handshake_timeout_ms: self.handshake_timeout_ms,
            idle_timeout_ms: self.idle_timeout_ms,
            message_timeout_ms: self.message_timeout_ms,
            keep_alive_ms: self.keep_alive_ms,
            close_timeout_ms: self.close_timeout_ms,
            x_token_file: self.x_token_file.clone(),
            ..grpc_server::Config::default()
        }
    }

    pub(crate) fn ping_interval(&self) -> Duration {
        Duration::from_millis(self.ping_ms)
    }
}
