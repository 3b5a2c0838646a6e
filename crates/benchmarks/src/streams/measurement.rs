//! The size, servers and report that each part of the benchmark gets.

use super::deliveries::Deliveries;
use crate::report::{Progress, Report};

/// Streams that a connection may have open at once.
pub(super) const WINDOW: usize = 512;

/// The servers, ours first.
pub(super) const SERVERS: [&str; 3] = ["ours", "quinn", "quinn-old"];

/// The size of the measurements.
pub(super) struct Size {
    /// Streams into a fresh server.
    pub(super) cold: u64,
    /// Streams into a server under Valgrind.
    pub(super) sites: u64,
    pub(super) connections: [usize; 3],
    pub(super) warm_streams: u64,
    pub(super) warm_rounds: usize,
    /// Seconds of a round of a cell, by the number of connections. With many of them a round starts and ends with some
    /// milliseconds in which not all are busy.
    pub(super) cell_seconds: [f64; 3],
    pub(super) cell_rounds: usize,
    pub(super) stall_seconds: f64,
}

pub(super) const FULL: Size = Size {
    cold: 100_000,
    sites: 20_000,
    connections: [1, 100, 2_000],
    warm_streams: 400_000,
    warm_rounds: 5,
    cell_seconds: [0.4, 0.4, 1.5],
    cell_rounds: 7,
    stall_seconds: 20.0,
};

pub(super) const TOY: Size = Size {
    cold: 1_000,
    sites: 200,
    connections: [1, 4, 20],
    warm_streams: 2_000,
    warm_rounds: 1,
    cell_seconds: [0.01; 3],
    cell_rounds: 1,
    stall_seconds: 0.05,
};

/// The input of every part of the benchmark.
pub(super) struct Measurement<'a> {
    pub(super) size: Size,
    pub(super) report: &'a Report,
    /// The servers that are measured: at toy size those that need no build of their own.
    pub(super) servers: &'a [&'static str],
    pub(super) deliveries: Deliveries,
    pub(super) progress: Progress,
    /// Minutes that the current part takes at most.
    pub(super) part_minutes: f64,
}

impl Measurement<'_> {
    /// The servers that are compared with ours.
    pub(super) fn rivals(&self) -> &[&'static str] {
        &self.servers[1..]
    }

    /// Counts a share of the current part, from 0 to 1, as done, and prints the progress.
    pub(super) fn complete(&mut self, share: f64) {
        self.progress.add(share * self.part_minutes);
    }

    /// Leaves out a share of the current part, which an earlier run has measured.
    pub(super) fn skip(&mut self, share: f64) {
        self.progress.skip(share * self.part_minutes);
    }
}

/// The name of a size of transactions.
pub(super) fn size_name(bytes: usize) -> String {
    if bytes == 0 { "the mix".to_owned() } else { bytes.to_string() }
}
