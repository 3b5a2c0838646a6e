//! The limits of JSON-RPC.

/// Limits. A request over one of them is refused with a message that names its setting, in the table `rpc` of the
/// configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Calls in a batch.
    pub batch_max: usize,
    /// Bytes of data, of all calls of a batch together, above which a read runs on the CPU pool and not on the thread
    /// that polls the socket.
    pub inline_bytes_max: usize,
    /// Milliseconds from a request's arrival to the first byte of its response. Then it is refused.
    pub first_byte_timeout_ms: u64,
    /// Milliseconds from a request's arrival to the last byte of its response above which it is logged; 0 logs none.
    pub slow_request_ms: u64,
    /// Milliseconds that a call waits for the slot that it requires; 0: it is refused at once.
    pub min_slot_wait_ms: u64,
    /// Requests that may wait for a slot at once.
    pub min_slot_waits_max: usize,
}
