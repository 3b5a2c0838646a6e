//! Counters of the pool.

use std::time::Duration;

use metrics::{BucketBounds, Histogram};

use crate::Class;

/// The bounds of [`ClassCounters::queue_wait`]: from 1 microsecond to 17 seconds.
const QUEUE_WAIT_BOUNDS: BucketBounds = BucketBounds::powers_of_two(1, 25);

/// The counters of every class, read at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    classes: [ClassCounters; 3],
}

/// The counters of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl Default for ClassCounters {
    fn default() -> Self {
        Self {
            queued: 0,
            running: 0,
            active: 0,
            blocked: 0,
            time_slices: 0,
            completed: 0,
            cancelled: 0,
            rejected: 0,
            rejected_client: 0,
            rejected_share: 0,
            expired: 0,
            expired_waiting: 0,
            panicked: 0,
            busy: Duration::ZERO,
            queue_wait: Histogram::new(QUEUE_WAIT_BOUNDS),
        }
    }
}
