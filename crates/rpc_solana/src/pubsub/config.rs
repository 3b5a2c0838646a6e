//! The limits of PubSub, each with its default and its worst-case memory.

use subscriptions::Limits;

use crate::config::{self, ConfigError};

/// Blocks that may wait for a root. A ledger finalizes at most 4,000 slots later.
const UNROOTED_MAX: usize = 16_384;

/// Pairs for each distinct address by default: with more, sets overlap more, and each pair needs less memory.
const PAIRS_OF_AN_ADDRESS: usize = 4;

/// Limits. A request over one of them is refused, or its connection is closed, with a message that names the limit.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// WebSocket connections at once. Default 10,000. Memory: about 16 KiB each, and the queue.
    pub connections_max: usize,
    /// Subscriptions of all connections; a shared one counts for each connection. Default 1,000,000,
    /// as Agave's. Memory: about 300 bytes each.
    pub subscriptions_max: usize,
    /// Subscriptions of one connection. Default 100,000.
    pub subscriptions_per_connection_max: usize,
    /// Distinct addresses of all sets of `addressesSubscribe`, and of all other subscriptions: one that several clients
    /// track counts once (`--max-tracked-addresses`). Default 10,000,000. Memory: 43 bytes each in the address table,
    /// so 430 MB.
    pub tracked_addresses_max: usize,
    /// Pairs of a subscription and an address in its set; equal subscriptions count once. 0: four times
    /// `tracked_addresses_max`, so 40,000,000. Default 0. Memory: about 12 bytes each, so 480 MB; up
    /// to 60 after many changes of sets.
    pub tracked_pairs_max: usize,
    /// Addresses in the sets of all connections of one client; each set counts. 0: half of `tracked_addresses_max`, so
    /// that no client can use up the node's. Default 0.
    pub tracked_addresses_per_client_max: usize,
    /// Addresses in the sets of one connection. Default 2,000,000.
    pub tracked_addresses_per_connection_max: usize,
    /// Whether memory for `tracked_addresses_max` addresses is allocated at the start, instead of on demand: in the
    /// address table, and in the index of `addressesSubscribe` for accounts themselves, at each commitment. Default
    /// false. Memory: 71 bytes each, so 710 MB.
    pub preallocate_tracked_addresses: bool,
    /// Bytes of a message from a client. Default 4,096, as Agave's.
    pub message_bytes_max: usize,
    /// Bytes of a message that has addresses in it: `addressesSubscribe`, `addressesUpdate`,
    /// `transactionSubscribe`; a text must name the method within its first `message_bytes_max` bytes.
    /// Default 1 MiB: 32,000 addresses in binary.
    pub addresses_message_bytes_max: usize,
    /// Milliseconds from the first byte of a message in which it must be complete. Default 10,000. Then the
    /// connection is closed (1008).
    pub message_timeout_ms: u64,
    /// Bytes of the buffers of messages that are incomplete or being processed, of all connections together;
    /// short messages that come in one frame need none. A client may use half of what the others
    /// leave. If there is no memory for a message, it is not read further; if there is none by its deadline, the
    /// connection is closed (1013). Default 64 MiB, which is the worst-case memory.
    pub incoming_bytes_max: usize,
    /// Messages about sets that the CPU pool works on at once; others wait, one for each connection.
    /// Default half of the cores. The pool schedules them under another client id than the client's requests.
    #[serde(skip)]
    pub set_tasks_max: usize,
    /// Accounts of a snapshot under another key kind than the account itself. Default 1,000,000.
    pub snapshot_accounts_max: usize,
    /// Blocks of each commitment that are retained for clients that resume. Default 150: a minute of 400 ms
    /// slots. Memory: the blocks; most of their parts are in history too.
    pub resume_blocks: usize,
    /// Bytes of those blocks, estimated from their sizes, each block once. Default 256 MiB: 150 blocks
    /// of some 700 transactions. Beyond that the oldest are evicted, of all commitments.
    pub resume_bytes: usize,
    /// Notifications that may wait for one client. Default 1,000,000, more than `queue_bytes_max` has space for: a block
    /// may have tens of thousands for one client, which come at once. One more closes the connection (1008).
    pub queue_messages_max: usize,
    /// Bytes that may wait for one client: its notifications, and some 100 bytes for the queue entry of each. Default
    /// 16 MiB: the logs of 10,000 transactions at 1.5 KB. One more closes the connection (1008).
    /// Worst-case memory is `queues_bytes_max`.
    pub queue_bytes_max: usize,
    /// Bytes of notifications that wait for all clients or are being written to them; a shared one
    /// counts once, and each queue entry counts some 100 bytes. Above it the client that uses the
    /// most loses its largest connections (1008) until an eighth is free. Default 256 MiB, which is the
    /// worst-case memory, and up to 64 MiB that are being encoded.
    pub queues_bytes_max: usize,
    /// Events of the ledger that may wait for the notifier; all transactions of one publication are one event.
    /// Default 16,384: many seconds. One more closes every connection (1013). Memory: about 130 bytes
    /// each, and the transactions and blocks that they refer to, which are in history too.
    pub events_max: usize,
    /// Milliseconds in which a client must read 64 KiB of the written bytes, or all of them. Default
    /// 30,000; then the connection is closed (1008).
    pub write_timeout_ms: u64,
    /// Milliseconds that a closing connection has to read the reason. Default 5,000.
    #[serde(skip)]
    pub close_timeout_ms: u64,
    /// Milliseconds between our pings. Default 25,000: less than half of the time after which proxies close a quiet
    /// connection (HAProxy in Debian 50 s, nginx and AWS 60 s). If nothing comes from a client between three of them,
    /// its connection is closed.
    pub ping_ms: u64,
    /// Whether account and program notifications are cut to `dataSlice`. Default false, as in Agave
    /// 4.2, where a slice makes another subscription but the data comes whole; later Agaves cut it.
    pub apply_data_slice: bool,
    /// Milliseconds between the reply to a call that subscribes and the first notification. Not a setting: 20. Some
    /// clients lose a notification that comes together with the id. Shorter, and a busy one still does.
    #[serde(skip)]
    pub hold_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            subscriptions_max: 1_000_000,
            subscriptions_per_connection_max: 100_000,
            tracked_addresses_max: 10_000_000,
            tracked_pairs_max: 0,
            tracked_addresses_per_client_max: 0,
            tracked_addresses_per_connection_max: 2_000_000,
            preallocate_tracked_addresses: false,
            message_bytes_max: 4_096,
            addresses_message_bytes_max: 1024 * 1024,
            message_timeout_ms: 10_000,
            incoming_bytes_max: 64 * 1024 * 1024,
            set_tasks_max: std::thread::available_parallelism().map_or(1, |n| (n.get() / 2).max(1)),
            snapshot_accounts_max: 1_000_000,
            resume_blocks: 150,
            resume_bytes: 256 * 1024 * 1024,
            queue_messages_max: 1_000_000,
            queue_bytes_max: 16 * 1024 * 1024,
            queues_bytes_max: 256 * 1024 * 1024,
            events_max: 16_384,
            write_timeout_ms: 30_000,
            close_timeout_ms: 5_000,
            ping_ms: 25_000,
            apply_data_slice: false,
            hold_ms: 20,
        }
    }
}

impl Config {
    /// Checks every number.
    pub fn check(&self) -> Result<(), ConfigError> {
        config::check_nonzero(&[
            ("pubsub.connections_max", self.connections_max),
            ("pubsub.subscriptions_max", self.subscriptions_max),
            ("pubsub.subscriptions_per_connection_max", self.subscriptions_per_connection_max),
            ("pubsub.tracked_addresses_max", self.tracked_addresses_max),
            (
                "pubsub.tracked_addresses_per_connection_max",
                self.tracked_addresses_per_connection_max,
            ),
            ("pubsub.message_bytes_max", self.message_bytes_max),
            ("pubsub.addresses_message_bytes_max", self.addresses_message_bytes_max),
            ("pubsub.set_tasks_max", self.set_tasks_max),
            ("pubsub.queue_messages_max", self.queue_messages_max),
            ("pubsub.queue_bytes_max", self.queue_bytes_max),
            ("pubsub.queues_bytes_max", self.queues_bytes_max),
            ("pubsub.events_max", self.events_max),
        ])?;
        let message = self.message_bytes_max.max(self.addresses_message_bytes_max);
        if self.incoming_bytes_max / 2 < message {
            return Err(ConfigError {
                name: "pubsub.incoming_bytes_max",
                value: self.incoming_bytes_max as u64,
                expected: "at least twice pubsub.addresses_message_bytes_max and \
                         pubsub.message_bytes_max: a client has half of it",
            });
        }
        config::check_timeouts(&[
            ("pubsub.message_timeout_ms", self.message_timeout_ms),
            ("pubsub.write_timeout_ms", self.write_timeout_ms),
            ("pubsub.close_timeout_ms", self.close_timeout_ms),
            ("pubsub.ping_ms", self.ping_ms),
        ])
    }

    /// Returns the limits of connections and messages.
    pub fn transport(&self) -> websocket::Config {
        websocket::Config {
            limits: self.limits(),
            message_bytes_max: self.message_bytes_max,
            addresses_message_bytes_max: self.addresses_message_bytes_max,
            message_timeout_ms: self.message_timeout_ms,
            incoming_bytes_max: self.incoming_bytes_max,
            set_tasks_max: self.set_tasks_max,
            write_timeout_ms: self.write_timeout_ms,
            close_timeout_ms: self.close_timeout_ms,
            ping_ms: self.ping_ms,
            hold_ms: self.hold_ms,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            listeners_max: self.connections_max,
            subscriptions_max: self.subscriptions_max,
            subscriptions_per_listener_max: self.subscriptions_per_connection_max,
            addresses_max: self.tracked_addresses_max,
            address_pairs_max: match self.tracked_pairs_max {
                0 => self.tracked_addresses_max.saturating_mul(PAIRS_OF_AN_ADDRESS),
                max => max,
            },
            addresses_per_owner_max: match self.tracked_addresses_per_client_max {
                0 => self.tracked_addresses_max.div_ceil(2),
                max => max,
            },
            addresses_per_listener_max: self.tracked_addresses_per_connection_max,
            retained_steps: self.resume_blocks,
            retained_bytes: self.resume_bytes,
            unrooted_max: UNROOTED_MAX,
            queue_messages_max: self.queue_messages_max,
            queue_bytes_max: self.queue_bytes_max,
            queues_bytes_max: self.queues_bytes_max,
        }
    }
}
