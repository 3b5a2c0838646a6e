//! Wakes many connections from a task of their runtime, instead of from the publisher's thread.
//!
//! In: the wakers of connections, from a publisher whose block matches many of them. Out: each is woken once.
//! A wake-up from outside of a runtime costs a lock on the runtime's queue, often a system call, and a cache miss for
//! the header of a task that has waited for long. So the publisher wakes one task, which wakes the others at the cost
//! of a thread inside the runtime, while other threads run those that are awake.
//! Invariant: a waker is not lost. Those that the task has not woken when it is dropped, with its runtime, are woken
//! then. While there is no task, the publisher wakes the connections itself.
//! Bounds: a waker for each connection that waits; a pulse has no second one before its connection has run.
//! Not here: when a connection is notified (`pulse`), and how many are many (`subscriptions`).

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

/// Connections that are woken in one poll of the task: up to some 100 microseconds. A larger value delays other tasks
/// of its thread.
const POLL_WAKES_MAX: usize = 256;
/// Wakers in the list above which its memory is freed when it is empty.
const WAKERS_RETAINED: usize = 1_024;

/// The owner of the task that wakes connections. Dropping it ends the task.
#[derive(Default)]
pub(crate) struct WakeRelay {
    shared: Arc<RelayQueue>,
}

/// The wakers that the task has not woken yet.
#[derive(Debug, Default)]
pub(crate) struct RelayQueue {
    state: Mutex<State>,
    /// The waker of the task itself.
    task: AtomicWaker,
}

#[derive(Debug, Default)]
struct State {
    wakers: Vec<Waker>,
    /// Whether there is a task.
    is_running: bool,
    is_stopped: bool,
}

/// The task. Dropping it wakes the connections that it has not woken yet.
struct RelayTask {
    shared: Arc<RelayQueue>,
}

impl WakeRelay {
    /// Starts the task in the current runtime, unless it runs in any. Returns the queue to pass wakers to.
    pub(crate) fn start(&self) -> Arc<RelayQueue> {
        let mut state = self.shared.state.lock();
        let must_start = !state.is_running;
        state.is_running = true;
        drop(state);
        if must_start {
            let task = RelayTask { shared: Arc::clone(&self.shared) };
            tokio::spawn(async move { poll_fn(|cx| task.poll_wakes(cx)).await });
        }
        Arc::clone(&self.shared)
    }
}

impl Drop for WakeRelay {
    fn drop(&mut self) {
        self.shared.state.lock().is_stopped = true;
        self.shared.task.wake();
    }
}

impl RelayQueue {
    /// Wakes a connection from the task, or at once if there is no task.
    pub(crate) fn wake(&self, waker: Waker) {
        let mut state = self.state.lock();
        if !state.is_running {
            drop(state);
            waker.wake();
            return;
        }
        state.wakers.push(waker);
        let is_first = state.wakers.len() == 1;
        drop(state);
        if is_first {
            self.task.wake();
        }
    }
}

impl RelayTask {
    /// Wakes connections. Ready when the relay is stopped.
    fn poll_wakes(&self, cx: &Context<'_>) -> Poll<()> {
        self.shared.task.register(cx.waker());
        let mut state = self.shared.state.lock();
        if state.is_stopped {
            return Poll::Ready(());
        }
        let count = state.wakers.len().min(POLL_WAKES_MAX);
        let wakers: Vec<Waker> = state.wakers.drain(..count).collect();
        let has_more = !state.wakers.is_empty();
        if !has_more && state.wakers.capacity() > WAKERS_RETAINED {
            state.wakers = Vec::new();
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        if has_more {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for RelayTask {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.is_running = false;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use tokio::runtime::Builder;

    use super::*;

    /// More than one poll wakes.
    const MANY: usize = 3 * POLL_WAKES_MAX + 7;

    /// Counts the wake-ups of many tasks.
    #[derive(Default)]
    struct WakeCounter(AtomicUsize);

    impl Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl WakeCounter {
        fn count(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn wake_times(queue: &RelayQueue, counter: &Arc<WakeCounter>, times: usize) {
        (0..times).for_each(|_| queue.wake(Waker::from(Arc::clone(counter))));
    }

    #[tokio::test]
    async fn the_task_wakes_all_in_several_polls() {
        let counter = Arc::new(WakeCounter::default());
        let relay = WakeRelay::default();
        let queue = relay.start();
        for round in 1..=3 {
            wake_times(&queue, &counter, MANY);
            assert_eq!(counter.count(), (round - 1) * MANY, "the task has not run");
            while counter.count() < round * MANY {
                tokio::task::yield_now().await;
            }
        }
        assert!(queue.state.lock().wakers.is_empty());
    }

    #[test]
    fn a_runtime_that_ends_loses_no_waker() {
        let counter = Arc::new(WakeCounter::default());
        let relay = WakeRelay::default();
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let queue = runtime.block_on(async { relay.start() });
        wake_times(&queue, &counter, MANY);
        assert_eq!(counter.count(), 0, "no thread runs the runtime");
        drop(runtime);
        assert_eq!(counter.count(), MANY);
        wake_times(&queue, &counter, 1);
        assert_eq!(counter.count(), MANY + 1, "without a task at once");

        let runtime = Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async { relay.start() });
        wake_times(&queue, &counter, 1);
        assert_eq!(counter.count(), MANY + 1, "it waits for the new task");
        drop(runtime);
        assert_eq!(counter.count(), MANY + 2);
    }

    #[tokio::test]
    async fn the_task_ends_with_its_owner() {
        let counter = Arc::new(WakeCounter::default());
        let relay = WakeRelay::default();
        let queue = relay.start();
        wake_times(&queue, &counter, 1);
        drop(relay);
        while queue.state.lock().is_running {
            tokio::task::yield_now().await;
        }
        assert_eq!(counter.count(), 1);
        assert_eq!(Arc::strong_count(&queue), 1);
    }
}
