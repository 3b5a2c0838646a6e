//! Health of the ledger: as its feeder reports it, and as it is observed.
//!
//! In: slots at each commitment, several times a second ([`crate::ServerContext::poll_health`]). Out: whether requests
//! should be sent to this node. A ledger that should produce blocks at a fixed rate, but produces or confirms
//! none, is behind by the slots that it missed.
//! Not here: a clock (the time is an argument).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ledger::Slot;
use parking_lot::Mutex;

use crate::error::RpcError;

/// Shortest stall, in slots: a slot may take longer than it should.
const STALL_SLOTS_MIN: u32 = 4;

/// Health of the ledger. Starts as [`Status::Ok`].
#[derive(Debug, Default)]
pub struct Health {
    /// As the feeder reports it.
    reported: AtomicStatus,
    /// As observed.
    observed: AtomicStatus,
    slot_clock: Option<SlotClock>,
    /// The slot clock is stopped on purpose.
    is_paused: AtomicBool,
    /// The node will end, and still serves.
    has_announced_end: AtomicBool,
    /// The state is not served yet.
    withholds_state: AtomicBool,
    /// Reason why the status is unknown, if the feeder reports one.
    reason: Mutex<Option<String>>,
    /// A fault that does not affect the state.
    warning: Mutex<Option<String>>,
    slot_changes: Mutex<Option<[SlotChange; 3]>>,
}

/// Result of a health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The state is up to date.
    Ok,
    /// The state is behind its source.
    Behind {
        /// Slots behind; at least 1.
        slots: u64,
    },
    /// It is not known.
    Unknown,
}

/// Expected rate of blocks.
#[derive(Clone, Copy, Debug)]
struct SlotClock {
    slot: Duration,
    stall: Duration,
}

/// The slot at a commitment, and since when.
#[derive(Clone, Copy, Debug)]
struct SlotChange {
    slot: Slot,
    at: Duration,
}

impl Health {
    /// Health of a ledger that produces a block every `slot`, and is behind when no block is produced, or none
    /// is confirmed, for `stall`. With a slot of 0, blocks are produced only for transactions, and a missing
    /// block says nothing.
    pub fn with_slot_clock(slot: Duration, stall: Duration) -> Self {
        let stall = stall.max(slot * STALL_SLOTS_MIN);
        let slot_clock = (!slot.is_zero()).then_some(SlotClock { slot, stall });
        Self { slot_clock, ..Self::default() }
    }

    /// Sets the status that the feeder reports. The observed status may be worse.
    pub fn set(&self, status: Status) {
        self.reported.set(status);
    }

    /// Sets the reason why the status is unknown, for `/ready`.
    pub fn set_reason(&self, reason: Option<String>) {
        *self.reason.lock() = reason;
    }

    /// Returns the reason why the status is unknown.
    pub fn reason(&self) -> Option<String> {
        self.reason.lock().clone()
    }

    /// Sets a fault that does not affect the state, for `/ready`. It changes no status.
    pub fn set_warning(&self, warning: Option<String>) {
        *self.warning.lock() = warning;
    }

    /// Returns the fault that does not affect the state.
    pub fn warning(&self) -> Option<String> {
        self.warning.lock().clone()
    }

    /// Whether the ledger's clock stands still on purpose. Then a missing block says nothing. When it continues, slots
    /// count from there.
    pub fn set_paused(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
        *self.slot_changes.lock() = None;
        self.observed.set(Status::Ok);
    }

    /// Announces the end of the node: from now on no balancer should send requests here, though they are served.
    pub fn announce_end(&self) {
        self.has_announced_end.store(true, Ordering::Relaxed);
    }

    /// Whether the end of the node was announced. The state may still be up to date.
    pub fn has_announced_end(&self) -> bool {
        self.has_announced_end.load(Ordering::Relaxed)
    }

    /// Sets whether the state is withheld: nothing that reads it is served, because it is not verified yet.
    pub fn withhold_state(&self, is_withheld: bool) {
        self.withholds_state.store(is_withheld, Ordering::Relaxed);
    }

    /// Whether the state is withheld ([`Self::withhold_state`]). Cheap.
    pub fn withholds_state(&self) -> bool {
        self.withholds_state.load(Ordering::Relaxed)
    }

    /// Fails with -32005, as Agave's unhealthy nodes do, if the state is withheld.
    pub fn check_state(&self) -> Result<(), RpcError> {
        if self.withholds_state() { Err(RpcError::unhealthy()) } else { Ok(()) }
    }

    /// The status as of the last observation. Cheap.
    pub fn status(&self) -> Status {
        match self.reported.status() {
            Status::Ok => self.observed.status(),
            reported => reported,
        }
    }

    /// Records the slots at processed, confirmed and finalized as they are at `now`.
    pub(crate) fn observe(&self, now: Duration, slots: [Slot; 3]) {
        let mut changes = self.slot_changes.lock();
        let changes = changes.get_or_insert_with(|| slots.map(|slot| SlotChange { slot, at: now }));
        for (change, slot) in changes.iter_mut().zip(slots) {
            if change.slot != slot {
                *change = SlotChange { slot, at: now };
            }
        }
        let Some(SlotClock { slot, stall }) = self.slot_clock else { return };
        if self.is_paused.load(Ordering::Relaxed) {
            return;
        }
        let [processed, confirmed, _] = *changes;
        let missed = |change: SlotChange| {
            let age = now.saturating_sub(change.at);
            (age >= stall).then(|| (age.as_nanos() / slot.as_nanos()) as u64)
        };
        let unconfirmed = processed.slot.saturating_sub(confirmed.slot);
        let slots = match (missed(processed), missed(confirmed)) {
            (None, None) => return self.observed.set(Status::Ok),
            (processed, confirmed) => processed.max(confirmed.map(|slots| slots.max(unconfirmed))),
        };
        self.observed.set(Status::Behind { slots: slots.unwrap_or_default() });
    }

    /// For how long the slots at processed, confirmed and finalized have not changed; `None` before the first
    /// observation.
    pub fn slot_ages(&self, now: Duration) -> Option<[Duration; 3]> {
        let changes = *self.slot_changes.lock();
        Some(changes?.map(|change| now.saturating_sub(change.at)))
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
    fn a_ledger_that_stops_is_behind_by_the_slots_that_it_missed_until_it_continues() {
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
        // It produced more blocks than the clock expects: those are not confirmed.
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
    fn a_status_that_the_feeder_reports_takes_precedence() {
        let health = Health::with_slot_clock(ms(400), STALL);
        health.set(Status::Behind { slots: 7 });
        health.observe(ms(0), [1, 1, 1]);
        assert_eq!(health.status(), Status::Behind { slots: 7 });
        health.set(Status::Ok);
        assert_eq!(health.status(), Status::Ok);
    }
    #[test]
    fn a_ledger_that_is_paused_is_not_behind() {
        let health = Health::with_slot_clock(ms(400), STALL);
        health.observe(ms(0), [1, 0, 0]);
        health.set_paused(true);
        for now in (0..100_000).step_by(400) {
            health.observe(ms(now), [1, 0, 0]);
            assert_eq!(health.status(), Status::Ok, "{now}");
        }
        health.set_paused(false);
        health.observe(ms(100_000), [1, 0, 0]);
        assert_eq!(health.status(), Status::Ok);
        health.observe(ms(111_000), [1, 0, 0]);
        assert!(matches!(health.status(), Status::Behind { .. }));
    }
}
