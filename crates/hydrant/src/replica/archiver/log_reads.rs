//! The reads of the log to fill holes of an archive: how often, and for which holes.
//!
//! The log is read once for the start of a hole, because it only loses blocks, and up to [`LOG_READS_MAX`] times if it
//! falls silent. That ends the reads for the other holes of a list: each takes a minute, in which no block is archived.
//! Not here: the holes, and the blocks of the log (`fill`).

use std::collections::BTreeMap;

use ledger::Slot;

/// Number of times that a log is read for one hole, which ends before its last message.
const LOG_READS_MAX: u32 = 6;

/// The reads of the log to fill holes.
#[derive(Debug, Default)]
pub(super) struct LogReads {
    /// Number of reads by the first open slot.
    counts: BTreeMap<Slot, u32>,
    /// Whether the log has fallen silent since the holes were listed.
    is_silent: bool,
}

impl LogReads {
    /// Starts to fill the holes of a list.
    pub(super) fn start(&mut self) {
        self.is_silent = false;
    }

    /// Whether the log may have the blocks from a slot on, and responds.
    pub(super) fn is_due(&self, first: Slot) -> bool {
        !self.is_silent && self.counts.get(&first).is_none_or(|count| *count < LOG_READS_MAX)
    }

    /// Notes a read, which ended before the end of the log if `is_cut`.
    pub(super) fn note_read(&mut self, first: Slot, is_cut: bool) {
        let count = self.counts.entry(first).or_default();
        *count = if is_cut { *count + 1 } else { LOG_READS_MAX };
        self.is_silent |= is_cut;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_once_for_a_hole_or_some_times_if_it_falls_silent() {
        let mut reads = LogReads::default();
        reads.note_read(100, false);
        assert!(!reads.is_due(100) && reads.is_due(300));
        for _ in 0..LOG_READS_MAX {
            assert!(reads.is_due(300));
            reads.note_read(300, true);
            // The others wait for the next list of holes.
            assert!(!reads.is_due(300) && !reads.is_due(500));
            reads.start();
        }
        assert!(!reads.is_due(300) && reads.is_due(500));
    }
}
