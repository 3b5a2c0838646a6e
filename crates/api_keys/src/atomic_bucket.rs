//! A token bucket that threads share without a lock: the generic cell rate algorithm on one number.
//!
//! Shape: the number is the time at which the bucket is full again, in nanoseconds of the caller's clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A rate and the size of its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Tokens that are added a second.
    pub(crate) per_s: u32,
    /// Number of tokens of a full bucket.
    pub(crate) burst: u32,
}

impl Rate {
    fn cost(self, tokens: u32) -> u64 {
        u64::from(tokens) * 1_000_000_000 / u64::from(self.per_s.max(1))
    }

    fn size(self) -> u64 {
        self.cost(self.burst.max(1))
    }
}

/// The state of a bucket; a new one is full.
#[derive(Debug, Default)]
pub(crate) struct AtomicBucket {
    full_at: AtomicU64,
}

impl AtomicBucket {
    /// Takes tokens. Only a full bucket grants more tokens than it has, because a batch may be longer than the burst.
    ///
    /// Errors: the time until there are as many. Nothing is taken.
    pub(crate) fn try_take(&self, rate: Rate, tokens: u32, now: Duration) -> Result<(), Duration> {
        let cost = rate.cost(tokens);
        let now = nanos(now);
        let allowed = now.saturating_add(rate.size().max(cost));
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let after = full_at.max(now).saturating_add(cost);
            if after > allowed {
                return Err(Duration::from_nanos(after - allowed));
            }
            let changed = self.full_at.compare_exchange_weak(
                full_at,
                after,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match changed {
                Ok(_) => return Ok(()),
                Err(newer) => full_at = newer,
            }
        }
    }

    /// Checks whether [`Self::try_take`] would take tokens now.
    pub(crate) fn check(&self, rate: Rate, tokens: u32, now: Duration) -> Result<(), Duration> {
        let cost = rate.cost(tokens);
        let now = nanos(now);
        let after = self.full_at.load(Ordering::Relaxed).max(now).saturating_add(cost);
        let allowed = now.saturating_add(rate.size().max(cost));
        if after > allowed { Err(Duration::from_nanos(after - allowed)) } else { Ok(()) }
    }

    /// Takes tokens, whether or not it has as many.
    pub(crate) fn take(&self, rate: Rate, tokens: u32, now: Duration) {
        self.take_up_to(rate, tokens, u64::MAX, now);
    }

    /// Takes tokens, up to a debt of a minute.
    pub(crate) fn take_up_to_debt(&self, rate: Rate, tokens: u32, now: Duration) {
        self.take_up_to(rate, tokens, DEBT_MAX_NS, now);
    }

    fn take_up_to(&self, rate: Rate, tokens: u32, debt_max: u64, now: Duration) {
        let cost = rate.cost(tokens);
        let now = nanos(now);
        let debt_max = now.saturating_add(debt_max);
        // The closure always returns a value.
        let _ = self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
            let after = full_at.max(now).saturating_add(cost);
            Some(full_at.max(after.min(debt_max)))
        });
    }

    /// Takes a token, and returns the delay of its use: until the bucket has it, and at most `wait_max`.
    pub(crate) fn take_delayed(&self, rate: Rate, wait_max: Duration, now: Duration) -> Duration {
        let cost = rate.cost(1);
        let now = nanos(now);
        let allowed = now.saturating_add(rate.size());
        let latest = allowed.saturating_add(nanos(wait_max));
        let after = |full_at: u64| full_at.max(now).saturating_add(cost).min(latest);
        let update = |full_at: u64| Some(full_at.max(after(full_at)));
        // The closure always returns a value.
        let before = self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
        let before = before.unwrap_or_else(|before| before);
        Duration::from_nanos(after(before).saturating_sub(allowed))
    }

    /// Returns the tokens that it has, and the time until it is full.
    pub(crate) fn remaining(&self, rate: Rate, now: Duration) -> (u32, Duration) {
        let owed = self.full_at.load(Ordering::Relaxed).saturating_sub(nanos(now));
        let tokens = rate.size().saturating_sub(owed) / rate.cost(1).max(1);
        (u32::try_from(tokens).unwrap_or(u32::MAX), Duration::from_nanos(owed))
    }

    /// Returns whether it is full, as a new one is.
    pub(crate) fn is_full(&self, now: Duration) -> bool {
        self.full_at.load(Ordering::Relaxed) <= nanos(now)
    }
}

/// Maximum debt of calls that are admitted unconditionally.
const DEBT_MAX_NS: u64 = 60 * 1_000_000_000;

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_s: 10, burst: 3 };

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_burst_and_then_the_rate() {
        let bucket = AtomicBucket::default();
        let taken = |at| (0..10).filter(|_| bucket.try_take(RATE, 1, at).is_ok()).count();
        assert_eq!((taken(ms(7)), taken(ms(207)), taken(ms(60_000))), (3, 2, 3));
        assert_eq!(bucket.try_take(RATE, 1, ms(60_000)), Err(ms(100)));
        assert_eq!(bucket.remaining(RATE, ms(60_000)), (0, ms(300)));
        assert_eq!(bucket.remaining(RATE, ms(60_200)), (2, ms(100)));
        assert!(!bucket.is_full(ms(60_299)) && bucket.is_full(ms(60_300)));
    }

    #[test]
    fn a_check_takes_nothing_and_what_is_taken_anyway_is_owed() {
        let bucket = AtomicBucket::default();
        assert_eq!((bucket.check(RATE, 3, ms(0)), bucket.check(RATE, 3, ms(0))), (Ok(()), Ok(())));
        bucket.take(RATE, 5, ms(0));
        assert_eq!(bucket.check(RATE, 1, ms(0)), Err(ms(300)));
        assert_eq!(bucket.try_take(RATE, 1, ms(300)), Ok(()));
    }

    #[test]
    fn more_than_the_burst_is_given_to_a_client_that_owes_nothing() {
        let bucket = AtomicBucket::default();
        assert_eq!(bucket.try_take(RATE, 50, ms(0)), Ok(()));
        assert_eq!(bucket.try_take(RATE, 1, ms(4_700)), Err(ms(100)));
        assert_eq!(bucket.try_take(RATE, 1, ms(4_800)), Ok(()));
    }

    #[test]
    fn unconditional_calls_have_a_bounded_debt() {
        let bucket = AtomicBucket::default();
        (0..100).for_each(|_| bucket.take_up_to_debt(RATE, 1_000, ms(0)));
        assert_eq!(bucket.remaining(RATE, ms(0)), (0, ms(60_000)));
    }

    #[test]
    fn a_delayed_token_waits_for_its_turn_up_to_a_bound() {
        let bucket = AtomicBucket::default();
        let take = |at| bucket.take_delayed(RATE, ms(250), ms(at)).as_millis();
        assert_eq!([0; 7].map(&take), [0, 0, 0, 100, 200, 250, 250]);
        // Tokens that were taken past the bound are not owed.
        assert_eq!([take(250), take(350), take(5_000)], [100, 100, 0]);
    }

    #[test]
    fn threads_together_get_no_more_than_the_burst() {
        let bucket = AtomicBucket::default();
        let rate = Rate { per_s: 1, burst: 1_000 };
        let taken: usize = std::thread::scope(|scope| {
            let take = || (0..1_000).filter(|_| bucket.try_take(rate, 1, ms(0)).is_ok()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().expect("it ends")).sum()
        });
        assert_eq!(taken, 1_000);
    }
}
