//! The limits of subscriptions, queues and memory.

/// The limits of subscriptions, queues and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Listeners at once.
    pub listeners_max: usize,
    /// Subscriptions of all listeners; a shared one counts for each listener. Memory: about 200
    /// bytes each, and 100 for each that is not shared.
    pub subscriptions_max: usize,
    /// Subscriptions of one listener.
    pub subscriptions_per_listener_max: usize,
    /// Addresses of all sets; an address counts for each distinct subscription that has it, and a shared subscription
    /// counts once. Memory: at most 16 bytes each, and the address table's for each that is in any set.
    pub addresses_max: usize,
    /// Addresses in the sets of one listener.
    pub addresses_per_listener_max: usize,
    /// Scattered addresses for which each topic and key kind allocates memory on its first use. 0: on demand. Memory:
    /// about 9 bytes each.
    pub preallocated_ids: usize,
    /// Steps of each commitment that are retained for clients that resume. Memory: the blocks.
    pub retained_steps: usize,
    /// Bytes of the blocks of those steps, each block counted once. Beyond that the oldest steps are evicted, of any
    /// commitment.
    pub retained_bytes: usize,
    /// Blocks that may wait for a root.
    pub unrooted_max: usize,
    /// Messages that may wait for one listener.
    pub queue_messages_max: usize,
    /// Bytes that may wait for one listener. Worst-case memory: this times the listeners, if they
    /// share no message.
    pub queue_bytes_max: usize,
    /// Bytes that may wait for all listeners, including messages that are being written. A shared message
    /// counts once. Above it listeners are closed (`eviction`).
    pub queues_bytes_max: usize,
}
