//! The reads of the log to fill holes of an archive: how often, and for which holes.
//!
//! A generation lists final blocks in order and only ever loses them. So once a read has reached a block after the
//! hole, the hole is not read for again in that generation. If the log or its newest generation ends earlier, or the
//! log cannot be read to its end, it is read up to [`LOG_READS_MAX`] times. An incomplete read ends the pass: it may wait
//! for a minute for each generation that falls silent. A newer generation starts all counts again, because it may repeat older blocks.
//! Not here: the holes, and the blocks of the log (`fill`).

use std::collections::BTreeMap;

use ledger::Slot;

/// Reads of the log for one hole while none reaches a block after the hole.
const LOG_READS_MAX: u32 = 6;

/// The reads of the log to fill holes.
#[derive(Debug, Default)]
pub(super) struct LogReads {
    /// The newest generation that had records when the holes were listed. `None` if the log has none, or does not
    /// respond.
    newest: Option<u64>,
    /// Number of reads by the newest generation and the first open slot.
    counts: BTreeMap<ReadKey, u32>,
    /// Whether no more reads are due before the next pass, because one was incomplete.
    is_paused: bool,
}

/// The reads for one hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ReadKey {
    /// The newest generation of the log.
    generation: u64,
    /// The first open slot.
    first: Slot,
}

/// The end of a read for open slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogReadEnd {
    /// The read passed the slots, or met a block of another chain. Another read gives the same result.
    Settled,
    /// The end of the log, or of its newest generation. Blocks of the slots may follow.
    LogEnd,
    /// The log could not be read to its end.
    Incomplete,
}

impl LogReads {
    /// Starts a pass over the open holes, with a log whose newest generation is this one.
    pub(super) fn start_pass(&mut self, newest: Option<u64>) {
        self.newest = newest;
        self.is_paused = false;
        if let Some(newest) = newest {
            self.counts.retain(|key, _| key.generation == newest);
        }
    }

    /// Whether the log may have the blocks from a slot on, and no read of this pass was incomplete.
    pub(super) fn is_due(&self, first: Slot) -> bool {
        let Some(generation) = self.newest else { return false };
        let count = self.counts.get(&ReadKey { generation, first });
        !self.is_paused && count.is_none_or(|count| *count < LOG_READS_MAX)
    }

    /// Notes a read for the open slots that start at `first`.
    pub(super) fn note_read(&mut self, first: Slot, end: LogReadEnd) {
        let Some(generation) = self.newest else { return };
        let count = self.counts.entry(ReadKey { generation, first }).or_default();
        *count = match end {
            LogReadEnd::Settled => LOG_READS_MAX,
            LogReadEnd::LogEnd | LogReadEnd::Incomplete => *count + 1,
        };
        self.is_paused |= end == LogReadEnd::Incomplete;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_once_for_a_hole_or_a_few_times_if_incomplete() {
        let mut reads = LogReads::default();
        reads.start_pass(Some(1));
        reads.note_read(100, LogReadEnd::Settled);
        assert!(!reads.is_due(100) && reads.is_due(300));
        for _ in 0..LOG_READS_MAX {
            assert!(reads.is_due(300));
            reads.note_read(300, LogReadEnd::Incomplete);
            // The others wait for the next pass.
            assert!(!reads.is_due(300) && !reads.is_due(500));
            reads.start_pass(Some(1));
        }
        assert!(!reads.is_due(300) && reads.is_due(500));
    }

    #[test]
    fn a_log_that_ends_before_a_hole_is_read_a_few_times() {
        let mut reads = LogReads::default();
        reads.start_pass(Some(1));
        for _ in 0..LOG_READS_MAX {
            assert!(reads.is_due(100));
            reads.note_read(100, LogReadEnd::LogEnd);
            assert!(reads.is_due(300));
        }
        assert!(!reads.is_due(100));
    }

    #[test]
    fn a_newer_generation_is_read_for_holes_that_the_one_before_did_not_fill() {
        let mut reads = LogReads::default();
        assert!(!reads.is_due(100));
        reads.start_pass(Some(1));
        reads.note_read(100, LogReadEnd::Settled);
        // The log does not respond.
        reads.start_pass(None);
        assert!(!reads.is_due(100) && !reads.is_due(300));
        reads.start_pass(Some(1));
        assert!(!reads.is_due(100) && reads.is_due(300));
        reads.start_pass(Some(2));
        assert!(reads.is_due(100));
        reads.note_read(100, LogReadEnd::Settled);
        assert!(!reads.is_due(100));
    }
}
