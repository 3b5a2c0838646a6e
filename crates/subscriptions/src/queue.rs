//! One listener's queue: what a slow client may cost us, and what becomes of it then.
//!
//! In: messages, from the publisher. Out: the same, in order, to whoever writes them to the client.
//! Bounds: `Limits::queue_messages_max` and `Limits::queue_bytes_max`.
//! Invariant: a full queue never blocks the publisher. What waits for subscriptions that asked for it
//! is conflated: kept as the newest of each thing told, and told as one message once the rest has been
//! taken. If that does not make room, the queue is emptied and closed with the reason.
//! What waits for one subscription may be held back ([`Queue::pause_delivery`]), so that whoever writes to the
//! client can put something else before it; it counts as waiting like the rest.
//! A long message that is being written stays here ([`Queue::start_writing`]), so that its memory is free as soon as
//! the queue is evicted, whatever its writer waits for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::filter::Position;
use crate::queue_memory::QueueMemory;
use crate::registry::{Limits, SubscriptionId};

/// The body of a message. Cloned for each listener, so let cloning it be cheap.
pub trait Message: Clone {
    /// What is left of messages that were conflated.
    type Conflated: Default;

    /// Adds this message, the newest, to what is left of those before it. Gives by how many bytes that
    /// grew.
    fn conflate(self, kept: &mut Self::Conflated) -> usize;

    /// About how many bytes are free once this clone is dropped: its part of what it shares with others.
    fn memory(&self) -> usize {
        0
    }

    /// Bytes that it holds for [`Self::conflate`] only. They count against a queue that conflates.
    fn conflation_bytes(&self) -> usize {
        0
    }

    /// Drops what only [`Self::conflate`] needs: the listener did not ask for that.
    fn forget_conflation(&mut self) {}
}

/// A message for a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<M> {
    /// Counts what was delivered of the subscription to this listener from 0, none left out.
    pub sequence: u64,
    /// Which of its subscriptions it is for.
    pub subscription: SubscriptionId,
    /// The message, shared with all who get it.
    pub body: M,
    pub(crate) bytes: usize,
    /// Where it was published.
    pub(crate) at: Position,
    /// Whether it may be conflated.
    pub(crate) conflates: bool,
}

/// Messages that became one because their listener was slow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflated<K> {
    /// Which of its subscriptions they were for.
    pub subscription: SubscriptionId,
    /// The number of the newest of them.
    pub sequence: u64,
    /// How many they were.
    pub messages: u64,
    /// What is left of them.
    pub state: K,
    bytes: usize,
}

/// Why a listener hears nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
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
    /// All listeners together did not take their messages fast enough, and this one's owner held most.
    #[error("too slow: more than {limit} bytes were waiting for all clients")]
    NodeBytesFull {
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
pub enum Next<M, K> {
    /// The oldest message, now taken.
    Message(Delivery<M>),
    /// What is left of messages that found no room, now taken. All that waited has been taken before.
    Conflated(Conflated<K>),
    /// Nothing now; the listener's `wake` is called when there is.
    Empty,
    /// Nothing ever again.
    Closed(CloseReason),
}

/// The queue.
pub(crate) struct Queue<M: Message> {
    inner: Mutex<Inner<M>>,
    /// Where the entries are counted.
    memory: Arc<QueueMemory>,
    /// Called, without the lock, when the queue was empty and is not any more, or is closed.
    wake: Box<dyn Fn() + Send + Sync>,
}

struct Inner<M: Message> {
    messages: VecDeque<Delivery<M>>,
    conflated: BTreeMap<SubscriptionId, Conflated<M::Conflated>>,
    bytes: usize,
    /// Bytes of what was conflated.
    conflated_bytes: usize,
    /// What is counted in the queue's memory.
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

    /// Adds a message. If it does not fit in, what may be conflated is; if that does not help, the
    /// queue is closed. A closed one ignores it.
    pub(crate) fn push(&self, limits: &Limits, delivery: Delivery<M>) {
        let mut inner = self.inner.lock();
        if inner.closed.is_some() {
            return;
        }
        let was_empty = inner.is_empty();
        let pushed = inner.push(limits, delivery);
        inner.recount(&self.memory);
        drop(inner);
        if let Err(why) = pushed {
            return self.close(why);
        }
        if was_empty {
            (self.wake)();
        }
    }

    /// Ends the queue: what waits in it is dropped. The first reason stays. A message that is being written stays,
    /// so that the listener can get the reason after it.
    pub(crate) fn close(&self, why: CloseReason) {
        let mut inner = self.inner.lock();
        if inner.closed.is_some() {
            return;
        }
        inner.closed = Some(why);
        inner.bytes = 0;
        inner.conflated_bytes = 0;
        let dropped = (std::mem::take(&mut inner.messages), std::mem::take(&mut inner.conflated));
        inner.recount(&self.memory);
        drop(inner);
        drop(dropped);
        (self.wake)();
    }

    /// As [`Self::close`], and drops the message that is being written, also of a queue that is closed already.
    pub(crate) fn evict(&self, why: CloseReason) {
        self.close(why);
        let writing = self.inner.lock().writing.take();
        if writing.is_some() {
            drop(writing);
            (self.wake)();
        }
    }

    /// Keeps a message while it is written. A closed queue keeps none.
    pub(crate) fn start_writing(&self, body: M) -> Result<(), CloseReason> {
        let mut inner = self.inner.lock();
        match inner.closed {
            Some(why) => Err(why),
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

    /// Takes the message that was written.
    pub(crate) fn finish_writing(&self) -> Option<M> {
        self.inner.lock().writing.take()
    }

    /// About how many bytes evicting it frees. Cost: the messages that wait.
    pub(crate) fn memory(&self) -> usize {
        let inner = self.inner.lock();
        let waiting: usize = inner.messages.iter().map(|waiting| waiting.body.memory()).sum();
        let writing = inner.writing.as_ref().map_or(0, Message::memory);
        inner.charged + waiting + writing
    }

    pub(crate) fn pop(&self) -> Next<M, M::Conflated> {
        let mut inner = self.inner.lock();
        if let Some(why) = inner.closed {
            return Next::Closed(why);
        }
        let next =
            if inner.messages.is_empty() { inner.take_conflated() } else { inner.take_message(0) };
        inner.recount(&self.memory);
        next
    }

    /// As [`Self::pop`], but what was conflated stays, and what is held back.
    pub(crate) fn pop_message(&self) -> Next<M, M::Conflated> {
        let mut inner = self.inner.lock();
        let held = inner.paused;
        let next = inner.pop_where(|waiting| Some(waiting.subscription) != held);
        inner.recount(&self.memory);
        next
    }

    /// The oldest message of one subscription, if it was published up to a position: held back or not.
    pub(crate) fn pop_until(&self, of: SubscriptionId, at: Position) -> Next<M, M::Conflated> {
        let mut inner = self.inner.lock();
        let next = inner.pop_where(|waiting| waiting.subscription == of && waiting.at <= at);
        inner.recount(&self.memory);
        next
    }

    /// Holds back what waits for one subscription, and nothing else; or nothing.
    pub(crate) fn pause_delivery(&self, held: Option<SubscriptionId>) {
        self.inner.lock().paused = held;
    }

    /// Messages that wait, one that was conflated counted once, and what they count in bytes.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.messages.len() + inner.conflated.len(), inner.bytes)
    }

    /// Whether somebody adds or takes just now.
    pub(crate) fn is_busy(&self) -> bool {
        self.inner.is_locked()
    }

    pub(crate) fn closed(&self) -> Option<CloseReason> {
        self.inner.lock().closed
    }

    /// Drops what waits for a subscription that its listener has ended.
    pub(crate) fn remove_subscription(&self, subscription: SubscriptionId) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        inner.messages.retain(|delivery| {
            let stays = delivery.subscription != subscription;
            if !stays {
                inner.bytes -= delivery.bytes;
            }
            stays
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
    /// Counts the entries and what was conflated. The bodies of messages count where they are made.
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

    fn pop_where(&mut self, wanted: impl FnMut(&Delivery<M>) -> bool) -> Next<M, M::Conflated> {
        if let Some(why) = self.closed {
            return Next::Closed(why);
        }
        match self.messages.iter().position(wanted) {
            Some(at) => self.take_message(at),
            None => Next::Empty,
        }
    }

    fn take_message(&mut self, at: usize) -> Next<M, M::Conflated> {
        let Some(delivery) = self.messages.remove(at) else { return Next::Empty };
        self.bytes -= delivery.bytes;
        if self.messages.is_empty() {
            self.messages.shrink_to(16); // what a burst needed is not kept for ever
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
        if let Err(why) = self.check_capacity(limits, delivery.bytes) {
            if self.messages.iter().any(|waiting| waiting.conflates) {
                let waiting = std::mem::take(&mut self.messages);
                for waiting in waiting {
                    if waiting.conflates {
                        self.bytes -= waiting.bytes;
                        self.conflate(waiting);
                    } else {
                        self.messages.push_back(waiting);
                    }
                }
                self.check_bytes(limits)?;
            }
            if delivery.conflates {
                self.conflate(delivery);
                return self.check_bytes(limits);
            }
            self.check_capacity(limits, delivery.bytes).map_err(|_| why)?;
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

        fn conflate(self, kept: &mut Self::Conflated) -> usize {
            kept.push(self);
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
    fn what_may_be_conflated_makes_room_and_comes_last() {
        let (queue, _) = queue();
        push(&queue, ONE, "a", 3, true);
        push(&queue, TWO, "b", 3, false);
        push(&queue, ONE, "c", 3, true);
        push(&queue, TWO, "d", 3, false);
        push(&queue, ONE, "e", 3, true);
        assert_eq!((taken(&queue), taken(&queue)), (Some("b"), Some("d")));
        let Next::Conflated(one) = queue.pop() else { panic!("it is left") };
        assert_eq!((one.subscription, one.messages, one.sequence), (ONE, 3, 7));
        assert_eq!(one.state, ["a", "c", "e"]);
        push(&queue, ONE, "f", 10, true);
        assert_eq!(taken(&queue), Some("f"), "all bytes were given back");
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
    fn conflating_has_a_bound_too() {
        let (queue, _) = queue();
        for _ in 0..20 {
            push(&queue, ONE, "a", 1, true);
        }
        assert_eq!(queue.pop(), Next::Closed(CloseReason::BytesFull { limit: 10 }));
    }

    #[test]
    fn what_waits_for_an_ended_subscription_is_dropped_and_its_bytes_given_back() {
        let (queue, _) = queue();
        push(&queue, ONE, "a", 6, true);
        push(&queue, TWO, "b", 4, false);
        push(&queue, ONE, "c", 4, true);
        queue.remove_subscription(ONE);
        push(&queue, TWO, "d", 6, false);
        assert_eq!((taken(&queue), taken(&queue), taken(&queue)), (Some("b"), Some("d"), None));
    }

    #[test]
    fn entries_are_counted_until_they_are_taken_forgotten_conflated_or_dropped() {
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
