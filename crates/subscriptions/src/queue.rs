//! One listener's queue: the memory of a slow client, and how it is bounded.
//!
//! In: messages, from the publisher. Out: the same, those of a subscription in order, to the connection that writes
//! them to the client.
//! Bounds: `Limits::queue_messages_max`, and `Limits::queue_bytes_max`, where a message counts with its entry.
//! Invariant: a full queue never blocks the publisher. Messages of subscriptions that allow it are conflated: the queue
//! stores the newest state of each item, which is delivered as one message after all others. If the queue is still too
//! full, it is emptied and closed with the reason.
//! The messages of one subscription may be paused ([`Queue::pause_delivery`]), so that the connection can write
//! something else before them. The publisher may wait for the lock, and to move 16 MiB of short messages takes
//! milliseconds. So a pause moves whole buffers, and each message that is taken moves a bounded number of others
//! (`cold_state`).
//! The messages of a new subscription are held until its listener knows the id
//! ([`Queue::hold`]). Both count like the others, which do not wait for them. A long message that is being written
//! stays here ([`Queue::start_writing`]), so that its memory is freed as soon as the queue is evicted, even while the
//! socket is full.
//! Cost: adding a message touches the two cache lines of [`Queue`], the buffer of its messages, which is new or in use,
//! and the waker of the listener. The queue of an idle listener has nothing else on the heap.
//! Not here: the bounds of the messages and their order (`queue_state`), conflated and held messages (`cold_state`),
//! and waking (`wake_listener`).

mod cold_state;
mod message_buffers;
mod queue_state;

use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use self::queue_state::QueueState;
use crate::delivery::{CloseReason, Delivery, Hold, Message, Next};
use crate::filter::Position;
use crate::ids::SubscriptionId;
use crate::limits::Limits;
use crate::queue_memory::QueueMemory;
use crate::wake_listener::WakeListener;

/// Bytes of a queue: two cache lines.
const QUEUE_BYTES: usize = 128;

/// Aligned to two cache lines: many processors load both at the first access to one. The fields are in this order, so
/// that the lock is in the first line and `wake` in the second ([`Queue::load_lines`]).
#[repr(C, align(128))]
pub(crate) struct Queue<M: Message> {
    inner: Mutex<QueueState<M>>,
    /// The account that the entries are charged to.
    memory: Arc<QueueMemory>,
    /// Called, without the lock, when there is a first message to take, and when the queue is closed. Conflated
    /// messages and those of a paused subscription may stay for long, so a message after them calls it too.
    wake: Arc<dyn WakeListener>,
}

impl<M: Message> Queue<M> {
    pub(crate) fn new(memory: Arc<QueueMemory>, wake: Arc<dyn WakeListener>) -> Self {
        const { assert!(size_of::<Self>() == QUEUE_BYTES, "a queue is two cache lines") }
        Self { inner: Mutex::new(QueueState::new()), memory, wake }
    }

    /// Adds a message. If the queue is full, messages that may be conflated are; if it is still full, the queue is
    /// closed. A closed queue ignores the message. Returns whether the caller must wake the listener, then or later.
    #[must_use = "the listener is not woken here"]
    pub(crate) fn push(&self, limits: &Limits, delivery: Delivery<M>) -> bool {
        let mut inner = self.inner.lock();
        if inner.closed.is_some() {
            return false;
        }
        let had_message = inner.has_message();
        let was_empty = inner.is_empty();
        let pushed = inner.push(limits, delivery);
        let has_first = match inner.has_message() {
            true => !had_message,
            false => was_empty && !inner.is_empty(),
        };
        inner.settle(&self.memory);
        drop(inner);
        match pushed {
            Ok(()) => has_first,
            Err(reason) => self.start_close(reason),
        }
    }

    /// Wakes the task of the listener.
    pub(crate) fn wake(&self) {
        self.wake.wake();
    }

    /// Returns the waker of the listener, for later.
    pub(crate) fn waker(&self) -> Arc<dyn WakeListener> {
        Arc::clone(&self.wake)
    }

    /// Closes the queue, and drops its messages. The first reason stays. A message that is being written stays too,
    /// so that the listener can get the reason after it.
    pub(crate) fn close(&self, reason: CloseReason) {
        if self.start_close(reason) {
            self.wake();
        }
    }

    /// As [`Self::close`], without waking the listener. False if the queue was closed already.
    fn start_close(&self, reason: CloseReason) -> bool {
        let mut inner = self.inner.lock();
        if inner.closed.is_some() {
            return false;
        }
        inner.closed = Some(reason);
        inner.bytes = 0;
        let messages = std::mem::take(&mut inner.messages);
        let mut cold = inner.cold.take();
        if let Some(body) = cold.as_mut().and_then(|cold| cold.writing.take()) {
            inner.cold_mut().writing = Some(body);
        }
        inner.settle(&self.memory);
        drop(inner);
        drop((messages, cold));
        true
    }

    /// As [`Self::close`], and drops the message that is being written, also of a queue that is closed already.
    pub(crate) fn evict(&self, reason: CloseReason) {
        self.close(reason);
        let writing = self.finish_writing();
        if writing.is_some() {
            drop(writing);
            self.wake();
        }
    }

    /// Stores a message while it is written. Fails if the queue is closed, except by a shutdown: a call may have a
    /// reply that its client must get before the reason.
    pub(crate) fn start_writing(&self, body: M) -> Result<(), CloseReason> {
        let mut inner = self.inner.lock();
        match inner.closed {
            None | Some(CloseReason::ShutDown) => {
                inner.cold_mut().writing = Some(body);
                Ok(())
            }
            Some(reason) => Err(reason),
        }
    }

    /// The message that is being written. `None` if the queue was evicted.
    pub(crate) fn writing(&self) -> Option<M> {
        self.inner.lock().cold.as_ref()?.writing.clone()
    }

    /// Removes the message that was written.
    pub(crate) fn finish_writing(&self) -> Option<M> {
        let mut inner = self.inner.lock();
        let writing = inner.cold.as_mut()?.writing.take();
        inner.free_unused();
        writing
    }

    /// The approximate bytes that evicting it frees. Cost: O(messages).
    pub(crate) fn memory(&self) -> usize {
        let inner = self.inner.lock();
        let queued: usize = inner.messages.iter().map(|delivery| delivery.body.memory()).sum();
        inner.charged + queued + inner.cold.as_ref().map_or(0, |cold| cold.body_memory())
    }

    pub(crate) fn pop(&self) -> Next<M, M::Conflated> {
        self.pop_with(|inner| ControlFlow::Break(inner.take_entry()))
    }

    /// As [`Self::pop`], except conflated messages and those of the paused subscription.
    pub(crate) fn pop_message(&self) -> Next<M, M::Conflated> {
        self.pop_with(QueueState::take_message)
    }

    /// Removes an entry. `take` is repeated while it returns `Continue`; the publisher may lock the queue in between.
    fn pop_with(
        &self,
        take: impl Fn(&mut QueueState<M>) -> ControlFlow<Next<M, M::Conflated>>,
    ) -> Next<M, M::Conflated> {
        let mut inner = self.inner.lock();
        let next = loop {
            if let Some(reason) = inner.closed {
                return Next::Closed(reason);
            }
            if let ControlFlow::Break(next) = take(&mut inner) {
                break next;
            }
            MutexGuard::bump(&mut inner);
        };
        inner.settle(&self.memory);
        next
    }

    /// The oldest message of one subscription, paused or not, if it was published up to a position.
    pub(crate) fn pop_until(
        &self,
        subscription: SubscriptionId,
        until: Position,
    ) -> Next<M, M::Conflated> {
        self.pop_with(|inner| inner.take_until(subscription, until))
    }

    /// Pauses the messages of this subscription, or of none, and ends the previous pause. The messages from before come
    /// before later ones, and may wake the listener. Cost: O(1).
    pub(crate) fn pause_delivery(&self, subscription: Option<SubscriptionId>) {
        let mut inner = self.inner.lock();
        let had_message = inner.has_message();
        inner.replace_pause(subscription);
        let has_earlier = inner.cold.as_ref().is_some_and(|cold| cold.has_earlier());
        let has_first = !had_message && has_earlier;
        inner.free_unused();
        drop(inner);
        if has_first {
            self.wake();
        }
    }

    /// Holds the messages of a subscription, also the queued ones: its listener does not know the id yet. Cost:
    /// O(messages).
    pub(crate) fn hold(&self, subscription: SubscriptionId) {
        let mut inner = self.inner.lock();
        // A repeated call must not extend a hold.
        if inner.closed.is_some() || inner.is_on_hold(subscription) {
            return;
        }
        inner.holds_count += 1;
        let hold = Hold { subscription, number: inner.holds_count };
        let messages = inner.extract_messages(|queued| queued.subscription == subscription);
        inner.cold_mut().start_hold(hold, messages);
        inner.settle(&self.memory);
    }

    /// Removes the holds that were not taken yet.
    pub(crate) fn take_new_holds(&self) -> Vec<Hold> {
        let mut inner = self.inner.lock();
        let Some(cold) = &mut inner.cold else { return Vec::new() };
        let taken = cold.take_new_holds();
        inner.settle(&self.memory);
        taken
    }

    /// Whether a subscription is still held by this hold.
    pub(crate) fn has_hold(&self, hold: Hold) -> bool {
        self.inner.lock().cold.as_ref().is_some_and(|cold| cold.has_hold(hold))
    }

    /// Ends a hold, if it is the newest of its subscription. Its messages come after those that are queued.
    pub(crate) fn release(&self, hold: Hold) {
        let mut inner = self.inner.lock();
        let held = inner.cold.as_mut().and_then(|cold| cold.end_hold(hold));
        if let Some(mut messages) = held {
            inner.messages_for(hold.subscription).append(&mut messages);
            inner.settle(&self.memory);
        }
    }

    /// Whether a subscription is on hold.
    pub(crate) fn is_on_hold(&self, subscription: SubscriptionId) -> bool {
        self.inner.lock().is_on_hold(subscription)
    }

    /// Queued messages and their bytes. The conflated messages of a subscription count as one.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        let conflated = inner.cold.as_ref().map_or(0, |cold| cold.conflated_count());
        (inner.messages_count() + conflated, inner.bytes)
    }

    /// Loads the queue into the CPU's caches, for a publisher that adds a message next. The result has no meaning; the
    /// caller uses it, so that the loads are not optimised away.
    pub(crate) fn load_lines(&self) -> usize {
        usize::from(self.inner.is_locked()) ^ Arc::as_ptr(&self.wake).cast::<()>().addr()
    }

    /// Loads the waker into the CPU's caches, as [`Self::load_lines`] does with the queue. The waker's reference count
    /// may be in a cache line of its own.
    pub(crate) fn load_waker(&self) -> usize {
        usize::from(self.wake.is_woken()) ^ Arc::strong_count(&self.wake)
    }

    pub(crate) fn closed(&self) -> Option<CloseReason> {
        self.inner.lock().closed
    }

    /// Drops the messages of a subscription that its listener has ended.
    pub(crate) fn remove_subscription(&self, subscription: SubscriptionId) {
        let mut inner = self.inner.lock();
        let removed = inner.extract_messages(|queued| queued.subscription == subscription);
        let mut removed_bytes: usize = removed.iter().map(|delivery| delivery.bytes).sum();
        if let Some(cold) = &mut inner.cold {
            removed_bytes += cold.remove_subscription(subscription);
        }
        inner.bytes -= removed_bytes;
        inner.settle(&self.memory);
        drop(inner);
        drop(removed);
    }
}

impl<M: Message> Drop for Queue<M> {
    fn drop(&mut self) {
        self.memory.replace(self.inner.get_mut().charged, 0);
    }
}

#[cfg(test)]
mod tests;
