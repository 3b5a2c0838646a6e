//! Rates of handshakes: a rate, and a bounded table of token buckets by address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use clients::TokenBucket;
use foldhash::quality::RandomState;

/// Handshakes at a steady rate, after a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandshakeRate {
    /// The interval between two handshakes.
    interval: Duration,
    /// The length of a burst, in time.
    burst: Duration,
}

impl HandshakeRate {
    /// Creates the rate of `count` handshakes each `period`. The first `count` may come at once.
    pub(crate) fn new(count: u32, period: Duration) -> Self {
        // `Config::check` refuses 0.
        Self { interval: period / count.max(1), burst: period }
    }

    /// Takes a token. Returns whether there was one.
    pub(crate) fn take_token(self, bucket: &mut TokenBucket, now: Duration) -> bool {
        bucket.try_take(self.interval, self.burst, now).is_ok()
    }
}

/// A bucket for each address.
///
/// Bounds: `len_max` addresses, about 64 bytes each. Addresses with a full bucket are
/// removed. While the table is full, a new address is let through: the global bucket and retry
/// tokens still apply.
pub(crate) struct AddressBuckets {
    buckets: HashMap<IpAddr, TokenBucket, RandomState>,
    rate: HandshakeRate,
    len_max: usize,
}

impl AddressBuckets {
    pub(crate) fn new(rate: HandshakeRate, len_max: usize) -> Self {
        Self { buckets: HashMap::default(), rate, len_max }
    }

    /// Takes a token for one more handshake from `address`. Returns whether it is within the rate.
    pub(crate) fn take_token(&mut self, address: IpAddr, now: Duration) -> bool {
        if self.buckets.len() >= self.len_max && !self.buckets.contains_key(&address) {
            return true;
        }
        self.rate.take_token(self.buckets.entry(address).or_default(), now)
    }

    /// Removes addresses that have a full bucket again.
    pub(crate) fn evict_full(&mut self, now: Duration) {
        self.buckets.retain(|_, bucket| !bucket.is_full(now));
        if self.buckets.capacity() > 64 && self.buckets.len() < self.buckets.capacity() / 4 {
            self.buckets.shrink_to(self.buckets.len() * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_the_rate() {
        let rate = HandshakeRate::new(3, Duration::from_millis(300));
        let mut bucket = TokenBucket::default();
        let mut taken = |at_ms| {
            let at = Duration::from_millis(at_ms);
            (0..10).filter(|_| rate.take_token(&mut bucket, at)).count()
        };
        assert_eq!((taken(0), taken(200), taken(60_000)), (3, 2, 3));
    }

    #[test]
    fn the_table_evicts_idle_addresses_and_stays_bounded() {
        let rate = HandshakeRate::new(3, Duration::from_millis(300));
        let mut table = AddressBuckets::new(rate, 100);
        for n in 0..1_000u32 {
            assert!(table.take_token(IpAddr::from(n.to_be_bytes()), Duration::ZERO));
        }
        assert_eq!(table.buckets.len(), 100);
        table.evict_full(Duration::from_secs(1));
        assert_eq!(table.buckets.len(), 0);
    }
}
