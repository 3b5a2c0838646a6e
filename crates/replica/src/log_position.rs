//! Positions in the log: of the reader, and of the records of recent blocks.
//!
//! Bounds: [`RECENT_MAX`] blocks.

use std::collections::VecDeque;

use chain_solana::wire::{BlockName, RecordChain, RecordDigest};

/// Number of the newest blocks from which a new generation of the log may continue without a snapshot: half an hour of
/// slots.
const RECENT_MAX: usize = 4_096;

/// The position after the last record that was read completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPosition {
    pub(crate) generation: u64,
    /// Sequence of the record's last message.
    pub(crate) sequence: u64,
    pub(crate) chain: RecordChain,
}

/// The position of a block's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPosition {
    pub(crate) generation: u64,
    /// Sequence of the record's last message; 0 for the snapshot that a generation starts with.
    pub(crate) sequence: u64,
    pub(crate) number: u64,
    pub(crate) digest: RecordDigest,
}

/// A block with the digest of its record.
#[derive(Clone, Copy, Debug)]
struct RecentBlock {
    name: BlockName,
    digest: RecordDigest,
}

/// The digests of recent blocks' records.
#[derive(Debug, Default)]
pub(crate) struct RecentBlocks(VecDeque<RecentBlock>);

impl RecentBlocks {
    pub(crate) fn push(&mut self, name: BlockName, digest: RecordDigest) {
        if self.0.len() == RECENT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(RecentBlock { name, digest });
    }

    /// Returns the block of a slot whose record has this digest.
    pub(crate) fn find(&self, slot: u64, digest: &RecordDigest) -> Option<BlockName> {
        let mut newest_first = self.0.iter().rev();
        let found = newest_first.find(|block| block.name.slot == slot && block.digest == *digest);
        found.map(|block| block.name)
    }
}
