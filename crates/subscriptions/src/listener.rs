//! A listener: the subscriptions and the queue of one connected client.
//!
//! Not here: sets that change (`address_set_subscription`), the queue itself (`queue`).

use std::hash::Hash;
use std::sync::Arc;

use ledger::KeyKind;
use parking_lot::MutexGuard;

use crate::address_counts::AddressCounts;
use crate::address_set::{AddressSet, ReleaseTask};
use crate::delivery::{CloseReason, Hold, Message, Next};
use crate::error::{ListenError, SubscribeError};
use crate::filter::{Filter, Interest, Position, Topic};
use crate::id_set::Cursor;
use crate::ids::{ListenerId, SubscriptionId};
use crate::queue::Queue;
use crate::queue_memory::OwnerId;
use crate::registry::{
    Registry, Subscriber, Subscription, Subscriptions, count_addresses, fingerprint,
};
use crate::wake_listener::WakeListener;

/// One connected client. Dropping it ends its subscriptions.
pub struct Listener<S: Eq + Hash, M: Message, B> {
    pub(crate) subscriptions: Subscriptions<S, M, B>,
    pub(crate) id: ListenerId,
    pub(crate) queue: Arc<Queue<M>>,
}

impl<S: Eq + Hash, M: Message, B> Subscriptions<S, M, B> {
    /// A new listener of an owner. `wake` is called when its queue gets a message after it was empty, or is closed. A
    /// closure can be one.
    pub fn listen(
        &self,
        owner: OwnerId,
        wake: Arc<impl WakeListener>,
    ) -> Result<Listener<S, M, B>, ListenError> {
        let queue = Arc::new(Queue::new(Arc::clone(&self.shared.memory), wake));
        let limit = self.shared.limits.listeners_max;
        let id = self.shared.registry.lock().add_listener(owner, &queue, limit)?;
        Ok(Listener { subscriptions: self.clone(), id, queue })
    }
}

impl<S: Eq + Hash, M: Message, B> Listener<S, M, B> {
    /// Subscribes to publications after a position. Equal identities must have equal
    /// interests: those of the first listener are used, and all share one subscription. If this listener has the
    /// subscription already, nothing changes and the id is the same.
    ///
    /// Cost: the addresses of the interests, under one lock. Use [`Self::subscribe_set`] for sets of more than some
    /// thousands.
    pub fn subscribe(
        &self,
        identity: S,
        interests: Vec<Interest>,
        after: Position,
    ) -> Result<SubscriptionId, SubscribeError> {
        self.subscribe_and_lock(identity, interests, after).map(|(id, _)| id)
    }

    /// As [`Self::subscribe`], and the messages of the subscription wait until the listener knows its id: until
    /// [`Self::release`]. Also if the listener has the subscription already: its client does not know so.
    pub fn subscribe_on_hold(
        &self,
        identity: S,
        interests: Vec<Interest>,
        after: Position,
    ) -> Result<SubscriptionId, SubscribeError> {
        // Nothing is delivered while the registry is locked.
        let (id, _registry) = self.subscribe_and_lock(identity, interests, after)?;
        self.queue.hold(id);
        Ok(id)
    }

    #[expect(
        clippy::type_complexity,
        reason = "the lock of the registry, while the caller needs it"
    )]
    fn subscribe_and_lock(
        &self,
        identity: S,
        interests: Vec<Interest>,
        after: Position,
    ) -> Result<(SubscriptionId, MutexGuard<'_, Registry<S, M, B>>), SubscribeError> {
        if let Some(reason) = self.queue.closed() {
            return Err(reason.into());
        }
        let key = (Arc::new(identity), fingerprint(&interests));
        let count = count_addresses(&interests);
        let mut guard = self.subscriptions.shared.registry.lock();
        let registry = &mut *guard;
        let known = registry.by_identity.get(&key).copied();
        let entry = registry.listener_entry(self.id);
        if let Some(id) = known
            && entry.subscriptions.contains_key(&id)
        {
            return Ok((id, guard));
        }
        let pairs = if known.is_some() { 0 } else { count };
        registry.check(&self.subscriptions, self.id, AddressCounts { own: count, pairs })?;
        if known.is_none() && !registry.index.has_room_for(&interests) {
            return Err(self.subscriptions.addresses_full(count));
        }
        let id = known.unwrap_or_else(|| registry.new_id());
        let subscriber = Subscriber {
            listener: self.id,
            handle: id,
            queue: Arc::clone(&self.queue),
            after,
            next_sequence: 0,
            conflates: false,
        };
        registry.join(self.id, id, id, count);
        match registry.subscriptions.get_mut(&id) {
            Some(shared) => shared.subscribers.push(subscriber),
            None => {
                registry.by_identity.insert(key.clone(), id);
                let index_slot = registry.add_subscription(id, key.0, interests, vec![subscriber]);
                if let Some(subscription) = registry.subscriptions.get(&id) {
                    for interest in &subscription.interests {
                        registry.index.insert(index_slot, interest);
                    }
                }
            }
        }
        Ok((id, guard))
    }

    /// Ends a subscription of this listener, and drops its queued messages. False if the listener has none of that id.
    /// Cost: its addresses.
    pub fn unsubscribe(&self, id: SubscriptionId) -> bool {
        self.start_unsubscribe(id).is_some()
    }

    /// As [`Self::unsubscribe`]: the subscription has ended. [`UnsubscribeTask::step`] cleans up.
    pub fn start_unsubscribe(&self, id: SubscriptionId) -> Option<UnsubscribeTask<S, M, B>> {
        let mut registry = self.subscriptions.shared.registry.lock();
        let ended = registry.remove_subscriber(self.id, id)?;
        self.queue.remove_subscription(id);
        drop(registry);
        Some(UnsubscribeTask::new(&self.subscriptions, ended))
    }

    /// Sends this listener alone the last message of one of its subscriptions, and ends it. False, and
    /// nothing is sent, if the subscription has ended before.
    pub fn finish(&self, id: SubscriptionId, body: M, bytes: usize) -> bool {
        let mut registry = self.subscriptions.shared.registry.lock();
        let Some(subscriber) = registry.subscriber(self.id, id) else { return false };
        let delivery = subscriber.delivery(body, bytes, Position::MAX);
        let Some(ended) = registry.remove_subscriber(self.id, id) else { return false };
        let must_wake = self.queue.push(&self.subscriptions.shared.limits, delivery);
        drop(registry);
        if must_wake {
            self.queue.wake();
        }
        self.cleanup(ended);
        self.subscriptions.enforce_memory_limit();
        true
    }

    /// Takes the holds of the subscriptions that were made since the last call ([`Self::subscribe_on_hold`]).
    pub fn take_new_holds(&self) -> Vec<Hold> {
        self.queue.take_new_holds()
    }

    /// Whether messages wait for this hold. They do not if the subscription was ended or made again.
    pub fn has_hold(&self, hold: Hold) -> bool {
        self.queue.has_hold(hold)
    }

    /// Ends a hold. The caller then sends the last message, if it was published meanwhile ([`Self::finish`]). `wake` is
    /// not called: take the messages with [`Self::next`].
    pub fn release(&self, hold: Hold) {
        // A publication finds all of its listeners on hold, or none.
        let _registry = self.subscriptions.shared.registry.lock();
        self.queue.release(hold);
    }

    /// The number of its subscriptions.
    pub fn subscriptions(&self) -> usize {
        self.subscriptions.shared.registry.lock().listener_entry(self.id).subscriptions.len()
    }

    /// The number of addresses in its sets.
    pub fn tracked_addresses(&self) -> usize {
        self.subscriptions.shared.registry.lock().listener_entry(self.id).tracked_addresses
    }

    /// Removes and returns the oldest message.
    pub fn next(&self) -> Next<M, M::Conflated> {
        self.queue.pop()
    }

    /// Takes the oldest message; conflated ones stay for [`Self::next`].
    pub fn next_message(&self) -> Next<M, M::Conflated> {
        self.queue.pop_message()
    }

    /// The number of messages that wait, those on hold and paused ones included.
    pub fn queued_messages(&self) -> usize {
        self.queue.waiting().0
    }

    /// Takes the oldest message of a subscription, paused or not, if it was published up to a step.
    pub fn next_until(&self, subscription: SubscriptionId, step: u64) -> Next<M, M::Conflated> {
        self.queue.pop_until(subscription, Position(step))
    }

    /// Pauses [`Self::next_message`] for the messages of one subscription, or of none. A message of another one wakes
    /// the listener although paused ones wait.
    pub fn pause_delivery(&self, subscription: Option<SubscriptionId>) {
        self.queue.pause_delivery(subscription);
    }

    /// Stores a message while it is written to the listener, so that an eviction frees it. Fails if the listener is
    /// closed, except by a shutdown.
    pub fn start_writing(&self, body: M) -> Result<(), CloseReason> {
        self.queue.start_writing(body)
    }

    /// The message that is being written. `None` if the listener was evicted.
    pub fn writing(&self) -> Option<M> {
        self.queue.writing()
    }

    /// Removes the message that was written.
    pub fn finish_writing(&self) -> Option<M> {
        self.queue.finish_writing()
    }

    /// Returns the reason if the listener is closed.
    pub fn closed(&self) -> Option<CloseReason> {
        self.queue.closed()
    }

    /// Removes an ended subscription from the index, in steps, and releases its addresses.
    pub(crate) fn cleanup(&self, ended: Option<(SubscriptionId, Subscription<S, M>)>) {
        drop(UnsubscribeTask::new(&self.subscriptions, ended));
    }
}

/// Cleans up a subscription that has ended, in steps of some tens of microseconds. Dropping it runs the remaining
/// steps.
pub struct UnsubscribeTask<S: Eq + Hash, M: Message, B> {
    subscriptions: Subscriptions<S, M, B>,
    /// The id of the subscription, and its slot in the index.
    index_slot: Option<(SubscriptionId, u32)>,
    indexed: Vec<(Topic, KeyKind, Arc<AddressSet>)>,
    cursor: Cursor,
    removed_sets: Vec<Arc<AddressSet>>,
    releases: Vec<ReleaseTask>,
}

impl<S: Eq + Hash, M: Message, B> UnsubscribeTask<S, M, B> {
    fn new(
        subscriptions: &Subscriptions<S, M, B>,
        ended: Option<(SubscriptionId, Subscription<S, M>)>,
    ) -> Self {
        let mut task = Self {
            subscriptions: subscriptions.clone(),
            index_slot: None,
            indexed: Vec::new(),
            cursor: Cursor::default(),
            removed_sets: Vec::new(),
            releases: Vec::new(),
        };
        let Some((id, ended)) = ended else { return task };
        task.index_slot = Some((id, ended.index_slot));
        for interest in ended.interests {
            match interest.filter {
                Filter::Set(key_kind, set) => task.indexed.push((interest.topic, key_kind, set)),
                Filter::All | Filter::Exact(_) => {
                    subscriptions.shared.registry.lock().index.remove(ended.index_slot, &interest);
                }
            }
        }
        task
    }

    /// Runs the next step. False if nothing is left to do.
    pub fn step(&mut self) -> bool {
        if let (Some((_, index_slot)), Some((topic, key_kind, set))) =
            (self.index_slot, self.indexed.last())
        {
            if let Some(batch) = self.cursor.next(set.id_set()) {
                let index = &mut self.subscriptions.shared.registry.lock().index;
                index.remove_ids(*topic, *key_kind, &batch, index_slot);
                return true;
            }
            self.cursor = Cursor::default();
            self.removed_sets.extend(self.indexed.pop().map(|(_, _, set)| set));
            return true;
        }
        if let Some((id, index_slot)) = self.index_slot.take() {
            let mut registry = self.subscriptions.shared.registry.lock();
            registry.free_slot(id, index_slot);
            self.removed_sets.iter().for_each(|set| registry.remove_set(set));
            drop(registry);
            let last = self.removed_sets.drain(..).filter_map(Arc::into_inner);
            self.releases.extend(last.map(ReleaseTask::new));
            return true;
        }
        let Some(release) = self.releases.last_mut() else { return false };
        if !release.step() {
            self.releases.pop();
        }
        true
    }
}

impl<S: Eq + Hash, M: Message, B> Drop for UnsubscribeTask<S, M, B> {
    fn drop(&mut self) {
        while self.step() {}
    }
}

impl<S: Eq + Hash, M: Message, B> Drop for Listener<S, M, B> {
    fn drop(&mut self) {
        loop {
            let mut registry = self.subscriptions.shared.registry.lock();
            let Some(handle) =
                registry.listener_entry(self.id).subscriptions.keys().next().copied()
            else {
                registry.listeners.remove(&self.id);
                return;
            };
            let ended = registry.remove_subscriber(self.id, handle);
            drop(registry);
            self.cleanup(ended.flatten());
        }
    }
}

impl<S: Eq + Hash, M: Message, B> Registry<S, M, B> {
    pub(crate) fn listener_entry(
        &mut self,
        listener: ListenerId,
    ) -> &mut crate::registry::ListenerEntry<M> {
        let Some(entry) = self.listeners.get_mut(&listener) else {
            unreachable!("an entry lives as long as its listener")
        };
        entry
    }

    /// The subscriber that a listener is in one of its subscriptions.
    pub(crate) fn subscriber(
        &mut self,
        listener: ListenerId,
        handle: SubscriptionId,
    ) -> Option<&mut Subscriber<M>> {
        let id = *self.listener_entry(listener).subscriptions.get(&handle)?;
        let subscribers = &mut self.subscriptions.get_mut(&id)?.subscribers;
        subscribers
            .iter_mut()
            .find(|subscriber| subscriber.listener == listener && subscriber.handle == handle)
    }

    /// Whether a listener may have one more subscription with these addresses. The distinct ones are checked when they
    /// are indexed.
    pub(crate) fn check(
        &mut self,
        subscriptions: &Subscriptions<S, M, B>,
        listener: ListenerId,
        added: AddressCounts,
    ) -> Result<(), SubscribeError> {
        let limits = &subscriptions.shared.limits;
        let limit = limits.subscriptions_per_listener_max;
        if self.listener_entry(listener).subscriptions.len() >= limit {
            return Err(SubscribeError::ListenerFull { limit });
        }
        let limit = limits.subscriptions_max;
        if self.pairs >= limit || !self.has_free_slot() {
            return Err(SubscribeError::NodeFull { limit });
        }
        self.check_addresses(subscriptions, listener, added)
    }

    /// Records that a listener has a subscription.
    pub(crate) fn join(
        &mut self,
        listener: ListenerId,
        handle: SubscriptionId,
        id: SubscriptionId,
        count: usize,
    ) {
        self.listener_entry(listener).subscriptions.insert(handle, id);
        self.count_addresses(listener, count);
        self.pairs += 1;
    }
}
