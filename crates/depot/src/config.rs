//! Limits of the requests to a store.

use std::time::Duration;

/// Limits of the requests to a store.
#[derive(Clone, Debug)]
pub struct DepotConfig {
    /// Time limit of one attempt, besides the time for its body ([`Self::bytes_per_second_min`]).
    pub request_timeout: Duration,
    /// The slowest transfer that is not cut off. A larger value gives up on a slow store earlier.
    pub bytes_per_second_min: u64,
    /// Retries after the first attempt. Zero reports the first failure.
    pub retries_max: u32,
    /// Wait before the first retry. It doubles with each, and half of it is random.
    pub backoff: Duration,
    /// The longest wait before a retry.
    pub backoff_max: Duration,
    /// Objects that one list may return.
    pub list_max: usize,
}

impl Default for DepotConfig {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(15),
            bytes_per_second_min: 1 << 20,
            retries_max: 6,
            backoff: Duration::from_millis(100),
            backoff_max: Duration::from_secs(5),
            list_max: 1_000_000,
        }
    }
}

impl DepotConfig {
    /// Time limit of an attempt that transfers `bytes`.
    pub(crate) fn timeout(&self, bytes: u64) -> Duration {
        let transfer = Duration::from_secs(bytes / self.bytes_per_second_min.max(1));
        self.request_timeout.saturating_add(transfer)
    }

    /// Returns the wait before a retry, which are counted from 1.
    pub(crate) fn backoff(&self, number: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(number.saturating_sub(1).min(16));
        let longest = self.backoff.saturating_mul(doubled).min(self.backoff_max);
        longest.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}
