//! Notifies the task of a connection: its queue has something, or is closed.
//!
//! Shape: a flag, and the waker of the task. Unlike tokio's `Notify` it has one waiter, so there is no lock and no list
//! that leads into the task's future: the publisher touches one cache line here, and the header of the task.
//! Invariant: a notification is consumed by one wait. It is stored while the task waits for nothing or for something
//! else, and if a wait is dropped before it is over. Several of them are one.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use subscriptions::WakeListener;

/// Wakes one task. The alignment places it in one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Pulse {
    is_notified: AtomicBool,
    waker: AtomicWaker,
}

const _: () = assert!(size_of::<Pulse>() == 64, "a pulse is one cache line");

impl Pulse {
    /// Creates a pulse without a notification.
    pub(crate) fn new() -> Self {
        Self { is_notified: AtomicBool::new(false), waker: AtomicWaker::new() }
    }

    /// Stores a notification, and wakes the task if it waits.
    pub(crate) fn notify(&self) {
        self.is_notified.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Stores a notification without waking the task: for the task itself, which runs, and finds the notification when
    /// it waits next.
    pub(crate) fn notify_self(&self) {
        self.is_notified.store(true, Ordering::Release);
    }

    /// Waits for a notification, and consumes it. Only one task may wait. If it drops this before it is over, a
    /// notification is not lost.
    pub(crate) fn notified(&self) -> impl Future<Output = ()> {
        poll_fn(|cx| self.poll_notified(cx))
    }

    fn poll_notified(&self, cx: &Context<'_>) -> Poll<()> {
        if self.take_notification() {
            return Poll::Ready(());
        }
        self.waker.register(cx.waker());
        // One that came before the waker was registered did not wake the task.
        match self.take_notification() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    fn take_notification(&self) -> bool {
        // The load first: most polls of a connection find nothing, and a swap costs ten times as much.
        self.is_notified.load(Ordering::Acquire) && self.is_notified.swap(false, Ordering::AcqRel)
    }
}

impl WakeListener for Pulse {
    fn wake(&self) {
        self.notify();
    }

    fn is_woken(&self) -> bool {
        self.is_notified.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::{Wake, Waker};
    use std::thread;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// A task that counts how often it was woken.
    #[derive(Default)]
    struct CountedTask(AtomicUsize);

    impl Wake for CountedTask {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl CountedTask {
        fn wakes(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn poll_once(pulse: &Pulse, task: &Arc<CountedTask>) -> Poll<()> {
        let waker = Waker::from(Arc::clone(task));
        pin!(pulse.notified()).poll(&mut Context::from_waker(&waker))
    }

    #[test]
    fn a_notification_is_stored_and_consumed_once() {
        let pulse = Pulse::new();
        let task = Arc::new(CountedTask::default());
        assert_eq!(poll_once(&pulse, &task), Poll::Pending);
        pulse.notify();
        pulse.notify();
        assert!(pulse.is_woken());
        assert_eq!(poll_once(&pulse, &task), Poll::Ready(()));
        assert_eq!(poll_once(&pulse, &task), Poll::Pending);
        assert!(!pulse.is_woken());
    }

    #[test]
    fn a_waiting_task_is_woken() {
        let pulse = Pulse::new();
        let task = Arc::new(CountedTask::default());
        pulse.notify();
        assert_eq!(poll_once(&pulse, &task), Poll::Ready(()));
        assert_eq!(task.wakes(), 0, "it did not wait");
        assert_eq!(poll_once(&pulse, &task), Poll::Pending);
        pulse.notify();
        assert_eq!(task.wakes(), 1);
    }

    #[test]
    fn a_wait_that_is_dropped_loses_no_notification() {
        let pulse = Pulse::new();
        let task = Arc::new(CountedTask::default());
        let waker = Waker::from(Arc::clone(&task));
        let mut wait = Box::pin(pulse.notified());
        assert_eq!(wait.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
        pulse.notify();
        drop(wait);
        assert_eq!(task.wakes(), 1);
        assert_eq!(poll_once(&pulse, &task), Poll::Ready(()));
    }

    #[test]
    fn a_task_that_notifies_itself_is_not_woken() {
        let pulse = Pulse::new();
        let task = Arc::new(CountedTask::default());
        assert_eq!(poll_once(&pulse, &task), Poll::Pending);
        pulse.notify_self();
        assert_eq!(task.wakes(), 0);
        assert_eq!(poll_once(&pulse, &task), Poll::Ready(()));
    }

    #[test]
    fn another_thread_can_notify_after_the_task_notified_itself() {
        let pulse = Pulse::new();
        let task = Arc::new(CountedTask::default());
        assert_eq!(poll_once(&pulse, &task), Poll::Pending);
        pulse.notify_self();
        pulse.notify();
        assert_eq!(task.wakes(), 1);
    }

    #[tokio::test]
    async fn no_notification_of_another_thread_is_lost() {
        const ROUNDS: usize = 10_000;
        let pulse = Arc::new(Pulse::new());
        let sent = Arc::new(AtomicUsize::new(0));
        let seen = Arc::new(AtomicUsize::new(0));
        let notifier = {
            let pulse = Arc::clone(&pulse);
            let sent = Arc::clone(&sent);
            let seen = Arc::clone(&seen);
            thread::spawn(move || {
                for round in 1..=ROUNDS {
                    sent.store(round, Ordering::Release);
                    pulse.notify();
                    // Another one only after this one, which would hide its loss.
                    while seen.load(Ordering::Acquire) < round {
                        thread::yield_now();
                    }
                }
            })
        };
        while seen.load(Ordering::Relaxed) < ROUNDS {
            let wait = timeout(Duration::from_secs(60), pulse.notified());
            wait.await.expect("a notification was lost");
            seen.store(sent.load(Ordering::Acquire), Ordering::Release);
        }
        notifier.join().expect("it sent all");
    }
}
