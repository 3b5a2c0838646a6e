//! The reports of one generation that were handled, and the snapshots that they require.
//!
//! Invariant: a position is handled once, however often it is reported, and whatever slots the reports state.
//! Bounds: [`HANDLED_MAX`] positions.
//! Not here: the outcome of a report (`reports`).

use std::collections::BTreeSet;

/// Handled positions that are stored, the highest ones. A search passes on fewer reports (`report_search`).
const HANDLED_MAX: usize = 1_024;
/// Scans of a log that has grown, after which it cannot be continued if none found a whole record behind a damage.
const UNREADABLE_SCANS_MAX: u32 = 3;
/// Damages that the leader passes over until a snapshot is behind them. If there are more, the log itself is at fault.
const PASSES_MAX: u32 = 3;

/// The handled reports of a generation.
#[derive(Debug, Default)]
pub(super) struct HandledReports {
    generation: u64,
    handled: BTreeSet<u64>,
    /// Position of the newest known snapshot.
    snapshot: u64,
    /// Readers do not get past this message: they need a snapshot of a block behind it now.
    needed_after: Option<u64>,
    /// Whether the snapshots must be listed before that one is written: another ingester has led since it was needed,
    /// and may have written it.
    needs_snapshot_list: bool,
    /// A replica did not get past this message of an intact log: the next snapshot is due earlier, of a block behind
    /// it.
    awaited_after: Option<u64>,
    /// The last message of the longest log that had no whole record behind a damage.
    unreadable_last: u64,
    unreadable_scans: u32,
    /// Damages that the leader has passed over since the last snapshot behind one.
    passes: u32,
}

impl HandledReports {
    /// Forgets the reports of another generation.
    pub(super) fn start_generation(&mut self, generation: u64) {
        if self.generation != generation {
            *self = Self { generation, ..Self::default() };
        }
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn is_handled(&self, sequence: u64) -> bool {
        self.handled.contains(&sequence)
    }

    pub(super) fn set_handled(&mut self, sequence: u64) {
        self.handled.insert(sequence);
        if self.handled.len() > HANDLED_MAX {
            self.handled.pop_first();
        }
    }

    pub(super) fn needed_after(&self) -> Option<u64> {
        self.needed_after.filter(|_| !self.needs_snapshot_list)
    }

    pub(super) fn awaited_after(&self) -> Option<u64> {
        self.awaited_after
    }

    /// Requires a snapshot of a block behind a message, at once, unless there is one.
    pub(super) fn need_snapshot(&mut self, after: u64) {
        if after >= self.snapshot {
            self.needed_after = self.needed_after.max(Some(after));
        }
    }

    /// Requires that the next snapshot is written earlier, and of a block behind a message, unless there is one.
    pub(super) fn await_snapshot(&mut self, after: u64) {
        if after >= self.snapshot {
            self.awaited_after = self.awaited_after.max(Some(after));
        }
    }

    /// Notes a snapshot of a block whose record ends at this message.
    pub(super) fn note_snapshot(&mut self, position: u64) {
        self.snapshot = self.snapshot.max(position);
        if self.needed_after.is_some_and(|after| after < position) {
            self.needed_after = None;
            self.needs_snapshot_list = false;
            self.passes = 0;
        }
        self.awaited_after = self.awaited_after.filter(|after| *after >= position);
    }

    /// Notes that another ingester leads.
    pub(super) fn note_other_leader(&mut self) {
        self.needs_snapshot_list |= self.needed_after.is_some();
    }

    /// Notes a list of the snapshots, with those of other leaders.
    pub(super) fn note_snapshots_listed(&mut self) {
        self.needs_snapshot_list = false;
    }

    /// Notes a scan that found a whole record behind a damage. A snapshot says nothing about it: the leader writes one
    /// without reading the log.
    pub(super) fn note_whole_record(&mut self) {
        self.unreadable_scans = 0;
    }

    /// Notes a scan that found no whole record between a damage and this message. Returns `true` if several scans had
    /// this result although the log had grown.
    pub(super) fn note_unreadable(&mut self, last: u64) -> bool {
        if last > self.unreadable_last {
            self.unreadable_last = last;
            self.unreadable_scans += 1;
        }
        self.unreadable_scans > UNREADABLE_SCANS_MAX
    }

    /// Notes a damage that the leader found before the end of its log. Returns `false` if there were too many.
    pub(super) fn pass_damage(&mut self, end: u64) -> bool {
        if self.passes >= PASSES_MAX {
            return false;
        }
        self.passes += 1;
        self.need_snapshot(end);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_after_a_known_snapshot_does_not_wait_for_a_list() {
        let mut reports = HandledReports::default();
        reports.need_snapshot(10);
        reports.note_other_leader();
        reports.note_snapshot(10);
        assert_eq!(reports.needed_after(), None);
        // The other leader wrote this one. No list follows before the next damage.
        reports.note_snapshot(11);
        reports.need_snapshot(20);
        assert_eq!(reports.needed_after(), Some(20));
    }
}
