//! The bounds of a feed.

use std::time::Duration;

/// The bounds of a feed. Worst-case memory: `sources_max` times `bytes_max`, and some 16 bytes for each account that an
/// unrooted bank wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedConfig {
    /// Sources at once; more are refused. Default: 8.
    pub sources_max: usize,
    /// Slots above the root of each source. Default: 1,024, which is almost seven minutes of 400 ms.
    pub slots_max: usize,
    /// Bytes of each source in open banks and in banks that wait for their parents, with the write versions of unrooted
    /// banks. Default: 1 GiB.
    pub bytes_max: usize,
    /// Maximum time between the end of a bank, as its source reports it, and its last missing part. Default: 2 s.
    pub incomplete_timeout: Duration,
    /// Maximum number of voters with a remembered last vote. Default: 16,384.
    pub voters_max: usize,
    /// Writes of an open bank after which an account that it has written once is quiescent
    /// ([`Event::Quiescent`](crate::Event::Quiescent)). All accounts are when the bank writes SlotHistory, which
    /// it does last. With 0 each is at once, also one that is written again, which costs a hash for each write.
    /// Default: 64.
    pub quiescent_after: u64,
    /// Like `quiescent_after`, for an account that the bank has written more than once: it will probably write it
    /// again.
    /// Default: 128.
    pub hot_quiescent_after: u64,
    /// Whether a bank is confirmed, and becomes the root, only once the caller has approved it. Default: no.
    pub needs_approval: bool,
}

impl Default for FeedConfig {
    fn default() -> Self {
        Self {
            sources_max: 8,
            slots_max: 1_024,
            bytes_max: 1 << 30,
            incomplete_timeout: Duration::from_secs(2),
            voters_max: 16_384,
            quiescent_after: 64,
            hot_quiescent_after: 128,
            needs_approval: false,
        }
    }
}
