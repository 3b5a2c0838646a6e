//! A result that another thread will send: for callers that must not block.
//!
//! Shape: [`pending`] makes the two halves. [`Pending::poll`] says whether the result has arrived, and wakes the
//! caller's task once it has.
//! Invariant: each caller gets a result, or `None` if the sender was dropped without one.

use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::{Condvar, Mutex};

struct Shared<T> {
    state: Mutex<State<T>>,
    is_done: Condvar,
}

struct State<T> {
    result: Option<T>,
    is_over: bool,
    waker: Option<Waker>,
}

/// The receiving half, for the caller.
pub struct Pending<T>(Arc<Shared<T>>);

/// The sending half, for the thread that computes the result.
pub struct PendingSender<T>(Arc<Shared<T>>);

/// Creates both halves of one result.
pub fn pending<T>() -> (Pending<T>, PendingSender<T>) {
    let state = State { result: None, is_over: false, waker: None };
    let shared = Arc::new(Shared { state: Mutex::new(state), is_done: Condvar::new() });
    (Pending(Arc::clone(&shared)), PendingSender(shared))
}

impl<T> Pending<T> {
    /// Whether [`Self::wait`] returns at once. If not, `waker` is woken once it does.
    pub fn poll(&self, waker: impl FnOnce() -> Waker) -> Poll<()> {
        let mut state = self.0.state.lock();
        if state.is_over {
            return Poll::Ready(());
        }
        state.waker = Some(waker());
        Poll::Pending
    }

    /// Returns the result; `None` if the sender was dropped. Blocks until either happens.
    pub fn wait(self) -> Option<T> {
        let mut state = self.0.state.lock();
        while !state.is_over {
            self.0.is_done.wait(&mut state);
        }
        state.result.take()
    }
}

impl<T> PendingSender<T> {
    /// Whether the caller has dropped its half.
    pub fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Sends the result, and wakes the caller.
    pub fn send(self, result: T) {
        self.0.state.lock().result = Some(result);
    }
}

impl<T> Drop for PendingSender<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_over = true;
        let waker = state.waker.take();
        drop(state);
        self.0.is_done.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_result_wakes_the_task_that_waits_for_it() {
        let (result, sender) = pending();
        let flag = Arc::<Flag>::default();
        assert!(result.poll(|| Waker::from(Arc::clone(&flag))).is_pending());
        assert!(!flag.0.load(Ordering::Relaxed));
        sender.send(7);
        assert!(flag.0.load(Ordering::Relaxed));
        assert!(result.poll(|| unreachable!("it is there")).is_ready());
        assert_eq!(result.wait(), Some(7));
    }

    #[test]
    fn a_dropped_sender_ends_the_wait() {
        let (result, sender) = pending::<u8>();
        drop(sender);
        assert!(result.poll(|| unreachable!("it is over")).is_ready());
        assert_eq!(result.wait(), None);
        let (result, sender) = pending::<u8>();
        assert!(!sender.is_abandoned());
        drop(result);
        assert!(sender.is_abandoned());
    }
}
