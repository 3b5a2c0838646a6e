//! Messages of the publisher, and their delivery to the queues of listeners.
//!
//! Shape: [`Subscriptions::deliver`] takes messages in batches. It first loads the queues of a batch, one level of
//! pointers after the other: most of them are not in the CPU's caches if there are many listeners, and the cache misses
//! of one level overlap. Then it adds the messages, under the registry's lock. It wakes the listeners without the lock.
//! Invariant: messages are added to a queue in the order of the publisher.
//! Not here: which subscriptions a publication matches (`registry`), the bounds of a queue (`queue`).

use std::hash::Hash;
use std::hint::black_box;

use crate::delivery::Message;
use crate::filter::Position;
use crate::ids::SubscriptionId;
use crate::limits::Limits;
use crate::registry::{Registry, Subscriber, Subscription, Subscriptions};
use crate::wake_listener::PendingWakes;

/// Number of messages, or of listeners of one message, with queues that are loaded together. A larger value overlaps
/// more cache misses. A smaller one leaves the queues, some 400 bytes each with their subscriptions, in a closer cache
/// until they are used.
const BATCH_LEN: usize = 64;

/// A message to all listeners of a subscription.
pub struct Publication<M> {
    /// The subscription: the id of a match.
    pub subscription: SubscriptionId,
    /// The encoded message for the listeners.
    pub body: M,
    /// Bytes that it counts in a queue.
    pub bytes: usize,
    /// The position of its publication. Listeners that subscribed at it or after it do not get the message.
    pub at: Position,
    /// The subscription's state after the message.
    pub after_delivery: AfterDelivery,
}

/// The state of a subscription after a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterDelivery {
    /// The subscription continues for all its listeners.
    Continue,
    /// It ends for all listeners that got the message.
    End,
}

impl<S: Eq + Hash, M: Message, B> Subscriptions<S, M, B> {
    /// Delivers messages to the listeners of their subscriptions, in order. A listener that is on hold gets no last
    /// message: it catches up ([`crate::Listener::release`]). The listeners are woken at the end, or earlier if there
    /// are many. Then enforces the memory limit ([`Self::enforce_memory_limit`]). Returns the number of deliveries,
    /// which is also the cost.
    pub fn deliver(&self, messages: impl IntoIterator<Item = Publication<M>>) -> usize {
        let mut messages = messages.into_iter().fuse();
        let mut delivered = 0;
        let mut batch = Vec::new();
        // Dropped without the lock, also if `messages` panics: declared before it.
        let mut ended = Vec::new();
        let mut wakes = PendingWakes::default();
        let mut registry = self.shared.registry.lock();
        loop {
            batch.extend(messages.by_ref().take(BATCH_LEN));
            if batch.is_empty() {
                break;
            }
            if batch.len() > 1 {
                registry.prefetch_queues(&batch);
            }
            for message in batch.drain(..) {
                delivered += registry.push_message(&message, &self.shared.limits, &mut wakes);
                if message.after_delivery == AfterDelivery::End {
                    ended.extend(registry.end_before(message.subscription, message.at));
                }
            }
        }
        drop(registry);
        drop(wakes);
        self.enforce_memory_limit();
        delivered
    }
}

impl<S: Eq + Hash, M: Message, B> Registry<S, M, B> {
    /// Loads the subscriptions of messages, and the queue of the first listener of each, into the CPU's caches.
    fn prefetch_queues(&self, messages: &[Publication<M>]) {
        let subscriptions: Vec<&Subscription<S, M>> = messages
            .iter()
            .filter_map(|message| self.subscriptions.get(&message.subscription))
            .collect();
        let first: Vec<&Subscriber<M>> = subscriptions
            .iter()
            .filter_map(|subscription| subscription.subscribers.first())
            .collect();
        load_queues(first.iter().copied());
    }

    /// Adds a message to the queues of its subscription's listeners. Returns how many get it.
    fn push_message(
        &mut self,
        message: &Publication<M>,
        limits: &Limits,
        wakes: &mut PendingWakes,
    ) -> usize {
        let Some(subscription) = self.subscriptions.get_mut(&message.subscription) else {
            return 0;
        };
        let is_last = message.after_delivery == AfterDelivery::End;
        let mut delivered = 0;
        for subscribers in subscription.subscribers.chunks_mut(BATCH_LEN) {
            if subscribers.len() > 1 {
                load_queues(subscribers.iter());
            }
            for subscriber in subscribers {
                if subscriber.after >= message.at || (is_last && subscriber.is_on_hold()) {
                    continue;
                }
                let delivery = subscriber.delivery(message.body.clone(), message.bytes, message.at);
                if subscriber.queue.push(limits, delivery) {
                    wakes.push(subscriber.queue.waker());
                }
                delivered += 1;
            }
        }
        delivered
    }
}

/// Loads the queues and the wakers of listeners into the CPU's caches, in one pass for each level of pointers. The sums
/// are not used: computing them loads the words.
fn load_queues<'a, M: Message + 'a>(subscribers: impl Iterator<Item = &'a Subscriber<M>> + Clone) {
    black_box(subscribers.clone().fold(0, |sum, it| sum ^ it.next_sequence));
    black_box(subscribers.clone().fold(0, |sum, it| sum ^ it.queue.load_lines()));
    black_box(subscribers.fold(0, |sum, it| sum ^ it.queue.load_waker()));
}
