//! One connected client: what it subscribes to, and what it takes.
//!
//! Not here: sets that change (`tracked`), the queue itself (`queue`).

use std::hash::Hash;
use std::sync::Arc;

use crate::engine::{
    Engine, ListenerId, Member, Subs, SubscribeError, Subscription, SubscriptionId, fingerprint,
    tracked,
};
use crate::filter::{Filter, Interest, Position};
use crate::ids::in_pieces;
use crate::queue::{Closed, Message, Next, Queue};

/// One connected client. Dropping it ends its subscriptions.
pub struct Listener<S: Eq + Hash, M: Message, B> {
    pub(crate) subs: Subs<S, M, B>,
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
        let count = tracked(&interests);
        let mut engine = self.subs.shared.engine.lock();
        let engine = &mut *engine;
        let known = engine.by_identity.get(&key).copied();
        let entry = engine.entry(self.id);
        if let Some(id) = known
            && entry.subscriptions.contains_key(&id)
        {
            return Ok(id);
        }
        engine.check(&self.subs, self.id, count, if known.is_some() { 0 } else { count })?;
        let id = known.unwrap_or_else(|| engine.new_id());
        let member = Member {
            listener: self.id,
            handle: id,
            queue: Arc::clone(&self.queue),
            after,
            next_sequence: 0,
            conflates: false,
        };
        engine.join(self.id, id, id, count);
        match engine.subscriptions.get_mut(&id) {
            Some(shared) => shared.members.push(member),
            None => {
                engine.by_identity.insert(key.clone(), id);
                let place = engine.begin(id, key.0, interests, vec![member]);
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
        let mut engine = self.subs.shared.engine.lock();
        let Some(ended) = engine.leave(self.id, id) else { return false };
        self.queue.forget(id);
        drop(engine);
        self.clear_away(ended);
        true
    }

    /// Sends this listener alone the last message of one of its subscriptions, which ends. False, and
    /// nothing is sent, if it has none of that id: it ended before.
    pub fn finish(&self, id: SubscriptionId, body: M, bytes: usize) -> bool {
        let mut engine = self.subs.shared.engine.lock();
        let Some(member) = engine.member(self.id, id) else { return false };
        let delivery = member.delivery(body, bytes, Position::NEVER);
        let Some(ended) = engine.leave(self.id, id) else { return false };
        self.queue.push(&self.subs.shared.limits, delivery);
        drop(engine);
        self.clear_away(ended);
        true
    }

    /// How many addresses its sets have.
    pub fn tracked(&self) -> usize {
        self.subs.shared.engine.lock().entry(self.id).tracked
    }

    /// Takes the oldest message.
    pub fn next(&self) -> Next<M, M::Kept> {
        self.queue.pop()
    }

    /// Takes the oldest message; what was conflated stays for [`Self::next`].
    pub fn next_message(&self) -> Next<M, M::Kept> {
        self.queue.pop_message()
    }

    /// As [`Self::next_message`], but only what was published of a subscription up to a step, though
    /// it is held back.
    pub fn next_until(&self, of: SubscriptionId, step: u64) -> Next<M, M::Kept> {
        self.queue.pop_until(of, Position(step))
    }

    /// From now on [`Self::next_message`] holds back what waits for one subscription, or for none.
    pub fn hold(&self, held: Option<SubscriptionId>) {
        self.queue.hold(held);
    }

    /// Why it hears nothing more, if so.
    pub fn closed(&self) -> Option<Closed> {
        self.queue.closed()
    }

    /// Takes what ended out of the index in slices, then gives its addresses back.
    pub(crate) fn clear_away(&self, ended: Option<(SubscriptionId, Subscription<S, M>)>) {
        let Some((id, mut ended)) = ended else { return };
        for interest in &ended.interests {
            let Filter::Set(facet, set) = &interest.filter else {
                self.subs.shared.engine.lock().index.remove(ended.place, interest);
                continue;
            };
            in_pieces(set.ids().map(|id| id.0), |piece| {
                let index = &mut self.subs.shared.engine.lock().index;
                index.untrack(interest.topic, *facet, piece, ended.place);
            });
        }
        let mut engine = self.subs.shared.engine.lock();
        engine.vacate(id, ended.place);
        let interests = std::mem::take(&mut ended.interests);
        for interest in &interests {
            if let Filter::Set(_, set) = &interest.filter {
                engine.forget_set(set);
            }
        }
        drop(engine);
        drop(interests); // gives addresses back, which takes another lock
    }
}

impl<S: Eq + Hash, M: Message, B> Drop for Listener<S, M, B> {
    fn drop(&mut self) {
        loop {
            let mut engine = self.subs.shared.engine.lock();
            let Some(handle) = engine.entry(self.id).subscriptions.keys().next().copied() else {
                engine.listeners.remove(&self.id);
                return;
            };
            let ended = engine.leave(self.id, handle);
            drop(engine);
            self.clear_away(ended.flatten());
        }
    }
}

impl<S: Eq + Hash, M: Message, B> Engine<S, M, B> {
    pub(crate) fn entry(&mut self, listener: ListenerId) -> &mut crate::engine::Entry<M> {
        let Some(entry) = self.listeners.get_mut(&listener) else {
            unreachable!("an entry lives as long as its listener")
        };
        entry
    }

    /// A listener's part in one of its subscriptions.
    pub(crate) fn member(
        &mut self,
        listener: ListenerId,
        handle: SubscriptionId,
    ) -> Option<&mut Member<M>> {
        let id = *self.entry(listener).subscriptions.get(&handle)?;
        let members = &mut self.subscriptions.get_mut(&id)?.members;
        members.iter_mut().find(|member| member.listener == listener && member.handle == handle)
    }

    /// Whether a listener may have one subscription more, of so many addresses, of which so many are
    /// new to the node.
    pub(crate) fn check(
        &mut self,
        subs: &Subs<S, M, B>,
        listener: ListenerId,
        count: usize,
        new: usize,
    ) -> Result<(), SubscribeError> {
        let limits = &subs.shared.limits;
        let limit = limits.subscriptions_per_listener_max;
        if self.entry(listener).subscriptions.len() >= limit {
            return Err(SubscribeError::ListenerFull { limit });
        }
        let limit = limits.subscriptions_max;
        if self.pairs >= limit || !self.has_place() {
            return Err(SubscribeError::NodeFull { limit });
        }
        self.check_tracked(subs, listener, count, new)
    }

    /// Whether a listener may have so many addresses more, of which so many are new to the node.
    pub(crate) fn check_tracked(
        &mut self,
        subs: &Subs<S, M, B>,
        listener: ListenerId,
        count: usize,
        new: usize,
    ) -> Result<(), SubscribeError> {
        let limits = &subs.shared.limits;
        let limit = limits.tracked_per_listener_max;
        if self.entry(listener).tracked + count > limit {
            return Err(SubscribeError::ListenerTrackedFull { limit });
        }
        let limit = limits.tracked_max;
        if self.tracked + new > limit {
            return Err(SubscribeError::TrackedFull { limit });
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
        let entry = self.entry(listener);
        entry.subscriptions.insert(handle, id);
        entry.tracked += count;
        self.pairs += 1;
    }
}
