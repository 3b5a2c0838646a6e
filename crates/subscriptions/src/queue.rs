//! One listener's queue: the memory of a slow client, and how it is bounded.
//!
//! In: messages, from the publisher. Out: the same, those of a subscription in order, to the connection that writes
//! them to the client.
//! Bounds: `Limits::queue_messages_max`, and `Limits::queue_bytes_max`, where a message counts with its entry.
//! Invariant: a full queue never blocks the publisher. Messages of subscriptions that allow it are conflated: the queue
//! stores the newest state of each item, which is delivered as one message after all others. If the queue is still too
//! full, it is emptied and closed with the reason.
//! The messages of one subscription may be paused ([`Queue::pause_delivery`]), so that the connection can write
//! something else before them; they count like the others. The messages of a new subscription are held until its
//! listener knows the id ([`Queue::hold`]), apart from the others, which do not wait for them. A long message that is
//! being written stays here ([`Queue::start_writing`]), so that its memory is freed as soon as the queue is evicted,
//! even while the socket is full.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::delivery::{CloseReason, Conflated, Delivery, Hold, Message, Next};
use crate::filter::Position;
use crate::ids::SubscriptionId;
use crate::limits::Limits;
use crate::queue_memory::QueueMemory;

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
    /// The subscriptions that are on hold, with their messages.
    holds: HashMap<SubscriptionId, HeldMessages<M>>,
    /// Number of messages in `holds`.
    held_count: usize,
    /// Holds that the connection has not taken yet.
    new_holds: Vec<Hold>,
    holds_count: u64,
    closed: Option<CloseReason>,
}

/// The messages of a subscription that is on hold. They are not conflated: only sets conflate, which are never on hold.
struct HeldMessages<M> {
    /// The number of its newest hold.
    number: u64,
    messages: VecDeque<Delivery<M>>,
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
            holds: HashMap::default(),
            held_count: 0,
            new_holds: Vec::new(),
            holds_count: 0,
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
        let has_first = was_empty && !inner.is_empty();
        inner.recount(&self.memory);
        drop(inner);
        if let Err(reason) = pushed {
            return self.close(reason);
        }
        if has_first {
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
        inner.held_count = 0;
        inner.new_holds = Vec::new();
        let held = std::mem::take(&mut inner.holds);
        let dropped = (std::mem::take(&mut inner.messages), std::mem::take(&mut inner.conflated));
        inner.recount(&self.memory);
        drop(inner);
        drop((held, dropped));
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
        let held = inner.holds.values().flat_map(|held| &held.messages);
        let queued = inner.messages.iter().chain(held);
        let queued: usize = queued.map(|delivery| delivery.body.memory()).sum();
        let writing = inner.writing.as_ref().map_or(0, Message::memory);
        inner.charged + queued + writing
    }

    pub(crate) fn pop(&self) -> Next<M, M::Conflated> {
        let mut inner = self.inner.lock();
        if let Some(reason) = inner.closed {
            return Next::Closed(reason);
        }
        let next = match inner.messages.is_empty() {
            true => inner.take_conflated(),
            false => inner.take_message(0),
        };
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

    /// Holds the messages of a subscription, also the queued ones: its listener does not know the id yet. Cost:
    /// O(messages).
    pub(crate) fn hold(&self, subscription: SubscriptionId) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        // A repeated call must not extend a hold.
        if inner.closed.is_some() || inner.holds.contains_key(&subscription) {
            return;
        }
        inner.holds_count += 1;
        let hold = Hold { subscription, number: inner.holds_count };
        let messages = inner.extract_messages(subscription);
        inner.held_count += messages.len();
        inner.holds.insert(subscription, HeldMessages { number: hold.number, messages });
        inner.new_holds.push(hold);
        inner.recount(&self.memory);
    }

    /// Removes the holds that were not taken yet.
    pub(crate) fn take_new_holds(&self) -> Vec<Hold> {
        let mut inner = self.inner.lock();
        let taken = std::mem::take(&mut inner.new_holds);
        if !taken.is_empty() {
            inner.recount(&self.memory);
        }
        taken
    }

    /// Whether a subscription is still held by this hold.
    pub(crate) fn has_hold(&self, hold: Hold) -> bool {
        self.inner.lock().has_hold(hold)
    }

    /// Ends a hold, if it is the newest of its subscription. Its messages come after those that are queued.
    pub(crate) fn release(&self, hold: Hold) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        if inner.has_hold(hold)
            && let Some(mut held) = inner.holds.remove(&hold.subscription)
        {
            inner.held_count -= held.messages.len();
            inner.messages.append(&mut held.messages);
            inner.recount(&self.memory);
        }
    }

    /// Whether a subscription is on hold.
    pub(crate) fn is_on_hold(&self, subscription: SubscriptionId) -> bool {
        self.inner.lock().holds.contains_key(&subscription)
    }

    /// Queued messages and their bytes. The conflated messages of a subscription count as one.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.messages_count() + inner.conflated.len(), inner.bytes)
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
        if let Some(held) = inner.holds.remove(&subscription) {
            inner.held_count -= held.messages.len();
            inner.bytes -= held.messages.iter().map(|delivery| delivery.bytes).sum::<usize>();
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
    /// Charges the entries, the holds and the conflated messages. The bodies of messages are charged where they are
    /// encoded.
    fn recount(&mut self, memory: &QueueMemory) {
        let now = self.messages_count() * size_of::<Delivery<M>>()
            + self.conflated_bytes
            + self.holds.len() * size_of::<(SubscriptionId, HeldMessages<M>)>()
            + self.new_holds.len() * size_of::<Hold>();
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

    fn has_hold(&self, hold: Hold) -> bool {
        self.holds.get(&hold.subscription).is_some_and(|held| held.number == hold.number)
    }

    /// Removes the queued messages of a subscription, in order. They still count.
    fn extract_messages(&mut self, subscription: SubscriptionId) -> VecDeque<Delivery<M>> {
        let is_extracted = |delivery: &Delivery<M>| delivery.subscription == subscription;
        if !self.messages.iter().any(is_extracted) {
            return VecDeque::new();
        }
        let (extracted, others) =
            std::mem::take(&mut self.messages).into_iter().partition(is_extracted);
        self.messages = others;
        extracted
    }

    fn pop_where(&mut self, predicate: impl Fn(&Delivery<M>) -> bool) -> Next<M, M::Conflated> {
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

    /// Whether there is nothing to take; messages may be on hold.
    fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.conflated.is_empty()
    }

    /// Number of messages, those on hold included.
    fn messages_count(&self) -> usize {
        self.messages.len() + self.held_count
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
        match self.holds.get_mut(&delivery.subscription) {
            Some(held) => {
                self.held_count += 1;
                held.messages.push_back(delivery);
            }
            None => self.messages.push_back(delivery),
        }
        Ok(())
    }

    fn check_capacity(&self, limits: &Limits, bytes: usize) -> Result<(), CloseReason> {
        if self.messages_count() >= limits.queue_messages_max {
            return Err(CloseReason::MessagesFull { limit: limits.queue_messages_max });
        }
        let limit = limits.queue_bytes_max;
        let needed = self.bytes_with_entries() + size_of::<Delivery<M>>() + bytes;
        if needed > limit { Err(CloseReason::BytesFull { limit }) } else { Ok(()) }
    }

    fn check_bytes(&self, limits: &Limits) -> Result<(), CloseReason> {
        let limit = limits.queue_bytes_max;
        if self.bytes_with_entries() > limit {
            return Err(CloseReason::BytesFull { limit });
        }
        Ok(())
    }

    /// Bytes of the messages and of their entries in the queue.
    fn bytes_with_entries(&self) -> usize {
        self.bytes + self.messages_count() * size_of::<Delivery<M>>()
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
mod tests;
