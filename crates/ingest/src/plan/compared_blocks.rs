//! Which blocks of the followed generation differ from the own ones, for faults that no scan of the log can find: a
//! replica refuses what an intact record says.
//!
//! Input: the blocks that other ingesters have appended, the result of each comparison, and the snapshots of the
//! generation. Output: whether the blocks up to the position of a report are those of the own ledger.
//! Invariant: a difference is forgotten only once there is a snapshot behind it. Blocks are compared when they arrive:
//! a report comes half a minute later, when neither the log's chain nor the own one has them.
//! Bounds: [`BLOCKS_MAX`] positions of each kind.
//! Not here: the comparison of two blocks (`disagreement`), the reaction to a report (`reports`).

use std::collections::{BTreeMap, BTreeSet};

use ledger::Slot;

/// Blocks that differ, and blocks that were not compared: half an hour of slots of each.
const BLOCKS_MAX: usize = 4_096;
/// Records that a replica has read behind the one that it refuses, at most: its queue has 1,024 inputs.
const QUEUED_RECORDS_MAX: u64 = 1_100;

/// The blocks that a replica may have refused, compared with the own ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// One of them differs, and there is no snapshot behind it.
    Different,
    /// All of them are those of the own ledger.
    Equal,
    /// Some were not compared.
    Unknown,
}

/// The compared blocks of one generation. A position is the sequence of the last message of a block's record.
#[derive(Debug, Default)]
pub(super) struct ComparedBlocks {
    generation: u64,
    /// Position of the newest known snapshot.
    snapshot: u64,
    /// Number of a record. Blocks up to it may not have been compared.
    compared_after: u64,
    /// Blocks of other ingesters that the own ledger does not have yet, or cannot be compared with.
    uncompared: BTreeSet<u64>,
    /// Blocks that differ, with their slots.
    different: BTreeMap<u64, Slot>,
}

impl ComparedBlocks {
    /// Starts with the records after this one. The differences in the same generation stay.
    pub(super) fn start_after_record(&mut self, generation: u64, record: u64) {
        if self.generation != generation {
            *self = Self { generation, ..Self::default() };
        }
        self.uncompared.clear();
        self.compared_after = record;
    }

    /// Notes the block of another ingester, by its position and the number of its record.
    pub(super) fn note_block(&mut self, position: u64, record: u64) {
        if self.uncompared.len() >= BLOCKS_MAX {
            self.uncompared.clear();
            self.compared_after = record;
        }
        self.uncompared.insert(position);
    }

    /// Notes the comparison of the block of a slot.
    pub(super) fn note_comparison(&mut self, position: u64, slot: Slot, is_equal: bool) {
        self.uncompared.remove(&position);
        if is_equal || position <= self.snapshot {
            return;
        }
        if self.different.len() >= BLOCKS_MAX {
            self.different.pop_last();
        }
        self.different.insert(position, slot);
    }

    /// Returns the slot of the oldest block up to a message that differs.
    pub(super) fn find_slot(&self, sequence: u64) -> Option<Slot> {
        self.different.range(..=sequence).next().map(|(_, slot)| *slot)
    }

    /// Notes a snapshot of a block of a generation.
    pub(super) fn note_snapshot(&mut self, generation: u64, position: u64) {
        if generation == self.generation && position > self.snapshot {
            self.snapshot = position;
            self.different.retain(|different, _| *different > position);
        }
    }

    /// Returns the comparison of the blocks that a replica may have refused. `sequence` and `record` are the last
    /// message and the last record that it has read.
    pub(super) fn find_comparison(&self, sequence: u64, record: u64) -> Comparison {
        if self.different.range(..=sequence).next().is_some() {
            return Comparison::Different;
        }
        let oldest_refused = record.saturating_sub(QUEUED_RECORDS_MAX);
        let is_compared = self.uncompared.range(..=sequence).next().is_none();
        match is_compared && oldest_refused > self.compared_after {
            true => Comparison::Equal,
            false => Comparison::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_lasts_until_there_is_a_snapshot_behind_it() {
        let mut compared = ComparedBlocks::default();
        compared.start_after_record(3, 10);
        compared.note_comparison(20, 5, false);
        compared.note_comparison(40, 6, false);
        assert_eq!(compared.find_comparison(19, 10_000), Comparison::Equal);
        assert_eq!(compared.find_comparison(20, 0), Comparison::Different);
        assert_eq!((compared.find_slot(19), compared.find_slot(50)), (None, Some(5)));
        // The ingester reads the generation again.
        compared.start_after_record(3, 10);
        compared.note_snapshot(2, 100);
        assert_eq!(compared.find_comparison(20, 0), Comparison::Different);
        compared.note_snapshot(3, 30);
        assert_eq!(compared.find_comparison(39, 10_000), Comparison::Equal);
        assert_eq!(compared.find_comparison(40, 0), Comparison::Different);
        assert_eq!(compared.find_slot(50), Some(6));
        compared.note_snapshot(3, 50);
        // An own block that is late.
        compared.note_comparison(45, 7, false);
        assert_eq!(compared.find_comparison(u64::MAX, 10_000), Comparison::Equal);
        compared.note_comparison(60, 8, false);
        compared.start_after_record(4, 10);
        assert_eq!(compared.find_comparison(u64::MAX, 10_000), Comparison::Equal);
    }

    #[test]
    fn blocks_are_equal_only_if_all_that_a_replica_may_refuse_were_compared() {
        let mut compared = ComparedBlocks::default();
        compared.start_after_record(0, 1_000);
        assert_eq!(compared.find_comparison(50, 1_000 + QUEUED_RECORDS_MAX), Comparison::Unknown);
        assert_eq!(compared.find_comparison(50, 1_001 + QUEUED_RECORDS_MAX), Comparison::Equal);
        compared.note_block(50, 3_000);
        assert_eq!(compared.find_comparison(49, 5_000), Comparison::Equal);
        assert_eq!(compared.find_comparison(50, 5_000), Comparison::Unknown);
        compared.note_comparison(50, 9, true);
        assert_eq!(compared.find_comparison(50, 5_000), Comparison::Equal);
        for block in 0..=BLOCKS_MAX as u64 {
            compared.note_block(100 + block, 4_000 + block);
        }
        assert!(compared.uncompared.len() <= BLOCKS_MAX);
        assert_eq!(compared.find_comparison(99, 5_000), Comparison::Unknown);
    }

    #[test]
    fn differences_of_every_block_have_a_bound_and_the_oldest_stays() {
        let mut compared = ComparedBlocks::default();
        compared.start_after_record(0, 0);
        (1..=2 * BLOCKS_MAX as u64).for_each(|at| compared.note_comparison(at, at, false));
        assert_eq!(compared.different.len(), BLOCKS_MAX);
        assert_eq!(compared.find_comparison(1, u64::MAX), Comparison::Different);
        assert_eq!(compared.find_comparison(u64::MAX, u64::MAX), Comparison::Different);
    }
}
