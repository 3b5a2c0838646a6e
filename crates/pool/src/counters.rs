//! Counters of the pool.

use std::time::Duration;

use crate::Class;

/// The counters of every class, read at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    classes: [ClassCounters; 3],
}

/// The counters of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Tasks that have not started.
    pub queued: usize,
    /// Tasks that are being polled.
    pub running: usize,
    /// Tasks that have started, running ones included, and have not finished.
    pub active: usize,
    /// Active tasks that are blocked on their client or on another task.
    pub blocked: usize,
    /// Polls.
    pub time_slices: u64,
    /// Tasks that finished.
    pub completed: u64,
    /// Tasks whose ticket was dropped.
    pub cancelled: u64,
    /// Tasks that were refused.
    pub rejected: u64,
    /// Rejected tasks whose client had reached its own limit.
    pub rejected_client: u64,
    /// Rejected tasks whose client had its whole part of the class.
    pub rejected_share: u64,
    /// Tasks that had not finished at their deadline.
    pub expired: u64,
    /// Expired tasks that had not started.
    pub expired_waiting: u64,
    /// Tasks that panicked.
    pub panicked: u64,
    /// Time spent in polls.
    pub busy: Duration,
    /// Time from arrival to the first poll.
    pub queue_wait: Histogram,
}

impl Counters {
    /// The counters of a class.
    pub fn class(&self, class: Class) -> &ClassCounters {
        &self.classes[class.index()]
    }

    pub(crate) fn class_mut(&mut self, class: Class) -> &mut ClassCounters {
        &mut self.classes[class.index()]
    }

    /// The sum of a counter over the classes.
    pub fn sum_over_classes<N: std::iter::Sum>(&self, value: impl Fn(&ClassCounters) -> N) -> N {
        self.classes.iter().map(value).sum()
    }
}

/// A histogram of durations, in powers of two of a microsecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; Self::BUCKETS],
    sum_us: u64,
}

impl Histogram {
    /// Bucket `n` counts durations below 2^n microseconds and not below half of it. The last bucket
    /// counts everything from 17 seconds on.
    pub const BUCKETS: usize = 26;

    /// Records one duration.
    pub fn record(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = (u64::BITS - us.leading_zeros()) as usize;
        self.buckets[bucket.min(Self::BUCKETS - 1)] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// Each bucket: its upper bound in microseconds, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets.iter().enumerate().map(|(n, count)| (1 << n, *count))
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Sum of all durations in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_counts_in_the_bucket_that_is_above_it() {
        let mut histogram = Histogram::default();
        for us in [0, 1, 3, 4, 1_000_000_000] {
            histogram.record(Duration::from_micros(us));
        }
        let counted: Vec<_> = histogram.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(1, 1), (2, 1), (4, 1), (8, 1), (1 << 25, 1)]);
        assert_eq!((histogram.count(), histogram.sum_us()), (5, 1_000_000_008));
    }
}
