//! The usage of a key since the start: its allowance, counters, and its open sockets and streams.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::allowance::Allowance;
use crate::atomic_bucket::AtomicBucket;

/// The state of a key. It continues when the file is read again.
#[derive(Debug, Default)]
pub(crate) struct KeyState {
    pub(crate) allowance: Allowance,
    pub(crate) usage: Usage,
    /// Refusals, which are delayed past their rate.
    pub(crate) refusals: AtomicBucket,
    pub(crate) sockets: AtomicU32,
    pub(crate) streams: AtomicU32,
    pub(crate) subscriptions: AtomicU32,
}

/// Counters of a key, or of all clients without one.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// Number of admitted calls, by class.
    classes: [AtomicU64; 3],
    /// Admitted requests, over any protocol.
    requests: AtomicU64,
    /// Refused requests: for a limit, or for a method that the tier does not allow.
    refused: AtomicU64,
}

/// A snapshot of the values of [`Usage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsageCounts {
    pub(crate) classes: [u64; 3],
    pub(crate) requests: u64,
    pub(crate) refused: u64,
}

impl Usage {
    pub(crate) fn record(&self, requests: u32, classes: [u32; 3]) {
        for (counter, calls) in self.classes.iter().zip(classes) {
            if calls > 0 {
                counter.fetch_add(calls.into(), Ordering::Relaxed);
            }
        }
        if requests > 0 {
            self.requests.fetch_add(requests.into(), Ordering::Relaxed);
        }
    }

    pub(crate) fn record_refused(&self, requests: u32) {
        self.refused.fetch_add(requests.into(), Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> UsageCounts {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        UsageCounts {
            classes: self.classes.each_ref().map(value),
            requests: value(&self.requests),
            refused: value(&self.refused),
        }
    }
}

impl UsageCounts {
    pub(crate) fn add(&mut self, other: Self) {
        self.classes.iter_mut().zip(other.classes).for_each(|(sum, count)| *sum += count);
        self.requests += other.requests;
        self.refused += other.refused;
    }
}
