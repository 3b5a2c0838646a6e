//! One client's queue of encoded messages.
//!
//! In: messages from the publisher. Out: the same, to the task that polls the client's stream.
//! Bounds: messages and bytes of the queue, and bytes of all queues ([`QueueBudget`]). A message that the stream took
//! counts until its last byte is written ([`Sending`]). An empty queue accepts a message that is larger than its own
//! bound.
//! Invariant: a full queue never waits. It is emptied and closed, and its client gets a status.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use grpc_server::{Count, QueueBudget, Sending};
use parking_lot::Mutex;
use tonic::Status;

/// Bytes of a message besides its content.
const MESSAGE_BYTES: usize = size_of::<Bytes>() + 32;

/// Why a message was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The queue is at its own bound, or closed.
    Queue,
    /// All queues together are at their bound.
    Budget,
}

/// A message that left its queue.
pub(crate) struct Message {
    pub(crate) bytes: Bytes,
    pub(crate) count: Count,
}

pub(crate) struct Queue {
    budget: Arc<QueueBudget>,
    sending: Arc<Sending>,
    messages_max: usize,
    bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    messages: VecDeque<Bytes>,
    bytes: usize,
    closed: Option<Status>,
    waker: Option<Waker>,
}

impl Queue {
    pub(crate) fn new(budget: Arc<QueueBudget>, messages_max: usize, bytes_max: usize) -> Self {
        let sending = Arc::new(Sending::new(Arc::clone(&budget)));
        Self { budget, sending, messages_max, bytes_max, state: Mutex::default() }
    }

    /// The messages that left the queue and are not written.
    pub(crate) fn sending(&self) -> &Arc<Sending> {
        &self.sending
    }

    pub(crate) fn push(&self, message: Bytes) -> Result<(), Full> {
        let bytes = message.len() + MESSAGE_BYTES;
        let mut state = self.state.lock();
        let is_full = state.messages.len() >= self.messages_max
            || bytes > self.budget.bytes_max
            || (state.bytes + self.sending.bytes() + bytes > self.bytes_max
                && !state.messages.is_empty());
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

    /// Bytes that wait in the queue or are not written; 0 if it is closed, because to close it again frees nothing.
    pub(crate) fn bytes(&self) -> usize {
        let state = self.state.lock();
        if state.closed.is_some() { 0 } else { state.bytes + self.sending.bytes() }
    }

    /// The next message, or the status with which the queue was closed.
    pub(crate) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Result<Message, Status>> {
        let mut state = self.state.lock();
        if let Some(status) = &state.closed {
            return Poll::Ready(Err(status.clone()));
        }
        let Some(bytes) = state.messages.pop_front() else {
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        };
        let counted = bytes.len() + MESSAGE_BYTES;
        state.bytes -= counted;
        Poll::Ready(Ok(Message { bytes, count: self.sending.count(counted) }))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.budget.release(self.state.get_mut().bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(budget: &Arc<QueueBudget>) -> Queue {
        Queue::new(Arc::clone(budget), 2, 1_000)
    }

    fn next(queue: &Queue) -> Poll<Result<Message, Status>> {
        queue.poll_next(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_full_queue_refuses_and_a_large_message_fits_into_an_empty_one() {
        let budget = Arc::new(QueueBudget::new(10_000));
        let queue = queue(&budget);
        assert_eq!(queue.push(vec![0; 2_000].into()), Ok(()));
        assert_eq!(queue.push(vec![0; 1].into()), Err(Full::Queue));
        assert!(matches!(next(&queue), Poll::Ready(Ok(message)) if message.bytes.len() == 2_000));
        assert_eq!(queue.push(vec![0; 1].into()), Ok(()));
        assert_eq!(queue.push(vec![0; 1].into()), Ok(()));
        assert_eq!(queue.push(vec![0; 1].into()), Err(Full::Queue));
    }

    #[test]
    fn bytes_of_all_queues_are_bounded_and_released() {
        let budget = Arc::new(QueueBudget::new(3_000));
        let one = queue(&budget);
        let two = queue(&budget);
        one.push(vec![0; 2_000].into()).expect("space");
        assert_eq!(two.push(vec![0; 2_000].into()), Err(Full::Budget));
        let taken = next(&one);
        assert!(taken.is_ready());
        assert_eq!(two.push(vec![0; 2_000].into()), Err(Full::Budget), "it is not written");
        assert!(next(&one).is_pending());
        drop(taken);
        two.push(vec![0; 2_000].into()).expect("space");
        two.close(Status::internal("lagged"));
        assert!(matches!(next(&two), Poll::Ready(Err(_))));
        drop((one, two));
        assert_eq!(budget.used_bytes(), 0);
    }
}
