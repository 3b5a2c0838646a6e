//! The newest slots that sources report, and whether the followed source stalls or lags.
//!
//! In: each source's `GetSlot`, and what the writer has of a stream. Out: whether to leave the stream.
//! Invariant: only whole banks count, so a source that sends anything else is left as if it sent nothing. A source's
//! own reports cannot make it lag, and those of another one cannot make a stream stall that brings banks. So a source
//! that lies about its slot costs one change of streams, and not the chain.
//! Bounds: a slot and a time for each source.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use feed::SourceProgress;
use ledger::Slot;
use parking_lot::Mutex;

/// Slots by which a bank may be ahead of what the other sources report. Less lets a stream stall that is only faster than
/// the requests for their slots; more gives a source that makes up a bank this long before it stalls.
const AHEAD_SLOTS_MAX: u64 = 100;
/// Slots that the other sources may be ahead although nothing is missing: their bank may be open, after skipped slots.
const OPEN_SLOTS_MAX: u64 = 8;
/// Slots from the newest known one to that of an update. A source that names one above has a fault, or lies.
pub(crate) const FAR_SLOTS_MAX: u64 = 10_000;
/// Time in which the slots of a source that stalled do not make other sources lag. Less lets a source that only reports
/// rising slots displace one that serves more often; more leaves a lagging source unnoticed for longer.
const DOUBT: Duration = Duration::from_secs(600);

/// The newest slot that each source reports.
#[derive(Clone)]
pub(crate) struct SourceSlots(Arc<[ReportedSlot]>);

#[derive(Default)]
struct ReportedSlot {
    /// 0 until the source has reported one.
    newest: AtomicU64,
    doubted_until: Mutex<Option<Instant>>,
}

impl SourceSlots {
    pub(crate) fn new(sources: usize) -> Self {
        Self((0..sources).map(|_| ReportedSlot::default()).collect())
    }

    /// Records the newest slot that a source reports.
    pub(crate) fn record(&self, source: usize, slot: Slot) {
        if let Some(reported) = self.0.get(source) {
            reported.newest.store(slot, Ordering::Relaxed);
        }
    }

    /// Ignores the slots of a source for a while, because its stream did not have what it reports.
    pub(crate) fn doubt(&self, source: usize, now: Instant) {
        if let Some(reported) = self.0.get(source) {
            *reported.doubted_until.lock() = Some(now + DOUBT);
        }
    }

    /// Trusts a source again, because its stream brings banks.
    fn trust(&self, source: usize) {
        if let Some(reported) = self.0.get(source) {
            *reported.doubted_until.lock() = None;
        }
    }

    /// Returns the newest slot that a source reported.
    pub(crate) fn newest(&self, source: usize) -> Slot {
        self.0.get(source).map_or(0, |reported| reported.newest.load(Ordering::Relaxed))
    }

    /// Returns the newest slot that a source other than this one reports.
    fn newest_elsewhere(&self, source: usize) -> Slot {
        self.newest_of_others(source, |_| true)
    }

    /// Like [`Self::newest_elsewhere`], without the sources that are doubted.
    fn newest_trusted_elsewhere(&self, source: usize, now: Instant) -> Slot {
        self.newest_of_others(source, |reported| {
            reported.doubted_until.lock().is_none_or(|it| it <= now)
        })
    }

    fn newest_of_others(&self, source: usize, counts: impl Fn(&ReportedSlot) -> bool) -> Slot {
        let others = self.0.iter().enumerate().filter(|(other, _)| *other != source);
        let counted = others.map(|(_, reported)| reported).filter(|reported| counts(reported));
        counted.map(|reported| reported.newest.load(Ordering::Relaxed)).max().unwrap_or_default()
    }
}

/// The reason to leave a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standstill {
    /// It brings no whole bank, although there is a newer slot.
    Stalled,
    /// It is this many slots behind another source, and does not catch up.
    Lagging(u64),
}

/// The state of a stream, as far as the writer has handled it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandledStream {
    pub(crate) session: u64,
    pub(crate) progress: SourceProgress,
    /// Everything that was received before is handled. So a writer that waits does not make the stream stall.
    pub(crate) as_of: Instant,
}

/// The progress of a stream.
pub(crate) struct StreamProgress {
    slots: SourceSlots,
    source: usize,
    timeout: Duration,
    lag_slots_max: u64,
    /// The newest slot of any update. A bank may be open for as long as it likes.
    received: Slot,
    /// The number of whole banks.
    banks: u64,
    /// The newest slot of a whole bank, but not far ahead of what the other sources reported at that time.
    trusted: Slot,
    progressed_at: Instant,
    /// The smallest lag since it is above the limit, and when it was reached.
    lag: u64,
    lag_since: Instant,
}

impl StreamProgress {
    /// Creates the progress of a source's stream that starts after `root`. The slot that the source reported before
    /// is forgotten.
    pub(crate) fn new(
        slots: SourceSlots,
        source: usize,
        timeout: Duration,
        lag_slots_max: u64,
        root: Slot,
        now: Instant,
    ) -> Self {
        slots.record(source, 0);
        Self {
            slots,
            source,
            timeout,
            lag_slots_max,
            received: root,
            banks: 0,
            trusted: root,
            progressed_at: now,
            lag: u64::MAX,
            lag_since: now,
        }
    }

    /// Records the slot of an update.
    pub(crate) fn record(&mut self, slot: Slot) {
        self.received = self.received.max(slot);
    }

    /// Returns the newest slot that the source reports.
    pub(crate) fn newest_at_source(&self) -> Slot {
        self.slots.newest(self.source)
    }

    /// Returns the newest slot that any source reports, or that a whole bank of the stream had.
    pub(crate) fn newest_known(&self) -> Slot {
        let reported = self.newest_at_source().max(self.slots.newest_elsewhere(self.source));
        reported.max(self.trusted)
    }

    /// Returns the reason to leave the stream, if there is one. `is_queue_full` says that it waits for the writer.
    pub(crate) fn standstill(
        &mut self,
        handled: &HandledStream,
        is_queue_full: bool,
    ) -> Option<Standstill> {
        let HandledStream { progress, as_of, .. } = *handled;
        let others = self.slots.newest_elsewhere(self.source);
        if progress.banks > self.banks {
            let bound =
                if others == 0 { Slot::MAX } else { others.saturating_add(AHEAD_SLOTS_MAX) };
            self.banks = progress.banks;
            self.trusted = self.trusted.max(progress.newest.min(bound));
            self.progressed_at = as_of;
            self.slots.trust(self.source);
        }
        let has_newer = self.newest_at_source() > self.received
            || others > self.trusted.saturating_add(OPEN_SLOTS_MAX);
        if has_newer && as_of.saturating_duration_since(self.progressed_at) > self.timeout {
            return Some(Standstill::Stalled);
        }
        let trusted_others = self.slots.newest_trusted_elsewhere(self.source, as_of);
        let lag = trusted_others.saturating_sub(self.trusted);
        if lag <= self.lag_slots_max {
            (self.lag, self.lag_since) = (u64::MAX, as_of);
        } else if lag < self.lag || is_queue_full {
            (self.lag, self.lag_since) = (lag.min(self.lag), as_of);
        } else if as_of.saturating_duration_since(self.lag_since) > self.timeout {
            return Some(Standstill::Lagging(lag));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const TIMEOUT: Duration = Duration::from_secs(10);

    struct World {
        progress: StreamProgress,
        handled: SourceProgress,
        slots: SourceSlots,
        start: Instant,
    }

    impl World {
        /// The followed source, and another one, which report these slots.
        fn new(reported: [Slot; 2]) -> Self {
            let slots = SourceSlots::new(2);
            let start = clock::now();
            let progress = StreamProgress::new(slots.clone(), 0, TIMEOUT, 100, 1_000, start);
            reported.into_iter().enumerate().for_each(|(source, slot)| slots.record(source, slot));
            Self { progress, handled: SourceProgress::default(), slots, start }
        }

        /// A whole bank.
        fn record(&mut self, slot: Slot) {
            self.progress.record(slot);
            self.handled.banks += 1;
            self.handled.newest = self.handled.newest.max(slot);
        }

        fn standstill(&mut self, seconds: u64) -> Option<Standstill> {
            self.standstill_with_queue(seconds, false)
        }

        fn standstill_with_queue(&mut self, seconds: u64, is_full: bool) -> Option<Standstill> {
            let as_of = self.start + Duration::from_secs(seconds);
            let handled = HandledStream { session: 1, progress: self.handled, as_of };
            self.progress.standstill(&handled, is_full)
        }
    }

    #[test]
    fn a_stream_stalls_if_there_is_a_newer_slot_and_an_idle_chain_does_not() {
        let mut world = World::new([1_000, 0]);
        assert_eq!(world.standstill(100), None);
        world.slots.record(0, 1_001);
        assert_eq!(world.standstill(101), Some(Standstill::Stalled));
        world.record(1_001);
        assert_eq!(world.standstill(101), None);
        assert_eq!(world.standstill(200), None);
    }

    #[test]
    fn a_source_that_makes_up_a_far_bank_stalls_when_another_source_goes_on() {
        for far in [1_050, 1_000_000, Slot::MAX] {
            let mut world = World::new([1_000, 1_000]);
            world.record(far);
            assert_eq!(world.standstill(1), None);
            assert_eq!(world.standstill(11), None, "nobody reports that there is a newer bank");
            world.slots.record(1, 1_109);
            assert_eq!(world.standstill(12), Some(Standstill::Stalled), "{far}");
        }
    }

    #[test]
    fn a_source_that_sends_no_whole_bank_stalls_unless_it_is_the_open_one() {
        let mut world = World::new([1_001, 1_001]);
        world.progress.record(1_001);
        assert_eq!(world.standstill(100), None, "the next bank is open");
        world.progress.record(Slot::MAX);
        world.slots.record(0, 1_009);
        world.slots.record(1, 1_009);
        assert_eq!(world.standstill(100), Some(Standstill::Stalled));
    }

    #[test]
    fn a_chain_that_is_idle_after_a_burst_does_not_stall() {
        let mut world = World::new([1_000, 1_000]);
        world.record(1_090);
        assert_eq!(world.standstill(1), None);
        world.slots.record(0, 1_090);
        world.slots.record(1, 1_090);
        assert_eq!(world.standstill(100), None);
    }

    #[test]
    fn a_stream_lags_if_it_does_not_catch_up_with_another_source() {
        let mut world = World::new([1_000, 2_000]);
        for second in 0..30 {
            world.record(1_000 + second);
            assert_eq!(world.standstill(second), None, "it catches up");
        }
        // From now on both make one slot a second.
        for second in 30..=39 {
            world.record(1_000 + second);
            world.slots.record(1, 1_971 + second);
            assert_eq!(world.standstill(second), None);
        }
        world.record(1_040);
        world.slots.record(1, 2_011);
        assert_eq!(world.standstill(40), Some(Standstill::Lagging(971)));
    }

    #[test]
    fn a_source_that_stalled_does_not_make_another_one_lag_until_it_brings_banks() {
        let lag = |world: &mut World, from: u64| {
            (from..from + 30).find_map(|second| {
                world.slots.record(1, 2_000 + 100 * second);
                world.record(1_000 + second);
                world.standstill(second)
            })
        };
        let mut world = World::new([1_000, 2_000]);
        assert!(matches!(lag(&mut world, 0), Some(Standstill::Lagging(_))));
        let mut world = World::new([1_000, 2_000]);
        world.slots.doubt(1, world.start);
        assert_eq!(lag(&mut world, 0), None);
        world.slots.trust(1);
        assert!(matches!(lag(&mut world, 30), Some(Standstill::Lagging(_))));
        let mut world = World::new([1_000, 2_000]);
        world.slots.doubt(1, world.start);
        assert!(matches!(lag(&mut world, 600), Some(Standstill::Lagging(_))), "it is forgotten");
    }

    #[test]
    fn a_slow_writer_and_a_source_that_lies_about_itself_do_not_lag() {
        let mut world = World::new([u64::MAX, 1_010]);
        for second in 0..60 {
            world.record(1_000);
            assert_eq!(world.standstill(second), None, "its own slot does not count");
        }
        world.slots.record(1, 5_000);
        for second in 60..120 {
            world.record(1_000);
            assert_eq!(world.standstill_with_queue(second, true), None, "it waits for the writer");
        }
    }
}
