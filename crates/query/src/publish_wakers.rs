//! The tasks that wait for the next publish of a ledger.
//!
//! In: a waker of each such task. Out: the publish wakes it, once. A task that waits longer registers again.
//! Cost for the writer while no task waits: it reads one counter. Otherwise it wakes each task, so a server registers
//! one task, which finds the requests that the publish concerns.
//! Bounds: one waker for each task that registers.
//! Invariant: a task that registers and then reads the published state misses nothing: it is woken for every publish
//! that it does not see yet.

use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::task::Waker;

use parking_lot::Mutex;

/// The wakers of the tasks that wait for a publish.
#[derive(Default)]
pub struct PublishWakers {
    /// The number of `wakers`, which the writer reads without the lock.
    len: AtomicUsize,
    wakers: Mutex<Vec<Waker>>,
}

impl PublishWakers {
    /// Wakes a task at the next publish. Read the published state after this call.
    pub fn register(&self, waker: &Waker) {
        let mut wakers = self.wakers.lock();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        self.len.store(wakers.len(), Ordering::SeqCst);
        drop(wakers);
        // The task stores the number and then reads the state; the writer stores the state and then reads the number:
        // one of the two sees the other.
        fence(Ordering::SeqCst);
    }

    /// Wakes every task, after the publish.
    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        if self.len.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut wakers = self.wakers.lock();
        let registered = std::mem::take(&mut *wakers);
        self.len.store(0, Ordering::SeqCst);
        drop(wakers);
        registered.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct WakeCount(AtomicUsize);

    impl Wake for WakeCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_is_woken_once_for_each_registration() {
        let wakers = PublishWakers::default();
        let count = Arc::<WakeCount>::default();
        let waker = Waker::from(Arc::clone(&count));
        wakers.wake_all();
        wakers.register(&waker);
        wakers.register(&waker);
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        wakers.wake_all();
        wakers.wake_all();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        wakers.register(&waker);
        wakers.wake_all();
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
    }
}
