//! The registry of subscriptions and listeners, and the interface for publishers.
//!
//! Shape: one lock over the tables; each listener's queue has its own, taken inside it (lock order:
//! registry, then queue). Connections hold the registry's lock to subscribe and to unsubscribe, the publisher to look
//! up matches and to deliver; it encodes in between, without the lock. Large sets are processed `BATCH_IDS` at a time.
//! Invariant: an id is allocated once. A message for a subscription that has ended meanwhile is dropped.
//! Invariant: the last message of a subscription is delivered at most once: its listener is removed in the same step.
//! Not here: what listeners do (`listener`), delivery (`publication`), which listeners are closed at the limit
//! (`eviction`), sets that change (`address_set_subscription`, `set_update`).

use std::hash::Hash;
use std::hint::black_box;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use foldhash::HashMap;
use ledger::{BlockId, Commitment, Key, KeyKind};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::address_set::AddressSet;
use crate::block_log::{BlockInUse, BlockLog, BlockStep, Direction, MissingParent, Retention};
use crate::delivery::{CloseReason, Delivery, Message};
use crate::error::ListenError;
use crate::filter::{Filter, Interest, Position, Topic};
use crate::id_postings::ItemMatch;
use crate::id_set::IdSet;
use crate::ids::{ListenerId, SubscriptionId};
use crate::index::Index;
use crate::limits::Limits;
use crate::posting_lists::INDEX_SLOT_MAX;
use crate::queue::Queue;
use crate::queue_memory::{OwnerId, QueueMemory};
use crate::stats::{MemoryUsage, Stats};

/// A subscription that matches a publication.
#[derive(Debug)]
pub struct Match<S> {
    /// Id of the matched subscription.
    pub id: SubscriptionId,
    /// The request of its listeners: the parameters for encoding their message.
    pub identity: Arc<S>,
}

/// All subscriptions of a node. A clone is another handle on the same subscriptions.
///
/// `S` is the identity of a subscription (equal ones are shared), `M` the body of a message, `B` the body of a block.
///
/// ```
/// use std::sync::Arc;
///
/// use subscriptions::{
///     AfterDelivery, Filter, Interest, Limits, Message, Next, OwnerId, Position, Publication,
///     Subscriptions, Topic,
/// };
///
/// #[derive(Clone)]
/// struct Text(&'static str);
///
/// impl Message for Text {
///     type Conflated = ();
///
///     fn conflate(self, (): &mut ()) -> usize {
///         unreachable!("only subscriptions to sets are conflated")
///     }
/// }
///
/// # let limits = Limits {
/// #     listeners_max: 100,
/// #     subscriptions_max: 100,
/// #     subscriptions_per_listener_max: 100,
/// #     addresses_max: 100,
/// #     address_pairs_max: 100,
/// #     addresses_per_owner_max: 100,
/// #     addresses_per_listener_max: 100,
/// #     retained_steps: 1,
/// #     retained_bytes: 100,
/// #     unrooted_max: 1,
/// #     queue_messages_max: 100,
/// #     queue_bytes_max: 1_000,
/// #     queues_bytes_max: 10_000,
/// # };
/// const SLOTS: Topic = Topic(0);
/// let subscriptions: Subscriptions<&str, Text, ()> = Subscriptions::new(limits);
/// let listener = subscriptions.listen(OwnerId(1), Arc::new(|| {}))?;
/// let interests = vec![Interest { topic: SLOTS, filter: Filter::All }];
/// let id = listener.subscribe("slots", interests, Position(0))?;
///
/// let matches = subscriptions.matches().matching(SLOTS, []);
/// let publications = matches.into_iter().map(|found| Publication {
///     subscription: found.id,
///     body: Text("slot 1"),
///     bytes: 6,
///     at: Position(1),
///     after_delivery: AfterDelivery::Continue,
/// });
/// assert_eq!(subscriptions.deliver(publications), 1);
/// let Next::Message(delivery) = listener.next() else { panic!("a message was delivered") };
/// assert_eq!((delivery.subscription, delivery.body.0), (id, "slot 1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// Locked during an eviction. Lock order: before the registry.
    pub(crate) eviction_lock: Mutex<()>,
    pub(crate) registry: Mutex<Registry<S, M, B>>,
    /// Notified when a publication has finished.
    pub(crate) idle: Condvar,
}

pub(crate) struct Registry<S, M: Message, B> {
    pub(crate) index: Index,
    pub(crate) subscriptions: HashMap<SubscriptionId, Subscription<S, M>>,
    /// By identity and the fingerprint of a set. Sets that are being indexed or changed are not here.
    pub(crate) by_identity: HashMap<(Arc<S>, u64), SubscriptionId>,
    /// By fingerprint. Equal sets are shared.
    pub(crate) sets: HashMap<u64, Weak<AddressSet>>,
    pub(crate) listeners: HashMap<ListenerId, ListenerEntry<M>>,
    /// The subscription of each slot in the index.
    index_slots: Vec<SubscriptionId>,
    free_slots: Vec<u32>,
    pub(crate) block_log: BlockLog<B>,
    /// Activations that start at a block that has not been published.
    pub(crate) pending_starts: Vec<PendingStart>,
    /// Whether the steps of an advance are being published.
    pub(crate) is_publishing: bool,
    /// Subscriptions with addresses that count from a later step than the others.
    pub(crate) pending_subscriptions: Vec<SubscriptionId>,
    /// Pairs of a listener and a subscription.
    pub(crate) pairs: usize,
    /// Pairs of a distinct subscription and an address of its sets.
    pub(crate) address_pairs: usize,
    /// Addresses in the sets of each owner's listeners, of owners that have any.
    pub(crate) addresses_by_owner: HashMap<OwnerId, usize>,
    next_subscription: u64,
    next_listener: u64,
}

pub(crate) struct Subscription<S, M: Message> {
    pub(crate) identity: Arc<S>,
    pub(crate) index_slot: u32,
    pub(crate) interests: Vec<Interest>,
    pub(crate) subscribers: Vec<Subscriber<M>>,
    /// Additions to the set that do not count at all steps yet.
    pub(crate) pending: Vec<PendingIds>,
}

/// Addresses of a set that count from a later step than the others.
pub(crate) struct PendingIds {
    pub(crate) token: u64,
    pub(crate) ids: Arc<IdSet>,
    pub(crate) after: Position,
}

/// A listener of a subscription.
pub(crate) struct Subscriber<M: Message> {
    pub(crate) listener: ListenerId,
    /// The listener's id for the subscription.
    pub(crate) handle: SubscriptionId,
    pub(crate) queue: Arc<Queue<M>>,
    /// It gets publications after this position.
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
    /// From the listener's id of a subscription to the id of the shared one.
    pub(crate) subscriptions: HashMap<SubscriptionId, SubscriptionId>,
    pub(crate) tracked_addresses: usize,
}

impl<S: Eq + Hash, M: Message, B> Subscriptions<S, M, B> {
    /// Creates the tables, without subscriptions.
    pub fn new(limits: Limits) -> Self {
        let retention =
            Retention { steps_max: limits.retained_steps, bytes_max: limits.retained_bytes };
        let registry = Registry {
            index: Index::new(limits.addresses_max),
            subscriptions: HashMap::default(),
            by_identity: HashMap::default(),
            sets: HashMap::default(),
            listeners: HashMap::default(),
            index_slots: Vec::new(),
            free_slots: Vec::new(),
            block_log: BlockLog::new(retention, limits.unrooted_max),
            pending_starts: Vec::new(),
            is_publishing: false,
            pending_subscriptions: Vec::new(),
            pairs: 0,
            address_pairs: 0,
            addresses_by_owner: HashMap::default(),
            next_subscription: 1,
            next_listener: 0,
        };
        let registry = Mutex::new(registry);
        let memory = Arc::default();
        let eviction_lock = Mutex::default();
        let idle = Condvar::new();
        Self { shared: Arc::new(Shared { limits, memory, eviction_lock, registry, idle }) }
    }

    /// Allocates memory for `ids` scattered addresses of sets under a topic and a key kind, which is never freed: at
    /// most 10 bytes each, and 320 KB for the table.
    pub fn reserve(&self, topic: Topic, key_kind: KeyKind, ids: usize) {
        self.shared.registry.lock().index.reserve(topic, key_kind, ids);
    }

    /// Sets the tip of each commitment: at the start, or after a gap. Drops all retained steps.
    pub fn start_at(&self, at: impl Fn(Commitment) -> BlockId) {
        let mut registry = self.shared.registry.lock();
        registry.block_log.clear();
        Commitment::ALL
            .into_iter()
            .for_each(|commitment| registry.block_log.start_at(commitment, at(commitment)));
    }

    /// Adds a block, and the bytes that it counts while it is retained. It is published when a commitment reaches it.
    pub fn add_block(
        &self,
        block: BlockId,
        parent: BlockId,
        body: Arc<B>,
        bytes: usize,
    ) -> Result<(), MissingParent> {
        self.shared.registry.lock().block_log.add(block, parent, body, bytes)
    }

    /// As [`Self::add_block`], unless the block is there: a ledger that takes a final block back names it again, so
    /// that the finalized commitment can leave it.
    pub fn restore_block(
        &self,
        block: BlockId,
        parent: BlockId,
        body: &Arc<B>,
        bytes: impl FnOnce() -> usize,
    ) -> Result<(), MissingParent> {
        let mut registry = self.shared.registry.lock();
        let log = &mut registry.block_log;
        if log.contains(block) {
            return Ok(());
        }
        log.add(block, parent, Arc::clone(body), bytes())
    }

    /// Drops a block and its descendants, which the ledger has dropped: no commitment will reach them. Their memory is
    /// freed at once, except for what is retained for listeners that resume. A block that is not there is not an error.
    ///
    /// Cost: O(dropped blocks), and the blocks above them on the chain of a commitment.
    pub fn drop_fork(&self, block: BlockId) -> Result<(), BlockInUse> {
        self.shared.registry.lock().block_log.drop_fork(block)
    }

    /// Retains the steps of the next advances although no listener has a set: a client of an earlier process may resume.
    pub fn expect_resume(&self) {
        self.shared.registry.lock().block_log.mark_in_use();
    }

    /// Retains at most this many steps of a commitment, and no more than `Limits::retained_steps`: no client resumes from
    /// its older ones. Their blocks would take the bytes of those that clients resume from.
    pub fn limit_retained_steps(&self, commitment: Commitment, steps_max: usize) {
        self.shared.registry.lock().block_log.limit_steps(commitment, steps_max);
    }

    /// Advances a commitment to a block. The caller publishes the steps, in order, and then drops them, which marks
    /// them as delivered.
    pub fn advance(
        &self,
        commitment: Commitment,
        to: BlockId,
    ) -> Result<Steps<'_, S, M, B>, MissingParent> {
        let mut registry = self.shared.registry.lock();
        // A listener of a set may disconnect and resume.
        if !registry.sets.is_empty() {
            registry.block_log.mark_in_use();
        }
        let steps = registry.block_log.advance(commitment, to)?;
        for step in steps.iter().filter(|step| step.direction == Direction::Applied) {
            registry.activate_pending(step.commitment, step.block, step.number);
        }
        registry.is_publishing = true;
        Ok(Steps { shared: &self.shared, steps })
    }

    /// The newest published block of a commitment.
    pub fn tip(&self, commitment: Commitment) -> Option<BlockId> {
        self.shared.registry.lock().block_log.tip(commitment)
    }

    /// The current subscriptions, for lookups. Holds the lock: no listener subscribes or unsubscribes meanwhile.
    pub fn matches(&self) -> Matches<'_, S, M, B> {
        Matches { registry: self.shared.registry.lock() }
    }

    /// Closes all listeners with one reason.
    pub fn close_all(&self, reason: CloseReason) {
        let registry = self.shared.registry.lock();
        for entry in registry.listeners.values() {
            entry.queue.close(reason);
        }
    }

    /// Closes the listeners of some owners. Cost: O(listeners).
    pub fn close_owners(&self, is_closed: impl Fn(OwnerId) -> bool, reason: CloseReason) {
        let registry = self.shared.registry.lock();
        for entry in registry.listeners.values().filter(|entry| is_closed(entry.owner)) {
            entry.queue.close(reason);
        }
    }

    /// The current counts. Cost: O(listeners).
    pub fn stats(&self) -> Stats {
        let registry = self.shared.registry.lock();
        let sizes = registry.listeners.values().map(|entry| entry.queue.waiting());
        let (queue_messages, queue_bytes) =
            sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
        Stats {
            queue_messages,
            queue_bytes,
            queue_memory: self.shared.memory.bytes(),
            listeners: registry.listeners.len(),
            subscriptions: registry.pairs,
            distinct: registry.subscriptions.len(),
            tracked_addresses: registry.index.tracked_count(),
            tracked_pairs: registry.address_pairs,
            retained_bytes: registry.block_log.retained_bytes(),
        }
    }

    /// The heap bytes of the index and the sets. Cost: O(sets + addresses / 256), under the lock; for reports.
    pub fn memory_usage(&self) -> MemoryUsage {
        let registry = self.shared.registry.lock();
        let sets = registry.sets.values().filter_map(Weak::upgrade);
        // If a set's other owners drop it meanwhile, the last reference is ours, and is dropped without the lock.
        let sets: Vec<Arc<AddressSet>> = sets.collect();
        let index = registry.index.bytes();
        drop(registry);
        MemoryUsage { index, sets: sets.iter().map(|set| set.bytes()).sum() }
    }

    /// Whether all tables are empty, for tests.
    pub fn is_idle(&self) -> bool {
        let registry = self.shared.registry.lock();
        registry.subscriptions.is_empty()
            && registry.by_identity.is_empty()
            && registry.sets.is_empty()
            && registry.pending_starts.is_empty()
            && registry
                .pending_subscriptions
                .iter()
                .all(|id| !registry.subscriptions.contains_key(id))
            && registry.index_slots.len() == registry.free_slots.len()
            && registry.address_pairs == 0
            && registry.addresses_by_owner.is_empty()
            && registry.index.is_empty()
    }

    /// Returns the configured limits.
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }
}

/// Steps that are being published. See [`Subscriptions::advance`].
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
        let mut registry = self.shared.registry.lock();
        registry.is_publishing = false;
        registry.expire_pending();
        drop(registry);
        self.shared.idle.notify_all();
    }
}

/// The subscriptions, locked for lookups.
pub struct Matches<'a, S, M: Message, B> {
    registry: MutexGuard<'a, Registry<S, M, B>>,
}

impl<S, M: Message, B> Matches<'_, S, M, B> {
    /// Whether a topic has subscriptions. If not, the keys of its publications are not needed.
    pub fn has(&self, topic: Topic) -> bool {
        self.registry.index.has(topic)
    }

    /// Whether a topic has sets under a key kind.
    pub fn has_key_kind(&self, topic: Topic, key_kind: KeyKind) -> bool {
        self.registry.index.postings_for(topic, key_kind).is_some()
    }

    /// The subscriptions that match a publication of `topic` with `keys`: those to all of the topic, and those with one
    /// of the keys. Each once, in no particular order.
    pub fn matching(&self, topic: Topic, keys: impl IntoIterator<Item = Key>) -> Vec<Match<S>> {
        let found = self.registry.index.matching(topic, keys);
        found.into_iter().map(|index_slot| self.registry.match_at(index_slot)).collect()
    }

    /// Whether all listeners of a subscription are on hold, and catch up with its last message by themselves.
    pub fn is_on_hold(&self, id: SubscriptionId) -> bool {
        let subscription = self.registry.subscriptions.get(&id);
        subscription.is_some_and(|it| it.subscribers.iter().all(Subscriber::is_on_hold))
    }

    /// The subscriptions to the publication of `topic` with an exact key.
    pub fn matching_exact(&self, topic: Topic, key: &[u8]) -> Vec<Match<S>> {
        let found = self.registry.index.matching_exact(topic, key);
        found.iter().map(|index_slot| self.registry.match_at(*index_slot)).collect()
    }

    /// The subscriptions to sets that match items of a step, and which items. An item is the id of its address, and a
    /// number of the caller's. Each subscription is returned once, with the numbers of its items in their order, each
    /// once.
    ///
    /// Cost: one lookup for each item, and the matches.
    pub fn matching_sets(
        &self,
        topic: Topic,
        key_kind: KeyKind,
        step: u64,
        items: impl IntoIterator<Item = (u32, u32)>,
    ) -> Vec<(Match<S>, Vec<u32>)> {
        let Some(postings) = self.registry.index.postings_for(topic, key_kind) else {
            return Vec::new();
        };
        // In passes that do little for each match, so that the cache misses of several matches overlap,
        // however many subscriptions there are.
        let matches = postings.match_items(items);
        self.registry.prefetch_matches(matches.iter().map(|it| it.index_slot));
        let has_pending = !self.registry.pending_subscriptions.is_empty();
        let mut found: HashMap<u32, Vec<u32>> = HashMap::default();
        for ItemMatch { index_slot, id, item } in matches {
            if !has_pending || !self.registry.is_pending(index_slot, id, step) {
                let items = found.entry(index_slot).or_default();
                if items.last() != Some(&item) {
                    items.push(item);
                }
            }
        }
        found
            .into_iter()
            .map(|(index_slot, items)| (self.registry.match_at(index_slot), items))
            .collect()
    }
}

impl<M: Message> Subscriber<M> {
    pub(crate) fn is_on_hold(&self) -> bool {
        self.queue.is_on_hold(self.handle)
    }

    pub(crate) fn delivery(&mut self, mut body: M, mut bytes: usize, at: Position) -> Delivery<M> {
        if self.conflates {
            bytes += body.conflation_bytes();
        } else {
            body.forget_conflation();
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        Delivery { sequence, subscription: self.handle, body, bytes, at, conflates: self.conflates }
    }
}

impl<S, M: Message, B> Registry<S, M, B> {
    /// The subscription of a slot in the index.
    fn match_at(&self, index_slot: u32) -> Match<S> {
        let id = self.index_slots[index_slot as usize];
        let Some(subscription) = self.subscriptions.get(&id) else {
            unreachable!("what is in the index is a subscription")
        };
        Match { id, identity: Arc::clone(&subscription.identity) }
    }

    /// Loads subscriptions and the reference counts of their identities into the CPU's caches, in two passes, so that
    /// the cache misses of several subscriptions overlap.
    fn prefetch_matches(&self, index_slots: impl Iterator<Item = u32>) {
        let all: Vec<&Subscription<S, M>> = index_slots
            .filter_map(|index_slot| self.subscriptions.get(&self.index_slots[index_slot as usize]))
            .collect();
        // The sum is not used: computing it loads the words.
        black_box(all.iter().fold(0, |sum, it| sum ^ Arc::strong_count(&it.identity)));
    }

    /// Whether an address of a subscription does not count yet at a step.
    fn is_pending(&self, index_slot: u32, id: u32, step: u64) -> bool {
        let subscription = self.subscriptions.get(&self.index_slots[index_slot as usize]);
        let Some(subscription) = subscription else { return false };
        subscription
            .pending
            .iter()
            .any(|pending| pending.after.0 >= step && pending.ids.contains(id))
    }

    /// Drops the pending ids that count now, after all steps so far have been delivered.
    fn expire_pending(&mut self) {
        let now = self.block_log.number();
        let Self { pending_subscriptions, subscriptions, .. } = self;
        pending_subscriptions.retain(|id| {
            let Some(subscription) = subscriptions.get_mut(id) else { return false };
            subscription.pending.retain(|pending| pending.after.0 > now);
            !subscription.pending.is_empty()
        });
        if pending_subscriptions.is_empty() {
            pending_subscriptions.shrink_to(16);
        }
    }

    /// An id that no subscription had before, from 1 on: some clients take 0 for no subscription.
    pub(crate) fn new_id(&mut self) -> SubscriptionId {
        self.next_subscription += 1;
        SubscriptionId(self.next_subscription - 1)
    }

    fn allocate_slot(&mut self, id: SubscriptionId) -> u32 {
        if let Some(index_slot) = self.free_slots.pop() {
            self.index_slots[index_slot as usize] = id;
            return index_slot;
        }
        self.index_slots.push(id);
        self.index_slots.len() as u32 - 1
    }

    /// Whether the index has a slot for one more subscription.
    pub(crate) fn has_free_slot(&self) -> bool {
        !self.free_slots.is_empty() || self.index_slots.len() < INDEX_SLOT_MAX as usize
    }

    /// Adds a subscription without indexing it or registering its identity.
    pub(crate) fn add_subscription(
        &mut self,
        id: SubscriptionId,
        identity: Arc<S>,
        interests: Vec<Interest>,
        subscribers: Vec<Subscriber<M>>,
    ) -> u32 {
        let index_slot = self.allocate_slot(id);
        self.address_pairs += count_addresses(&interests);
        let subscription =
            Subscription { identity, index_slot, interests, subscribers, pending: Vec::new() };
        self.subscriptions.insert(id, subscription);
        index_slot
    }

    /// Adds a listener, with its queue.
    pub(crate) fn add_listener(
        &mut self,
        owner: OwnerId,
        queue: &Arc<Queue<M>>,
        limit: usize,
    ) -> Result<ListenerId, ListenError> {
        if self.listeners.len() >= limit {
            return Err(ListenError { limit });
        }
        let id = ListenerId(self.next_listener);
        self.next_listener += 1;
        let subscriptions = HashMap::default();
        let entry =
            ListenerEntry { owner, queue: Arc::clone(queue), subscriptions, tracked_addresses: 0 };
        self.listeners.insert(id, entry);
        Ok(id)
    }
}

/// The number of addresses in the sets of a subscription.
pub(crate) fn count_addresses(interests: &[Interest]) -> usize {
    let sets = interests.iter().map(|interest| match &interest.filter {
        Filter::Set(_, set) => set.len(),
        Filter::All | Filter::Exact(_) => 0,
    });
    sets.sum()
}

/// Distinguishes the sets of subscriptions with equal identities.
pub(crate) fn fingerprint(interests: &[Interest]) -> u64 {
    let sets = interests.iter().map(|interest| match &interest.filter {
        Filter::Set(_, set) => set.fingerprint(),
        Filter::All | Filter::Exact(_) => 0,
    });
    sets.fold(0, u64::wrapping_add)
}

impl<S: Eq + Hash, M: Message, B> Registry<S, M, B> {
    /// Starts the activations that wait for a block, after it. With it start those that wait for an earlier block that
    /// is not on its chain.
    fn activate_pending(&mut self, commitment: Commitment, at: BlockId, number: u64) {
        let is_reached = |pending_start: &mut PendingStart| {
            pending_start.commitment == commitment && pending_start.block.slot <= at.slot
        };
        let started: Vec<_> = self.pending_starts.extract_if(.., is_reached).collect();
        for PendingStart { subscription, handle, token, block, .. } in started {
            let after = if block == at { number } else { number - 1 };
            self.start_after(subscription, handle, token, Position(after));
        }
    }

    /// Removes a listener from a subscription. `None` if it is not in it. The inner option is the subscription if that
    /// was its last listener: it is still indexed, under a slot that [`Self::free_slot`] frees.
    #[expect(clippy::option_option, reason = "whether it was in, and whether it was the last")]
    pub(crate) fn remove_subscriber(
        &mut self,
        listener: ListenerId,
        handle: SubscriptionId,
    ) -> Option<Option<(SubscriptionId, Subscription<S, M>)>> {
        let entry = self.listeners.get_mut(&listener)?;
        let id = entry.subscriptions.remove(&handle)?;
        self.pairs -= 1;
        self.pending_starts.retain(|pending_start| pending_start.handle != handle);
        let subscription = self.subscriptions.get_mut(&id)?;
        let tracked = count_addresses(&subscription.interests);
        let mut subscribers = subscription.subscribers.iter();
        if let Some(at) = subscribers
            .position(|subscriber| subscriber.handle == handle && subscriber.listener == listener)
        {
            subscription.subscribers.swap_remove(at);
        }
        let is_ended = subscription.subscribers.is_empty();
        self.release_addresses(listener, tracked);
        Some(if is_ended { self.end(id) } else { None })
    }

    /// Removes the subscribers that subscribed before a position.
    pub(crate) fn end_before(
        &mut self,
        id: SubscriptionId,
        at: Position,
    ) -> Option<Subscription<S, M>> {
        let subscription = self.subscriptions.get_mut(&id)?;
        if subscription.subscribers.is_empty() {
            return None; // it has ended, and is removed from the index elsewhere
        }
        let tracked = count_addresses(&subscription.interests);
        let ended = subscription.subscribers.extract_if(.., |it| it.after < at && !it.is_on_hold());
        let ended: Vec<_> = ended.map(|it| (it.listener, it.handle)).collect();
        let has_others = !subscription.subscribers.is_empty();
        for (listener, handle) in ended {
            if let Some(entry) = self.listeners.get_mut(&listener) {
                entry.subscriptions.remove(&handle);
                self.pairs -= 1;
                self.release_addresses(listener, tracked);
            }
        }
        if has_others {
            return None;
        }
        let (id, ended) = self.end(id)?;
        self.remove(&ended);
        self.free_slot(id, ended.index_slot);
        Some(ended)
    }

    /// Ends a subscription without subscribers. It stays in the index, and its matches reach no queue, until it is
    /// removed.
    pub(crate) fn end(
        &mut self,
        id: SubscriptionId,
    ) -> Option<(SubscriptionId, Subscription<S, M>)> {
        let subscription = self.subscriptions.get_mut(&id)?;
        let key = (Arc::clone(&subscription.identity), fingerprint(&subscription.interests));
        self.address_pairs -= count_addresses(&subscription.interests);
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

    /// Removes an ended subscription from the index at once.
    pub(crate) fn remove(&mut self, ended: &Subscription<S, M>) {
        for interest in &ended.interests {
            self.index.remove(ended.index_slot, interest);
        }
    }

    /// Drops an ended subscription that has been removed from the index, and frees its slot.
    pub(crate) fn free_slot(&mut self, id: SubscriptionId, index_slot: u32) {
        self.subscriptions.remove(&id);
        self.free_slots.push(index_slot);
        if self.free_slots.len() == self.index_slots.len() {
            (self.index_slots, self.free_slots) = (Vec::new(), Vec::new());
        }
        if self.subscriptions.is_empty() {
            // Frees the memory of maps that were once large.
            self.subscriptions = HashMap::default();
            self.by_identity = HashMap::default();
        }
    }

    /// Removes a set that its last owner is about to drop.
    pub(crate) fn remove_set(&mut self, set: &Arc<AddressSet>) {
        let fingerprint = set.fingerprint();
        let is_same = |known: &Weak<AddressSet>| known.as_ptr() == Arc::as_ptr(set);
        if Arc::strong_count(set) == 1 && self.sets.get(&fingerprint).is_some_and(is_same) {
            self.sets.remove(&fingerprint);
            if self.sets.is_empty() {
                self.sets = HashMap::default();
            }
        }
    }
}
