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
    /// How long a bank may lack something after the source has said that it is frozen. Default: 2 s.
    pub incomplete_timeout: Duration,
    /// Voters whose last vote is remembered. Default: 16,384.
    pub voters_max: usize,
    /// An account that an open bank has written once is settled when more than this many of the bank's writes came after
    /// it ([`Feed::take_settled`](crate::Feed::take_settled)). All are settled when the bank writes SlotHistory, which it
    /// does last. 0 settles each at once, also one that is written again, which costs a hash for each write. Default: 64.
    pub settled_after: u64,
    /// As `settled_after`, an account that the bank has written again: it probably writes it once more. Default: 128.
    pub settled_again_after: u64,
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
            settled_after: 64,
            settled_again_after: 128,
            needs_approval: false,
        }
    }
}
