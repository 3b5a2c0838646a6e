//! What the pool runs, and what it tells it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Work that is done step by step.
pub trait Task: Send {
    /// Works until it is done, or `slice` is over, or there is no room for what it makes.
    ///
    /// It should look at [`TimeSlice::is_over`] every some tens of microseconds. It must not block.
    fn poll(&mut self, slice: &TimeSlice<'_>) -> TaskPoll;

    /// Told instead of another step when there will be none. Must be cheap and not panic.
    fn on_end(&mut self, _why: TaskEnd) {}
}

/// Where a task stands after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskPoll {
    /// There is more to do; it may go on at once.
    More,
    /// It can go on after [`crate::Ticket::wake`], and takes no turns until then.
    Wait,
    /// It is done.
    Done,
}

/// Why a task is not stepped any more though it was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// The deadline of its class was over before it had begun.
    ExpiredWaiting,
    /// The deadline of its class was over.
    Expired,
    /// Its ticket was dropped: nobody waits for what it makes.
    Cancelled,
    /// A step panicked.
    Panicked,
    /// The pool is shutting down.
    ShutDown,
}

/// Where time comes from.
pub trait Clock: Send + Sync {
    /// The time since a fixed moment. Never goes back. Must be cheap: asked many times a slice.
    fn now(&self) -> Duration;
}

/// What one step may use of a thread.
pub struct TimeSlice<'a> {
    pub(crate) clock: &'a dyn Clock,
    pub(crate) ends_at: Duration,
    pub(crate) cancelled: &'a AtomicBool,
}

impl<'a> TimeSlice<'a> {
    /// A slice until `ends_at` by `clock`, or until `cancelled`: for whoever runs a task by himself.
    pub fn ending_at(clock: &'a dyn Clock, ends_at: Duration, cancelled: &'a AtomicBool) -> Self {
        Self { clock, ends_at, cancelled }
    }

    /// Whether others are to have their turn now.
    pub fn is_over(&self) -> bool {
        self.is_cancelled() || self.clock.now() >= self.ends_at
    }

    /// Whether nobody waits any more for what the task makes.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}
