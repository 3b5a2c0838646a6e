//! The newest slots that sources say, and whether the followed source stalls or lags.
//!
//! In: each source's `GetSlot`, the slots of the updates that a stream sends, the time. Out: whether to leave the
//! stream.
//! Invariant: a source's own reports cannot make it lag, and those of another one cannot make a stream stall that
//! sends updates. So a source that lies about its slot costs one change of streams, and not the chain.
//! Bounds: one number for each source.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ledger::Slot;

/// The newest slot that each source says; 0 until it has said one.
#[derive(Clone)]
pub(crate) struct SourceSlots(Arc<[AtomicU64]>);

impl SourceSlots {
    pub(crate) fn new(sources: usize) -> Self {
        Self((0..sources).map(|_| AtomicU64::new(0)).collect())
    }

    /// Records the newest slot that a source reports.
    pub(crate) fn record(&self, source: usize, slot: Slot) {
        if let Some(newest) = self.0.get(source) {
            newest.store(slot, Ordering::Relaxed);
        }
    }

    /// Returns the newest slot that a source reported.
    pub(crate) fn newest(&self, source: usize) -> Slot {
        self.0.get(source).map_or(0, |newest| newest.load(Ordering::Relaxed))
    }

    /// The newest slot that a source other than this one says.
    fn newest_elsewhere(&self, source: usize) -> Slot {
        let others = (0..self.0.len()).filter(|other| *other != source);
        others.map(|other| self.newest(other)).max().unwrap_or_default()
    }
}

/// The reason to leave a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standstill {
    /// It sends nothing new, although there is a newer slot.
    Stalled,
    /// It is this many slots behind another source, and does not catch up.
    Lagging(u64),
}

/// The progress of a stream.
pub(crate) struct StreamProgress {
    slots: SourceSlots,
    source: usize,
    timeout: Duration,
    lag_slots_max: u64,
    /// The newest slot of the stream's updates.
    received: Slot,
    updated_at: Instant,
    /// The smallest lag since it is above the limit, and when it was reached.
    lag: u64,
    lag_since: Instant,
}

impl StreamProgress {
    /// Creates the progress of a source's stream that starts after `root`.
    pub(crate) fn new(
        slots: SourceSlots,
        source: usize,
        timeout: Duration,
        lag_slots_max: u64,
        root: Slot,
        now: Instant,
    ) -> Self {
        Self {
            slots,
            source,
            timeout,
            lag_slots_max,
            received: root,
            updated_at: now,
            lag: u64::MAX,
            lag_since: now,
        }
    }

    /// Records an update of a slot.
    pub(crate) fn record(&mut self, slot: Slot, now: Instant) {
        self.received = self.received.max(slot);
        self.updated_at = now;
    }

    /// The newest slot that the source says.
    pub(crate) fn newest_at_source(&self) -> Slot {
        self.slots.newest(self.source)
    }

    /// Whether the stream is to be left. `is_queue_full` says that it waits for the writer.
    pub(crate) fn standstill(&mut self, is_queue_full: bool, now: Instant) -> Option<Standstill> {
        let others = self.slots.newest_elsewhere(self.source);
        let newest = others.max(self.slots.newest(self.source));
        if newest > self.received && now.saturating_duration_since(self.updated_at) > self.timeout {
            return Some(Standstill::Stalled);
        }
        let lag = others.saturating_sub(self.received);
        if lag <= self.lag_slots_max {
            (self.lag, self.lag_since) = (u64::MAX, now);
        } else if lag < self.lag || is_queue_full {
            (self.lag, self.lag_since) = (lag.min(self.lag), now);
        } else if now.saturating_duration_since(self.lag_since) > self.timeout {
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
        slots: SourceSlots,
        start: Instant,
    }

    impl World {
        fn new(said: [Slot; 2]) -> Self {
            let slots = SourceSlots::new(2);
            let start = clock::now();
            said.into_iter().enumerate().for_each(|(source, slot)| slots.record(source, slot));
            let progress = StreamProgress::new(slots.clone(), 0, TIMEOUT, 100, 1_000, start);
            Self { progress, slots, start }
        }

        fn record(&mut self, slot: Slot, seconds: u64) {
            self.progress.record(slot, self.start + Duration::from_secs(seconds));
        }

        fn standstill(&mut self, seconds: u64) -> Option<Standstill> {
            self.progress.standstill(false, self.start + Duration::from_secs(seconds))
        }
    }

    #[test]
    fn a_stream_stalls_if_there_is_a_newer_slot_and_an_idle_chain_does_not() {
        let mut world = World::new([1_000, 0]);
        assert_eq!(world.standstill(100), None);
        world.slots.record(0, 1_001);
        assert_eq!(world.standstill(101), Some(Standstill::Stalled));
        world.record(1_001, 101);
        assert_eq!(world.standstill(200), None);
    }

    #[test]
    fn a_stream_lags_if_it_does_not_catch_up_with_another_source() {
        let mut world = World::new([1_000, 2_000]);
        for second in 0..30 {
            world.record(1_000 + second, second);
            assert_eq!(world.standstill(second), None, "it catches up");
        }
        // From now on both make one slot a second.
        for second in 30..=39 {
            world.record(1_000 + second, second);
            world.slots.record(1, 1_971 + second);
            assert_eq!(world.standstill(second), None);
        }
        world.record(1_040, 40);
        world.slots.record(1, 2_011);
        assert_eq!(world.standstill(40), Some(Standstill::Lagging(971)));
    }

    #[test]
    fn a_slow_writer_and_a_source_that_lies_about_itself_do_not_lag() {
        let mut world = World::new([u64::MAX, 1_010]);
        for second in 0..60 {
            world.record(1_000, second);
            assert_eq!(world.standstill(second), None, "its own slot does not count");
        }
        world.slots.record(1, 5_000);
        for second in 60..120 {
            world.record(1_000, second);
            let now = world.start + Duration::from_secs(second);
            assert_eq!(world.progress.standstill(true, now), None, "it waits for the writer");
        }
    }
}
