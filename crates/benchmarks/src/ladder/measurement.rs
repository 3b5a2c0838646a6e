//! The size of the measurements, and the context that all parts of the benchmark share.

use std::time::Duration;

use super::fixture::Fixture;
use crate::report::{Progress, Report};
use crate::threshold::Bars;

/// Bytes of the response cache: the default of the binary.
pub(super) const CACHE_BYTES: &str = "268435456";

/// The size of the measurements.
pub(super) struct Size {
    pub(super) is_toy: bool,
    /// Owners of token accounts, and mints.
    pub(super) owners: usize,
    /// Token accounts of each owner and of each mint.
    pub(super) list: usize,
    pub(super) blocks: usize,
    pub(super) block_transactions: usize,
    pub(super) rounds: usize,
    pub(super) warm_up: Duration,
    pub(super) measured: Duration,
    /// Requests that are repeated for the rung `cached`.
    pub(super) cached_requests: usize,
    /// Number of changes that each row is measured after.
    pub(super) changes: usize,
    pub(super) hit_seconds: Duration,
    pub(super) hit_writes_per_second: f64,
    pub(super) submission_time: Duration,
    /// Transactions of the run that predicts the rate.
    pub(super) submission_probe: usize,
    pub(super) wrk_seconds: u64,
    pub(super) mix_requests: f64,
}

pub(super) const FULL: Size = Size {
    is_toy: false,
    owners: 400,
    list: 100,
    blocks: 20,
    block_transactions: 100,
    rounds: 5,
    warm_up: Duration::from_millis(300),
    measured: Duration::from_secs(2),
    cached_requests: 64,
    changes: 300,
    hit_seconds: Duration::from_secs(6),
    hit_writes_per_second: 50.0,
    submission_time: Duration::from_secs(30),
    submission_probe: 4_000,
    wrk_seconds: 3,
    mix_requests: 100_000.0,
};

pub(super) const TOY: Size = Size {
    is_toy: true,
    owners: 8,
    list: 5,
    blocks: 2,
    block_transactions: 5,
    rounds: 1,
    warm_up: Duration::ZERO,
    measured: Duration::from_millis(50),
    cached_requests: 4,
    changes: 2,
    hit_seconds: Duration::from_millis(100),
    hit_writes_per_second: 100.0,
    submission_time: Duration::from_millis(50),
    submission_probe: 50,
    wrk_seconds: 1,
    mix_requests: 100.0,
};

/// Everything that the parts of the benchmark share.
pub(super) struct Measurement<'a> {
    pub(super) size: Size,
    pub(super) report: &'a Report,
    pub(super) fixture: &'a Fixture,
    /// The log that replaces the mix, if the user gives one.
    pub(super) replay: Option<&'a str>,
    pub(super) bars: Bars,
    pub(super) progress: Progress,
}

impl Size {
    /// Time of the three rungs of one row.
    pub(super) fn row_seconds(&self) -> f64 {
        3.0 * self.rounds as f64 * (self.warm_up + self.measured).as_secs_f64()
    }

    /// Approximate time of the changes of one row.
    pub(super) fn change_seconds(&self) -> f64 {
        self.changes as f64 * 0.01
    }

    /// Time of both generators for one request.
    pub(super) fn wrk_round_seconds(&self) -> f64 {
        2.0 * self.wrk_seconds as f64
    }

    /// Approximate time of one round over one interface, at 15,000 requests a second.
    pub(super) fn mix_seconds(&self) -> f64 {
        self.mix_requests / 15_000.0
    }
}
