//! One client's queue of encoded messages.
//!
//! In: messages from the publisher. Out: the same, to the task that polls the client's stream.
//! Bounds: messages and bytes of the queue, and bytes of all queues ([`QueueBudget`]). A message that the stream took
//! counts until the stream takes the next. An empty queue accepts a message that is larger than its own bound.
//! Invariant: a full queue never waits. It is emptied and closed, and its client gets a status.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::Mutex;
use tonic::Status;

/// Bytes of a message besides its content.
const MESSAGE_BYTES: usize = size_of::<Bytes>() + 32;

/// Bytes of all queues.
#[derive(Debug)]
pub(crate) struct QueueBudget {
    used: AtomicUsize,
    bytes_max: usize,
}

impl QueueBudget {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { used: AtomicUsize::new(0), bytes_max }
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn try_add(&self, bytes: usize) -> bool {
        let add = |used: usize| Some(used + bytes).filter(|sum| *sum <= self.bytes_max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Adds bytes whatever the bound: those of a replay, which have a bound of their own.
    pub(crate) fn add(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Why a message was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The queue is at its own bound, or closed.
    Queue,
    /// All queues together are at their bound.
    Budget,
}

/// The queue of one client.
pub(crate) struct Queue {
    budget: Arc<QueueBudget>,
    messages_max: usize,
    bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    messages: VecDeque<Bytes>,
    bytes: usize,
    /// Bytes of the message that the stream took last.
    taken_bytes: usize,
    closed: Option<Status>,
    waker: Option<Waker>,
}

impl Queue {
    pub(crate) fn new(budget: Arc<QueueBudget>, messages_max: usize, bytes_max: usize) -> Self {
        Self { budget, messages_max, bytes_max, state: Mutex::default() }
    }

    /// Appends a message.
    pub(crate) fn push(&self, message: Bytes) -> Result<(), Full> {
        let bytes = message.len() + MESSAGE_BYTES;
        let mut state = self.state.lock();
        let is_full = state.messages.len() >= self.messages_max
            || bytes > self.budget.bytes_max
            || (state.bytes + bytes > self.bytes_max && !state.messages.is_empty());
        if is_full || state.closed.is_some() {
            return Err(Full::Queue);
        }
        if !self.budget.try_add(bytes) {
            return Err(Full::Budget);
        }
        state.bytes += bytes;
        state.messages.push_back(message);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Empties and closes the queue. False if it was closed already.
    pub(crate) fn close(&self, status: Status) -> bool {
        let mut state = self.state.lock();
        if state.closed.is_some() {
            return false;
        }
        state.closed = Some(status);
        let released = std::mem::take(&mut state.bytes);
        state.messages = VecDeque::new();
        let waker = state.waker.take();
        drop(state);
        self.budget.release(released);
        waker.into_iter().for_each(Waker::wake);
        true
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// The next message, or the status with which the queue was closed.
    pub(crate) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Result<Bytes, Status>> {
        let mut state = self.state.lock();
        let taken = std::mem::take(&mut state.taken_bytes);
        self.budget.release(taken);
        if let Some(status) = &state.closed {
            return Poll::Ready(Err(status.clone()));
        }
        let Some(message) = state.messages.pop_front() else {
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        };
        let bytes = message.len() + MESSAGE_BYTES;
        state.bytes -= bytes;
        state.taken_bytes = bytes;
        Poll::Ready(Ok(message))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        self.budget.release(state.bytes + state.taken_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(budget: &Arc<QueueBudget>) -> Queue {
        Queue::new(Arc::clone(budget), 2, 1_000)
    }

    fn next(queue: &Queue) -> Poll<Result<Bytes, Status>> {
        queue.poll_next(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_full_queue_refuses_and_a_large_message_fits_into_an_empty_one() {
        let budget = Arc::new(QueueBudget::new(10_000));
        let queue = queue(&budget);
        assert_eq!(queue.push(vec![0; 2_000].into()), Ok(()));
        assert_eq!(queue.push(vec![0; 1].into()), Err(Full::Queue));
        assert!(matches!(next(&queue), Poll::Ready(Ok(message)) if message.len() == 2_000));
        assert_eq!(queue.push(vec![0; 1].into()), Ok(()));
        assert_eq!(queue.push(vec![0; 1].into()), Ok(()));
        assert_eq!(queue.push(vec![0; 1].into()), Err(Full::Queue));
    }

    #[test]
    fn bytes_of_all_queues_are_bounded_and_released() {
        let budget = Arc::new(QueueBudget::new(3_000));
        let (one, two) = (queue(&budget), queue(&budget));
        one.push(vec![0; 2_000].into()).expect("space");
        assert_eq!(two.push(vec![0; 2_000].into()), Err(Full::Budget));
        assert!(next(&one).is_ready());
        assert_eq!(two.push(vec![0; 2_000].into()), Err(Full::Budget), "it may not be sent yet");
        assert!(next(&one).is_pending());
        two.push(vec![0; 2_000].into()).expect("space");
        two.close(Status::internal("lagged"));
        assert!(matches!(next(&two), Poll::Ready(Err(_))));
        drop((one, two));
        assert_eq!(budget.used(), 0);
    }
}
