//! Subscriptions to sets of addresses: made, changed in place, and started at an exact block.
//!
//! Shape: a set is entered into the index in slices while its listener hears nothing of it yet; then
//! the listener catches up with what was told since the block that it starts from ([`Listener::catch_up`]
//! until it is [`CatchUp::Live`]), and is live from the very next step. Addresses that are added to a live
//! set go the same way, as a part of it; those that are removed are not heard of from then on.
//! How a set changes: `changing`. Callers do one of these at a time for one listener, off the threads that poll sockets.
//! Invariant: a listener that shares its set with others and changes it gets one of its own, between
//! two publications: what was matched before is delivered before.

use std::hash::Hash;
use std::sync::Arc;

use ledger::{AddressId, BlockId, Commitment, KeyKind};

use crate::address_set::AddressSet;
use crate::block_log::{BlockStep, ResumePoint};
use crate::filter::{Filter, Interest, Position, Topic};
use crate::id_set::{IdSet, in_batches};
use crate::listener::Listener;
use crate::queue::Message;
use crate::registry::{
    PendingIds, PendingStart, Registry, SubscribeError, Subscriber, SubscriptionId,
};
use crate::set_update::SetUpdate;

/// A subscription to a set.
pub struct SetSubscription<S> {
    /// What its messages are made from, but for the set: equal ones with equal sets are shared.
    pub identity: S,
    /// The topic of its steps.
    pub topic: Topic,
    /// What the addresses are to what is published.
    pub key_kind: KeyKind,
    /// The addresses. None means nothing, never all.
    pub set: AddressSet,
    /// What happens when the listener is slow: its messages become one, or it is closed.
    pub slow_consumer_policy: SlowConsumerPolicy,
}

/// What becomes of a listener that does not take its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowConsumerPolicy {
    /// It is closed, and told why.
    #[default]
    Close,
    /// Its messages become one with the newest of each thing.
    Conflate,
}

/// How a set is to change.
pub enum SetChange {
    /// These come to it.
    Add(AddressSet),
    /// These leave it.
    Remove(AddressSet),
    /// It is these from now on.
    Replace(AddressSet),
}

impl SetChange {
    pub(crate) fn set(&self) -> &AddressSet {
        match self {
            Self::Add(set) | Self::Remove(set) | Self::Replace(set) => set,
        }
    }
}

/// A subscription, or what was added to it, that is to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    /// Which subscription.
    pub subscription: SubscriptionId,
    /// Which addresses, if not all.
    pub(crate) token: Option<u64>,
}

/// What a change came to.
pub struct SetChangeResult {
    /// What is to be started now, if anything was added.
    pub activation: Option<Activation>,
    /// The addresses that were added: those that were not in the set before.
    pub added: AddedIds,
    /// How many left.
    pub removed: usize,
    /// How many there are.
    pub len: usize,
}

/// Addresses that were added.
#[derive(Clone, Default)]
pub struct AddedIds(pub(crate) Arc<IdSet>);

impl AddedIds {
    /// Whether an address is among them.
    pub fn contains(&self, id: AddressId) -> bool {
        self.0.contains(id.0)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their numbers, the least first.
    pub fn ids(&self) -> impl Iterator<Item = AddressId> + '_ {
        self.0.iter().map(AddressId)
    }
}

/// From where somebody goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeFrom {
    /// After this block. It may be one that is not told yet.
    Block(BlockId),
    /// After the step of this number.
    Step(u64),
}

/// What is between somebody and the present.
pub enum CatchUp<B> {
    /// Nothing: what comes next is delivered to the queue.
    Live,
    /// These steps. Make messages of them, then ask again from the last.
    Steps(Vec<BlockStep<B>>),
    /// More than is kept.
    Expired,
}

impl<S: Eq + Hash, M: Message, B> Listener<S, M, B> {
    /// Subscribes to a set. Nothing is delivered until [`Self::catch_up`] says that it is live.
    ///
    /// Cost: O(set), in slices.
    pub fn subscribe_set(&self, wish: SetSubscription<S>) -> Result<Activation, SubscribeError> {
        if let Some(why) = self.queue.closed() {
            return Err(why.into());
        }
        let count = wish.set.len();
        // Before the work, and again once it is done.
        self.subscriptions.shared.registry.lock().check(&self.subscriptions, self.id, count, 0)?;
        let set = self.intern_set(wish.set);
        let key = (Arc::new(wish.identity), set.fingerprint());
        let mut guard = self.subscriptions.shared.registry.lock();
        let engine = &mut *guard;
        let known = engine.by_identity.get(&key).copied();
        let known = known.filter(|id| engine.set_of(*id).is_some_and(|its| Arc::ptr_eq(its, &set)));
        let checked = engine.check(
            &self.subscriptions,
            self.id,
            count,
            if known.is_some() { 0 } else { count },
        );
        if let Err(refused) = checked {
            drop(guard);
            self.drop_set(set);
            return Err(refused);
        }
        engine.block_log.mark_in_use();
        let handle = engine.new_id();
        let id = known.unwrap_or_else(|| engine.new_id());
        engine.join(self.id, handle, id, count);
        let member = Subscriber {
            listener: self.id,
            handle,
            queue: Arc::clone(&self.queue),
            after: Position::MAX,
            next_sequence: 0,
            conflates: wish.slow_consumer_policy == SlowConsumerPolicy::Conflate,
        };
        if let Some(shared) = engine.subscriptions.get_mut(&id) {
            shared.subscribers.push(member);
            return Ok(Activation { subscription: handle, token: None });
        }
        let filter = Filter::Set(wish.key_kind, Arc::clone(&set));
        let interests = vec![Interest { topic: wish.topic, filter }];
        let place = engine.add_subscription(id, Arc::clone(&key.0), interests, vec![member]);
        drop(guard);
        self.index_set(wish.topic, wish.key_kind, place, set.ids().map(|id| id.0));
        self.subscriptions.shared.registry.lock().by_identity.entry(key).or_insert(id);
        Ok(Activation { subscription: handle, token: None })
    }

    /// Begins to change a set, which goes on by [`SetUpdate::step`]. What is added is heard of once
    /// [`Self::catch_up`] says that its part is live; nothing else is done with this listener's
    /// subscriptions until it is done.
    ///
    /// Cost: O(change), if nobody else has the same set; O(set) if somebody has.
    /// Errors: `Unknown`, and that the listener is closed.
    pub fn start_set_update(
        self: &Arc<Self>,
        handle: SubscriptionId,
        change: SetChange,
    ) -> Result<SetUpdate<S, M, B>, SubscribeError> {
        SetUpdate::new(Arc::clone(self), handle, change)
    }

    /// Goes on from somewhere: what is between it and the present, or else live. A block that is
    /// ahead of what has been told is waited for, and nothing before it is heard of. What is added to
    /// a subscription that waits must not start before it.
    ///
    /// What the rest of the set was told in steps that an addition is given here is in the queue: for
    /// the blocks to stay in order, hold that back before the block to start from is chosen, and take
    /// it step by step ([`Self::next_until`]).
    pub fn catch_up(
        &self,
        part: Activation,
        commitment: Commitment,
        from: ResumeFrom,
    ) -> CatchUp<B> {
        let mut engine = self.subscriptions.shared.registry.lock();
        if part.token.is_some() {
            self.subscriptions.shared.idle.wait_while(&mut engine, |engine| engine.is_publishing);
        }
        let Some(id) =
            engine.listener_entry(self.id).subscriptions.get(&part.subscription).copied()
        else {
            return CatchUp::Expired;
        };
        let from = match from {
            ResumeFrom::Step(number) => number,
            ResumeFrom::Block(block) => match engine.block_log.resume_point(commitment, block) {
                ResumePoint::After(number) => number,
                ResumePoint::Ahead => {
                    let (subscription, token) = (id, part.token);
                    let handle = part.subscription;
                    let waiting = PendingStart { commitment, block, subscription, handle, token };
                    engine.pending_starts.push(waiting);
                    return CatchUp::Live;
                }
                ResumePoint::Expired => return CatchUp::Expired,
            },
        };
        match engine.block_log.steps_since(commitment, from) {
            None => CatchUp::Expired,
            Some(steps) if steps.is_empty() => {
                let now = Position(engine.block_log.number());
                engine.start_after(id, part.subscription, part.token, now);
                CatchUp::Live
            }
            Some(steps) => CatchUp::Steps(steps),
        }
    }

    /// The step with which a block was told: what it and those before it are to this listener is in
    /// the queue, or was. `None` if it is yet to be told.
    pub fn delivered_step(&self, commitment: Commitment, block: BlockId) -> Option<u64> {
        let mut engine = self.subscriptions.shared.registry.lock();
        self.subscriptions.shared.idle.wait_while(&mut engine, |engine| engine.is_publishing);
        match engine.block_log.resume_point(commitment, block) {
            ResumePoint::After(number) => Some(number),
            ResumePoint::Ahead => None,
            ResumePoint::Expired => Some(0),
        }
    }

    /// The set of a subscription as it is now, for whoever makes its first messages.
    pub fn set(&self, subscription: SubscriptionId) -> Result<Arc<AddressSet>, SubscribeError> {
        self.tracked_set(subscription).map(|(_, _, _, set)| set)
    }

    /// Gives back a set that [`Self::set`] gave out.
    pub fn drop_set(&self, set: Arc<AddressSet>) {
        self.subscriptions.shared.registry.lock().remove_set(&set);
        drop(set); // gives addresses back, which takes another lock
    }

    /// What one of its subscriptions asks for.
    pub fn identity(&self, subscription: SubscriptionId) -> Option<Arc<S>> {
        let mut engine = self.subscriptions.shared.registry.lock();
        let id = *engine.listener_entry(self.id).subscriptions.get(&subscription)?;
        Some(Arc::clone(&engine.subscriptions.get(&id)?.identity))
    }

    /// Whether [`Self::catch_up`] can go on from a block.
    pub fn reaches(&self, commitment: Commitment, block: BlockId) -> bool {
        let engine = self.subscriptions.shared.registry.lock();
        match engine.block_log.resume_point(commitment, block) {
            ResumePoint::After(number) => {
                engine.block_log.steps_since(commitment, number).is_some()
            }
            ResumePoint::Ahead => true,
            ResumePoint::Expired => false,
        }
    }

    pub(crate) fn tracked_set(
        &self,
        handle: SubscriptionId,
    ) -> Result<(SubscriptionId, Topic, KeyKind, Arc<AddressSet>), SubscribeError> {
        let mut engine = self.subscriptions.shared.registry.lock();
        let id = engine.listener_entry(self.id).subscriptions.get(&handle).copied();
        // Fixed subscriptions have one number for both.
        let id = id.filter(|id| *id != handle).ok_or(SubscribeError::Unknown)?;
        let (topic, facet, set) = engine.interest_of(id).ok_or(SubscribeError::Unknown)?;
        Ok((id, topic, facet, Arc::clone(set)))
    }

    /// The one set that all who have equal ones share.
    pub(crate) fn intern_set(&self, set: AddressSet) -> Arc<AddressSet> {
        let engine = self.subscriptions.shared.registry.lock();
        let known = engine.sets.get(&set.fingerprint()).and_then(std::sync::Weak::upgrade);
        drop(engine);
        if let Some(known) = known {
            if *known == set {
                return known;
            }
            self.drop_set(known);
        }
        let set = Arc::new(set);
        let mut engine = self.subscriptions.shared.registry.lock();
        let entry = engine.sets.entry(set.fingerprint()).or_default();
        if entry.strong_count() == 0 {
            *entry = Arc::downgrade(&set);
        }
        set
    }

    /// A set for its holder alone.
    pub(crate) fn make_set_exclusive(&self, set: Arc<AddressSet>) -> AddressSet {
        match Arc::try_unwrap(set) {
            Ok(set) => set,
            Err(shared) => {
                let copy = shared.copy();
                self.drop_set(shared);
                copy
            }
        }
    }

    /// Gives a listener a set of its own that others have too.
    pub(crate) fn detach_set(
        &self,
        handle: SubscriptionId,
        id: SubscriptionId,
        old: &Arc<AddressSet>,
        change: SetChange,
        pending: Option<PendingIds>,
    ) -> Result<(), SubscribeError> {
        let mut set = old.copy();
        match change {
            SetChange::Add(more) => {
                in_batches(more.into_counted_ids().iter(), |piece| {
                    set.adopt_counted(piece);
                });
            }
            SetChange::Remove(less) => {
                let gone = less.ids().map(|id| id.0).filter(|id| old.contains(AddressId(*id)));
                in_batches(gone, |piece| set.release_ids(piece));
            }
            SetChange::Replace(new) => set = new,
        }
        let set = self.intern_set(set);
        let mut engine = self.subscriptions.shared.registry.lock();
        let Some((topic, facet, _)) = engine.interest_of(id) else {
            return Err(SubscribeError::Unknown);
        };
        let Some(identity) = engine.subscriptions.get(&id).map(|old| Arc::clone(&old.identity))
        else {
            return Err(SubscribeError::Unknown);
        };
        let own = engine.new_id();
        let interests = vec![Interest { topic, filter: Filter::Set(facet, Arc::clone(&set)) }];
        let place = engine.add_subscription(own, identity, interests, Vec::new());
        drop(engine);
        self.index_set(topic, facet, place, set.ids().map(|id| id.0));
        drop(set);
        let mut guard = self.subscriptions.shared.registry.lock();
        self.subscriptions.shared.idle.wait_while(&mut guard, |engine| engine.is_publishing);
        let engine = &mut *guard;
        let now = Position(engine.block_log.number());
        let left = engine.subscriptions.get_mut(&id).and_then(|shared| {
            let at = shared.subscribers.iter().position(|member| member.handle == handle)?;
            Some((shared.subscribers.swap_remove(at), shared.subscribers.is_empty()))
        });
        let Some((mut member, was_last)) = left else { return Err(SubscribeError::Unknown) };
        if member.after != Position::MAX {
            member.after = now;
        }
        if pending.is_some() {
            engine.pending_subscriptions.push(own);
        }
        if let Some(begun) = engine.subscriptions.get_mut(&own) {
            begun.subscribers.push(member);
            begun.pending.extend(pending);
        }
        engine.listener_entry(self.id).subscriptions.insert(handle, own);
        for waiting in engine.pending_starts.iter_mut().filter(|waiting| waiting.handle == handle) {
            waiting.subscription = own;
        }
        engine.register_identity(own);
        let ended = if was_last { engine.end(id) } else { None };
        drop(guard);
        self.cleanup(ended);
        Ok(())
    }

    fn index_set(&self, topic: Topic, facet: KeyKind, place: u32, ids: impl Iterator<Item = u32>) {
        in_batches(ids, |piece| {
            self.subscriptions.shared.registry.lock().index.insert_ids(topic, facet, piece, place);
        });
    }
}

impl<S: Eq + Hash, M: Message, B> Registry<S, M, B> {
    fn interest_of(&self, id: SubscriptionId) -> Option<(Topic, KeyKind, &Arc<AddressSet>)> {
        match self.subscriptions.get(&id)?.interests.first()? {
            Interest { topic, filter: Filter::Set(facet, set) } => Some((*topic, *facet, set)),
            _ => None,
        }
    }

    fn set_of(&self, id: SubscriptionId) -> Option<&Arc<AddressSet>> {
        self.interest_of(id).map(|(_, _, set)| set)
    }

    /// Takes the set out of a subscription that only one listener has, to be changed: until
    /// [`Self::restore_set`], nobody else can join it.
    pub(crate) fn take_set(
        &mut self,
        id: SubscriptionId,
        more: &AddedIds,
        gone: &IdSet,
        pending: Option<PendingIds>,
    ) -> (u32, Arc<AddressSet>) {
        self.tracked_addresses = self.tracked_addresses + more.len() - gone.len();
        let Some(subscription) = self.subscriptions.get_mut(&id) else {
            unreachable!("its listener is changing it")
        };
        let Some(Interest { filter: Filter::Set(_, held), .. }) =
            subscription.interests.first_mut()
        else {
            unreachable!("it is one of a set")
        };
        let key = (Arc::clone(&subscription.identity), held.fingerprint());
        let nothing = Arc::new(held.empty_like());
        let set = std::mem::replace(held, nothing);
        for pending in &mut subscription.pending {
            // What left may come back, and then it starts anew.
            if gone.iter().any(|id| pending.ids.contains(id)) {
                let stays = pending.ids.iter().filter(|id| !gone.contains(*id));
                pending.ids = Arc::new(IdSet::from_sorted_iter(stays));
            }
        }
        if pending.is_some() {
            self.pending_subscriptions.push(id);
        }
        subscription.pending.extend(pending);
        if self.by_identity.get(&key) == Some(&id) {
            self.by_identity.remove(&key);
        }
        // The caller has another hold on it, which it drops next.
        if Arc::strong_count(&set) == 2 {
            self.sets.remove(&set.fingerprint());
        }
        (subscription.index_slot, set)
    }

    pub(crate) fn restore_set(&mut self, id: SubscriptionId, set: Arc<AddressSet>) {
        if let Some(subscription) = self.subscriptions.get_mut(&id)
            && let Some(Interest { filter: Filter::Set(_, held), .. }) =
                subscription.interests.first_mut()
        {
            *held = set;
        }
        self.register_identity(id);
    }

    /// Lets equal subscriptions join one, unless some of its addresses do not count yet.
    fn register_identity(&mut self, id: SubscriptionId) {
        let Some(subscription) = self.subscriptions.get(&id) else { return };
        let settled = |pending: &PendingIds| pending.after != Position::MAX;
        if !subscription.pending.iter().all(settled) {
            return;
        }
        let Some(set) = self.set_of(id) else { return };
        let key = (Arc::clone(&subscription.identity), set.fingerprint());
        self.by_identity.entry(key).or_insert(id);
    }

    /// A part of a listener's subscription counts from a position on.
    pub(crate) fn start_after(
        &mut self,
        id: SubscriptionId,
        handle: SubscriptionId,
        token: Option<u64>,
        after: Position,
    ) {
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return };
        let Some(token) = token else {
            let mut members = subscription.subscribers.iter_mut();
            if let Some(member) = members.find(|member| member.handle == handle) {
                member.after = after;
            }
            return;
        };
        let mut pending = subscription.pending.iter_mut();
        if let Some(pending) = pending.find(|pending| pending.token == token) {
            pending.after = after;
        }
        self.register_identity(id);
    }
}
