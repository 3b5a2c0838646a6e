//! The reads of the log to fill holes of an archive: how often, and for which holes.
//!
//! A generation of the log is read once for the start of a hole if it has later final blocks: it lists final blocks in
//! their order, and only loses them. It is read up to [`LOG_READS_MAX`] times if it ends before, or falls silent. A
//! silent log ends the reads for the other holes of a list: each takes a minute. A newer generation is read again for
//! all holes, because it may repeat the blocks before it.
//! Not here: the holes, and the blocks of the log (`fill`).

use std::collections::BTreeMap;

use ledger::Slot;

/// Number of times that a log is read for one hole, which ends before a block after the hole.
const LOG_READS_MAX: u32 = 6;

/// The reads of the log to fill holes.
#[derive(Debug, Default)]
pub(super) struct LogReads {
    /// The newest generation that had records when the holes were listed. `None` if the log has none, or does not
    /// respond.
    newest: Option<u64>,
    /// Number of reads by the newest generation and the first open slot.
    counts: BTreeMap<ReadKey, u32>,
    /// Whether the log has fallen silent since the holes were listed.
    is_silent: bool,
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
    /// A block after the slots, or a block of another chain.
    LaterBlock,
    /// The end of the log. Blocks of the slots may follow.
    LogEnd,
    /// A log that fell silent before its end.
    Cut,
}

impl LogReads {
    /// Starts to fill the holes of a list, with a log whose newest generation is this one.
    pub(super) fn start(&mut self, newest: Option<u64>) {
        self.newest = newest;
        self.is_silent = false;
        if let Some(newest) = newest {
            self.counts.retain(|key, _| key.generation == newest);
        }
    }

    /// Whether the log may have the blocks from a slot on, and responds.
    pub(super) fn is_due(&self, first: Slot) -> bool {
        let Some(generation) = self.newest else { return false };
        let count = self.counts.get(&ReadKey { generation, first });
        !self.is_silent && count.is_none_or(|count| *count < LOG_READS_MAX)
    }

    /// Notes a read for the open slots that start at `first`.
    pub(super) fn note_read(&mut self, first: Slot, end: LogReadEnd) {
        let Some(generation) = self.newest else { return };
        let count = self.counts.entry(ReadKey { generation, first }).or_default();
        *count = match end {
            LogReadEnd::LaterBlock => LOG_READS_MAX,
            LogReadEnd::LogEnd | LogReadEnd::Cut => *count + 1,
        };
        self.is_silent |= end == LogReadEnd::Cut;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_once_for_a_hole_or_some_times_if_it_falls_silent() {
        let mut reads = LogReads::default();
        reads.start(Some(1));
        reads.note_read(100, LogReadEnd::LaterBlock);
        assert!(!reads.is_due(100) && reads.is_due(300));
        for _ in 0..LOG_READS_MAX {
            assert!(reads.is_due(300));
            reads.note_read(300, LogReadEnd::Cut);
            // The others wait for the next list of holes.
            assert!(!reads.is_due(300) && !reads.is_due(500));
            reads.start(Some(1));
        }
        assert!(!reads.is_due(300) && reads.is_due(500));
    }

    #[test]
    fn a_log_that_ends_before_a_hole_is_read_some_times() {
        let mut reads = LogReads::default();
        reads.start(Some(1));
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
        reads.start(Some(1));
        reads.note_read(100, LogReadEnd::LaterBlock);
        // The log does not respond.
        reads.start(None);
        assert!(!reads.is_due(100) && !reads.is_due(300));
        reads.start(Some(1));
        assert!(!reads.is_due(100) && reads.is_due(300));
        reads.start(Some(2));
        assert!(reads.is_due(100));
        reads.note_read(100, LogReadEnd::LaterBlock);
        assert!(!reads.is_due(100));
    }
}
