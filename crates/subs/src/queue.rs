//! One listener's queue: what a slow client may cost us, and when it is let go.
//!
//! In: messages, from the publisher. Out: the same, numbered, in order, to whoever writes them to the
//! client. Bounds: `Limits::queue_messages_max` and `Limits::queue_bytes_max`.
//! Invariant: a full queue never blocks the publisher: it is emptied and closed with the reason, and
//! the listener hears nothing more.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::engine::{Limits, SubscriptionId};

/// A message for a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<M> {
    /// Counts the listener's messages from 0, none left out.
    pub sequence: u64,
    /// Which of its subscriptions it is for.
    pub subscription: SubscriptionId,
    /// The message, shared with all who get it.
    pub body: M,
    bytes: usize,
}

/// Why a listener hears nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// It did not take its messages fast enough.
    #[error("too slow: {limit} messages were waiting")]
    MessagesFull {
        /// How many may wait.
        limit: usize,
    },
    /// It did not take its messages fast enough.
    #[error("too slow: more than {limit} bytes were waiting")]
    BytesFull {
        /// How many may wait.
        limit: usize,
    },
    /// The publisher lost events that this listener may have wanted.
    #[error("the node could not keep up and notifications were lost")]
    EventsLost,
    /// Nothing will be published any more.
    #[error("the node is shutting down")]
    ShutDown,
}

/// What a listener's queue holds next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<M> {
    /// The oldest message, now taken.
    Message(Delivery<M>),
    /// Nothing now; the listener's `wake` is called when there is.
    Empty,
    /// Nothing ever again.
    Closed(Closed),
}

/// The queue.
pub(crate) struct Queue<M> {
    inner: Mutex<Inner<M>>,
    /// Called, without the lock, when the queue was empty and is not any more, or is closed.
    wake: Box<dyn Fn() + Send + Sync>,
}

struct Inner<M> {
    messages: VecDeque<Delivery<M>>,
    bytes: usize,
    next_sequence: u64,
    closed: Option<Closed>,
}

impl<M> Queue<M> {
    pub(crate) fn new(wake: Box<dyn Fn() + Send + Sync>) -> Self {
        let inner = Inner { messages: VecDeque::new(), bytes: 0, next_sequence: 0, closed: None };
        Self { inner: Mutex::new(inner), wake }
    }

    /// Adds a message. A queue that it does not fit into is closed; a closed one ignores it.
    pub(crate) fn push(
        &self,
        limits: &Limits,
        subscription: SubscriptionId,
        body: M,
        bytes: usize,
    ) {
        let mut inner = self.inner.lock();
        if inner.closed.is_some() {
            return;
        }
        if inner.messages.len() >= limits.queue_messages_max {
            drop(inner);
            return self.close(Closed::MessagesFull { limit: limits.queue_messages_max });
        }
        if inner.bytes + bytes > limits.queue_bytes_max {
            drop(inner);
            return self.close(Closed::BytesFull { limit: limits.queue_bytes_max });
        }
        let was_empty = inner.messages.is_empty();
        let sequence = inner.next_sequence;
        inner.next_sequence += 1;
        inner.bytes += bytes;
        inner.messages.push_back(Delivery { sequence, subscription, body, bytes });
        drop(inner);
        if was_empty {
            (self.wake)();
        }
    }

    /// Ends the queue: what waits in it is dropped. The first reason stays.
    pub(crate) fn close(&self, why: Closed) {
        let mut inner = self.inner.lock();
        if inner.closed.is_some() {
            return;
        }
        inner.closed = Some(why);
        inner.bytes = 0;
        let dropped = std::mem::take(&mut inner.messages);
        drop(inner);
        drop(dropped);
        (self.wake)();
    }

    pub(crate) fn pop(&self) -> Next<M> {
        let mut inner = self.inner.lock();
        if let Some(why) = inner.closed {
            return Next::Closed(why);
        }
        match inner.messages.pop_front() {
            Some(delivery) => {
                inner.bytes -= delivery.bytes;
                Next::Message(delivery)
            }
            None => Next::Empty,
        }
    }

    pub(crate) fn closed(&self) -> Option<Closed> {
        self.inner.lock().closed
    }

    /// Drops what waits for a subscription that its listener has ended.
    pub(crate) fn forget(&self, subscription: SubscriptionId) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        inner.messages.retain(|delivery| {
            let stays = delivery.subscription != subscription;
            if !stays {
                inner.bytes -= delivery.bytes;
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const LIMITS: Limits = Limits {
        listeners_max: 1,
        subscriptions_max: 1,
        subscriptions_per_listener_max: 1,
        queue_messages_max: 3,
        queue_bytes_max: 10,
    };
    const ONE: SubscriptionId = SubscriptionId(1);

    fn queue() -> (Queue<&'static str>, Arc<AtomicUsize>) {
        let wakes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&wakes);
        let wake = move || {
            counted.fetch_add(1, Ordering::Relaxed);
        };
        (Queue::new(Box::new(wake)), wakes)
    }

    fn taken(queue: &Queue<&'static str>) -> Option<(u64, &'static str)> {
        match queue.pop() {
            Next::Message(delivery) => Some((delivery.sequence, delivery.body)),
            Next::Empty | Next::Closed(_) => None,
        }
    }

    #[test]
    fn messages_come_in_order_and_numbered() {
        let (queue, wakes) = queue();
        queue.push(&LIMITS, ONE, "a", 1);
        queue.push(&LIMITS, ONE, "b", 1);
        assert_eq!(wakes.load(Ordering::Relaxed), 1, "woken once, by the first");
        assert_eq!(taken(&queue), Some((0, "a")));
        assert_eq!(taken(&queue), Some((1, "b")));
        assert_eq!(taken(&queue), None);
        queue.push(&LIMITS, ONE, "c", 1);
        assert_eq!(wakes.load(Ordering::Relaxed), 2);
        assert_eq!(taken(&queue), Some((2, "c")));
    }

    #[test]
    fn one_message_too_many_closes_it() {
        let (queue, wakes) = queue();
        for _ in 0..4 {
            queue.push(&LIMITS, ONE, "a", 1);
        }
        assert_eq!(wakes.load(Ordering::Relaxed), 2, "for the first and for the end");
        assert_eq!(queue.pop(), Next::Closed(Closed::MessagesFull { limit: 3 }));
        queue.push(&LIMITS, ONE, "b", 1);
        queue.close(Closed::ShutDown);
        assert_eq!(queue.pop(), Next::Closed(Closed::MessagesFull { limit: 3 }));
    }

    #[test]
    fn one_byte_too_many_closes_it() {
        let (queue, _) = queue();
        queue.push(&LIMITS, ONE, "a", 10);
        assert_eq!(taken(&queue), Some((0, "a")));
        queue.push(&LIMITS, ONE, "b", 4);
        queue.push(&LIMITS, ONE, "c", 7);
        assert_eq!(queue.pop(), Next::Closed(Closed::BytesFull { limit: 10 }));
    }

    #[test]
    fn what_waits_for_an_ended_subscription_is_dropped_and_its_bytes_given_back() {
        let (queue, _) = queue();
        queue.push(&LIMITS, ONE, "a", 6);
        queue.push(&LIMITS, SubscriptionId(2), "b", 4);
        queue.forget(ONE);
        queue.push(&LIMITS, SubscriptionId(2), "c", 6);
        assert_eq!(taken(&queue), Some((1, "b")));
        assert_eq!(taken(&queue), Some((2, "c")));
    }
}
