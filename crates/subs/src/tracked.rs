//! Subscriptions to sets of addresses: made, changed in place, and started at an exact block.
//!
//! Shape: a set is entered into the index in slices while its listener hears nothing of it yet; then
//! the listener catches up with what was told since the block that it starts from ([`Listener::go_on`]
//! until it is [`GoOn::Live`]), and is live from the very next step. Addresses that are added to a live
//! set go the same way, as a part of it; those that are removed are not heard of from then on.
//! How a set changes: `changing`. Callers do one of these at a time for one listener, off the threads that poll sockets.
//! Invariant: a listener that shares its set with others and changes it gets one of its own, between
//! two publications: what was matched before is delivered before.

use std::hash::Hash;
use std::sync::Arc;

use ledger::{AddressId, BlockId, Commitment, KeyKind};

use crate::changing::Changing;
use crate::engine::{Engine, Member, Pending, SubscribeError, SubscriptionId, Waiting};
use crate::filter::{Filter, Interest, Position, Topic};
use crate::ids::{IdSet, in_pieces};
use crate::levels::{Stand, Step};
use crate::listener::Listener;
use crate::queue::Message;
use crate::set::AddressSet;

/// A subscription to a set.
pub struct Wish<S> {
    /// What its messages are made from, but for the set: equal ones with equal sets are shared.
    pub identity: S,
    /// The topic of its steps.
    pub topic: Topic,
    /// What the addresses are to what is published.
    pub facet: KeyKind,
    /// The addresses. None means nothing, never all.
    pub set: AddressSet,
    /// What happens when the listener is slow: its messages become one, or it is closed.
    pub when_slow: WhenSlow,
}

/// What becomes of a listener that does not take its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenSlow {
    /// It is closed, and told why.
    #[default]
    Close,
    /// Its messages become one with the newest of each thing.
    Conflate,
}

/// How a set is to change.
pub enum Change {
    /// These come to it.
    Add(AddressSet),
    /// These leave it.
    Remove(AddressSet),
    /// It is these from now on.
    Replace(AddressSet),
}

impl Change {
    pub(crate) fn set(&self) -> &AddressSet {
        match self {
            Self::Add(set) | Self::Remove(set) | Self::Replace(set) => set,
        }
    }
}

/// A subscription, or what was added to it, that is to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which subscription.
    pub subscription: SubscriptionId,
    /// Which addresses, if not all.
    pub(crate) token: Option<u64>,
}

/// What a change came to.
pub struct Changed {
    /// What is to be started now, if anything was added.
    pub part: Option<Part>,
    /// The addresses that were added: those that were not in the set before.
    pub added: Added,
    /// How many left.
    pub removed: usize,
    /// How many there are.
    pub len: usize,
}

/// Addresses that were added.
#[derive(Clone, Default)]
pub struct Added(pub(crate) Arc<IdSet>);

impl Added {
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
pub enum From {
    /// After this block. It may be one that is not told yet.
    Block(BlockId),
    /// After the step of this number.
    Step(u64),
}

/// What is between somebody and the present.
pub enum GoOn<B> {
    /// Nothing: what comes next is delivered to the queue.
    Live,
    /// These steps. Make messages of them, then ask again from the last.
    Steps(Vec<Step<B>>),
    /// More than is kept.
    Gone,
}

impl<S: Eq + Hash, M: Message, B> Listener<S, M, B> {
    /// Subscribes to a set. Nothing is delivered until [`Self::go_on`] says that it is live.
    ///
    /// Cost: O(set), in slices.
    pub fn track(&self, wish: Wish<S>) -> Result<Part, SubscribeError> {
        if let Some(why) = self.queue.closed() {
            return Err(why.into());
        }
        let count = wish.set.len();
        // Before the work, and again once it is done.
        self.subs.shared.engine.lock().check(&self.subs, self.id, count, 0)?;
        let set = self.shared_set(wish.set);
        let key = (Arc::new(wish.identity), set.fingerprint());
        let mut guard = self.subs.shared.engine.lock();
        let engine = &mut *guard;
        let known = engine.by_identity.get(&key).copied();
        let known = known.filter(|id| engine.set_of(*id).is_some_and(|its| Arc::ptr_eq(its, &set)));
        let checked =
            engine.check(&self.subs, self.id, count, if known.is_some() { 0 } else { count });
        if let Err(refused) = checked {
            drop(guard);
            self.drop_set(set);
            return Err(refused);
        }
        engine.levels.want();
        let handle = engine.new_id();
        let id = known.unwrap_or_else(|| engine.new_id());
        engine.join(self.id, handle, id, count);
        let member = Member {
            listener: self.id,
            handle,
            queue: Arc::clone(&self.queue),
            after: Position::NEVER,
            next_sequence: 0,
            conflates: wish.when_slow == WhenSlow::Conflate,
        };
        if let Some(shared) = engine.subscriptions.get_mut(&id) {
            shared.members.push(member);
            return Ok(Part { subscription: handle, token: None });
        }
        let filter = Filter::Set(wish.facet, Arc::clone(&set));
        let interests = vec![Interest { topic: wish.topic, filter }];
        let place = engine.begin(id, Arc::clone(&key.0), interests, vec![member]);
        drop(guard);
        self.enter(wish.topic, wish.facet, place, set.ids().map(|id| id.0));
        self.subs.shared.engine.lock().by_identity.entry(key).or_insert(id);
        Ok(Part { subscription: handle, token: None })
    }

    /// Begins to change a set, which goes on by [`Changing::step`]. What is added is heard of once
    /// [`Self::go_on`] says that its part is live; nothing else is done with this listener's
    /// subscriptions until it is done.
    ///
    /// Cost: O(change), if nobody else has the same set; O(set) if somebody has.
    /// Errors: `Unknown`, and that the listener is closed.
    pub fn begin_change(
        self: &Arc<Self>,
        handle: SubscriptionId,
        change: Change,
    ) -> Result<Changing<S, M, B>, SubscribeError> {
        Changing::new(Arc::clone(self), handle, change)
    }

    /// Goes on from somewhere: what is between it and the present, or else live. A block that is
    /// ahead of what has been told is waited for, and nothing before it is heard of. What is added to
    /// a subscription that waits must not start before it.
    ///
    /// What the rest of the set was told in steps that an addition is given here is in the queue: for
    /// the blocks to stay in order, hold that back before the block to start from is chosen, and take
    /// it step by step ([`Self::next_until`]).
    pub fn go_on(&self, part: Part, commitment: Commitment, from: From) -> GoOn<B> {
        let mut engine = self.subs.shared.engine.lock();
        if part.token.is_some() {
            self.subs.shared.idle.wait_while(&mut engine, |engine| engine.under_way);
        }
        let Some(id) = engine.entry(self.id).subscriptions.get(&part.subscription).copied() else {
            return GoOn::Gone;
        };
        let from = match from {
            From::Step(number) => number,
            From::Block(block) => match engine.levels.stand(commitment, block) {
                Stand::After(number) => number,
                Stand::Ahead => {
                    let (subscription, token) = (id, part.token);
                    let handle = part.subscription;
                    let waiting = Waiting { commitment, block, subscription, handle, token };
                    engine.waiting.push(waiting);
                    return GoOn::Live;
                }
                Stand::Gone => return GoOn::Gone,
            },
        };
        match engine.levels.since(commitment, from) {
            None => GoOn::Gone,
            Some(steps) if steps.is_empty() => {
                let now = Position(engine.levels.number());
                engine.start_after(id, part.subscription, part.token, now);
                GoOn::Live
            }
            Some(steps) => GoOn::Steps(steps),
        }
    }

    /// The step with which a block was told: what it and those before it are to this listener is in
    /// the queue, or was. `None` if it is yet to be told.
    pub fn told(&self, commitment: Commitment, block: BlockId) -> Option<u64> {
        let mut engine = self.subs.shared.engine.lock();
        self.subs.shared.idle.wait_while(&mut engine, |engine| engine.under_way);
        match engine.levels.stand(commitment, block) {
            Stand::After(number) => Some(number),
            Stand::Ahead => None,
            Stand::Gone => Some(0),
        }
    }

    /// The set of a subscription as it is now, for whoever makes its first messages.
    pub fn set(&self, subscription: SubscriptionId) -> Result<Arc<AddressSet>, SubscribeError> {
        self.tracked_set(subscription).map(|(_, _, _, set)| set)
    }

    /// Gives back a set that [`Self::set`] gave out.
    pub fn drop_set(&self, set: Arc<AddressSet>) {
        self.subs.shared.engine.lock().forget_set(&set);
        drop(set); // gives addresses back, which takes another lock
    }

    /// What one of its subscriptions asks for.
    pub fn identity(&self, subscription: SubscriptionId) -> Option<Arc<S>> {
        let mut engine = self.subs.shared.engine.lock();
        let id = *engine.entry(self.id).subscriptions.get(&subscription)?;
        Some(Arc::clone(&engine.subscriptions.get(&id)?.identity))
    }

    /// Whether [`Self::go_on`] can go on from a block.
    pub fn reaches(&self, commitment: Commitment, block: BlockId) -> bool {
        let engine = self.subs.shared.engine.lock();
        match engine.levels.stand(commitment, block) {
            Stand::After(number) => engine.levels.since(commitment, number).is_some(),
            Stand::Ahead => true,
            Stand::Gone => false,
        }
    }

    pub(crate) fn tracked_set(
        &self,
        handle: SubscriptionId,
    ) -> Result<(SubscriptionId, Topic, KeyKind, Arc<AddressSet>), SubscribeError> {
        let mut engine = self.subs.shared.engine.lock();
        let id = engine.entry(self.id).subscriptions.get(&handle).copied();
        // Fixed subscriptions have one number for both.
        let id = id.filter(|id| *id != handle).ok_or(SubscribeError::Unknown)?;
        let (topic, facet, set) = engine.interest_of(id).ok_or(SubscribeError::Unknown)?;
        Ok((id, topic, facet, Arc::clone(set)))
    }

    /// The one set that all who have equal ones share.
    pub(crate) fn shared_set(&self, set: AddressSet) -> Arc<AddressSet> {
        let engine = self.subs.shared.engine.lock();
        let known = engine.sets.get(&set.fingerprint()).and_then(std::sync::Weak::upgrade);
        drop(engine);
        if let Some(known) = known {
            if *known == set {
                return known;
            }
            self.drop_set(known);
        }
        let set = Arc::new(set);
        let mut engine = self.subs.shared.engine.lock();
        let entry = engine.sets.entry(set.fingerprint()).or_default();
        if entry.strong_count() == 0 {
            *entry = Arc::downgrade(&set);
        }
        set
    }

    /// A set for its holder alone.
    pub(crate) fn own_set(&self, set: Arc<AddressSet>) -> AddressSet {
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
    pub(crate) fn part_ways(
        &self,
        handle: SubscriptionId,
        id: SubscriptionId,
        old: &Arc<AddressSet>,
        change: Change,
        pending: Option<Pending>,
    ) -> Result<(), SubscribeError> {
        let mut set = old.copy();
        match change {
            Change::Add(more) => {
                in_pieces(more.into_counted_ids().iter(), |piece| {
                    set.take(piece);
                });
            }
            Change::Remove(less) => {
                let gone = less.ids().map(|id| id.0).filter(|id| old.contains(AddressId(*id)));
                in_pieces(gone, |piece| set.give_up(piece));
            }
            Change::Replace(new) => set = new,
        }
        let set = self.shared_set(set);
        let mut engine = self.subs.shared.engine.lock();
        let Some((topic, facet, _)) = engine.interest_of(id) else {
            return Err(SubscribeError::Unknown);
        };
        let Some(identity) = engine.subscriptions.get(&id).map(|old| Arc::clone(&old.identity))
        else {
            return Err(SubscribeError::Unknown);
        };
        let own = engine.new_id();
        let interests = vec![Interest { topic, filter: Filter::Set(facet, Arc::clone(&set)) }];
        let place = engine.begin(own, identity, interests, Vec::new());
        drop(engine);
        self.enter(topic, facet, place, set.ids().map(|id| id.0));
        drop(set);
        let mut guard = self.subs.shared.engine.lock();
        self.subs.shared.idle.wait_while(&mut guard, |engine| engine.under_way);
        let engine = &mut *guard;
        let now = Position(engine.levels.number());
        let left = engine.subscriptions.get_mut(&id).and_then(|shared| {
            let at = shared.members.iter().position(|member| member.handle == handle)?;
            Some((shared.members.swap_remove(at), shared.members.is_empty()))
        });
        let Some((mut member, was_last)) = left else { return Err(SubscribeError::Unknown) };
        if member.after != Position::NEVER {
            member.after = now;
        }
        if pending.is_some() {
            engine.settling.push(own);
        }
        if let Some(begun) = engine.subscriptions.get_mut(&own) {
            begun.members.push(member);
            begun.pending.extend(pending);
        }
        engine.entry(self.id).subscriptions.insert(handle, own);
        for waiting in engine.waiting.iter_mut().filter(|waiting| waiting.handle == handle) {
            waiting.subscription = own;
        }
        engine.make_known(own);
        let ended = if was_last { engine.end(id) } else { None };
        drop(guard);
        self.clear_away(ended);
        Ok(())
    }

    fn enter(&self, topic: Topic, facet: KeyKind, place: u32, ids: impl Iterator<Item = u32>) {
        in_pieces(ids, |piece| {
            self.subs.shared.engine.lock().index.track(topic, facet, piece, place);
        });
    }
}

impl<S: Eq + Hash, M: Message, B> Engine<S, M, B> {
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
    /// [`Self::close`], nobody else can join it.
    pub(crate) fn open(
        &mut self,
        id: SubscriptionId,
        more: &Added,
        gone: &IdSet,
        pending: Option<Pending>,
    ) -> (u32, Arc<AddressSet>) {
        self.tracked = self.tracked + more.len() - gone.len();
        let Some(subscription) = self.subscriptions.get_mut(&id) else {
            unreachable!("its listener is changing it")
        };
        let Some(Interest { filter: Filter::Set(_, held), .. }) =
            subscription.interests.first_mut()
        else {
            unreachable!("it is one of a set")
        };
        let key = (Arc::clone(&subscription.identity), held.fingerprint());
        let nothing = Arc::new(held.without_any());
        let set = std::mem::replace(held, nothing);
        for pending in &mut subscription.pending {
            // What left may come back, and then it starts anew.
            if gone.iter().any(|id| pending.ids.contains(id)) {
                let stays = pending.ids.iter().filter(|id| !gone.contains(*id));
                pending.ids = Arc::new(IdSet::from_sorted_iter(stays));
            }
        }
        if pending.is_some() {
            self.settling.push(id);
        }
        subscription.pending.extend(pending);
        if self.by_identity.get(&key) == Some(&id) {
            self.by_identity.remove(&key);
        }
        // The caller has another hold on it, which it drops next.
        if Arc::strong_count(&set) == 2 {
            self.sets.remove(&set.fingerprint());
        }
        (subscription.place, set)
    }

    pub(crate) fn close(&mut self, id: SubscriptionId, set: Arc<AddressSet>) {
        if let Some(subscription) = self.subscriptions.get_mut(&id)
            && let Some(Interest { filter: Filter::Set(_, held), .. }) =
                subscription.interests.first_mut()
        {
            *held = set;
        }
        self.make_known(id);
    }

    /// Lets equal subscriptions join one, unless some of its addresses do not count yet.
    fn make_known(&mut self, id: SubscriptionId) {
        let Some(subscription) = self.subscriptions.get(&id) else { return };
        let settled = |pending: &Pending| pending.after != Position::NEVER;
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
            let mut members = subscription.members.iter_mut();
            if let Some(member) = members.find(|member| member.handle == handle) {
                member.after = after;
            }
            return;
        };
        let mut pending = subscription.pending.iter_mut();
        if let Some(pending) = pending.find(|pending| pending.token == token) {
            pending.after = after;
        }
        self.make_known(id);
    }
}
