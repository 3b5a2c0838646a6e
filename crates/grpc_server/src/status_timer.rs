//! The time in which a client must take what its ended subscriptions still have for it.
//!
//! In: subscriptions that were closed, or ended with bytes that are not written; polls of their connection. Out: the
//! end of the time ([`StatusTimer::wait_until_expired`]), after which the connection is dropped.
//! Invariant: a subscription leaves the timer only if its stream has ended, all its bytes are written, and HTTP/2 was
//! polled after that without a full socket: then its status is written too. That hyper took the status is not enough,
//! because HTTP/2 holds it, and the bytes before it, as long as the client's window is closed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::sending::Sending;

/// The number of a stream among those of its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub u64);

/// The ended subscriptions of one connection with bytes that may not be written.
#[derive(Default)]
pub struct StatusTimer {
    state: Mutex<State>,
    started: Notify,
}

#[derive(Default)]
struct State {
    unwritten: BTreeMap<StreamId, Unwritten>,
    /// Of the task that polls the connection.
    waker: Option<Waker>,
}

struct Unwritten {
    sending: Arc<Sending>,
    progress: Progress,
}

#[derive(PartialEq, Eq)]
enum Progress {
    /// The stream has its status before it.
    Closed,
    Ended,
    /// As [`Progress::Ended`], and the connection is being polled since.
    Polled,
}

impl StatusTimer {
    /// A subscription was closed; its stream continues until its status is sent.
    pub fn start(&self, id: StreamId, sending: &Arc<Sending>) {
        let unwritten = Unwritten { sending: Arc::clone(sending), progress: Progress::Closed };
        self.state.lock().unwritten.insert(id, unwritten);
        self.started.notify_one();
    }

    /// The stream of a subscription has ended.
    pub fn end(&self, id: StreamId, sending: &Arc<Sending>) {
        let mut state = self.state.lock();
        if !state.unwritten.contains_key(&id) && sending.bytes() == 0 {
            return;
        }
        let unwritten = Unwritten { sending: Arc::clone(sending), progress: Progress::Ended };
        state.unwritten.insert(id, unwritten);
        // Wakes the connection, which then removes the subscriptions with written bytes.
        let waker = state.waker.take();
        drop(state);
        self.started.notify_one();
        waker.into_iter().for_each(Waker::wake);
    }

    /// The connection is going to be polled.
    pub(crate) fn before_poll(&self, waker: &Waker) {
        let mut state = self.state.lock();
        if !state.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            state.waker = Some(waker.clone());
        }
        for unwritten in state.unwritten.values_mut() {
            if unwritten.progress == Progress::Ended {
                unwritten.progress = Progress::Polled;
            }
        }
    }

    pub(crate) fn after_poll(&self, is_full: bool) {
        if !is_full {
            let is_unwritten = |_: &StreamId, it: &mut Unwritten| {
                it.progress != Progress::Polled || it.sending.bytes() > 0
            };
            self.state.lock().unwritten.retain(is_unwritten);
        }
    }

    /// Waits until a subscription was in the timer for `timeout`, and less than twice that.
    pub(crate) async fn wait_until_expired(&self, timeout: Duration) {
        loop {
            let before: Vec<_> = self.state.lock().unwritten.keys().copied().collect();
            if before.is_empty() {
                self.started.notified().await;
                continue;
            }
            tokio::time::sleep(timeout).await;
            let state = self.state.lock();
            if before.iter().any(|id| state.unwritten.contains_key(id)) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::QueueBudget;

    fn sending() -> Arc<Sending> {
        Arc::new(Sending::new(Arc::new(QueueBudget::new(1_000))))
    }

    fn poll(timer: &StatusTimer, is_full: bool) {
        timer.before_poll(Waker::noop());
        timer.after_poll(is_full);
    }

    fn is_empty(timer: &StatusTimer) -> bool {
        timer.state.lock().unwritten.is_empty()
    }

    #[test]
    fn a_closed_subscription_leaves_when_its_stream_has_ended_and_its_bytes_are_written() {
        let timer = StatusTimer::default();
        let sending = sending();
        let bytes = sending.try_count(10).expect("space");
        timer.start(StreamId(1), &sending);
        poll(&timer, false);
        timer.end(StreamId(1), &sending);
        poll(&timer, false);
        assert!(!is_empty(&timer), "the client's window holds bytes back");
        drop(bytes);
        poll(&timer, true);
        assert!(!is_empty(&timer), "the status waits for the socket");
        poll(&timer, false);
        assert!(is_empty(&timer));
    }

    #[test]
    fn a_status_that_the_connection_was_not_polled_with_stays() {
        let timer = StatusTimer::default();
        let sending = sending();
        timer.start(StreamId(1), &sending);
        timer.before_poll(Waker::noop());
        timer.end(StreamId(1), &sending);
        timer.after_poll(false);
        assert!(!is_empty(&timer));
        poll(&timer, false);
        assert!(is_empty(&timer));
    }

    #[test]
    fn a_stream_that_ended_by_itself_is_timed_only_with_unwritten_bytes() {
        let timer = StatusTimer::default();
        let sending = sending();
        timer.end(StreamId(1), &sending);
        assert!(is_empty(&timer));
        let bytes = sending.try_count(10).expect("space");
        timer.end(StreamId(1), &sending);
        poll(&timer, false);
        assert!(!is_empty(&timer));
        drop(bytes);
        poll(&timer, false);
        assert!(is_empty(&timer));
    }
}
