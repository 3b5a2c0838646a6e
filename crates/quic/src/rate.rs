//! Token buckets: one, and a bounded table of them by address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;

/// So many a second, and a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    pub(crate) burst: f64,
}

/// How much of a rate is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    pub(crate) fn full(rate: Rate, now: Instant) -> Self {
        Self { tokens: rate.burst, filled: now }
    }

    /// Takes one, if there is one.
    pub(crate) fn take(&mut self, rate: Rate, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + passed * rate.per_second).min(rate.burst);
        self.filled = now;
        let is_there = self.tokens >= 1.0;
        if is_there {
            self.tokens -= 1.0;
        }
        is_there
    }
}

/// A bucket for each address.
///
/// Bounds: `len_max` addresses, about 64 bytes each. When full, those whose bucket has filled up again
/// are forgotten; if none has, an address that is not in it is let through, since the common bucket and
/// retry tokens still stand.
pub(crate) struct RateTable {
    buckets: HashMap<IpAddr, Bucket, RandomState>,
    rate: Rate,
    len_max: usize,
}

impl RateTable {
    pub(crate) fn new(rate: Rate, len_max: usize) -> Self {
        Self { buckets: HashMap::default(), rate, len_max }
    }

    /// Whether one more from `address` is within the rate.
    pub(crate) fn take(&mut self, address: IpAddr, now: Instant) -> bool {
        if self.buckets.len() >= self.len_max && !self.buckets.contains_key(&address) {
            return true;
        }
        let rate = self.rate;
        self.buckets.entry(address).or_insert_with(|| Bucket::full(rate, now)).take(rate, now)
    }

    /// Forgets addresses whose bucket is full again.
    pub(crate) fn forget(&mut self, now: Instant) {
        let full_after = Duration::from_secs_f64(self.rate.burst / self.rate.per_second);
        self.buckets.retain(|_, bucket| now.saturating_duration_since(bucket.filled) < full_after);
        if self.buckets.capacity() > 64 && self.buckets.len() < self.buckets.capacity() / 4 {
            self.buckets.shrink_to(self.buckets.len() * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const RATE: Rate = Rate { per_second: 10.0, burst: 3.0 };

    #[test]
    fn a_burst_and_then_the_rate() {
        let start = clock::now();
        let mut bucket = Bucket::full(RATE, start);
        let taken = |bucket: &mut Bucket, at| (0..10).filter(|_| bucket.take(RATE, at)).count();
        assert_eq!(taken(&mut bucket, start), 3);
        assert_eq!(taken(&mut bucket, start + Duration::from_millis(200)), 2);
        assert_eq!(taken(&mut bucket, start + Duration::from_secs(60)), 3);
    }

    #[test]
    fn the_table_forgets_who_was_quiet_and_stays_bounded() {
        let start = clock::now();
        let mut table = RateTable::new(RATE, 100);
        for n in 0..1_000u32 {
            assert!(table.take(IpAddr::from(n.to_be_bytes()), start));
        }
        assert_eq!(table.buckets.len(), 100);
        table.forget(start + Duration::from_secs(1));
        assert_eq!(table.buckets.len(), 0);
    }
}
