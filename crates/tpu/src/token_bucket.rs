//! Token buckets: one, and a bounded table of them by address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;

/// Tokens per second, and the burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateConfig {
    pub(crate) per_second: f64,
    pub(crate) burst: f64,
}

/// The state of one token bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    tokens: f64,
    refilled_at: Instant,
}

impl TokenBucket {
    pub(crate) fn new_full(rate: RateConfig, now: Instant) -> Self {
        Self { tokens: rate.burst, refilled_at: now }
    }

    /// Takes a token. Returns whether there was one.
    pub(crate) fn take_token(&mut self, rate: RateConfig, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.refilled_at).as_secs_f64();
        self.tokens = (self.tokens + passed * rate.per_second).min(rate.burst);
        self.refilled_at = now;
        let is_available = self.tokens >= 1.0;
        if is_available {
            self.tokens -= 1.0;
        }
        is_available
    }
}

/// A bucket for each address.
///
/// Bounds: `len_max` addresses, about 64 bytes each. Addresses whose bucket is full again are
/// removed. While the table is full, a new address is let through: the global bucket and retry
/// tokens still apply.
pub(crate) struct TokenBucketTable {
    buckets: HashMap<IpAddr, TokenBucket, RandomState>,
    rate: RateConfig,
    len_max: usize,
}

impl TokenBucketTable {
    pub(crate) fn new(rate: RateConfig, len_max: usize) -> Self {
        Self { buckets: HashMap::default(), rate, len_max }
    }

    /// Whether one more from `address` is within the rate.
    pub(crate) fn take_token(&mut self, address: IpAddr, now: Instant) -> bool {
        if self.buckets.len() >= self.len_max && !self.buckets.contains_key(&address) {
            return true;
        }
        let rate = self.rate;
        self.buckets
            .entry(address)
            .or_insert_with(|| TokenBucket::new_full(rate, now))
            .take_token(rate, now)
    }

    /// Removes addresses whose bucket is full again.
    pub(crate) fn evict_full(&mut self, now: Instant) {
        let full_after = Duration::from_secs_f64(self.rate.burst / self.rate.per_second);
        self.buckets
            .retain(|_, bucket| now.saturating_duration_since(bucket.refilled_at) < full_after);
        if self.buckets.capacity() > 64 && self.buckets.len() < self.buckets.capacity() / 4 {
            self.buckets.shrink_to(self.buckets.len() * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const RATE: RateConfig = RateConfig { per_second: 10.0, burst: 3.0 };

    #[test]
    fn a_burst_and_then_the_rate() {
        let start = clock::now();
        let mut bucket = TokenBucket::new_full(RATE, start);
        let taken =
            |bucket: &mut TokenBucket, at| (0..10).filter(|_| bucket.take_token(RATE, at)).count();
        assert_eq!(taken(&mut bucket, start), 3);
        assert_eq!(taken(&mut bucket, start + Duration::from_millis(200)), 2);
        assert_eq!(taken(&mut bucket, start + Duration::from_secs(60)), 3);
    }

    #[test]
    fn the_table_evicts_idle_addresses_and_stays_bounded() {
        let start = clock::now();
        let mut table = TokenBucketTable::new(RATE, 100);
        for n in 0..1_000u32 {
            assert!(table.take_token(IpAddr::from(n.to_be_bytes()), start));
        }
        assert_eq!(table.buckets.len(), 100);
        table.evict_full(start + Duration::from_secs(1));
        assert_eq!(table.buckets.len(), 0);
    }
}
