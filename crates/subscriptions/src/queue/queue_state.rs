//! The messages of one listener's queue, behind its lock: their order, their bytes and their bounds.
//!
//! Bounds: `Limits::queue_messages_max`, and `Limits::queue_bytes_max`, where a message counts with its entry. At a
//! bound, messages that may be conflated are; if that is not enough, the message is refused with the reason.
//! Not here: the lock, waking and closing (`queue`), conflated and held messages (`cold_state`).

use std::collections::VecDeque;
use std::ops::ControlFlow;

use super::cold_state::ColdState;
use super::message_buffers::extract;
use crate::delivery::{CloseReason, Delivery, Message, Next};
use crate::filter::Position;
use crate::ids::SubscriptionId;
use crate::limits::Limits;
use crate::queue_memory::QueueMemory;

/// The messages of a queue, and their bytes.
pub(super) struct QueueState<M: Message> {
    pub(super) messages: VecDeque<Delivery<M>>,
    /// Bytes of all messages, also of those in `cold`.
    pub(super) bytes: usize,
    /// Bytes charged to `Queue::memory`.
    pub(super) charged: usize,
    pub(super) closed: Option<CloseReason>,
    /// Number of holds so far.
    pub(super) holds_count: u64,
    /// The parts that most queues do not have. `None` while all of them are empty.
    pub(super) cold: Option<Box<ColdState<M>>>,
}

impl<M: Message> QueueState<M> {
    pub(super) fn new() -> Self {
        Self {
            messages: VecDeque::new(),
            bytes: 0,
            charged: 0,
            closed: None,
            holds_count: 0,
            cold: None,
        }
    }

    /// The parts that most queues do not have.
    pub(super) fn cold_mut(&mut self) -> &mut ColdState<M> {
        self.cold.get_or_insert_with(|| Box::new(ColdState::new()))
    }

    /// Charges the entries, the holds and the conflated messages after a change, and frees memory that is not needed
    /// since. The bodies of messages are charged where they are encoded.
    pub(super) fn settle(&mut self, memory: &QueueMemory) {
        self.free_unused();
        let now = self.messages_count() * size_of::<Delivery<M>>()
            + self.cold.as_ref().map_or(0, |cold| cold.charged_bytes());
        memory.replace(self.charged, now);
        self.charged = now;
    }

    /// Frees the memory of empty parts, the buffer of the messages included, although the next message needs one: most
    /// listeners wait long for it. A new buffer was often freed shortly before by another listener, while this one would
    /// not be in the CPU's caches.
    pub(super) fn free_unused(&mut self) {
        if self.messages.is_empty() && self.messages.capacity() > 0 {
            self.messages = VecDeque::new();
        }
        if self.cold.as_ref().is_some_and(|cold| cold.is_unused()) {
            self.cold = None;
        }
    }

    pub(super) fn is_on_hold(&self, subscription: SubscriptionId) -> bool {
        self.cold.as_ref().is_some_and(|cold| cold.is_on_hold(subscription))
    }

    /// The buffer of the newest messages of a subscription: one of its own if it is paused.
    pub(super) fn messages_for(
        &mut self,
        subscription: SubscriptionId,
    ) -> &mut VecDeque<Delivery<M>> {
        let paused = self.cold.as_mut().and_then(|cold| cold.newer_messages(subscription));
        paused.unwrap_or(&mut self.messages)
    }

    /// Pauses a subscription instead of the one that is paused.
    pub(super) fn replace_pause(&mut self, subscription: Option<SubscriptionId>) {
        if let Some(cold) = &mut self.cold {
            if subscription.is_some_and(|subscription| cold.is_paused(subscription)) {
                return;
            }
            cold.end_pause();
        }
        if let Some(subscription) = subscription {
            let queued = std::mem::take(&mut self.messages);
            self.cold_mut().start_pause(subscription, queued);
        }
    }

    /// Removes the queued messages that match, those of each subscription in order. They still count. Cost:
    /// O(messages).
    pub(super) fn extract_messages(
        &mut self,
        is_extracted: impl Fn(&Delivery<M>) -> bool,
    ) -> VecDeque<Delivery<M>> {
        let mut extracted = VecDeque::new();
        if let Some(cold) = &mut self.cold {
            cold.extract(&mut extracted, &is_extracted);
        }
        extract(&mut self.messages, &mut extracted, &is_extracted);
        extracted
    }

    /// Removes the next entry.
    pub(super) fn take_entry(&mut self) -> Next<M, M::Conflated> {
        let earlier = self.cold.as_mut().and_then(|cold| cold.take_first());
        if let Some(delivery) = earlier.or_else(|| self.messages.pop_front()) {
            return self.count_taken(delivery);
        }
        match self.cold.as_mut().and_then(|cold| cold.take_conflated()) {
            Some(conflated) => {
                self.bytes -= conflated.bytes;
                Next::Conflated(conflated)
            }
            None => Next::Empty,
        }
    }

    /// Removes the first message that is not paused. `Continue`: the search is not finished.
    pub(super) fn take_message(&mut self) -> ControlFlow<Next<M, M::Conflated>> {
        let earlier =
            self.cold.as_mut().map_or(ControlFlow::Break(None), |cold| cold.take_unpaused());
        earlier.map_break(|earlier| {
            let delivery = earlier.or_else(|| self.messages.pop_front());
            self.count_found(delivery)
        })
    }

    /// Removes the oldest message of a subscription, if it was published up to a position. `Continue`: the search is
    /// not finished. Cost: O(messages) if the subscription is not paused.
    pub(super) fn take_until(
        &mut self,
        subscription: SubscriptionId,
        until: Position,
    ) -> ControlFlow<Next<M, M::Conflated>> {
        let is_next =
            |queued: &Delivery<M>| queued.subscription == subscription && queued.at <= until;
        let found = match &mut self.cold {
            Some(cold) if cold.is_paused(subscription) => cold.take_paused(until),
            cold => {
                let earlier = cold.as_mut().and_then(|cold| cold.remove_first(is_next));
                ControlFlow::Break(earlier.or_else(|| {
                    let index = self.messages.iter().position(is_next)?;
                    self.messages.remove(index)
                }))
            }
        };
        found.map_break(|delivery| self.count_found(delivery))
    }

    /// Returns the message that a search has removed, or `Empty` if it found none.
    fn count_found(&mut self, found: Option<Delivery<M>>) -> Next<M, M::Conflated> {
        found.map_or(Next::Empty, |delivery| self.count_taken(delivery))
    }

    /// Returns a message that was removed. Its bytes no longer count.
    fn count_taken(&mut self, delivery: Delivery<M>) -> Next<M, M::Conflated> {
        self.bytes -= delivery.bytes;
        Next::Message(delivery)
    }

    /// Conflates the queued messages that allow it. Returns false if there are none.
    fn conflate_queued(&mut self) -> bool {
        let conflating = self.extract_messages(|queued| queued.conflates);
        if conflating.is_empty() {
            return false;
        }
        for queued in conflating {
            self.bytes -= queued.bytes;
            self.conflate(queued);
        }
        true
    }

    /// Whether a message is known to be neither paused nor on hold. Those from before a pause may be any.
    pub(super) fn has_message(&self) -> bool {
        !self.messages.is_empty() || self.cold.as_ref().is_some_and(|cold| cold.has_unpaused())
    }

    /// Whether there is nothing to take; messages may be on hold or paused.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_message() && self.cold.as_ref().is_none_or(|cold| cold.conflated_count() == 0)
    }

    /// Number of messages, those on hold or paused included.
    pub(super) fn messages_count(&self) -> usize {
        self.messages.len() + self.cold.as_ref().map_or(0, |cold| cold.messages_count())
    }

    pub(super) fn push(
        &mut self,
        limits: &Limits,
        delivery: Delivery<M>,
    ) -> Result<(), CloseReason> {
        if delivery.conflates && self.is_conflated(delivery.subscription) {
            self.conflate(delivery);
            return self.check_bytes(limits);
        }
        if let Err(reason) = self.check_capacity(limits, delivery.bytes) {
            if self.conflate_queued() {
                self.check_bytes(limits)?;
            }
            if delivery.conflates {
                self.conflate(delivery);
                return self.check_bytes(limits);
            }
            self.check_capacity(limits, delivery.bytes).map_err(|_| reason)?;
        }
        self.bytes += delivery.bytes;
        let delivery = match &mut self.cold {
            Some(cold) => cold.add_waiting(delivery),
            None => Some(delivery),
        };
        if let Some(delivery) = delivery {
            self.messages.push_back(delivery);
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

    fn is_conflated(&self, subscription: SubscriptionId) -> bool {
        self.cold.as_ref().is_some_and(|cold| cold.is_conflated(subscription))
    }

    fn conflate(&mut self, delivery: Delivery<M>) {
        self.bytes += self.cold_mut().conflate(delivery);
    }
}
