//! One connected client: what it subscribes to, and what it takes.
//!
//! Not here: sets that change (`tracked`), the queue itself (`queue`).

use std::hash::Hash;
use std::sync::Arc;

use ledger::KeyKind;

use crate::address_set::{AddressSet, ReleaseTask};
use crate::filter::{Filter, Interest, Position, Topic};
use crate::id_set::Cursor;
use crate::queue::{CloseReason, Message, Next, Queue};
use crate::registry::{
    ListenerId, Registry, SubscribeError, Subscriber, Subscription, SubscriptionId, Subscriptions,
    count_addresses, fingerprint,
};

/// One connected client. Dropping it ends its subscriptions.
pub struct Listener<S: Eq + Hash, M: Message, B> {
    pub(crate) subscriptions: Subscriptions<S, M, B>,
    pub(crate) id: ListenerId,
    pub(crate) queue: Arc<Queue<M>>,
}

impl<S: Eq + Hash, M: Message, B> Listener<S, M, B> {
    /// Subscribes to what is published after a position. Equal identities must come with equal
    /// interests: whoever is first brings them, and all share one subscription. Asking again for one
    /// that this listener has changes nothing and gives the same id.
    ///
    /// Cost: the addresses of the interests, in one hold of the lock: sets beyond some thousands
    /// belong to [`Self::track`].
    pub fn subscribe(
        &self,
        identity: S,
        interests: Vec<Interest>,
        after: Position,
    ) -> Result<SubscriptionId, SubscribeError> {
        if let Some(why) = self.queue.closed() {
            return Err(why.into());
        }
        let key = (Arc::new(identity), fingerprint(&interests));
        let count = count_addresses(&interests);
        let mut engine = self.subscriptions.shared.registry.lock();
        let engine = &mut *engine;
        let known = engine.by_identity.get(&key).copied();
        let entry = engine.listener_entry(self.id);
        if let Some(id) = known
            && entry.subscriptions.contains_key(&id)
        {
            return Ok(id);
        }
        engine.check(
            &self.subscriptions,
            self.id,
            count,
            if known.is_some() { 0 } else { count },
        )?;
        let id = known.unwrap_or_else(|| engine.new_id());
        let member = Subscriber {
            listener: self.id,
            handle: id,
            queue: Arc::clone(&self.queue),
            after,
            next_sequence: 0,
            conflates: false,
        };
        engine.join(self.id, id, id, count);
        match engine.subscriptions.get_mut(&id) {
            Some(shared) => shared.subscribers.push(member),
            None => {
                engine.by_identity.insert(key.clone(), id);
                let place = engine.add_subscription(id, key.0, interests, vec![member]);
                if let Some(begun) = engine.subscriptions.get(&id) {
                    for interest in &begun.interests {
                        engine.index.insert(place, interest);
                    }
                }
            }
        }
        Ok(id)
    }

    /// Ends a subscription of this listener; messages that wait for it are dropped. False if it has
    /// none of that id. Cost: its addresses.
    pub fn unsubscribe(&self, id: SubscriptionId) -> bool {
        self.start_unsubscribe(id).is_some()
    }

    /// As [`Self::unsubscribe`]: it has ended, and what is left of it goes by [`UnsubscribeTask::step`].
    pub fn start_unsubscribe(&self, id: SubscriptionId) -> Option<UnsubscribeTask<S, M, B>> {
        let mut engine = self.subscriptions.shared.registry.lock();
        let ended = engine.remove_subscriber(self.id, id)?;
        self.queue.remove_subscription(id);
        drop(engine);
        Some(UnsubscribeTask::new(&self.subscriptions, ended))
    }

    /// Sends this listener alone the last message of one of its subscriptions, which ends. False, and
    /// nothing is sent, if it has none of that id: it ended before.
    pub fn finish(&self, id: SubscriptionId, body: M, bytes: usize) -> bool {
        let mut engine = self.subscriptions.shared.registry.lock();
        let Some(member) = engine.subscriber(self.id, id) else { return false };
        let delivery = member.delivery(body, bytes, Position::MAX);
        let Some(ended) = engine.remove_subscriber(self.id, id) else { return false };
        self.queue.push(&self.subscriptions.shared.limits, delivery);
        drop(engine);
        self.cleanup(ended);
        self.subscriptions.enforce_memory_limit();
        true
    }

    /// How many addresses its sets have.
    pub fn tracked_addresses(&self) -> usize {
        self.subscriptions.shared.registry.lock().listener_entry(self.id).tracked_addresses
    }

    /// Takes the oldest message.
    pub fn next(&self) -> Next<M, M::Conflated> {
        self.queue.pop()
    }

    /// Takes the oldest message; what was conflated stays for [`Self::next`].
    pub fn next_message(&self) -> Next<M, M::Conflated> {
        self.queue.pop_message()
    }

    /// As [`Self::next_message`], but only what was published of a subscription up to a step, though
    /// it is held back.
    pub fn next_until(&self, of: SubscriptionId, step: u64) -> Next<M, M::Conflated> {
        self.queue.pop_until(of, Position(step))
    }

    /// From now on [`Self::next_message`] holds back what waits for one subscription, or for none.
    pub fn pause_delivery(&self, held: Option<SubscriptionId>) {
        self.queue.pause_delivery(held);
    }

    /// Keeps a message while it is written to the listener, so that an eviction frees it. A closed listener keeps
    /// none.
    pub fn start_writing(&self, body: M) -> Result<(), CloseReason> {
        self.queue.start_writing(body)
    }

    /// The message that is being written. `None` if the listener was evicted.
    pub fn writing(&self) -> Option<M> {
        self.queue.writing()
    }

    /// Takes the message that was written.
    pub fn finish_writing(&self) -> Option<M> {
        self.queue.finish_writing()
    }

    /// Why it hears nothing more, if so.
    pub fn closed(&self) -> Option<CloseReason> {
        self.queue.closed()
    }

    /// Takes what ended out of the index in slices, then gives its addresses back.
    pub(crate) fn cleanup(&self, ended: Option<(SubscriptionId, Subscription<S, M>)>) {
        drop(UnsubscribeTask::new(&self.subscriptions, ended));
    }
}

/// What is left of a subscription that ended, on its way out in steps of some tens of microseconds.
/// Dropping it does the rest.
pub struct UnsubscribeTask<S: Eq + Hash, M: Message, B> {
    subscriptions: Subscriptions<S, M, B>,
    /// Which subscription it was, and its place in the index.
    index_slot: Option<(SubscriptionId, u32)>,
    indexed: Vec<(Topic, KeyKind, Arc<AddressSet>)>,
    cursor: Cursor,
    removed_sets: Vec<Arc<AddressSet>>,
    releases: Vec<ReleaseTask>,
}

impl<S: Eq + Hash, M: Message, B> UnsubscribeTask<S, M, B> {
    fn new(
        subs: &Subscriptions<S, M, B>,
        ended: Option<(SubscriptionId, Subscription<S, M>)>,
    ) -> Self {
        let mut ending = Self {
            subscriptions: subs.clone(),
            index_slot: None,
            indexed: Vec::new(),
            cursor: Cursor::default(),
            removed_sets: Vec::new(),
            releases: Vec::new(),
        };
        let Some((id, ended)) = ended else { return ending };
        ending.index_slot = Some((id, ended.index_slot));
        for interest in ended.interests {
            match interest.filter {
                Filter::Set(facet, set) => ending.indexed.push((interest.topic, facet, set)),
                Filter::All | Filter::Exact(_) => {
                    subs.shared.registry.lock().index.remove(ended.index_slot, &interest);
                }
            }
        }
        ending
    }

    /// Does the next step. False if nothing is left to do.
    pub fn step(&mut self) -> bool {
        if let (Some((_, place)), Some((topic, facet, set))) =
            (self.index_slot, self.indexed.last())
        {
            if let Some(piece) = self.cursor.next(set.id_set()) {
                let index = &mut self.subscriptions.shared.registry.lock().index;
                index.remove_ids(*topic, *facet, &piece, place);
                return true;
            }
            self.cursor = Cursor::default();
            self.removed_sets.extend(self.indexed.pop().map(|(_, _, set)| set));
            return true;
        }
        if let Some((id, place)) = self.index_slot.take() {
            let mut engine = self.subscriptions.shared.registry.lock();
            engine.free_slot(id, place);
            self.removed_sets.iter().for_each(|set| engine.remove_set(set));
            drop(engine);
            let last = self.removed_sets.drain(..).filter_map(Arc::into_inner);
            self.releases.extend(last.map(ReleaseTask::new));
            return true;
        }
        let Some(going) = self.releases.last_mut() else { return false };
        if !going.step() {
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
            let mut engine = self.subscriptions.shared.registry.lock();
            let Some(handle) = engine.listener_entry(self.id).subscriptions.keys().next().copied()
            else {
                engine.listeners.remove(&self.id);
                return;
            };
            let ended = engine.remove_subscriber(self.id, handle);
            drop(engine);
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

    /// A listener's part in one of its subscriptions.
    pub(crate) fn subscriber(
        &mut self,
        listener: ListenerId,
        handle: SubscriptionId,
    ) -> Option<&mut Subscriber<M>> {
        let id = *self.listener_entry(listener).subscriptions.get(&handle)?;
        let members = &mut self.subscriptions.get_mut(&id)?.subscribers;
        members.iter_mut().find(|member| member.listener == listener && member.handle == handle)
    }

    /// Whether a listener may have one subscription more, of so many addresses, of which so many are
    /// new to the node.
    pub(crate) fn check(
        &mut self,
        subs: &Subscriptions<S, M, B>,
        listener: ListenerId,
        count: usize,
        new: usize,
    ) -> Result<(), SubscribeError> {
        let limits = &subs.shared.limits;
        let limit = limits.subscriptions_per_listener_max;
        if self.listener_entry(listener).subscriptions.len() >= limit {
            return Err(SubscribeError::ListenerFull { limit });
        }
        let limit = limits.subscriptions_max;
        if self.pairs >= limit || !self.has_free_slot() {
            return Err(SubscribeError::NodeFull { limit });
        }
        self.check_addresses(subs, listener, count, new)
    }

    /// Whether a listener may have so many addresses more, of which so many are new to the node.
    pub(crate) fn check_addresses(
        &mut self,
        subs: &Subscriptions<S, M, B>,
        listener: ListenerId,
        count: usize,
        new: usize,
    ) -> Result<(), SubscribeError> {
        let limits = &subs.shared.limits;
        let limit = limits.addresses_per_listener_max;
        if self.listener_entry(listener).tracked_addresses + count > limit {
            return Err(SubscribeError::ListenerAddressesFull { limit });
        }
        let limit = limits.addresses_max;
        if self.tracked_addresses + new > limit {
            return Err(SubscribeError::AddressesFull { limit });
        }
        Ok(())
    }

    /// Notes that a listener has a subscription now.
    pub(crate) fn join(
        &mut self,
        listener: ListenerId,
        handle: SubscriptionId,
        id: SubscriptionId,
        count: usize,
    ) {
        let entry = self.listener_entry(listener);
        entry.subscriptions.insert(handle, id);
        entry.tracked_addresses += count;
        self.pairs += 1;
    }
}
