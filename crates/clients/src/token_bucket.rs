//! A token bucket, in the form of the generic cell rate algorithm (GCRA).
//!
//! Shape: one number, the time at which the bucket is full again (the algorithm's theoretical arrival time). Tokens are
//! measured by the time in which they are refilled. So the caller passes what it takes as that time (the cost), and
//! the size of the bucket too (the burst). An unused bucket is full: it need not be stored.
//! Not here: a clock, and tables of buckets with their bounds (the callers).

use std::time::Duration;

/// The state of one token bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenBucket {
    full_at: Duration,
}

impl TokenBucket {
    /// Time until it is full: what has been taken and not refilled yet.
    pub fn time_to_full(&self, now: Duration) -> Duration {
        self.full_at.saturating_sub(now)
    }

    /// Whether it is full, as a new one is.
    pub fn is_full(&self, now: Duration) -> bool {
        self.full_at <= now
    }

    /// Takes `cost`, if a bucket of size `burst` has that much.
    ///
    /// Errors: the time until it has that much. Nothing is taken.
    pub fn try_take(
        &mut self,
        cost: Duration,
        burst: Duration,
        now: Duration,
    ) -> Result<(), Duration> {
        let after = self.full_at.max(now) + cost;
        let allowed = now + burst;
        if after > allowed {
            return Err(after - allowed);
        }
        self.full_at = after;
        Ok(())
    }

    /// Takes `cost`, whether or not the bucket has that much.
    pub fn take(&mut self, cost: Duration, now: Duration) {
        self.full_at = self.full_at.max(now) + cost;
    }

    /// Takes `cost`, but at most as much as leaves the bucket full again after `debt_max`.
    pub fn take_up_to(&mut self, cost: Duration, debt_max: Duration, now: Duration) {
        let after = self.full_at.max(now) + cost;
        self.full_at = self.full_at.max(after.min(now + debt_max));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_burst_and_then_the_rate() {
        // Ten tokens per second, three at once.
        let mut bucket = TokenBucket::default();
        let mut taken =
            |at| (0..10).filter(|_| bucket.try_take(ms(100), ms(300), at).is_ok()).count();
        assert_eq!((taken(ms(7)), taken(ms(207)), taken(ms(60_000))), (3, 2, 3));
        assert_eq!(bucket.try_take(ms(100), ms(300), ms(60_000)), Err(ms(100)));
        assert!(!bucket.is_full(ms(60_299)) && bucket.is_full(ms(60_300)));
    }

    #[test]
    fn an_overdrawn_bucket_is_full_later() {
        let mut bucket = TokenBucket::default();
        bucket.take(ms(500), ms(1_000));
        bucket.take(ms(500), ms(1_000));
        assert_eq!(bucket.time_to_full(ms(1_200)), ms(800));
        bucket.take_up_to(ms(500), ms(900), ms(1_200));
        assert_eq!(bucket.time_to_full(ms(1_200)), ms(900));
        bucket.take_up_to(ms(500), ms(100), ms(1_200));
        assert_eq!(bucket.time_to_full(ms(1_200)), ms(900), "it takes nothing back");
    }
}
