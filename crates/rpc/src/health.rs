//! How fresh the ledger is: what its feeder says, and what is seen of it by looking.
//!
//! In: slots at each commitment, looked at several times a second ([`crate::Node::poll_health`]). Out: whether
//! requests are to be sent here. A ledger that should make blocks by the clock and makes none, or
//! confirms none, is behind by the slots that it should have made.
//! Not here: a clock (it comes in).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ledger::Slot;
use parking_lot::Mutex;

/// A stall is never shorter than so many slots: one may take longer than it should.
const STALL_SLOTS_MIN: u32 = 4;

/// How the ledger is. Starts as [`Status::Ok`].
#[derive(Debug, Default)]
pub struct Health {
    /// As its feeder says.
    reported: AtomicStatus,
    /// As it looks.
    observed: AtomicStatus,
    slot_clock: Option<SlotClock>,
    slot_changes: Mutex<Option<[SlotChange; 3]>>,
}

/// What a health check is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The state is as fresh as it can be.
    Ok,
    /// The state is so many slots behind its source.
    Behind {
        /// How many; at least 1.
        slots: u64,
    },
    /// Nobody can say.
    Unknown,
}

/// How fast blocks are to come.
#[derive(Clone, Copy, Debug)]
struct SlotClock {
    slot: Duration,
    stall: Duration,
}

/// The slot of a commitment, and since when it is that.
#[derive(Clone, Copy, Debug)]
struct SlotChange {
    slot: Slot,
    at: Duration,
}

impl Health {
    /// Of a ledger that makes a block every `slot` and is behind when no new one comes, or none is
    /// confirmed, for `stall`. With a slot of 0 blocks come when there are transactions, and then
    /// nothing can be seen from their absence.
    pub fn with_slot_clock(slot: Duration, stall: Duration) -> Self {
        let stall = stall.max(slot * STALL_SLOTS_MIN);
        let slot_clock = (!slot.is_zero()).then_some(SlotClock { slot, stall });
        Self { slot_clock, ..Self::default() }
    }

    /// Tells how the ledger is, as its feeder knows it. What is seen may be worse.
    pub fn set(&self, status: Status) {
        self.reported.set(status);
    }

    /// How the ledger is, as of the last look. Cheap.
    pub fn status(&self) -> Status {
        match self.reported.status() {
            Status::Ok => self.observed.status(),
            told => told,
        }
    }

    /// Takes in the slots at processed, confirmed and finalized as they are at `now`.
    pub(crate) fn observe(&self, now: Duration, slots: [Slot; 3]) {
        let mut moved = self.slot_changes.lock();
        let moved = moved.get_or_insert_with(|| slots.map(|slot| SlotChange { slot, at: now }));
        for (moved, slot) in moved.iter_mut().zip(slots) {
            if moved.slot != slot {
                *moved = SlotChange { slot, at: now };
            }
        }
        let Some(SlotClock { slot, stall }) = self.slot_clock else { return };
        let [processed, confirmed, _] = *moved;
        let missed = |moved: SlotChange| {
            let age = now.saturating_sub(moved.at);
            (age >= stall).then(|| (age.as_nanos() / slot.as_nanos()) as u64)
        };
        let unconfirmed = processed.slot.saturating_sub(confirmed.slot);
        let slots = match (missed(processed), missed(confirmed)) {
            (None, None) => return self.observed.set(Status::Ok),
            (made, confirmed) => made.max(confirmed.map(|slots| slots.max(unconfirmed))),
        };
        self.observed.set(Status::Behind { slots: slots.unwrap_or_default() });
    }

    /// For how long the slots at processed, confirmed and finalized have been what they are; unknown
    /// before the first look.
    pub fn slot_ages(&self, now: Duration) -> Option<[Duration; 3]> {
        let moved = *self.slot_changes.lock();
        Some(moved?.map(|moved| now.saturating_sub(moved.at)))
    }
}

/// A status that threads share.
#[derive(Debug, Default)]
struct AtomicStatus(AtomicU64);

impl AtomicStatus {
    fn set(&self, status: Status) {
        let word = match status {
            Status::Ok => 0,
            Status::Behind { slots } => slots.clamp(1, u64::MAX - 1),
            Status::Unknown => u64::MAX,
        };
        self.0.store(word, Ordering::Relaxed);
    }

    fn status(&self) -> Status {
        match self.0.load(Ordering::Relaxed) {
            0 => Status::Ok,
            u64::MAX => Status::Unknown,
            slots => Status::Behind { slots },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_secs(10);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_ledger_that_stops_is_behind_by_the_slots_that_it_missed_until_it_goes_on() {
        let health = Health::with_slot_clock(ms(400), STALL);
        let mut now = 0;
        for slot in 0..100 {
            now = slot * 400;
            health.observe(ms(now), [slot + 1, slot, slot.saturating_sub(31)]);
            assert_eq!(health.status(), Status::Ok, "slot {slot}");
        }
        health.observe(ms(now + 9_999), [100, 99, 68]);
        assert_eq!(health.status(), Status::Ok);
        health.observe(ms(now + 10_000), [100, 99, 68]);
        assert_eq!(health.status(), Status::Behind { slots: 25 });
        health.observe(ms(now + 60_000), [100, 99, 68]);
        assert_eq!(health.status(), Status::Behind { slots: 150 });
        assert_eq!(health.slot_ages(ms(now + 60_000)).map(|ages| ages[0]), Some(ms(60_000)));
        health.observe(ms(now + 60_001), [101, 100, 69]);
        assert_eq!(health.status(), Status::Ok);
    }

    #[test]
    fn a_ledger_that_confirms_nothing_is_behind_though_it_makes_blocks() {
        let health = Health::with_slot_clock(ms(400), STALL);
        for slot in 0..=25 {
            health.observe(ms(slot * 400), [1_000 + slot * 3, 990, 900]);
        }
        // It made more blocks than the clock asks for: those are not confirmed.
        assert_eq!(health.status(), Status::Behind { slots: 85 });
    }

    #[test]
    fn slow_slots_are_no_stall_and_neither_is_a_ledger_without_a_clock() {
        for (slot, stalls_at) in [(60_000, Some(240_000)), (0, None)] {
            let health = Health::with_slot_clock(ms(slot), STALL);
            let statuses = (0..=400_000).step_by(1_000).map(|now| {
                health.observe(ms(now), [7, 6, 5]);
                (now, health.status())
            });
            let first = statuses.into_iter().find(|(_, status)| *status != Status::Ok);
            assert_eq!(first.map(|(now, _)| now), stalls_at);
        }
    }

    #[test]
    fn what_the_feeder_knows_goes_first() {
        let health = Health::with_slot_clock(ms(400), STALL);
        health.set(Status::Behind { slots: 7 });
        health.observe(ms(0), [1, 1, 1]);
        assert_eq!(health.status(), Status::Behind { slots: 7 });
        health.set(Status::Ok);
        assert_eq!(health.status(), Status::Ok);
    }
}
