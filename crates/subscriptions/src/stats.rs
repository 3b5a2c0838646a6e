//! Numbers of what the registry holds, for metrics.

/// Current numbers of listeners, subscriptions and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Number of open listeners.
    pub listeners: usize,
    /// Subscriptions; a shared one counts for each listener.
    pub subscriptions: usize,
    /// Distinct subscriptions; a shared one counts once.
    pub distinct: usize,
    /// Distinct addresses of all sets ([`crate::Limits::addresses_max`]).
    pub tracked_addresses: usize,
    /// Pairs of a distinct subscription and an address ([`crate::Limits::address_pairs_max`]).
    pub tracked_pairs: usize,
    /// Messages that wait in all queues.
    pub queue_messages: usize,
    /// Bytes that wait in all queues; a shared message counts in each.
    pub queue_bytes: usize,
    /// Bytes of all messages that wait or are being written; a shared message counts once.
    pub queue_memory: usize,
    /// Bytes of the blocks that are retained for clients that resume.
    pub retained_bytes: usize,
}

/// Heap bytes of the addresses of sets, without the address table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// The index from addresses to subscriptions.
    pub index: usize,
    /// The sets; equal ones count once.
    pub sets: usize,
}
