//! Subscriptions to sets of addresses: creation, changes without a new subscription, and the start at an exact block.
//!
//! Shape: a set is indexed in batches while nothing is delivered for it. Then the listener catches up with the blocks
//! since the one that it starts from ([`Listener::catch_up`] until it is [`CatchUp::Live`]), and is live from the very
//! next step. Addresses that are added to a live set go the same way; nothing is delivered for removed ones afterwards.
//! Changes of a set: `set_update`. Callers run one of these at a time for one listener, off the threads that poll
//! sockets.
//! Invariant: if a listener changes a set that it shares with others, it gets its own copy between two publications:
//! earlier matches are delivered earlier.

use std::hash::Hash;
use std::sync::Arc;

use ledger::{AddressId, BlockId, Commitment, KeyKind};

use crate::address_counts::AddressCounts;
use crate::address_set::AddressSet;
use crate::block_log::{BlockStep, ResumePoint};
use crate::delivery::Message;
use crate::error::SubscribeError;
use crate::filter::{Filter, Interest, Position, Topic};
use crate::id_set::{Cursor, IdSet, in_batches};
use crate::ids::SubscriptionId;
use crate::index::{IndexFull, ReplacementCredit};
use crate::listener::Listener;
use crate::registry::{PendingIds, PendingStart, Registry, Subscriber};
use crate::set_change::{Activation, AddedIds, SetChange};
use crate::set_update::SetUpdate;

/// The most steps that [`Listener::catch_up`] returns at once. They are copied under the registry's lock, so a larger
/// value delays publications; a smaller one needs more calls.
pub const CATCH_UP_STEPS_MAX: usize = 256;

/// A subscription to a set of addresses.
pub struct SetSubscription<S> {
    /// The parameters for encoding its messages. Subscriptions with equal ones and equal sets are shared.
    pub identity: S,
    /// Topic of the steps that it receives.
    pub topic: Topic,
    /// The key kind of the addresses.
    pub key_kind: KeyKind,
    /// The addresses. An empty set matches nothing, never all.
    pub set: AddressSet,
    /// The treatment of a slow listener.
    pub slow_consumer_policy: SlowConsumerPolicy,
}

/// The treatment of a listener that does not read its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowConsumerPolicy {
    /// It is closed, with a reason.
    #[default]
    Close,
    /// Its messages are conflated to one with the newest state of each item.
    Conflate,
}

/// The position from which a listener resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeFrom {
    /// After this block. It may be one that has not been published yet.
    Block(BlockId),
    /// After the step of this number.
    Step(u64),
}

/// The steps that a listener has to catch up with.
pub enum CatchUp<B> {
    /// Nothing: the next steps are delivered to the queue.
    Live,
    /// These steps, at most [`CATCH_UP_STEPS_MAX`]. Encode them, then call again from the last.
    Steps(Vec<BlockStep<B>>),
    /// The steps are no longer retained.
    Expired,
}

impl<S: Eq + Hash, M: Message, B> Listener<S, M, B> {
    /// Subscribes to a set. Nothing is delivered until [`Self::catch_up`] returns [`CatchUp::Live`].
    ///
    /// Cost: O(set), with the lock held for one batch at a time.
    pub fn subscribe_set(
        &self,
        subscription: SetSubscription<S>,
    ) -> Result<Activation, SubscribeError> {
        if let Some(reason) = self.queue.closed() {
            return Err(reason.into());
        }
        let count = subscription.set.len();
        // Checked before the work, and again after it.
        let added = AddressCounts { own: count, pairs: 0 };
        self.subscriptions.shared.registry.lock().check(&self.subscriptions, self.id, added)?;
        let set = self.intern_set(subscription.set);
        let key = (Arc::new(subscription.identity), set.fingerprint());
        let mut guard = self.subscriptions.shared.registry.lock();
        let registry = &mut *guard;
        let known = registry.by_identity.get(&key).copied();
        let known =
            known.filter(|id| registry.find_set(*id).is_some_and(|its| Arc::ptr_eq(its, &set)));
        let pairs = if known.is_some() { 0 } else { count };
        let added = AddressCounts { own: count, pairs };
        let checked = registry.check(&self.subscriptions, self.id, added);
        if let Err(refused) = checked {
            drop(guard);
            self.drop_set(set);
            return Err(refused);
        }
        registry.block_log.mark_in_use();
        let handle = registry.new_id();
        let id = known.unwrap_or_else(|| registry.new_id());
        registry.join(self.id, handle, id, count);
        let subscriber = Subscriber {
            listener: self.id,
            handle,
            queue: Arc::clone(&self.queue),
            after: Position::MAX,
            next_sequence: 0,
            conflates: subscription.slow_consumer_policy == SlowConsumerPolicy::Conflate,
        };
        if let Some(shared) = registry.subscriptions.get_mut(&id) {
            shared.subscribers.push(subscriber);
            return Ok(Activation { subscription: handle, token: None });
        }
        let filter = Filter::Set(subscription.key_kind, Arc::clone(&set));
        let interests = vec![Interest { topic: subscription.topic, filter }];
        let index_slot =
            registry.add_subscription(id, Arc::clone(&key.0), interests, vec![subscriber]);
        drop(guard);
        let indexed =
            IndexedSet { topic: subscription.topic, key_kind: subscription.key_kind, index_slot };
        if self.index_set(indexed, set.id_set()).is_err() {
            self.unsubscribe(handle);
            self.drop_set(set);
            return Err(self.subscriptions.addresses_full(count));
        }
        self.subscriptions.shared.registry.lock().by_identity.entry(key).or_insert(id);
        Ok(Activation { subscription: handle, token: None })
    }

    /// Starts to change a set; [`SetUpdate::step`] continues. Added addresses are delivered once
    /// [`Self::catch_up`] returns [`CatchUp::Live`] for the addition. The caller does nothing else with this listener's
    /// subscriptions until the change has finished.
    ///
    /// Cost: O(change) if no other listener has the same set, else O(set).
    /// Errors: `Unknown`, and that the listener is closed.
    pub fn start_set_update(
        self: &Arc<Self>,
        handle: SubscriptionId,
        change: SetChange,
    ) -> Result<SetUpdate<S, M, B>, SubscribeError> {
        SetUpdate::new(Arc::clone(self), handle, change)
    }

    /// Resumes after a block or step: returns the next steps since then, or goes live. If the block has not been published
    /// yet, the activation waits for it, and nothing before it is delivered. An addition to a subscription that waits
    /// must not start before it.
    ///
    /// For an addition: the queue has the notifications that the rest of the set got in the returned steps. To keep the
    /// blocks in order, pause the delivery before the block to start from is chosen, and take the queue step by step
    /// ([`Self::next_until`]).
    pub fn catch_up(
        &self,
        activation: Activation,
        commitment: Commitment,
        from: ResumeFrom,
    ) -> CatchUp<B> {
        let mut registry = self.subscriptions.shared.registry.lock();
        if activation.token.is_some() {
            self.subscriptions
                .shared
                .idle
                .wait_while(&mut registry, |registry| registry.is_publishing);
        }
        let Some(id) =
            registry.listener_entry(self.id).subscriptions.get(&activation.subscription).copied()
        else {
            return CatchUp::Expired;
        };
        let from = match from {
            ResumeFrom::Step(number) => number,
            ResumeFrom::Block(block) => match registry.block_log.resume_point(commitment, block) {
                ResumePoint::After(number) => number,
                ResumePoint::Ahead => {
                    let subscription = id;
                    let token = activation.token;
                    let handle = activation.subscription;
                    let pending_start =
                        PendingStart { commitment, block, subscription, handle, token };
                    registry.pending_starts.push(pending_start);
                    return CatchUp::Live;
                }
                ResumePoint::Expired => return CatchUp::Expired,
            },
        };
        let Some(steps) = registry.block_log.steps_since(commitment, from) else {
            return CatchUp::Expired;
        };
        let steps: Vec<BlockStep<B>> = steps.take(CATCH_UP_STEPS_MAX).cloned().collect();
        if !steps.is_empty() {
            return CatchUp::Steps(steps);
        }
        let now = Position(registry.block_log.number());
        registry.start_after(id, activation.subscription, activation.token, now);
        CatchUp::Live
    }

    /// The step that published a block: this listener's notifications of it and of the steps before are in
    /// the queue, or were. `None` if it has not been published yet.
    pub fn delivered_step(&self, commitment: Commitment, block: BlockId) -> Option<u64> {
        let mut registry = self.subscriptions.shared.registry.lock();
        self.subscriptions.shared.idle.wait_while(&mut registry, |registry| registry.is_publishing);
        match registry.block_log.resume_point(commitment, block) {
            ResumePoint::After(number) => Some(number),
            ResumePoint::Ahead => None,
            ResumePoint::Expired => Some(0),
        }
    }

    /// The current set of a subscription. Return it with [`Self::drop_set`].
    pub fn set(&self, subscription: SubscriptionId) -> Result<Arc<AddressSet>, SubscribeError> {
        self.tracked_set(subscription).map(|(_, _, _, set)| set)
    }

    /// Drops a set that [`Self::set`] returned.
    pub fn drop_set(&self, set: Arc<AddressSet>) {
        self.subscriptions.shared.registry.lock().remove_set(&set);
        drop(set); // may release addresses, which takes another lock
    }

    /// The identity of one of its subscriptions.
    pub fn identity(&self, subscription: SubscriptionId) -> Option<Arc<S>> {
        let mut registry = self.subscriptions.shared.registry.lock();
        let id = *registry.listener_entry(self.id).subscriptions.get(&subscription)?;
        Some(Arc::clone(&registry.subscriptions.get(&id)?.identity))
    }

    /// Whether [`Self::catch_up`] can resume after a block.
    pub fn reaches(&self, commitment: Commitment, block: BlockId) -> bool {
        let registry = self.subscriptions.shared.registry.lock();
        match registry.block_log.resume_point(commitment, block) {
            ResumePoint::After(number) => {
                registry.block_log.steps_since(commitment, number).is_some()
            }
            ResumePoint::Ahead => true,
            ResumePoint::Expired => false,
        }
    }

    pub(crate) fn tracked_set(
        &self,
        handle: SubscriptionId,
    ) -> Result<(SubscriptionId, Topic, KeyKind, Arc<AddressSet>), SubscribeError> {
        let mut registry = self.subscriptions.shared.registry.lock();
        let id = registry.listener_entry(self.id).subscriptions.get(&handle).copied();
        // A fixed subscription has the same id for both.
        let id = id.filter(|id| *id != handle).ok_or(SubscribeError::Unknown)?;
        let (topic, key_kind, set) = registry.find_interest(id).ok_or(SubscribeError::Unknown)?;
        Ok((id, topic, key_kind, Arc::clone(set)))
    }

    /// The shared set that is equal to this one.
    pub(crate) fn intern_set(&self, set: AddressSet) -> Arc<AddressSet> {
        let registry = self.subscriptions.shared.registry.lock();
        let known = registry.sets.get(&set.fingerprint()).and_then(std::sync::Weak::upgrade);
        drop(registry);
        if let Some(known) = known {
            if *known == set {
                return known;
            }
            self.drop_set(known);
        }
        let set = Arc::new(set);
        let mut registry = self.subscriptions.shared.registry.lock();
        let entry = registry.sets.entry(set.fingerprint()).or_default();
        if entry.strong_count() == 0 {
            *entry = Arc::downgrade(&set);
        }
        set
    }

    /// A set that no other subscription shares.
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

    /// Gives a listener its own changed copy of a set that it shares.
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
                in_batches(more.into_counted_ids().iter(), |batch| {
                    set.adopt_counted(batch);
                });
            }
            SetChange::Remove(less) => {
                let removed = less.ids().map(|id| id.0).filter(|id| old.contains(AddressId(*id)));
                in_batches(removed, |batch| set.release_ids(batch));
            }
            SetChange::Replace(new) => set = new,
        }
        let set = self.intern_set(set);
        let mut registry = self.subscriptions.shared.registry.lock();
        let Some((topic, key_kind, _)) = registry.find_interest(id) else {
            return Err(SubscribeError::Unknown);
        };
        let Some(identity) = registry.subscriptions.get(&id).map(|old| Arc::clone(&old.identity))
        else {
            return Err(SubscribeError::Unknown);
        };
        let own = registry.new_id();
        let interests = vec![Interest { topic, filter: Filter::Set(key_kind, Arc::clone(&set)) }];
        let index_slot = registry.add_subscription(own, identity, interests, Vec::new());
        drop(registry);
        let is_indexed =
            self.index_set(IndexedSet { topic, key_kind, index_slot }, set.id_set()).is_ok();
        let added = set.len();
        drop(set);
        if !is_indexed {
            let ended = self.subscriptions.shared.registry.lock().end(own);
            self.cleanup(ended);
            return Err(self.subscriptions.addresses_full(added));
        }
        let mut guard = self.subscriptions.shared.registry.lock();
        self.subscriptions.shared.idle.wait_while(&mut guard, |registry| registry.is_publishing);
        let registry = &mut *guard;
        let now = Position(registry.block_log.number());
        let removed = registry.subscriptions.get_mut(&id).and_then(|shared| {
            let index =
                shared.subscribers.iter().position(|subscriber| subscriber.handle == handle)?;
            Some((shared.subscribers.swap_remove(index), shared.subscribers.is_empty()))
        });
        let Some((mut subscriber, was_last)) = removed else { return Err(SubscribeError::Unknown) };
        if subscriber.after != Position::MAX {
            subscriber.after = now;
        }
        if pending.is_some() {
            registry.pending_subscriptions.push(own);
        }
        if let Some(subscription) = registry.subscriptions.get_mut(&own) {
            subscription.subscribers.push(subscriber);
            subscription.pending.extend(pending);
        }
        registry.listener_entry(self.id).subscriptions.insert(handle, own);
        let pending_starts = registry.pending_starts.iter_mut();
        for pending_start in pending_starts.filter(|start| start.handle == handle) {
            pending_start.subscription = own;
        }
        registry.register_identity(own);
        let ended = if was_last { registry.end(id) } else { None };
        drop(guard);
        self.cleanup(ended);
        Ok(())
    }

    /// Indexes a set, with the lock held for one batch at a time. Fails if more distinct addresses would be
    /// tracked than allowed: then the caller removes the part that was indexed.
    fn index_set(&self, set: IndexedSet, ids: &IdSet) -> Result<(), IndexFull> {
        let IndexedSet { topic, key_kind, index_slot } = set;
        let mut cursor = Cursor::default();
        let mut credit = ReplacementCredit::default();
        while let Some(batch) = cursor.next(ids) {
            let index = &mut self.subscriptions.shared.registry.lock().index;
            index.insert_ids(topic, key_kind, &batch, index_slot, &mut credit)?;
        }
        Ok(())
    }
}

/// The key of a set in the index.
#[derive(Clone, Copy)]
struct IndexedSet {
    topic: Topic,
    key_kind: KeyKind,
    index_slot: u32,
}

impl<S: Eq + Hash, M: Message, B> Registry<S, M, B> {
    fn find_interest(&self, id: SubscriptionId) -> Option<(Topic, KeyKind, &Arc<AddressSet>)> {
        match self.subscriptions.get(&id)?.interests.first()? {
            Interest { topic, filter: Filter::Set(key_kind, set) } => {
                Some((*topic, *key_kind, set))
            }
            _ => None,
        }
    }

    fn find_set(&self, id: SubscriptionId) -> Option<&Arc<AddressSet>> {
        self.find_interest(id).map(|(_, _, set)| set)
    }

    /// Takes the set out of a subscription with one listener, to change it. Until [`Self::restore_set`] no other
    /// listener can join it.
    pub(crate) fn take_set(
        &mut self,
        id: SubscriptionId,
        added: &AddedIds,
        removed: &IdSet,
        pending: Option<PendingIds>,
    ) -> (u32, Arc<AddressSet>) {
        self.address_pairs = self.address_pairs + added.len() - removed.len();
        let Some(subscription) = self.subscriptions.get_mut(&id) else {
            unreachable!("its listener is changing it")
        };
        let Some(Interest { filter: Filter::Set(_, current), .. }) =
            subscription.interests.first_mut()
        else {
            unreachable!("it is a subscription to a set")
        };
        let key = (Arc::clone(&subscription.identity), current.fingerprint());
        let empty = Arc::new(current.empty_like());
        let set = std::mem::replace(current, empty);
        if pending.is_some() {
            self.pending_subscriptions.push(id);
        }
        subscription.pending.extend(pending);
        if self.by_identity.get(&key) == Some(&id) {
            self.by_identity.remove(&key);
        }
        // The caller has the other reference, which it drops next.
        if Arc::strong_count(&set) == 2 {
            self.sets.remove(&set.fingerprint());
        }
        (subscription.index_slot, set)
    }

    /// Forgets that removed addresses did not count yet: one that is added again starts from then.
    pub(crate) fn remove_pending(&mut self, id: SubscriptionId, removed: &IdSet) {
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return };
        for pending in &mut subscription.pending {
            if removed.iter().any(|id| pending.ids.contains(id)) {
                let rest = pending.ids.iter().filter(|id| !removed.contains(*id));
                pending.ids = Arc::new(IdSet::from_sorted_iter(rest));
            }
        }
    }

    /// Takes back an addition that did not fit.
    pub(crate) fn cancel_addition(&mut self, id: SubscriptionId, token: Option<u64>) {
        if let Some(subscription) = self.subscriptions.get_mut(&id) {
            subscription.pending.retain(|pending| Some(pending.token) != token);
        }
    }

    pub(crate) fn restore_set(&mut self, id: SubscriptionId, set: Arc<AddressSet>) {
        if let Some(subscription) = self.subscriptions.get_mut(&id)
            && let Some(Interest { filter: Filter::Set(_, current), .. }) =
                subscription.interests.first_mut()
        {
            *current = set;
        }
        self.register_identity(id);
    }

    /// Lets equal subscriptions join this one, unless some of its addresses do not count yet.
    fn register_identity(&mut self, id: SubscriptionId) {
        let Some(subscription) = self.subscriptions.get(&id) else { return };
        let has_started = |pending: &PendingIds| pending.after != Position::MAX;
        if !subscription.pending.iter().all(has_started) {
            return;
        }
        let Some(set) = self.find_set(id) else { return };
        let key = (Arc::clone(&subscription.identity), set.fingerprint());
        self.by_identity.entry(key).or_insert(id);
    }

    /// Starts a subscription, or an addition to it, after a position.
    pub(crate) fn start_after(
        &mut self,
        id: SubscriptionId,
        handle: SubscriptionId,
        token: Option<u64>,
        after: Position,
    ) {
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return };
        let Some(token) = token else {
            let mut subscribers = subscription.subscribers.iter_mut();
            if let Some(subscriber) = subscribers.find(|subscriber| subscriber.handle == handle) {
                subscriber.after = after;
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
