//! The size of the measurements of `quic`.

use std::time::Duration;

/// The size of the measurements.
pub(crate) struct Size {
    pub(crate) rounds: usize,
    /// Rounds of the rates, each of a sixth of a second for each server and cell.
    pub(crate) rate_rounds: usize,
    /// Seconds of one run.
    pub(crate) seconds: f64,
    /// Rounds with misbehaving clients, each of two runs.
    pub(crate) misbehaving_rounds: usize,
    /// Seconds of one run with misbehaving clients.
    pub(crate) misbehaving_seconds: f64,
    pub(crate) soak: u64,
    pub(crate) many: usize,
    pub(crate) burst: usize,
    pub(crate) lossy: u64,
    pub(crate) transfers: usize,
    pub(crate) settle_time: Duration,
}

pub(crate) const FULL: Size = Size {
    rounds: 5,
    rate_rounds: 7,
    seconds: 0.25,
    misbehaving_rounds: 9,
    misbehaving_seconds: 0.6,
    soak: 10_000_000,
    many: 2_000,
    burst: 2_000,
    lossy: 300_000,
    transfers: 60_000,
    settle_time: Duration::from_secs(10),
};

pub(crate) const TOY: Size = Size {
    rounds: 1,
    rate_rounds: 1,
    seconds: 0.01,
    misbehaving_rounds: 1,
    misbehaving_seconds: 0.05,
    soak: 10_000,
    many: 20,
    burst: 20,
    lossy: 2_000,
    transfers: 200,
    settle_time: Duration::from_millis(300),
};
