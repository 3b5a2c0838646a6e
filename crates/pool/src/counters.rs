//! What the pool has done and is doing.

use std::time::Duration;

use crate::Class;

/// The figures of each class, all of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    classes: [ClassCounters; 3],
}

/// The figures of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Tasks that have not begun.
    pub queued: usize,
    /// Tasks in a step right now.
    pub running: usize,
    /// Tasks that have begun, run ones included, and are not done.
    pub active: usize,
    /// Of those, how many wait for their client to take what they made.
    pub blocked: usize,
    /// Steps run.
    pub time_slices: u64,
    /// Tasks that were done.
    pub completed: u64,
    /// Tasks whose client left.
    pub cancelled: u64,
    /// Tasks that were refused.
    pub rejected: u64,
    /// Of those, how many because their client had as many as it may.
    pub rejected_client: u64,
    /// And how many because others are to find a place as well.
    pub rejected_share: u64,
    /// Tasks that were not done at their deadline.
    pub expired: u64,
    /// Of those, how many had not begun.
    pub expired_waiting: u64,
    /// Tasks that panicked.
    pub panicked: u64,
    /// Time in steps.
    pub busy: Duration,
    /// Time from arrival to the first step.
    pub queue_wait: Histogram,
}

impl Counters {
    /// The figures of a class.
    pub fn class(&self, class: Class) -> &ClassCounters {
        &self.classes[class.index()]
    }

    pub(crate) fn class_mut(&mut self, class: Class) -> &mut ClassCounters {
        &mut self.classes[class.index()]
    }

    /// A figure summed over the classes.
    pub fn sum_over_classes<N: std::iter::Sum>(&self, of: impl Fn(&ClassCounters) -> N) -> N {
        self.classes.iter().map(of).sum()
    }
}

/// How often something took how long, in powers of two of a microsecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; Self::BUCKETS],
    sum_us: u64,
}

impl Histogram {
    /// Bucket `n` counts what took less than 2^n microseconds and not less than half of it; the
    /// last, of 34 seconds and more, everything above.
    pub const BUCKETS: usize = 26;

    /// Counts one.
    pub fn record(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = (u64::BITS - us.leading_zeros()) as usize;
        self.buckets[bucket.min(Self::BUCKETS - 1)] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// Each bucket: below how many microseconds, and how often.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets.iter().enumerate().map(|(n, count)| (1 << n, *count))
    }

    /// How often in all.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// How long in all, in microseconds.
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
