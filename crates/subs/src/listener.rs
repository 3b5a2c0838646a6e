//! One connected client: what it subscribes to, and what it takes.
//!
//! Not here: sets that change (`tracked`), the queue itself (`queue`).

use std::hash::Hash;
use std::sync::Arc;

use ledger::KeyKind;

use crate::engine::{
    Engine, ListenerId, Member, Subs, SubscribeError, Subscription, SubscriptionId, fingerprint,
    tracked,
};
use crate::filter::{Filter, Interest, Position, Topic};
use crate::ids::Cursor;
use crate::queue::{Closed, Message, Next, Queue};
use crate::set::{AddressSet, LettingGo};

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
        self.begin_unsubscribe(id).is_some()
    }

    /// As [`Self::unsubscribe`]: it has ended, and what is left of it goes by [`Ending::step`].
    pub fn begin_unsubscribe(&self, id: SubscriptionId) -> Option<Ending<S, M, B>> {
        let mut engine = self.subs.shared.engine.lock();
        let ended = engine.leave(self.id, id)?;
        self.queue.forget(id);
        drop(engine);
        Some(Ending::new(&self.subs, ended))
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
        self.subs.make_room();
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

    /// Keeps a message while it is written to the listener, so that an eviction frees it. A closed listener keeps
    /// none.
    pub fn begin_writing(&self, body: M) -> Result<(), Closed> {
        self.queue.begin_writing(body)
    }

    /// The message that is being written. `None` if the listener was evicted.
    pub fn writing(&self) -> Option<M> {
        self.queue.writing()
    }

    /// Takes the message that was written.
    pub fn end_writing(&self) -> Option<M> {
        self.queue.end_writing()
    }

    /// Why it hears nothing more, if so.
    pub fn closed(&self) -> Option<Closed> {
        self.queue.closed()
    }

    /// Takes what ended out of the index in slices, then gives its addresses back.
    pub(crate) fn clear_away(&self, ended: Option<(SubscriptionId, Subscription<S, M>)>) {
        drop(Ending::new(&self.subs, ended));
    }
}

/// What is left of a subscription that ended, on its way out in steps of some tens of microseconds.
/// Dropping it does the rest.
pub struct Ending<S: Eq + Hash, M: Message, B> {
    subs: Subs<S, M, B>,
    /// Which subscription it was, and its place in the index.
    place: Option<(SubscriptionId, u32)>,
    entered: Vec<(Topic, KeyKind, Arc<AddressSet>)>,
    at: Cursor,
    taken_out: Vec<Arc<AddressSet>>,
    letting_go: Vec<LettingGo>,
}

impl<S: Eq + Hash, M: Message, B> Ending<S, M, B> {
    fn new(subs: &Subs<S, M, B>, ended: Option<(SubscriptionId, Subscription<S, M>)>) -> Self {
        let mut ending = Self {
            subs: subs.clone(),
            place: None,
            entered: Vec::new(),
            at: Cursor::default(),
            taken_out: Vec::new(),
            letting_go: Vec::new(),
        };
        let Some((id, ended)) = ended else { return ending };
        ending.place = Some((id, ended.place));
        for interest in ended.interests {
            match interest.filter {
                Filter::Set(facet, set) => ending.entered.push((interest.topic, facet, set)),
                Filter::All | Filter::Name(_) => {
                    subs.shared.engine.lock().index.remove(ended.place, &interest);
                }
            }
        }
        ending
    }

    /// Does the next step. False if nothing is left to do.
    pub fn step(&mut self) -> bool {
        if let (Some((_, place)), Some((topic, facet, set))) = (self.place, self.entered.last()) {
            if let Some(piece) = self.at.next(set.id_set()) {
                let index = &mut self.subs.shared.engine.lock().index;
                index.untrack(*topic, *facet, &piece, place);
                return true;
            }
            self.at = Cursor::default();
            self.taken_out.extend(self.entered.pop().map(|(_, _, set)| set));
            return true;
        }
        if let Some((id, place)) = self.place.take() {
            let mut engine = self.subs.shared.engine.lock();
            engine.vacate(id, place);
            self.taken_out.iter().for_each(|set| engine.forget_set(set));
            drop(engine);
            let last = self.taken_out.drain(..).filter_map(Arc::into_inner);
            self.letting_go.extend(last.map(LettingGo::of));
            return true;
        }
        let Some(going) = self.letting_go.last_mut() else { return false };
        if !going.step() {
            self.letting_go.pop();
        }
        true
    }
}

impl<S: Eq + Hash, M: Message, B> Drop for Ending<S, M, B> {
    fn drop(&mut self) {
        while self.step() {}
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
