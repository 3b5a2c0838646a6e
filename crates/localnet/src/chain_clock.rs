//! The ledger's time: the time of blocks and of the Clock sysvar.
//!
//! In: the system's clock, which may jump, and a monotonic clock. Out: seconds since 1970, which never go back.
//! The ledger follows the system's clock. While it is ahead, because the system's clock was set back, it advances by
//! three quarters of the time that passes, so that it neither stands still nor stays ahead. Agave bounds the time of
//! its blocks by the same quarter against the time of its slots (`MAX_ALLOWABLE_DRIFT_PERCENTAGE_FAST`).
//! A jump adds an offset to the system's clock, and a pause subtracts its duration. A snapshot stores [`ClockState`]:
//! only the way back to it, or to the start, sets the time back.
//! Not here: reading clocks (`executor`).

use std::time::{Duration, Instant};

/// A ledger that is ahead advances by a quarter less than the time that passes.
const SLOWDOWN_DIVISOR: i64 = 4;
/// A ledger that is this far ahead logs a warning. Less is caused by rounding and clock adjustment.
const AHEAD_WARN_THRESHOLD: Duration = Duration::from_secs(2);

/// The changes that commands have made to the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockState {
    /// Milliseconds that jumps and pauses add to the system's clock.
    offset_ms: i64,
    /// The system's clock when the ledger's was paused.
    paused_at_ms: Option<i64>,
}

/// The time of the newest block.
#[derive(Clone)]
pub(crate) struct ChainClock {
    /// Milliseconds since 1970.
    unix_ms: i64,
    /// The instant of that time.
    since: Instant,
    /// Whether the warning was logged.
    is_warned: bool,
    state: ClockState,
    /// Its state and its time at the start of the node.
    start: (ClockState, i64),
}

impl ChainClock {
    /// Creates the clock of a ledger whose newest block has the time `unix_timestamp`, in seconds, read at `now`. It is
    /// ahead of the system's clock by `offset_ms`.
    pub(crate) fn with_offset(unix_timestamp: i64, offset_ms: i64, now: Instant) -> Self {
        let state = ClockState { offset_ms, ..ClockState::default() };
        let unix_ms = unix_timestamp.saturating_mul(1_000);
        Self { unix_ms, since: now, is_warned: false, state, start: (state, unix_ms) }
    }

    /// Returns the changes that commands have made.
    pub(crate) fn state(&self) -> ClockState {
        self.state
    }

    /// Goes back to an earlier state, above a block of the time `unix_timestamp`.
    pub(crate) fn restore(&mut self, state: ClockState, unix_timestamp: i64, now: Instant) {
        self.state = state;
        (self.unix_ms, self.since) = (unix_timestamp.saturating_mul(1_000), now);
    }

    /// Goes back to the start of the node. False if no command has changed the clock.
    pub(crate) fn reset(&mut self, now: Instant) -> bool {
        let (state, unix_ms) = self.start;
        if self.state == state {
            return false;
        }
        self.state = state;
        (self.unix_ms, self.since) = (unix_ms, now);
        true
    }

    /// The result of [`Self::advance`], which changes nothing.
    pub(crate) fn next_timestamp(&self, system_unix_ms: i64, now: Instant) -> i64 {
        let mut clock = Self { is_warned: true, ..self.clone() };
        clock.advance(system_unix_ms, now)
    }

    /// Milliseconds since 1970, of a block that would be made now.
    pub(crate) fn current(&self, system_unix_ms: i64) -> i64 {
        let system_unix_ms = self.state.paused_at_ms.unwrap_or(system_unix_ms);
        system_unix_ms.saturating_add(self.state.offset_ms).max(self.unix_ms)
    }

    /// Whether the time stands still.
    pub(crate) fn is_paused(&self) -> bool {
        self.state.paused_at_ms.is_some()
    }

    /// Stops the time. Nothing changes if it stands still.
    pub(crate) fn pause(&mut self, system_unix_ms: i64) {
        self.state.paused_at_ms.get_or_insert(system_unix_ms);
    }

    /// Continues from the time at which it was stopped.
    pub(crate) fn resume(&mut self, system_unix_ms: i64, now: Instant) {
        let Some(paused_at_ms) = self.state.paused_at_ms.take() else { return };
        let paused_ms = system_unix_ms.saturating_sub(paused_at_ms);
        self.state.offset_ms = self.state.offset_ms.saturating_sub(paused_ms);
        self.since = now;
    }

    /// Sets the time to a later one, from which it advances.
    pub(crate) fn jump_to(&mut self, unix_ms: i64, system_unix_ms: i64, now: Instant) {
        let system_unix_ms = self.state.paused_at_ms.unwrap_or(system_unix_ms);
        self.state.offset_ms = unix_ms.saturating_sub(system_unix_ms);
        (self.unix_ms, self.since) = (unix_ms, now);
    }

    /// By how much the ledger is ahead of the system's clock. `None` below [`AHEAD_WARN_THRESHOLD`].
    pub(crate) fn ahead(&self, system_unix_ms: i64) -> Option<Duration> {
        let ahead =
            self.unix_ms.saturating_sub(system_unix_ms.saturating_add(self.state.offset_ms));
        let ahead = Duration::from_millis(u64::try_from(ahead).unwrap_or_default());
        (ahead >= AHEAD_WARN_THRESHOLD).then_some(ahead)
    }

    /// Seconds since 1970 for a block that is made at `now`, when the system's clock is at `system_unix_ms`.
    pub(crate) fn advance(&mut self, system_unix_ms: i64, now: Instant) -> i64 {
        if self.is_paused() {
            return self.unix_ms.div_euclid(1_000);
        }
        match self.ahead(system_unix_ms) {
            Some(ahead) if !self.is_warned => {
                self.is_warned = true;
                tracing::warn!(
                    ahead_s = ahead.as_secs(),
                    "the system's clock is behind the ledger's time, which advances at three quarters of its speed \
                     until the clock has caught up"
                );
            }
            None => self.is_warned = false,
            Some(_) => {}
        }
        let shifted_unix_ms = system_unix_ms.saturating_add(self.state.offset_ms);
        if shifted_unix_ms >= self.unix_ms {
            (self.unix_ms, self.since) = (shifted_unix_ms, now);
        } else {
            let passed = now.saturating_duration_since(self.since).as_millis();
            let passed = i64::try_from(passed).unwrap_or(i64::MAX);
            // The remainder of a step is part of the next one.
            let steps = passed / SLOWDOWN_DIVISOR;
            self.unix_ms = self.unix_ms.saturating_add(steps.saturating_mul(SLOWDOWN_DIVISOR - 1));
            self.since += Duration::from_millis((steps * SLOWDOWN_DIVISOR) as u64);
        }
        self.unix_ms.div_euclid(1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ledger and the machine that it runs on.
    struct World {
        clock: ChainClock,
        started_at: Instant,
        passed_ms: u64,
        /// By how much the system's clock is wrong.
        error_ms: i64,
    }

    const T0: i64 = 1_700_000_000_000;

    impl World {
        #[expect(clippy::disallowed_methods, reason = "the test's start time")]
        fn new() -> Self {
            let started_at = Instant::now();
            Self {
                clock: ChainClock::with_offset(T0 / 1_000, 0, started_at),
                started_at,
                passed_ms: 0,
                error_ms: 0,
            }
        }

        fn system_ms(&self) -> i64 {
            T0 + self.passed_ms as i64 + self.error_ms
        }

        /// Makes blocks for `ms`. Returns the seconds by which the ledger advanced.
        fn run(&mut self, ms: u64, slot_ms: u64) -> i64 {
            let before = self.clock.unix_ms.div_euclid(1_000);
            let mut last = before;
            for _ in 0..ms / slot_ms {
                self.passed_ms += slot_ms;
                let now = self.started_at + Duration::from_millis(self.passed_ms);
                let time = self.clock.advance(self.system_ms(), now);
                assert!(time >= last, "the ledger's time went back");
                last = time;
            }
            last - before
        }

        fn ahead_s(&self) -> Option<u64> {
            self.clock.ahead(self.system_ms()).map(|ahead| ahead.as_secs())
        }
    }

    #[test]
    fn a_ledger_follows_the_systems_clock_forward() {
        let mut world = World::new();
        assert_eq!(world.run(10_000, 400), 10);
        world.error_ms = 3_600_000;
        assert_eq!(world.run(10_000, 400), 3_610);
        assert_eq!(world.ahead_s(), None);
    }

    #[test]
    fn a_clock_that_was_set_back_slows_the_ledger_until_it_has_caught_up() {
        let mut world = World::new();
        world.error_ms = 3_600_000;
        world.run(10_000, 400);
        world.error_ms = 0;
        assert_eq!(world.run(400_000, 400), 300);
        assert_eq!(world.ahead_s(), Some(3_600 - 100));
        // Steps that are not divisible by four, and steps of a millisecond.
        assert!((299..=300).contains(&world.run(399_999, 37)));
        assert!((29..=30).contains(&world.run(40_000, 1)));
        world.run(14_000_000, 400);
        assert_eq!(world.ahead_s(), None);
        assert_eq!(world.run(100_000, 400), 100);
        assert_eq!(world.clock.unix_ms, world.system_ms());
    }

    #[test]
    fn a_jump_is_not_caught_up_with_and_a_pause_is_not_made_up_for() {
        let mut world = World::new();
        world.run(10_000, 400);
        let now = world.started_at + Duration::from_millis(world.passed_ms);
        let later = world.system_ms() + 86_400_000;
        world.clock.jump_to(later, world.system_ms(), now);
        assert_eq!(world.ahead_s(), None);
        assert_eq!(world.run(100_000, 400), 100);
        world.clock.pause(world.system_ms());
        assert_eq!(world.run(50_000, 400), 0);
        // A second pause changes nothing.
        world.clock.pause(world.system_ms());
        let now = world.started_at + Duration::from_millis(world.passed_ms);
        world.clock.resume(world.system_ms(), now);
        assert_eq!(world.run(100_000, 400), 100);
        assert_eq!(world.clock.unix_ms, later + 200_000);
        // A jump during a pause.
        world.clock.pause(world.system_ms());
        let now = world.started_at + Duration::from_millis(world.passed_ms);
        world.clock.jump_to(later + 1_000_000, world.system_ms(), now);
        assert_eq!(world.run(50_000, 400), 0);
        let now = world.started_at + Duration::from_millis(world.passed_ms);
        world.clock.resume(world.system_ms(), now);
        assert_eq!(world.run(100_000, 400), 100);
        assert_eq!(world.clock.unix_ms, later + 1_100_000);
        assert_eq!(world.ahead_s(), None);
    }

    #[test]
    fn a_restored_clock_forgets_jumps_and_pauses() {
        let mut world = World::new();
        world.run(10_000, 400);
        let now = world.started_at + Duration::from_millis(world.passed_ms);
        let state = world.clock.state();
        let before = world.clock.unix_ms / 1_000;
        let later = world.system_ms() + 86_400_000;
        world.clock.jump_to(later, world.system_ms(), now);
        world.clock.pause(world.system_ms());
        world.clock.restore(state, before, now);
        assert_eq!(world.clock.next_timestamp(world.system_ms(), now), before);
        assert_eq!((world.run(10_000, 400), world.ahead_s()), (10, None));
        assert!(!world.clock.reset(now), "nothing to reset");
        world.clock.jump_to(later, world.system_ms(), now);
        assert!(world.clock.reset(now));
        assert_eq!(world.clock.advance(world.system_ms(), now), world.system_ms() / 1_000);
    }

    #[test]
    fn a_clock_with_an_offset_starts_at_its_time() {
        let now = World::new().started_at;
        let offset_ms = -400 * 86_400_000;
        let mut clock = ChainClock::with_offset((T0 + offset_ms) / 1_000, offset_ms, now);
        assert_eq!(clock.advance(T0 + 5_000, now), (T0 + offset_ms) / 1_000 + 5);
        assert_eq!(clock.ahead(T0 + 5_000), None);
    }

    #[test]
    fn a_clock_before_1970_moves_a_new_ledger_and_an_old_one() {
        let mut world = World::new();
        world.error_ms = -T0 - 1_000_000;
        assert_eq!(world.run(100_000, 400), 75);
        let now = world.started_at;
        let mut new = ChainClock::with_offset(-500, 0, now);
        assert_eq!(new.advance(-499_001, now), -500);
        assert_eq!(new.advance(-498_000, now), -498);
        assert_eq!(
            ChainClock::with_offset(i64::MAX, 0, now).advance(0, now),
            i64::MAX.div_euclid(1_000)
        );
    }
}
