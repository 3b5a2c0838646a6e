//! The limits of subscriptions, queues and memory.

/// The limits of subscriptions, queues and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of listeners.
    pub listeners_max: usize,
    /// Subscriptions of all listeners; a shared one counts for each listener. Memory: about 200
    /// bytes each, and 100 for each that is not shared.
    pub subscriptions_max: usize,
    /// Subscriptions of one listener.
    pub subscriptions_per_listener_max: usize,
    /// Distinct addresses of all sets: an address counts once, however many subscriptions have it. Memory: that of the
    /// address table.
    pub addresses_max: usize,
    /// Pairs of a distinct subscription and an address of its sets; a shared subscription counts once. Memory: about
    /// 12 bytes each, up to 60 after many changes of sets, and 280 KiB for each topic and key kind.
    pub address_pairs_max: usize,
    /// Addresses in the sets of all listeners of one owner; each set counts, also a shared one.
    pub addresses_per_owner_max: usize,
    /// Addresses in the sets of one listener; each set counts.
    pub addresses_per_listener_max: usize,
    /// Steps of each commitment that are retained for clients that resume. Memory: the blocks.
    pub retained_steps: usize,
    /// Bytes of the blocks of those steps, each block counted once. Beyond that the oldest steps are evicted, of any
    /// commitment.
    pub retained_bytes: usize,
    /// Blocks that may wait for a root, without those that were dropped.
    pub unrooted_max: usize,
    /// Messages that may wait for one listener.
    pub queue_messages_max: usize,
    /// Bytes that may wait for one listener: those of the messages, and of an entry in its queue for each. Worst-case
    /// memory: this times the listeners, if they share no message.
    pub queue_bytes_max: usize,
    /// Bytes that may wait for all listeners, including messages that are being written. A shared message
    /// counts once. Above it listeners are closed (`eviction`).
    pub queues_bytes_max: usize,
}
