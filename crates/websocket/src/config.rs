//! The limits of connections.

use subscriptions::Limits;

/// Limits. A request over one of them is refused, or its connection is closed, with a message that names its setting, in
/// the table `pubsub` of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Connections, subscriptions, addresses and queues. `listeners_max` is the setting `connections_max`.
    pub limits: Limits,
    /// Bytes of a message from a client.
    pub message_bytes_max: usize,
    /// Bytes of a message that may be long ([`crate::MessageBound::Long`]).
    pub addresses_message_bytes_max: usize,
    /// Milliseconds from the first byte of a message in which it must be complete. Then the connection is closed (1008).
    pub message_timeout_ms: u64,
    /// Bytes of the buffers of messages that are incomplete or being processed, of all connections together; short
    /// messages that come in one frame need none. A client may use half of what the others leave. If there is no memory
    /// for a message by its deadline, the connection is closed (1013).
    pub incoming_bytes_max: usize,
    /// Tasks of all connections that the CPU pool works on at once; others wait, one for each connection.
    pub set_tasks_max: usize,
    /// Milliseconds in which a client must read 64 KiB of the written bytes, or all of them. Then the connection is
    /// closed (1008).
    pub write_timeout_ms: u64,
    /// Milliseconds that a closing connection has to read the reason.
    pub close_timeout_ms: u64,
    /// Milliseconds between our pings. If nothing comes from a client between three of them, its connection is closed.
    pub ping_ms: u64,
    /// Milliseconds between the reply to a call that subscribes and the first notification.
    pub hold_ms: u64,
}
