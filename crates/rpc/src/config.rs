//! The limits of the server, each with its default and what it may cost.

/// Limits. What is over one of them is refused with a message that names the limit.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Bytes of a request's body. Default 51,200, as Agave's. Memory: so many for each connection
    /// that is sending one.
    pub body_bytes_max: usize,
    /// Calls in a batch. Default 1,000: what fits into the default body.
    pub batch_max: usize,
    /// Connections at once, HTTP and WebSocket together. Default 10,000. Memory: about 20 KiB each.
    /// One more waits in the listener's backlog.
    pub connections_max: usize,
    /// Milliseconds in which a request's header must be complete; also how long a connection may
    /// idle between requests. Default 30,000.
    pub header_timeout_ms: u64,
    /// Milliseconds in which a request's body must be complete. Default 10,000.
    pub body_timeout_ms: u64,
    /// Milliseconds in which a client must read at least something of an answer. Default 30,000.
    pub write_timeout_ms: u64,
    /// The request header that names a client, for limits and turns: for a node behind a proxy that
    /// sets it, such as `x-api-key`. Whoever reaches the port can set it, too. Default empty: a client
    /// is its address.
    pub client_header: String,
    /// Addresses in one getMultipleAccounts. Default 100, as Agave's.
    pub multiple_accounts_max: usize,
    /// Bytes of account data above which a read is heavy: it is encoded on the CPU pool and not on
    /// the thread that polls the socket. Default 32,768, some ten microseconds of base64.
    pub inline_bytes_max: usize,
    /// Accounts above which a list is heavy. Default 16.
    pub inline_accounts_max: usize,
    /// Milliseconds from a request's arrival to the last byte of its answer above which it is logged; 0
    /// logs none. Default 1,000. At most ten lines a second; what is left out is counted.
    pub slow_request_ms: u64,
    /// Milliseconds without a new block, or without one that is confirmed, after which the node says that
    /// it is behind: never less than four slots. Default 10,000.
    pub stall_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            body_bytes_max: 50 * 1024,
            batch_max: 1_000,
            connections_max: 10_000,
            header_timeout_ms: 30_000,
            body_timeout_ms: 10_000,
            write_timeout_ms: 30_000,
            client_header: String::new(),
            multiple_accounts_max: 100,
            inline_bytes_max: 32 * 1024,
            inline_accounts_max: 16,
            slow_request_ms: 1_000,
            stall_ms: 10_000,
        }
    }
}
