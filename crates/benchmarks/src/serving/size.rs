//! The size of the measurements of `load`, and one run of that size.

use std::net::SocketAddr;
use std::time::Duration;

use ::loadgen::{LoadPlan, Run, RunLength, Stream};
use anyhow::Result;
use process_usage::Process;
use testkit::synthetic::ACCOUNTS_MIN;

/// The nice value of threads that read or compute hundreds of megabytes a second. In production the readers are on
/// other machines; here they would take the cores from light reads.
pub(crate) const SCAN_NICE: u8 = 10;

/// A response that takes longer counts as a timeout.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The size of the measurements.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) accounts: u32,
    pub(crate) runs: usize,
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
    /// Duration of a run whose p99 has a bar.
    pub(crate) long: Duration,
    /// Number of those runs: a machine that sometimes delays a thread by 5 ms moves the p99 of 2,500 requests.
    pub(crate) long_runs: usize,
    /// Duration of each round of a suite.
    pub(crate) short: Duration,
    /// Light reads a second during scans.
    pub(crate) light_rate: f64,
    /// Duration of the capacity measurement, before the server is offered twice its capacity.
    pub(crate) capacity: Duration,
    pub(crate) overload: Duration,
    pub(crate) overload_connections: usize,
    /// Number of transactions for the suites that need them.
    pub(crate) transactions: usize,
}

pub(crate) const FULL: Size = Size {
    accounts: 10_000_000,
    runs: 3,
    warm_up: Duration::from_millis(500),
    measured: Duration::from_secs(3),
    long: Duration::from_secs(5),
    long_runs: 5,
    short: Duration::from_secs(1),
    light_rate: 500.0,
    capacity: Duration::from_secs(12),
    overload: Duration::from_secs(60),
    overload_connections: 1_000,
    transactions: 2_000,
};

pub(crate) const QUICK: Size = Size { accounts: 200_000, transactions: 100, ..FULL };

pub(crate) const TOY: Size = Size {
    accounts: ACCOUNTS_MIN,
    runs: 1,
    warm_up: Duration::from_millis(20),
    measured: Duration::from_millis(100),
    long: Duration::from_millis(100),
    long_runs: 1,
    short: Duration::from_millis(50),
    light_rate: 200.0,
    capacity: Duration::from_millis(300),
    overload: Duration::from_millis(300),
    overload_connections: 50,
    transactions: 50,
};

impl Size {
    pub(crate) fn run_length(&self) -> RunLength {
        RunLength::Time { warm_up: self.warm_up, measured: self.measured }
    }

    /// Whether a run is so short that it may have no response on a busy machine.
    pub(crate) fn is_toy(&self) -> bool {
        self.measured < Duration::from_secs(1)
    }

    pub(crate) fn long_run_length(&self) -> RunLength {
        RunLength::Time { warm_up: self.warm_up, measured: self.long }
    }

    pub(crate) fn run_once(
        &self,
        address: SocketAddr,
        streams: Vec<Stream>,
        span: RunLength,
        process: Option<Process>,
    ) -> Result<Run> {
        let endpoint = address.into();
        let timeout = Some(TIMEOUT);
        Ok(LoadPlan { endpoint, streams, run_length: span, timeout, process }.run()?)
    }
}
