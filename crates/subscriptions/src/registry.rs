//! Subscriptions, those who listen to them, and the door for publishers.
//!
//! Shape: one lock over the tables; each listener's queue has its own, taken inside it (lock order:
//! engine, then queue). Connections hold the engine's lock to subscribe and to leave, the publisher
//! while it looks up who matches and while it hands messages out; messages are made in between,
//! without it. Large sets go in and out in pieces of `BATCH_IDS`.
//! Invariant: an id is given out once. A message for a subscription that ended meanwhile goes nowhere.
//! Invariant: being a listener of a subscription and getting its last message are one step, so a last
//! message is delivered at most once, whoever delivers it.
//! Not here: what listeners do (`listener`), sets that change (`tracked`).

use std::hash::Hash;
use std::hint::black_box;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use foldhash::HashMap;
use ledger::{BlockId, Commitment, Key, KeyKind};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::address_set::AddressSet;
use crate::block_log::{BlockLog, BlockStep, Direction, MissingParent, Retention};
use crate::filter::{Filter, Interest, Position, Topic};
use crate::id_set::IdSet;
use crate::index::Index;
use crate::listener::Listener;
use crate::posting_lists::INDEX_SLOT_MAX;
use crate::queue::{CloseReason, Delivery, Message, Queue};
use crate::queue_memory::{OwnerId, QueueMemory};

/// What may grow, and how far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Listeners at once.
    pub listeners_max: usize,
    /// Subscriptions of all listeners; one that several share counts for each. Memory: about 200
    /// bytes each, and 100 for each that is not shared.
    pub subscriptions_max: usize,
    /// Subscriptions of one listener.
    pub subscriptions_per_listener_max: usize,
    /// Addresses of all sets; one that several different subscriptions have counts for each, and one
    /// of a subscription that several listeners share once. Memory: at most 16 bytes each, and the
    /// address table's for each that is in any set.
    pub addresses_max: usize,
    /// Addresses in the sets of one listener.
    pub addresses_per_listener_max: usize,
    /// Scattered addresses for which each topic and facet makes room when it is first used. 0: room is
    /// made as it is needed. Memory: about 9 bytes each.
    pub preallocated_ids: usize,
    /// Steps of each commitment that are kept for those who come back. Memory: the blocks.
    pub retained_steps: usize,
    /// Bytes of the blocks of those steps, each block counted once: beyond that the oldest steps go,
    /// whatever their commitment.
    pub retained_bytes: usize,
    /// Blocks that may wait for a root.
    pub unrooted_max: usize,
    /// Messages that may wait for one listener.
    pub queue_messages_max: usize,
    /// Bytes that may wait for one listener. Worst case of memory: this times listeners, if they
    /// share no message.
    pub queue_bytes_max: usize,
    /// Bytes that may wait for all listeners, with what is being written to them. A message that several share
    /// counts once. Above it listeners are closed (`memory`).
    pub queues_bytes_max: usize,
}

/// Names a subscription. Listeners that share a fixed one know it by the same number; one to a set has
/// a number of its own for each listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(pub u64);

/// Why a subscription was refused. Nothing of it is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// All listeners together have as many as they may. Fix: raise the limit.
    #[error("the node has {limit} subscriptions, the most it may have")]
    NodeFull {
        /// How many there may be.
        limit: usize,
    },
    /// This listener has as many as it may. Fix: end some, or raise the limit.
    #[error("the connection has {limit} subscriptions, the most it may have")]
    ListenerFull {
        /// How many it may have.
        limit: usize,
    },
    /// All sets together have as many addresses as they may. Fix: raise the limit.
    #[error("the node tracks as many addresses as it may: {limit}")]
    AddressesFull {
        /// How many there may be.
        limit: usize,
    },
    /// This listener's sets would have more addresses than they may. Fix: raise the limit.
    #[error("the connection may track {limit} addresses")]
    ListenerAddressesFull {
        /// How many it may have.
        limit: usize,
    },
    /// The address table is full.
    #[error(transparent)]
    Addresses(#[from] address::TableFull),
    /// This listener has no set of that id.
    #[error("no such subscription")]
    Unknown,
    /// This listener is closed.
    #[error(transparent)]
    Closed(#[from] CloseReason),
}

/// There are as many listeners as there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node has {limit} listeners, the most it may have")]
pub struct ListenError {
    /// How many there may be.
    pub limit: usize,
}

/// How much there is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Listeners.
    pub listeners: usize,
    /// Subscriptions, one that several listeners share counted for each.
    pub subscriptions: usize,
    /// Subscriptions, one that several listeners share counted once.
    pub distinct: usize,
    /// Addresses of sets, as `Limits::addresses_max` counts them.
    pub tracked_addresses: usize,
    /// Messages that wait in all queues.
    pub queue_messages: usize,
    /// Bytes that wait in all queues, what is shared counted for each.
    pub queue_bytes: usize,
    /// Bytes of what waits for all listeners and of what is written to them, what is shared counted once.
    pub queue_memory: usize,
    /// Bytes of the blocks that are kept for those who come back.
    pub retained_bytes: usize,
}

/// What addresses of sets cost on the heap, beside the address table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// From addresses to the subscriptions that want them.
    pub index: usize,
    /// The sets themselves, equal ones once.
    pub sets: usize,
}

/// A subscription that wants a publication.
#[derive(Debug)]
pub struct Match<S> {
    /// Which one.
    pub id: SubscriptionId,
    /// What its listeners asked for, to make their message from.
    pub identity: Arc<S>,
}

/// A message on its way to all listeners of a subscription.
pub struct Publication<M> {
    /// Which subscription: a match's.
    pub subscription: SubscriptionId,
    /// The message.
    pub body: M,
    /// What it counts against a queue's bytes.
    pub bytes: usize,
    /// Where it was published. Listeners that subscribed at it or after it do not get it.
    pub at: Position,
    /// What becomes of the subscription.
    pub after_delivery: AfterDelivery,
}

/// What becomes of a subscription after a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterDelivery {
    /// It goes on.
    Continue,
    /// That was its last message: it ends for all who got it.
    End,
}

/// All subscriptions of a node. Cloning it gives another handle on the same.
///
/// `S` is the identity of a subscription (equal ones are shared), `M` the body of a message, `B` what
/// is in a block.
pub struct Subscriptions<S, M: Message, B> {
    pub(crate) shared: Arc<Shared<S, M, B>>,
}

impl<S, M: Message, B> Clone for Subscriptions<S, M, B> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

pub(crate) struct Shared<S, M: Message, B> {
    pub(crate) limits: Limits,
    pub(crate) memory: Arc<QueueMemory>,
    /// Held while room is made. Lock order: before the engine.
    pub(crate) eviction_lock: Mutex<()>,
    pub(crate) registry: Mutex<Registry<S, M, B>>,
    /// Notified when no publication is under way.
    pub(crate) idle: Condvar,
}

pub(crate) struct Registry<S, M: Message, B> {
    pub(crate) index: Index,
    pub(crate) subscriptions: HashMap<SubscriptionId, Subscription<S, M>>,
    /// By identity and the fingerprint of a set. Sets that are being entered or changed are not here.
    pub(crate) by_identity: HashMap<(Arc<S>, u64), SubscriptionId>,
    /// Equal sets are one.
    pub(crate) sets: HashMap<u64, Weak<AddressSet>>,
    pub(crate) listeners: HashMap<ListenerId, ListenerEntry<M>>,
    /// Which subscription has which place in the index.
    index_slots: Vec<SubscriptionId>,
    free_slots: Vec<u32>,
    pub(crate) block_log: BlockLog<B>,
    /// Who starts at a block that is not told yet.
    pub(crate) pending_starts: Vec<PendingStart>,
    /// Whether steps have been taken that are not told to all yet.
    pub(crate) is_publishing: bool,
    /// Subscriptions some of whose addresses count from a later step than the others.
    pub(crate) pending_subscriptions: Vec<SubscriptionId>,
    /// Pairs of a listener and a subscription.
    pub(crate) pairs: usize,
    pub(crate) tracked_addresses: usize,
    next_subscription: u64,
    next_listener: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ListenerId(u64);

pub(crate) struct Subscription<S, M: Message> {
    pub(crate) identity: Arc<S>,
    pub(crate) index_slot: u32,
    pub(crate) interests: Vec<Interest>,
    pub(crate) subscribers: Vec<Subscriber<M>>,
    /// Those that may still matter.
    pub(crate) pending: Vec<PendingIds>,
}

/// Addresses of a set that count from a later step than the others.
pub(crate) struct PendingIds {
    /// Names it.
    pub(crate) token: u64,
    pub(crate) ids: Arc<IdSet>,
    pub(crate) after: Position,
}

/// A listener of a subscription.
pub(crate) struct Subscriber<M: Message> {
    pub(crate) listener: ListenerId,
    /// As the listener knows the subscription.
    pub(crate) handle: SubscriptionId,
    pub(crate) queue: Arc<Queue<M>>,
    /// It hears of what is published after it.
    pub(crate) after: Position,
    pub(crate) next_sequence: u64,
    pub(crate) conflates: bool,
}

pub(crate) struct PendingStart {
    pub(crate) commitment: Commitment,
    pub(crate) block: BlockId,
    pub(crate) subscription: SubscriptionId,
    pub(crate) handle: SubscriptionId,
    pub(crate) token: Option<u64>,
}

pub(crate) struct ListenerEntry<M: Message> {
    pub(crate) owner: OwnerId,
    pub(crate) queue: Arc<Queue<M>>,
    /// From what the listener calls a subscription to the one that it shares.
    pub(crate) subscriptions: HashMap<SubscriptionId, SubscriptionId>,
    pub(crate) tracked_addresses: usize,
}

impl<S: Eq + Hash, M: Message, B> Subscriptions<S, M, B> {
    /// No subscriptions yet.
    pub fn new(limits: Limits) -> Self {
        let window =
            Retention { steps_max: limits.retained_steps, bytes_max: limits.retained_bytes };
        let engine = Registry {
            index: Index::new(limits.preallocated_ids),
            subscriptions: HashMap::default(),
            by_identity: HashMap::default(),
            sets: HashMap::default(),
            listeners: HashMap::default(),
            index_slots: Vec::new(),
            free_slots: Vec::new(),
            block_log: BlockLog::new(window, limits.unrooted_max),
            pending_starts: Vec::new(),
            is_publishing: false,
            pending_subscriptions: Vec::new(),
            pairs: 0,
            tracked_addresses: 0,
            next_subscription: 0,
            next_listener: 0,
        };
        let engine = Mutex::new(engine);
        let (memory, making_room, idle) = (Arc::default(), Mutex::default(), Condvar::new());
        Self {
            shared: Arc::new(Shared {
                limits,
                memory,
                eviction_lock: making_room,
                registry: engine,
                idle,
            }),
        }
    }

    /// A new listener of an owner. `wake` is called, possibly under our lock, when its queue has something after
    /// it had nothing, or is closed: it must return at once and not call us.
    pub fn listen(
        &self,
        owner: OwnerId,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<Listener<S, M, B>, ListenError> {
        let queue = Arc::new(Queue::new(Arc::clone(&self.shared.memory), Box::new(wake)));
        let mut engine = self.shared.registry.lock();
        let limit = self.shared.limits.listeners_max;
        if engine.listeners.len() >= limit {
            return Err(ListenError { limit });
        }
        let id = ListenerId(engine.next_listener);
        engine.next_listener += 1;
        let subscriptions = HashMap::default();
        let entry =
            ListenerEntry { owner, queue: Arc::clone(&queue), subscriptions, tracked_addresses: 0 };
        engine.listeners.insert(id, entry);
        Ok(Listener { subscriptions: self.clone(), id, queue })
    }

    /// Puts the walk of each commitment on a block: at the start, or after a gap. What was kept for
    /// those who come back is forgotten.
    pub fn start_at(&self, at: impl Fn(Commitment) -> BlockId) {
        let mut engine = self.shared.registry.lock();
        engine.block_log.clear();
        Commitment::ALL.into_iter().for_each(|level| engine.block_log.start_at(level, at(level)));
    }

    /// Makes a block known, and how many bytes it counts while it is kept. It is told of once a
    /// commitment comes to it.
    pub fn add_block(
        &self,
        block: BlockId,
        parent: BlockId,
        body: Arc<B>,
        bytes: usize,
    ) -> Result<(), MissingParent> {
        self.shared.registry.lock().block_log.add(block, parent, body, bytes)
    }

    /// Says that a block has a commitment now, and what comes before it with it. The steps are to be
    /// told, in order, to those who want them; dropping them says that this is done.
    pub fn advance(
        &self,
        commitment: Commitment,
        to: BlockId,
    ) -> Result<Steps<'_, S, M, B>, MissingParent> {
        let mut engine = self.shared.registry.lock();
        // Whoever follows a set may come back and go on with it.
        if !engine.sets.is_empty() {
            engine.block_log.mark_in_use();
        }
        let steps = engine.block_log.advance(commitment, to)?;
        for step in steps.iter().filter(|step| step.direction == Direction::Applied) {
            engine.activate_pending(step.commitment, step.block, step.number);
        }
        engine.is_publishing = true;
        Ok(Steps { shared: &self.shared, steps })
    }

    /// Where the walk of a commitment is: the newest block that has been told.
    pub fn tip(&self, commitment: Commitment) -> Option<BlockId> {
        self.shared.registry.lock().block_log.tip(commitment)
    }

    /// The subscriptions as they are now, to be asked who wants what. Nobody subscribes or leaves
    /// while this is held.
    pub fn matches(&self) -> Matches<'_, S, M, B> {
        Matches { registry: self.shared.registry.lock() }
    }

    /// Hands messages to the listeners of their subscriptions, in order, and closes listeners if more waits
    /// then than may ([`Self::make_room`]). Returns how many queues got one. Cost: those.
    pub fn deliver(&self, messages: impl IntoIterator<Item = Publication<M>>) -> usize {
        let mut delivered = 0;
        let mut ended = Vec::new(); // dropped without the lock
        let mut engine = self.shared.registry.lock();
        for message in messages {
            let id = message.subscription;
            let Some(subscription) = engine.subscriptions.get_mut(&id) else { continue };
            for member in
                subscription.subscribers.iter_mut().filter(|member| member.after < message.at)
            {
                let delivery = member.delivery(message.body.clone(), message.bytes, message.at);
                member.queue.push(&self.shared.limits, delivery);
                delivered += 1;
            }
            if message.after_delivery == AfterDelivery::End {
                ended.extend(engine.end_before(id, message.at));
            }
        }
        drop(engine);
        self.enforce_memory_limit();
        delivered
    }

    /// Closes every listener there is, for a reason.
    pub fn close_all(&self, why: CloseReason) {
        let engine = self.shared.registry.lock();
        for entry in engine.listeners.values() {
            entry.queue.close(why);
        }
    }

    /// How much there is now. Cost: O(listeners).
    pub fn stats(&self) -> Stats {
        let engine = self.shared.registry.lock();
        let waiting = engine.listeners.values().map(|entry| entry.queue.waiting());
        let (queue_messages, queue_bytes) =
            waiting.fold((0, 0), |sum, waits| (sum.0 + waits.0, sum.1 + waits.1));
        Stats {
            queue_messages,
            queue_bytes,
            queue_memory: self.shared.memory.bytes(),
            listeners: engine.listeners.len(),
            subscriptions: engine.pairs,
            distinct: engine.subscriptions.len(),
            tracked_addresses: engine.tracked_addresses,
            retained_bytes: engine.block_log.retained_bytes(),
        }
    }

    /// The heap bytes of what grows with addresses. Cost: O(sets + addresses / 256), under the lock;
    /// for reports.
    pub fn memory_usage(&self) -> MemoryUsage {
        let engine = self.shared.registry.lock();
        let sets = engine.sets.values().filter_map(Weak::upgrade);
        // Whoever dropped one meanwhile leaves the last hold to us: it is let go without the lock.
        let sets: Vec<Arc<AddressSet>> = sets.collect();
        let index = engine.index.bytes();
        drop(engine);
        MemoryUsage { index, sets: sets.iter().map(|set| set.bytes()).sum() }
    }

    /// Whether nothing of any subscription is left, for tests.
    pub fn is_idle(&self) -> bool {
        let engine = self.shared.registry.lock();
        engine.subscriptions.is_empty()
            && engine.by_identity.is_empty()
            && engine.sets.is_empty()
            && engine.pending_starts.is_empty()
            && engine.pending_subscriptions.iter().all(|id| !engine.subscriptions.contains_key(id))
            && engine.index_slots.len() == engine.free_slots.len()
            && (engine.index.is_empty() || self.shared.limits.preallocated_ids > 0)
    }

    /// The limits that it was made with.
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }
}

/// Steps that are being told. See [`Subscriptions::advance`].
pub struct Steps<'a, S, M: Message, B> {
    shared: &'a Shared<S, M, B>,
    steps: Vec<BlockStep<B>>,
}

impl<S, M: Message, B> Deref for Steps<'_, S, M, B> {
    type Target = [BlockStep<B>];

    fn deref(&self) -> &[BlockStep<B>] {
        &self.steps
    }
}

impl<S, M: Message, B> Drop for Steps<'_, S, M, B> {
    fn drop(&mut self) {
        let mut engine = self.shared.registry.lock();
        engine.is_publishing = false;
        engine.expire_pending();
        drop(engine);
        self.shared.idle.notify_all();
    }
}

/// The subscriptions, held still.
pub struct Matches<'a, S, M: Message, B> {
    registry: MutexGuard<'a, Registry<S, M, B>>,
}

impl<S, M: Message, B> Matches<'_, S, M, B> {
    /// Whether anybody wants anything of a topic: if not, its keys need not be gathered.
    pub fn has(&self, topic: Topic) -> bool {
        self.registry.index.has(topic)
    }

    /// Whether anybody tracks anything of a topic under a facet.
    pub fn has_key_kind(&self, topic: Topic, facet: KeyKind) -> bool {
        self.registry.index.set_lookup(topic, facet).is_some()
    }

    /// Who wants a publication of `topic` that carries `keys`: those that want all, and those with
    /// one of the keys. Each once, in no particular order.
    pub fn matching(&self, topic: Topic, keys: impl IntoIterator<Item = Key>) -> Vec<Match<S>> {
        let found = self.registry.index.matching(topic, keys);
        found.into_iter().map(|place| self.registry.match_at(place)).collect()
    }

    /// Who wants the publication of `topic` with that name.
    pub fn matching_exact(&self, topic: Topic, name: &[u8]) -> Vec<Match<S>> {
        let found = self.registry.index.matching_exact(topic, name);
        found.iter().map(|place| self.registry.match_at(*place)).collect()
    }

    /// Who tracks any of the things of a step, and which of them. The things are given as the id
    /// that they are tracked by, and a number that the caller knows them by; each subscription comes
    /// once, with its numbers in the order given, each once.
    ///
    /// Cost: one look-up for each thing, and the matches.
    pub fn matching_sets(
        &self,
        topic: Topic,
        facet: KeyKind,
        step: u64,
        things: impl IntoIterator<Item = (u32, u32)>,
    ) -> Vec<(Match<S>, Vec<u32>)> {
        let Some(lane) = self.registry.index.set_lookup(topic, facet) else { return Vec::new() };
        // In rounds, each of which does little for each match: what has to come from memory comes for
        // several of them at a time, however many subscriptions there are.
        let mut matches: Vec<(u32, u32, u32)> = Vec::new();
        for (id, thing) in things {
            lane(id, &mut |place| matches.push((place, id, thing)));
        }
        self.registry.prefetch(matches.iter().map(|(place, ..)| *place));
        let settling = !self.registry.pending_subscriptions.is_empty();
        let mut found: HashMap<u32, Vec<u32>> = HashMap::default();
        for (place, id, thing) in matches {
            if !settling || !self.registry.is_pending(place, id, step) {
                let things = found.entry(place).or_default();
                if things.last() != Some(&thing) {
                    things.push(thing);
                }
            }
        }
        found.into_iter().map(|(place, things)| (self.registry.match_at(place), things)).collect()
    }
}

impl<M: Message> Subscriber<M> {
    pub(crate) fn delivery(&mut self, mut body: M, mut bytes: usize, at: Position) -> Delivery<M> {
        if self.conflates {
            bytes += body.conflation_bytes();
        } else {
            body.forget_conflation();
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let (subscription, conflates) = (self.handle, self.conflates);
        Delivery { sequence, subscription, body, bytes, at, conflates }
    }
}

impl<S, M: Message, B> Registry<S, M, B> {
    /// The subscription that has a place in the index.
    fn match_at(&self, place: u32) -> Match<S> {
        let id = self.index_slots[place as usize];
        let Some(subscription) = self.subscriptions.get(&id) else {
            unreachable!("what is in the index is a subscription")
        };
        Match { id, identity: Arc::clone(&subscription.identity) }
    }

    /// Has what delivering to subscriptions needs in the caches.
    fn prefetch(&self, places: impl Iterator<Item = u32> + Clone) {
        let all =
            places.filter_map(|place| self.subscriptions.get(&self.index_slots[place as usize]));
        let members = all.clone().filter_map(|subscription| subscription.subscribers.first());
        // The sums are of no use: that they are wanted is what has the words loaded.
        black_box(all.clone().fold(0, |sum, subscription| sum ^ subscription.subscribers.len()));
        black_box(members.clone().fold(0, |sum, member| sum ^ member.next_sequence));
        black_box(all.fold(0, |sum, subscription| sum ^ Arc::strong_count(&subscription.identity)));
        black_box(members.fold(false, |sum, member| sum ^ member.queue.is_busy()));
    }

    /// Whether an address of a subscription does not count yet at a step.
    fn is_pending(&self, place: u32, id: u32, step: u64) -> bool {
        let subscription = self.subscriptions.get(&self.index_slots[place as usize]);
        let Some(subscription) = subscription else { return false };
        subscription
            .pending
            .iter()
            .any(|pending| pending.after.0 >= step && pending.ids.contains(id))
    }

    /// Forgets what was pending and is not any more: all steps so far have been told.
    fn expire_pending(&mut self) {
        let now = self.block_log.number();
        let Self { pending_subscriptions: settling, subscriptions, .. } = self;
        settling.retain(|id| {
            let Some(subscription) = subscriptions.get_mut(id) else { return false };
            subscription.pending.retain(|pending| pending.after.0 > now);
            !subscription.pending.is_empty()
        });
        if settling.is_empty() {
            settling.shrink_to(16);
        }
    }

    /// A number that no subscription had before.
    pub(crate) fn new_id(&mut self) -> SubscriptionId {
        self.next_subscription += 1;
        SubscriptionId(self.next_subscription - 1)
    }

    fn allocate_slot(&mut self, id: SubscriptionId) -> u32 {
        if let Some(place) = self.free_slots.pop() {
            self.index_slots[place as usize] = id;
            return place;
        }
        self.index_slots.push(id);
        self.index_slots.len() as u32 - 1
    }

    /// Whether there is a place for one more subscription.
    pub(crate) fn has_free_slot(&self) -> bool {
        !self.free_slots.is_empty() || self.index_slots.len() < INDEX_SLOT_MAX as usize
    }

    /// A subscription that is not in the index yet, nor known by its identity.
    pub(crate) fn add_subscription(
        &mut self,
        id: SubscriptionId,
        identity: Arc<S>,
        interests: Vec<Interest>,
        members: Vec<Subscriber<M>>,
    ) -> u32 {
        let place = self.allocate_slot(id);
        self.tracked_addresses += count_addresses(&interests);
        let subscription = Subscription {
            identity,
            index_slot: place,
            interests,
            subscribers: members,
            pending: Vec::new(),
        };
        self.subscriptions.insert(id, subscription);
        place
    }
}

/// How many addresses the sets of a subscription have.
pub(crate) fn count_addresses(interests: &[Interest]) -> usize {
    let sets = interests.iter().map(|interest| match &interest.filter {
        Filter::Set(_, set) => set.len(),
        Filter::All | Filter::Exact(_) => 0,
    });
    sets.sum()
}

/// What tells the sets of subscriptions with equal identities apart.
pub(crate) fn fingerprint(interests: &[Interest]) -> u64 {
    let sets = interests.iter().map(|interest| match &interest.filter {
        Filter::Set(_, set) => set.fingerprint(),
        Filter::All | Filter::Exact(_) => 0,
    });
    sets.fold(0, u64::wrapping_add)
}

impl<S: Eq + Hash, M: Message, B> Registry<S, M, B> {
    /// Starts those who wait for a block after it, and with it those who wait for one that it leaves
    /// aside.
    fn activate_pending(&mut self, commitment: Commitment, at: BlockId, number: u64) {
        let comes = |waiting: &mut PendingStart| {
            waiting.commitment == commitment && waiting.block.slot <= at.slot
        };
        let started: Vec<_> = self.pending_starts.extract_if(.., comes).collect();
        for PendingStart { subscription, handle, token, block, .. } in started {
            let after = if block == at { number } else { number - 1 };
            self.start_after(subscription, handle, token, Position(after));
        }
    }

    /// Takes a listener out of a subscription. `None` if it is not in it; the inner one is what is
    /// left over when it was the last: still in the index, under a place that [`Self::free_slot`] frees.
    #[expect(clippy::option_option, reason = "whether it was in, and whether it was the last")]
    pub(crate) fn remove_subscriber(
        &mut self,
        listener: ListenerId,
        handle: SubscriptionId,
    ) -> Option<Option<(SubscriptionId, Subscription<S, M>)>> {
        let entry = self.listeners.get_mut(&listener)?;
        let id = entry.subscriptions.remove(&handle)?;
        self.pairs -= 1;
        self.pending_starts.retain(|waiting| waiting.handle != handle);
        let subscription = self.subscriptions.get_mut(&id)?;
        entry.tracked_addresses -= count_addresses(&subscription.interests);
        let mut members = subscription.subscribers.iter();
        if let Some(at) =
            members.position(|member| member.handle == handle && member.listener == listener)
        {
            subscription.subscribers.swap_remove(at);
        }
        Some(if subscription.subscribers.is_empty() { self.end(id) } else { None })
    }

    /// Takes all out of a subscription who subscribed before a position.
    fn end_before(&mut self, id: SubscriptionId, at: Position) -> Option<Subscription<S, M>> {
        let subscription = self.subscriptions.get_mut(&id)?;
        if subscription.subscribers.is_empty() {
            return None; // it has ended: whoever ended it takes it out of the index
        }
        let tracked = count_addresses(&subscription.interests);
        for member in subscription.subscribers.extract_if(.., |member| member.after < at) {
            if let Some(entry) = self.listeners.get_mut(&member.listener) {
                entry.subscriptions.remove(&member.handle);
                entry.tracked_addresses -= tracked;
                self.pairs -= 1;
            }
        }
        if !subscription.subscribers.is_empty() {
            return None;
        }
        let (id, ended) = self.end(id)?;
        self.remove(&ended);
        self.free_slot(id, ended.index_slot);
        Some(ended)
    }

    /// Ends a subscription that nobody is in any more. It stays in the index, matched by nobody's
    /// queue, until it is taken out.
    pub(crate) fn end(
        &mut self,
        id: SubscriptionId,
    ) -> Option<(SubscriptionId, Subscription<S, M>)> {
        let subscription = self.subscriptions.get_mut(&id)?;
        let key = (Arc::clone(&subscription.identity), fingerprint(&subscription.interests));
        self.tracked_addresses -= count_addresses(&subscription.interests);
        let ended = Subscription {
            identity: Arc::clone(&subscription.identity),
            index_slot: subscription.index_slot,
            interests: std::mem::take(&mut subscription.interests),
            subscribers: Vec::new(),
            pending: Vec::new(),
        };
        if self.by_identity.get(&key) == Some(&id) {
            self.by_identity.remove(&key);
        }
        Some((id, ended))
    }

    /// Takes an ended subscription out of the index at once.
    pub(crate) fn remove(&mut self, ended: &Subscription<S, M>) {
        for interest in &ended.interests {
            self.index.remove(ended.index_slot, interest);
        }
    }

    /// Forgets an ended subscription that is not in the index any more.
    pub(crate) fn free_slot(&mut self, id: SubscriptionId, place: u32) {
        self.subscriptions.remove(&id);
        self.free_slots.push(place);
        if self.free_slots.len() == self.index_slots.len() {
            (self.index_slots, self.free_slots) = (Vec::new(), Vec::new());
        }
        if self.subscriptions.is_empty() {
            // Maps that were once large give their memory back.
            self.subscriptions = HashMap::default();
            self.by_identity = HashMap::default();
        }
    }

    /// Forgets a set that nobody has any more; called when its last holder is about to drop it.
    pub(crate) fn remove_set(&mut self, set: &Arc<AddressSet>) {
        let fingerprint = set.fingerprint();
        let is_it = |known: &Weak<AddressSet>| known.as_ptr() == Arc::as_ptr(set);
        if Arc::strong_count(set) == 1 && self.sets.get(&fingerprint).is_some_and(is_it) {
            self.sets.remove(&fingerprint);
            if self.sets.is_empty() {
                self.sets = HashMap::default();
            }
        }
    }
}
