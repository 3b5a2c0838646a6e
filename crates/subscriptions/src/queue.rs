//! One listener's queue: the memory of a slow client, and how it is bounded.
//!
//! In: messages, from the publisher. Out: the same, in order, to the connection that writes them to the client.
//! Bounds: `Limits::queue_messages_max` and `Limits::queue_bytes_max`.
//! Invariant: a full queue never blocks the publisher. Messages of subscriptions that allow it are conflated: the queue
//! stores the newest state of each item, which is delivered as one message after all others. If the queue is still too
//! full, it is emptied and closed with the reason.
//! The messages of one subscription may be paused ([`Queue::pause_delivery`]), so that the connection can write
//! something else before them; they count like the others.
//! A long message that is being written stays here ([`Queue::start_writing`]), so that its memory is freed as soon as
//! the queue is evicted, even while the socket is full.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::filter::Position;
use crate::ids::SubscriptionId;
use crate::limits::Limits;
use crate::queue_memory::QueueMemory;

/// The body of a message. Cloned for each listener, so let cloning it be cheap.
pub trait Message: Clone {
    /// The state of conflated messages.
    type Conflated: Default;

    /// Merges this message, the newest, into the state of those before it. Returns by how many bytes the state grew.
    fn conflate(self, state: &mut Self::Conflated) -> usize;

    /// The approximate bytes that dropping this clone frees: its share of the memory that clones share.
    fn memory(&self) -> usize {
        0
    }

    /// Bytes that only [`Self::conflate`] needs. They count in a queue that conflates.
    fn conflation_bytes(&self) -> usize {
        0
    }

    /// Drops what only [`Self::conflate`] needs: the listener does not conflate.
    fn forget_conflation(&mut self) {}
}

/// A message for a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<M> {
    /// The number of the delivery of this subscription to this listener: from 0, without gaps.
    pub sequence: u64,
    /// The subscription that it is for.
    pub subscription: SubscriptionId,
    /// The message, shared by all listeners that get it.
    pub body: M,
    pub(crate) bytes: usize,
    /// The position of its publication.
    pub(crate) at: Position,
    /// Whether it may be conflated.
    pub(crate) conflates: bool,
}

/// Messages that were conflated to one because their listener was slow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflated<K> {
    /// The subscription that they were for.
    pub subscription: SubscriptionId,
    /// The sequence number of the newest of them.
    pub sequence: u64,
    /// The number of messages.
    pub messages: u64,
    /// Their state.
    pub state: K,
    bytes: usize,
}

/// Why a listener was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// It did not read its messages fast enough.
    #[error("too slow: {limit} messages were waiting")]
    MessagesFull {
        /// The limit.
        limit: usize,
    },
    /// It did not read its messages fast enough.
    #[error("too slow: more than {limit} bytes were waiting")]
    BytesFull {
        /// The limit.
        limit: usize,
    },
    /// All listeners together did not read their messages fast enough, and this one's owner used the most memory.
    #[error("too slow: more than {limit} bytes were waiting for all clients")]
    NodeBytesFull {
        /// The limit.
        limit: usize,
    },
    /// The publisher lost events that this listener may have subscribed to.
    #[error("the node could not keep up and notifications were lost")]
    EventsLost,
    /// The access of its owner was revoked.
    #[error("the API key was removed")]
    Revoked,
    /// Nothing will be published any more.
    #[error("the node is shutting down")]
    ShutDown,
}

/// The next entry of a listener's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<M, K> {
    /// The oldest message, removed from the queue.
    Message(Delivery<M>),
    /// Conflated messages, removed from the queue. All other messages have been removed before.
    Conflated(Conflated<K>),
    /// Nothing now; the listener's `wake` is called when there is a message.
    Empty,
    /// Nothing any more.
    Closed(CloseReason),
}

/// The queue.
pub(crate) struct Queue<M: Message> {
    inner: Mutex<Inner<M>>,
    /// The account that the entries are charged to.
    memory: Arc<QueueMemory>,
    /// Called, without the lock, when the empty queue gets a message, and when the queue is closed.
    wake: Box<dyn Fn() + Send + Sync>,
}

struct Inner<M: Message> {
    messages: VecDeque<Delivery<M>>,
    conflated: BTreeMap<SubscriptionId, Conflated<M::Conflated>>,
    bytes: usize,
    /// Bytes of conflated messages.
    conflated_bytes: usize,
    /// Bytes charged to `Queue::memory`.
    charged: usize,
    /// The message that is being written.
    writing: Option<M>,
    paused: Option<SubscriptionId>,
    closed: Option<CloseReason>,
}

impl<M: Message> Queue<M> {
    pub(crate) fn new(memory: Arc<QueueMemory>, wake: Box<dyn Fn() + Send + Sync>) -> Self {
        let inner = Inner {
            messages: VecDeque::new(),
            conflated: BTreeMap::new(),
            bytes: 0,
            conflated_bytes: 0,
            charged: 0,
            writing: None,
            paused: None,
            closed: None,
        };
        Self { inner: Mutex::new(inner), memory, wake }
    }

    /// Adds a message. If the queue is full, messages that may be conflated are; if it is still full, the
    /// queue is closed. A closed queue ignores the message.
    pub(crate) fn push(&self, limits: &Limits, delivery: Delivery<M>) {
        let mut inner = self.inner.lock();
        if inner.closed.is_some() {
            return;
        }
        let was_empty = inner.is_empty();
        let pushed = inner.push(limits, delivery);
        inner.recount(&self.memory);
        drop(inner);
        if let Err(reason) = pushed {
            return self.close(reason);
        }
        if was_empty {
            (self.wake)();
        }
    }

    /// Closes the queue, and drops its messages. The first reason stays. A message that is being written stays too,
    /// so that the listener can get the reason after it.
    pub(crate) fn close(&self, reason: CloseReason) {
        let mut inner = self.inner.lock();
        if inner.closed.is_some() {
            return;
        }
        inner.closed = Some(reason);
        inner.bytes = 0;
        inner.conflated_bytes = 0;
        let dropped = (std::mem::take(&mut inner.messages), std::mem::take(&mut inner.conflated));
        inner.recount(&self.memory);
        drop(inner);
        drop(dropped);
        (self.wake)();
    }

    /// As [`Self::close`], and drops the message that is being written, also of a queue that is closed already.
    pub(crate) fn evict(&self, reason: CloseReason) {
        self.close(reason);
        let writing = self.inner.lock().writing.take();
        if writing.is_some() {
            drop(writing);
            (self.wake)();
        }
    }

    /// Stores a message while it is written. Fails if the queue is closed.
    pub(crate) fn start_writing(&self, body: M) -> Result<(), CloseReason> {
        let mut inner = self.inner.lock();
        match inner.closed {
            Some(reason) => Err(reason),
            None => {
                inner.writing = Some(body);
                Ok(())
            }
        }
    }

    /// The message that is being written. `None` if the queue was evicted.
    pub(crate) fn writing(&self) -> Option<M> {
        self.inner.lock().writing.clone()
    }

    /// Removes the message that was written.
    pub(crate) fn finish_writing(&self) -> Option<M> {
        self.inner.lock().writing.take()
    }

    /// The approximate bytes that evicting it frees. Cost: O(messages).
    pub(crate) fn memory(&self) -> usize {
        let inner = self.inner.lock();
        let queued: usize = inner.messages.iter().map(|delivery| delivery.body.memory()).sum();
        let writing = inner.writing.as_ref().map_or(0, Message::memory);
        inner.charged + queued + writing
    }

    pub(crate) fn pop(&self) -> Next<M, M::Conflated> {
        let mut inner = self.inner.lock();
        if let Some(reason) = inner.closed {
            return Next::Closed(reason);
        }
        let next =
            if inner.messages.is_empty() { inner.take_conflated() } else { inner.take_message(0) };
        inner.recount(&self.memory);
        next
    }

    /// As [`Self::pop`], except conflated messages and those of the paused subscription.
    pub(crate) fn pop_message(&self) -> Next<M, M::Conflated> {
        let mut inner = self.inner.lock();
        let paused = inner.paused;
        let next = inner.pop_where(|delivery| Some(delivery.subscription) != paused);
        inner.recount(&self.memory);
        next
    }

    /// The oldest message of one subscription, paused or not, if it was published up to a position.
    pub(crate) fn pop_until(
        &self,
        subscription: SubscriptionId,
        until: Position,
    ) -> Next<M, M::Conflated> {
        let mut inner = self.inner.lock();
        let next = inner
            .pop_where(|delivery| delivery.subscription == subscription && delivery.at <= until);
        inner.recount(&self.memory);
        next
    }

    /// Pauses the messages of one subscription, and of no other; or of none.
    pub(crate) fn pause_delivery(&self, subscription: Option<SubscriptionId>) {
        self.inner.lock().paused = subscription;
    }

    /// Queued messages and their bytes. The conflated messages of a subscription count as one.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.messages.len() + inner.conflated.len(), inner.bytes)
    }

    /// Whether another thread has the lock just now.
    pub(crate) fn is_busy(&self) -> bool {
        self.inner.is_locked()
    }

    pub(crate) fn closed(&self) -> Option<CloseReason> {
        self.inner.lock().closed
    }

    /// Drops the messages of a subscription that its listener has ended.
    pub(crate) fn remove_subscription(&self, subscription: SubscriptionId) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        inner.messages.retain(|delivery| {
            let is_other = delivery.subscription != subscription;
            if !is_other {
                inner.bytes -= delivery.bytes;
            }
            is_other
        });
        if let Some(conflated) = inner.conflated.remove(&subscription) {
            inner.bytes -= conflated.bytes;
            inner.conflated_bytes -= conflated.bytes;
        }
        inner.recount(&self.memory);
    }
}

impl<M: Message> Drop for Queue<M> {
    fn drop(&mut self) {
        self.memory.replace(self.inner.get_mut().charged, 0);
    }
}

impl<M: Message> Inner<M> {
    /// Charges the entries and the conflated messages. The bodies of messages are charged where they are encoded.
    fn recount(&mut self, memory: &QueueMemory) {
        let now = self.messages.len() * size_of::<Delivery<M>>() + self.conflated_bytes;
        memory.replace(self.charged, now);
        self.charged = now;
    }

    fn take_conflated(&mut self) -> Next<M, M::Conflated> {
        match self.conflated.pop_first() {
            Some((_, conflated)) => {
                self.bytes -= conflated.bytes;
                self.conflated_bytes -= conflated.bytes;
                Next::Conflated(conflated)
            }
            None => Next::Empty,
        }
    }

    fn pop_where(&mut self, predicate: impl FnMut(&Delivery<M>) -> bool) -> Next<M, M::Conflated> {
        if let Some(reason) = self.closed {
            return Next::Closed(reason);
        }
        match self.messages.iter().position(predicate) {
            Some(index) => self.take_message(index),
            None => Next::Empty,
        }
    }

    fn take_message(&mut self, index: usize) -> Next<M, M::Conflated> {
        let Some(delivery) = self.messages.remove(index) else { return Next::Empty };
        self.bytes -= delivery.bytes;
        if self.messages.is_empty() {
            self.messages.shrink_to(16); // frees what a burst needed
        }
        Next::Message(delivery)
    }

    fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.conflated.is_empty()
    }

    fn push(&mut self, limits: &Limits, delivery: Delivery<M>) -> Result<(), CloseReason> {
        if delivery.conflates && self.conflated.contains_key(&delivery.subscription) {
            self.conflate(delivery);
            return self.check_bytes(limits);
        }
        if let Err(reason) = self.check_capacity(limits, delivery.bytes) {
            if self.messages.iter().any(|queued| queued.conflates) {
                for queued in std::mem::take(&mut self.messages) {
                    if queued.conflates {
                        self.bytes -= queued.bytes;
                        self.conflate(queued);
                    } else {
                        self.messages.push_back(queued);
                    }
                }
                self.check_bytes(limits)?;
            }
            if delivery.conflates {
                self.conflate(delivery);
                return self.check_bytes(limits);
            }
            self.check_capacity(limits, delivery.bytes).map_err(|_| reason)?;
        }
        self.bytes += delivery.bytes;
        self.messages.push_back(delivery);
        Ok(())
    }

    fn check_capacity(&self, limits: &Limits, bytes: usize) -> Result<(), CloseReason> {
        if self.messages.len() >= limits.queue_messages_max {
            return Err(CloseReason::MessagesFull { limit: limits.queue_messages_max });
        }
        if self.bytes + bytes > limits.queue_bytes_max {
            return Err(CloseReason::BytesFull { limit: limits.queue_bytes_max });
        }
        Ok(())
    }

    fn check_bytes(&self, limits: &Limits) -> Result<(), CloseReason> {
        let limit = limits.queue_bytes_max;
        if self.bytes > limit { Err(CloseReason::BytesFull { limit }) } else { Ok(()) }
    }

    fn conflate(&mut self, delivery: Delivery<M>) {
        let subscription = delivery.subscription;
        let conflated = self.conflated.entry(subscription).or_insert_with(|| Conflated {
            subscription,
            sequence: 0,
            messages: 0,
            state: M::Conflated::default(),
            bytes: 0,
        });
        conflated.sequence = delivery.sequence;
        conflated.messages += 1;
        let grown = delivery.body.conflate(&mut conflated.state);
        conflated.bytes += grown;
        self.bytes += grown;
        self.conflated_bytes += grown;
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
        addresses_max: 1,
        addresses_per_listener_max: 1,
        preallocated_ids: 0,
        retained_steps: 0,
        retained_bytes: 0,
        unrooted_max: 0,
        queue_messages_max: 3,
        queue_bytes_max: 10,
        queues_bytes_max: usize::MAX,
    };
    const ONE: SubscriptionId = SubscriptionId(1);
    const TWO: SubscriptionId = SubscriptionId(2);

    impl Message for &'static str {
        type Conflated = Vec<&'static str>;

        fn conflate(self, state: &mut Self::Conflated) -> usize {
            state.push(self);
            1
        }
    }

    fn queue() -> (Queue<&'static str>, Arc<AtomicUsize>) {
        let wakes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&wakes);
        let wake = move || {
            counted.fetch_add(1, Ordering::Relaxed);
        };
        (Queue::new(Arc::default(), Box::new(wake)), wakes)
    }

    fn push(
        queue: &Queue<&'static str>,
        to: SubscriptionId,
        body: &'static str,
        bytes: usize,
        conflates: bool,
    ) {
        let at = Position(bytes as u64);
        let delivery = Delivery { sequence: 7, subscription: to, body, bytes, at, conflates };
        queue.push(&LIMITS, delivery);
    }

    fn taken(queue: &Queue<&'static str>) -> Option<&'static str> {
        match queue.pop() {
            Next::Message(delivery) => Some(delivery.body),
            Next::Empty | Next::Conflated(_) | Next::Closed(_) => None,
        }
    }

    #[test]
    fn messages_come_in_order() {
        let (queue, wakes) = queue();
        push(&queue, ONE, "a", 1, false);
        push(&queue, ONE, "b", 1, false);
        assert_eq!(wakes.load(Ordering::Relaxed), 1, "woken once, by the first");
        assert_eq!((taken(&queue), taken(&queue), taken(&queue)), (Some("a"), Some("b"), None));
        push(&queue, ONE, "c", 1, false);
        assert_eq!(wakes.load(Ordering::Relaxed), 2);
        assert_eq!(taken(&queue), Some("c"));
    }

    #[test]
    fn one_message_too_many_closes_it() {
        let (queue, wakes) = queue();
        for _ in 0..4 {
            push(&queue, ONE, "a", 1, false);
        }
        assert_eq!(wakes.load(Ordering::Relaxed), 2, "for the first and for the end");
        assert_eq!(queue.pop(), Next::Closed(CloseReason::MessagesFull { limit: 3 }));
        push(&queue, ONE, "b", 1, false);
        queue.close(CloseReason::ShutDown);
        assert_eq!(queue.pop(), Next::Closed(CloseReason::MessagesFull { limit: 3 }));
    }

    #[test]
    fn one_byte_too_many_closes_it() {
        let (queue, _) = queue();
        push(&queue, ONE, "a", 10, false);
        assert_eq!(taken(&queue), Some("a"));
        push(&queue, ONE, "b", 4, false);
        push(&queue, ONE, "c", 7, false);
        assert_eq!(queue.pop(), Next::Closed(CloseReason::BytesFull { limit: 10 }));
    }

    #[test]
    fn conflated_messages_free_space_and_come_last() {
        let (queue, _) = queue();
        push(&queue, ONE, "a", 3, true);
        push(&queue, TWO, "b", 3, false);
        push(&queue, ONE, "c", 3, true);
        push(&queue, TWO, "d", 3, false);
        push(&queue, ONE, "e", 3, true);
        assert_eq!((taken(&queue), taken(&queue)), (Some("b"), Some("d")));
        let Next::Conflated(one) = queue.pop() else { panic!("one subscription was conflated") };
        assert_eq!((one.subscription, one.messages, one.sequence), (ONE, 3, 7));
        assert_eq!(one.state, ["a", "c", "e"]);
        push(&queue, ONE, "f", 10, true);
        assert_eq!(taken(&queue), Some("f"), "all bytes were released");
    }

    #[test]
    fn a_paused_subscription_waits_and_stays_in_order() {
        let (queue, _) = queue();
        push(&queue, ONE, "a", 1, false);
        push(&queue, TWO, "b", 1, false);
        push(&queue, ONE, "c", 2, false);
        queue.pause_delivery(Some(ONE));
        let message = |next| match next {
            Next::Message(Delivery { body, .. }) => Some(body),
            Next::Empty | Next::Conflated(_) | Next::Closed(_) => None,
        };
        assert_eq!(message(queue.pop_message()), Some("b"));
        assert_eq!(message(queue.pop_message()), None);
        assert_eq!(message(queue.pop_until(ONE, Position(1))), Some("a"));
        assert_eq!(message(queue.pop_until(ONE, Position(1))), None, "it was published at 2");
        queue.pause_delivery(None);
        assert_eq!(message(queue.pop_message()), Some("c"));
    }

    #[test]
    fn conflated_messages_are_bounded_too() {
        let (queue, _) = queue();
        for _ in 0..20 {
            push(&queue, ONE, "a", 1, true);
        }
        assert_eq!(queue.pop(), Next::Closed(CloseReason::BytesFull { limit: 10 }));
    }

    #[test]
    fn messages_of_an_ended_subscription_are_dropped_and_their_bytes_released() {
        let (queue, _) = queue();
        push(&queue, ONE, "a", 6, true);
        push(&queue, TWO, "b", 4, false);
        push(&queue, ONE, "c", 4, true);
        queue.remove_subscription(ONE);
        push(&queue, TWO, "d", 6, false);
        assert_eq!((taken(&queue), taken(&queue), taken(&queue)), (Some("b"), Some("d"), None));
    }

    #[test]
    fn entries_are_charged_until_they_are_taken_removed_conflated_or_dropped() {
        let memory: Arc<QueueMemory> = Arc::default();
        let queue = Queue::new(Arc::clone(&memory), Box::new(|| ()));
        let entry = size_of::<Delivery<&'static str>>();
        push(&queue, ONE, "a", 1, false);
        push(&queue, ONE, "b", 1, false);
        push(&queue, TWO, "c", 1, true);
        assert_eq!(memory.bytes(), 3 * entry);
        assert_eq!(taken(&queue), Some("a"));
        assert_eq!(memory.bytes(), 2 * entry);
        push(&queue, TWO, "d", 1, true);
        push(&queue, TWO, "e", 1, true);
        assert_eq!(memory.bytes(), entry + 3, "three were conflated, a byte each");
        queue.remove_subscription(ONE);
        assert_eq!(memory.bytes(), 3);
        push(&queue, ONE, "f", 1, false);
        drop(queue);
        assert_eq!(memory.bytes(), 0);
    }

    #[test]
    fn a_message_that_is_written_outlives_a_close_and_not_an_eviction() {
        let (queue, wakes) = queue();
        assert_eq!(queue.start_writing("a"), Ok(()));
        queue.close(CloseReason::ShutDown);
        assert_eq!(queue.writing(), Some("a"));
        queue.evict(CloseReason::NodeBytesFull { limit: 7 });
        assert_eq!((queue.writing(), queue.closed()), (None, Some(CloseReason::ShutDown)));
        assert_eq!(wakes.load(Ordering::Relaxed), 2, "for the close and for the eviction");
        assert_eq!(queue.start_writing("b"), Err(CloseReason::ShutDown));
    }
}
