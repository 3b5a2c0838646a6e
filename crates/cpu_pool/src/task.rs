//! The interface between the pool and its tasks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A task that is done poll by poll.
pub trait Task: Send {
    /// Runs until it is done, or `slice` is over, or its output is full.
    ///
    /// It should check [`TimeSlice::is_over`] every some tens of microseconds. It must not block.
    fn poll(&mut self, slice: &TimeSlice<'_>) -> TaskPoll;

    /// Called instead of another poll if the task is ended early. Must be cheap and must not panic.
    fn on_end(&mut self, _why: TaskEnd) {}
}

/// The state of a task after a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskPoll {
    /// There is more to do. The task is ready.
    More,
    /// The task is blocked until [`crate::Ticket::wake`] is called. It gets no time slice until then.
    Wait,
    /// The task has finished.
    Done,
}

/// Why a task was ended before it finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// The deadline of its class passed before the task started.
    ExpiredWaiting,
    /// The deadline of its class passed.
    Expired,
    /// The ticket was dropped, so the result is not needed.
    Cancelled,
    /// A poll panicked.
    Panicked,
    /// The pool is shutting down.
    ShutDown,
}

/// The source of time.
pub trait Clock: Send + Sync {
    /// The time since a fixed point. Never goes back. Must be cheap: it is called many times per time slice.
    fn now(&self) -> Duration;
}

/// A clock that stands still: no time slice ends unless it is over at its start.
pub struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

/// A function as a clock.
impl<F: Fn() -> Duration + Send + Sync> Clock for F {
    fn now(&self) -> Duration {
        self()
    }
}

/// The part of a thread's time that one poll may use.
pub struct TimeSlice<'a> {
    pub(crate) clock: &'a dyn Clock,
    pub(crate) ends_at: Duration,
    pub(crate) cancelled: &'a AtomicBool,
}

impl<'a> TimeSlice<'a> {
    /// A time slice until `ends_at` by `clock`, or until `cancelled` is set. For callers that poll a task themselves.
    pub fn ending_at(clock: &'a dyn Clock, ends_at: Duration, cancelled: &'a AtomicBool) -> Self {
        Self { clock, ends_at, cancelled }
    }

    /// Whether the task should yield now.
    pub fn is_over(&self) -> bool {
        self.is_cancelled() || self.clock.now() >= self.ends_at
    }

    /// Whether the result of the task is no longer needed.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}
