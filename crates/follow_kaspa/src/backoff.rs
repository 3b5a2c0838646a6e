//! The pauses between attempts to use one of several sources, or one of several peers.

use std::time::Duration;

use crate::config::SessionConfig;

/// The pauses between attempts.
pub(crate) struct Backoff {
    sources: u32,
    delay_min: Duration,
    delay_max: Duration,
    /// Attempts without success since the last one with success.
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(sources: usize, config: &SessionConfig) -> Self {
        Self {
            sources: u32::try_from(sources).unwrap_or(u32::MAX).max(1),
            delay_min: config.reconnect_delay_min,
            delay_max: config.reconnect_delay_max,
            failures: 0,
        }
    }

    /// Records that an attempt succeeded. Returns the pause before the next one.
    pub(crate) fn record_success(&mut self) -> Duration {
        self.failures = 0;
        self.delay_min.min(self.delay_max)
    }

    /// Records that an attempt failed. Returns the pause before the next one: zero until all sources have failed.
    pub(crate) fn record_failure(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        if !self.failures.is_multiple_of(self.sources) {
            return Duration::ZERO;
        }
        let rounds = self.failures / self.sources;
        let factor = 1_u32 << rounds.saturating_sub(1).min(16);
        self.delay_min.saturating_mul(factor).min(self.delay_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff(sources: usize) -> Backoff {
        let config = SessionConfig {
            reconnect_delay_min: Duration::from_millis(100),
            reconnect_delay_max: Duration::from_millis(700),
            ..SessionConfig::default()
        };
        Backoff::new(sources, &config)
    }

    fn delays(backoff: &mut Backoff, count: usize) -> Vec<u128> {
        (0..count).map(|_| backoff.record_failure().as_millis()).collect()
    }

    #[test]
    fn the_pause_doubles_up_to_its_limit_after_each_round() {
        assert_eq!(delays(&mut backoff(1), 5), [100, 200, 400, 700, 700]);
        assert_eq!(delays(&mut backoff(2), 6), [0, 100, 0, 200, 0, 400]);
        let mut long = backoff(1);
        assert_eq!(delays(&mut long, 100).last(), Some(&700));
    }

    #[test]
    fn a_success_starts_again_with_the_shortest_pause() {
        let mut backoff = backoff(1);
        delays(&mut backoff, 4);
        assert_eq!(backoff.record_success().as_millis(), 100);
        assert_eq!(delays(&mut backoff, 2), [100, 200]);
    }
}
