//! The writer's history, within its limits.

use super::snapshot::{HistoryBlock, HistorySnapshot};

/// The limits of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Maximum number of chain blocks.
    pub blocks_max: usize,
    /// Maximum of the estimated bytes. A single block may exceed it.
    pub bytes_max: usize,
}

impl Default for HistoryLimits {
    /// An hour of mainnet, or 512 MiB.
    fn default() -> Self {
        Self { blocks_max: 36_000, bytes_max: 512 << 20 }
    }
}

pub(super) struct HistoryWriter {
    limits: HistoryLimits,
    newest: HistorySnapshot,
}

impl HistoryWriter {
    pub(super) fn new(limits: HistoryLimits) -> Self {
        Self { limits, newest: HistorySnapshot::new() }
    }

    pub(super) fn snapshot(&self) -> &HistorySnapshot {
        &self.newest
    }

    pub(super) fn push(&mut self, block: HistoryBlock) {
        self.newest.push(block);
        let HistoryLimits { blocks_max, bytes_max } = self.limits;
        while self.newest.blocks_len() > 1 && self.newest.exceeds(blocks_max, bytes_max) {
            self.newest.pop_oldest();
        }
    }

    pub(super) fn revert_from(&mut self, daa_score: u64) {
        while self.newest.newest_daa_score().is_some_and(|newest| newest >= daa_score) {
            self.newest.pop_newest();
        }
    }

    pub(super) fn publish(&mut self, sink_blue_score: u64) -> HistorySnapshot {
        self.newest.set_sink_blue_score(sink_blue_score);
        self.newest.clone()
    }
}
