//! Subscriptions, those who listen to them, and the door for publishers.
//!
//! Shape: one lock over the tables; each listener's queue has its own, taken inside it (lock order:
//! engine, then queue). Connections hold the engine's lock to subscribe and to leave, the publisher
//! while it looks up who matches and while it hands messages out; messages are made in between,
//! without it.
//! Invariant: an id is given out once. A message for a subscription that ended meanwhile goes nowhere.
//! Invariant: being a listener of a subscription and getting its last message are one step, so a last
//! message is delivered at most once, whoever delivers it.

use std::hash::Hash;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use ledger::Key;
use parking_lot::{Mutex, MutexGuard};

use crate::filter::{Interest, Position, Topic};
use crate::index::Index;
use crate::queue::{Closed, Next, Queue};

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
    /// Messages that may wait for one listener.
    pub queue_messages_max: usize,
    /// Bytes that may wait for one listener. Worst case of memory: this times listeners, if they
    /// share no message.
    pub queue_bytes_max: usize,
}

/// Names a subscription. Listeners that share one know it by the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(pub u64);

/// Why a subscription was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
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
    /// This listener is closed.
    #[error(transparent)]
    Closed(#[from] Closed),
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
pub struct Counts {
    /// Listeners.
    pub listeners: usize,
    /// Subscriptions, one that several listeners share counted for each.
    pub subscriptions: usize,
    /// Subscriptions, one that several listeners share counted once.
    pub distinct: usize,
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
pub struct Outgoing<M> {
    /// Which subscription.
    pub subscription: SubscriptionId,
    /// The message; cloned for each listener, so let cloning it be cheap.
    pub body: M,
    /// What it counts against a queue's bytes.
    pub bytes: usize,
    /// Where it was published. Listeners that subscribed at it or after it do not get it.
    pub at: Position,
    /// What becomes of the subscription.
    pub then: Then,
}

/// What becomes of a subscription after a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It goes on.
    Stays,
    /// That was its last message: it ends for all who got it.
    Ends,
}

/// All subscriptions of a node. Cloning it gives another handle on the same.
///
/// `S` is the identity of a subscription (equal ones are shared), `M` the body of a message.
pub struct Subs<S, M> {
    shared: Arc<Shared<S, M>>,
}

impl<S, M> Clone for Subs<S, M> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

struct Shared<S, M> {
    limits: Limits,
    engine: Mutex<Engine<S, M>>,
}

struct Engine<S, M> {
    index: Index,
    subscriptions: HashMap<SubscriptionId, Subscription<S, M>>,
    by_identity: HashMap<Arc<S>, SubscriptionId>,
    listeners: HashMap<ListenerId, Entry<M>>,
    /// Pairs of a listener and a subscription.
    pairs: usize,
    next_subscription: u64,
    next_listener: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ListenerId(u64);

struct Subscription<S, M> {
    identity: Arc<S>,
    interests: Vec<Interest>,
    members: Vec<Member<M>>,
}

/// A listener of a subscription.
struct Member<M> {
    listener: ListenerId,
    queue: Arc<Queue<M>>,
    /// It hears of what is published after it.
    after: Position,
}

struct Entry<M> {
    queue: Arc<Queue<M>>,
    subscriptions: HashSet<SubscriptionId>,
}

impl<S: Eq + Hash, M: Clone> Subs<S, M> {
    /// No subscriptions yet.
    pub fn new(limits: Limits) -> Self {
        let engine = Engine {
            index: Index::default(),
            subscriptions: HashMap::default(),
            by_identity: HashMap::default(),
            listeners: HashMap::default(),
            pairs: 0,
            next_subscription: 0,
            next_listener: 0,
        };
        Self { shared: Arc::new(Shared { limits, engine: Mutex::new(engine) }) }
    }

    /// A new listener. `wake` is called, possibly under our lock, when its queue has something after
    /// it had nothing, or is closed: it must return at once and not call us.
    pub fn listen(
        &self,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<Listener<S, M>, ListenError> {
        let queue = Arc::new(Queue::new(Box::new(wake)));
        let mut engine = self.shared.engine.lock();
        let limit = self.shared.limits.listeners_max;
        if engine.listeners.len() >= limit {
            return Err(ListenError { limit });
        }
        let id = ListenerId(engine.next_listener);
        engine.next_listener += 1;
        let entry = Entry { queue: Arc::clone(&queue), subscriptions: HashSet::default() };
        engine.listeners.insert(id, entry);
        Ok(Listener { subs: self.clone(), id, queue })
    }

    /// The subscriptions as they are now, to be asked who wants what. Nobody subscribes or leaves
    /// while this is held.
    pub fn matches(&self) -> Matches<'_, S, M> {
        Matches { engine: self.shared.engine.lock() }
    }

    /// Hands messages to the listeners of their subscriptions, in order. Returns how many queues got
    /// one. Cost: those.
    pub fn deliver(&self, messages: impl IntoIterator<Item = Outgoing<M>>) -> usize {
        let mut delivered = 0;
        let mut ended = Vec::new(); // dropped without the lock
        let mut engine = self.shared.engine.lock();
        for message in messages {
            let id = message.subscription;
            let Some(subscription) = engine.subscriptions.get(&id) else { continue };
            for member in subscription.members.iter().filter(|member| member.after < message.at) {
                member.queue.push(&self.shared.limits, id, message.body.clone(), message.bytes);
                delivered += 1;
            }
            if message.then == Then::Ends {
                ended.extend(engine.end_before(id, message.at));
            }
        }
        drop(engine);
        delivered
    }

    /// Closes every listener there is, for a reason.
    pub fn close_all(&self, why: Closed) {
        let engine = self.shared.engine.lock();
        for entry in engine.listeners.values() {
            entry.queue.close(why);
        }
    }

    /// How much there is now.
    pub fn counts(&self) -> Counts {
        let engine = self.shared.engine.lock();
        Counts {
            listeners: engine.listeners.len(),
            subscriptions: engine.pairs,
            distinct: engine.subscriptions.len(),
        }
    }

    /// The limits that it was made with.
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }
}

/// The subscriptions at one moment, see [`Subs::matches`].
pub struct Matches<'a, S, M> {
    engine: MutexGuard<'a, Engine<S, M>>,
}

impl<S, M> Matches<'_, S, M> {
    /// Whether anybody wants anything of the topic. Worth asking before keys are looked up.
    pub fn has(&self, topic: Topic) -> bool {
        self.engine.index.has(topic)
    }

    /// Who wants a publication of `topic` that carries `keys`: those that want all, and those with
    /// one of the keys. Each once, in no particular order.
    pub fn matching(&self, topic: Topic, keys: impl IntoIterator<Item = Key>) -> Vec<Match<S>> {
        let found = self.engine.index.matching(topic, keys);
        found.into_iter().filter_map(|id| self.engine.found(id)).collect()
    }

    /// Who wants the publication of `topic` with that name.
    pub fn named(&self, topic: Topic, name: &[u8]) -> Vec<Match<S>> {
        let found = self.engine.index.named(topic, name);
        found.iter().filter_map(|id| self.engine.found(*id)).collect()
    }
}

/// One connected client. Dropping it ends its subscriptions.
pub struct Listener<S: Eq + Hash, M: Clone> {
    subs: Subs<S, M>,
    id: ListenerId,
    queue: Arc<Queue<M>>,
}

impl<S: Eq + Hash, M: Clone> Listener<S, M> {
    /// Subscribes to what is published after a position. Equal identities must come with equal interests: whoever is first brings them, and
    /// all share one subscription. Asking again for one that this listener has changes nothing and
    /// gives the same id.
    pub fn subscribe(
        &self,
        identity: S,
        interests: Vec<Interest>,
        after: Position,
    ) -> Result<SubscriptionId, SubscribeError> {
        if let Some(why) = self.queue.closed() {
            return Err(why.into());
        }
        let limits = &self.subs.shared.limits;
        let mut engine = self.subs.shared.engine.lock();
        let engine = &mut *engine;
        let Some(entry) = engine.listeners.get_mut(&self.id) else {
            unreachable!("an entry lives as long as its listener")
        };
        let known = engine.by_identity.get(&identity).copied();
        if let Some(id) = known
            && entry.subscriptions.contains(&id)
        {
            return Ok(id);
        }
        if entry.subscriptions.len() >= limits.subscriptions_per_listener_max {
            let limit = limits.subscriptions_per_listener_max;
            return Err(SubscribeError::ListenerFull { limit });
        }
        if engine.pairs >= limits.subscriptions_max {
            return Err(SubscribeError::NodeFull { limit: limits.subscriptions_max });
        }
        let id = known.unwrap_or(SubscriptionId(engine.next_subscription));
        entry.subscriptions.insert(id);
        engine.pairs += 1;
        let member = Member { listener: self.id, queue: Arc::clone(&self.queue), after };
        match engine.subscriptions.get_mut(&id) {
            Some(shared) => shared.members.push(member),
            None => engine.begin(id, identity, interests, member),
        }
        Ok(id)
    }

    /// Ends a subscription of this listener; messages that wait for it are dropped. False if it has
    /// none of that id.
    pub fn unsubscribe(&self, id: SubscriptionId) -> bool {
        let mut engine = self.subs.shared.engine.lock();
        let Some(ended) = engine.leave(self.id, id) else { return false };
        self.queue.forget(id);
        drop(engine);
        drop(ended); // gives addresses back, which takes another lock
        true
    }

    /// Sends this listener alone the last message of one of its subscriptions, which ends. False, and
    /// nothing is sent, if it has none of that id: it ended before.
    pub fn finish(&self, id: SubscriptionId, body: M, bytes: usize) -> bool {
        let mut engine = self.subs.shared.engine.lock();
        let Some(ended) = engine.leave(self.id, id) else { return false };
        self.queue.push(&self.subs.shared.limits, id, body, bytes);
        drop(engine);
        drop(ended);
        true
    }

    /// Takes the oldest message.
    pub fn next(&self) -> Next<M> {
        self.queue.pop()
    }

    /// Why it hears nothing more, if so.
    pub fn closed(&self) -> Option<Closed> {
        self.queue.closed()
    }
}

impl<S: Eq + Hash, M: Clone> Drop for Listener<S, M> {
    fn drop(&mut self) {
        let mut engine = self.subs.shared.engine.lock();
        let ids = match engine.listeners.get(&self.id) {
            Some(entry) => entry.subscriptions.iter().copied().collect(),
            None => Vec::new(),
        };
        let ended: Vec<_> = ids.into_iter().filter_map(|id| engine.leave(self.id, id)).collect();
        engine.listeners.remove(&self.id);
        drop(engine);
        drop(ended);
    }
}

impl<S, M> Engine<S, M> {
    fn found(&self, id: SubscriptionId) -> Option<Match<S>> {
        let subscription = self.subscriptions.get(&id)?;
        Some(Match { id, identity: Arc::clone(&subscription.identity) })
    }
}

impl<S: Eq + Hash, M> Engine<S, M> {
    fn begin(
        &mut self,
        id: SubscriptionId,
        identity: S,
        interests: Vec<Interest>,
        first: Member<M>,
    ) {
        self.next_subscription += 1;
        for interest in &interests {
            self.index.insert(id, interest);
        }
        let identity = Arc::new(identity);
        self.by_identity.insert(Arc::clone(&identity), id);
        self.subscriptions.insert(id, Subscription { identity, interests, members: vec![first] });
    }

    /// Takes a listener out of a subscription. `None` if it is not in it; the inner one is what is
    /// left over when it was the last.
    #[expect(clippy::option_option, reason = "whether it was in, and whether it was the last")]
    fn leave(
        &mut self,
        listener: ListenerId,
        id: SubscriptionId,
    ) -> Option<Option<Subscription<S, M>>> {
        if !self.listeners.get_mut(&listener)?.subscriptions.remove(&id) {
            return None;
        }
        self.pairs -= 1;
        let subscription = self.subscriptions.get_mut(&id)?;
        let mut members = subscription.members.iter();
        if let Some(at) = members.position(|member| member.listener == listener) {
            subscription.members.swap_remove(at);
        }
        Some(if subscription.members.is_empty() { self.end(id) } else { None })
    }

    /// Takes all out of a subscription who subscribed before a position.
    fn end_before(&mut self, id: SubscriptionId, at: Position) -> Option<Subscription<S, M>> {
        let subscription = self.subscriptions.get_mut(&id)?;
        for member in subscription.members.extract_if(.., |member| member.after < at) {
            if let Some(entry) = self.listeners.get_mut(&member.listener) {
                entry.subscriptions.remove(&id);
                self.pairs -= 1;
            }
        }
        if subscription.members.is_empty() { self.end(id) } else { None }
    }

    /// Ends a subscription that nobody is in any more.
    fn end(&mut self, id: SubscriptionId) -> Option<Subscription<S, M>> {
        let subscription = self.subscriptions.remove(&id)?;
        self.by_identity.remove(&subscription.identity);
        for interest in &subscription.interests {
            self.index.remove(id, interest);
        }
        Some(subscription)
    }
}

#[cfg(test)]
mod tests {
    use address::AddressTable;
    use ledger::{Address, Facet};

    use super::*;
    use crate::filter::{Filter, HeldKey};

    const LIMITS: Limits = Limits {
        listeners_max: 4,
        subscriptions_max: 5,
        subscriptions_per_listener_max: 3,
        queue_messages_max: 8,
        queue_bytes_max: 100,
    };
    const TOPIC: Topic = Topic(1);
    const FACET: Facet = Facet(0);
    const START: Position = Position(0);

    type Table = Arc<AddressTable>;

    fn subs() -> (Subs<&'static str, &'static str>, Table) {
        (Subs::new(LIMITS), Arc::new(AddressTable::new(100, 1)))
    }

    fn listener(subs: &Subs<&'static str, &'static str>) -> Listener<&'static str, &'static str> {
        subs.listen(|| ()).expect("below the limit")
    }

    fn interest(table: &Table, n: u8) -> Vec<Interest> {
        let address = table.register(&Address::from([n; 32])).expect("room");
        let filter = Filter::Keys(vec![HeldKey { facet: FACET, address }]);
        vec![Interest { topic: TOPIC, filter }]
    }

    fn key(table: &Table, n: u8) -> Option<Key> {
        let id = table.lookup(&Address::from([n; 32]))?;
        Some(Key { facet: FACET, id })
    }

    fn send(
        subs: &Subs<&'static str, &'static str>,
        id: SubscriptionId,
        body: &'static str,
        then: Then,
    ) {
        subs.deliver([Outgoing {
            subscription: id,
            body,
            bytes: body.len(),
            at: Position(1),
            then,
        }]);
    }

    fn bodies(listener: &Listener<&'static str, &'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| match listener.next() {
            Next::Message(delivery) => Some(delivery.body),
            Next::Empty | Next::Closed(_) => None,
        })
        .collect()
    }

    #[test]
    fn equal_identities_share_one_subscription() {
        let (subs, table) = subs();
        let (a, b) = (listener(&subs), listener(&subs));
        let id = a.subscribe("x", interest(&table, 1), START).expect("room");
        assert_eq!(b.subscribe("x", interest(&table, 1), START), Ok(id));
        assert_eq!(a.subscribe("x", interest(&table, 1), START), Ok(id), "twice is once");
        assert_ne!(b.subscribe("y", interest(&table, 1), START), Ok(id));
        let counts = Counts { listeners: 2, subscriptions: 3, distinct: 2 };
        assert_eq!(subs.counts(), counts);
        send(&subs, id, "m", Then::Stays);
        assert_eq!((bodies(&a), bodies(&b)), (vec!["m"], vec!["m"]));
        assert!(a.unsubscribe(id));
        assert!(!a.unsubscribe(id));
        send(&subs, id, "n", Then::Stays);
        assert_eq!((bodies(&a), bodies(&b)), (vec![], vec!["n"]));
    }

    #[test]
    fn every_way_out_gives_the_addresses_back() {
        let (subs, table) = subs();
        let (a, b) = (listener(&subs), listener(&subs));
        let ended = a.subscribe("ended", interest(&table, 1), START).expect("room");
        let left = a.subscribe("left", interest(&table, 2), START).expect("room");
        let finished = a.subscribe("finished", interest(&table, 3), START).expect("room");
        b.subscribe("dropped", interest(&table, 4), START).expect("room");
        assert_eq!(table.len(), 4);
        send(&subs, ended, "m", Then::Ends);
        assert_eq!(table.len(), 3);
        assert!(a.unsubscribe(left));
        assert_eq!(table.len(), 2);
        assert!(a.finish(finished, "m", 1));
        assert!(!a.finish(finished, "m", 1));
        assert_eq!(table.len(), 1);
        drop(b);
        assert!(table.is_empty());
        assert_eq!(bodies(&a), ["m", "m"]);
        assert_eq!(subs.counts(), Counts { listeners: 1, subscriptions: 0, distinct: 0 });
        assert!(subs.shared.engine.lock().index.is_empty());
    }

    #[test]
    fn a_refused_subscription_leaves_nothing() {
        let (subs, table) = subs();
        let (a, b) = (listener(&subs), listener(&subs));
        for (n, identity) in ["1", "2", "3"].into_iter().enumerate() {
            a.subscribe(identity, interest(&table, n as u8), START).expect("room");
        }
        let refused = a.subscribe("4", interest(&table, 4), START);
        assert_eq!(refused, Err(SubscribeError::ListenerFull { limit: 3 }));
        assert_eq!(
            a.subscribe("3", interest(&table, 3), START),
            Ok(SubscriptionId(2)),
            "it has that one"
        );
        b.subscribe("5", interest(&table, 5), START).expect("room");
        b.subscribe("6", interest(&table, 6), START).expect("room");
        let refused = b.subscribe("7", interest(&table, 7), START);
        assert_eq!(refused, Err(SubscribeError::NodeFull { limit: 5 }));
        assert_eq!(table.len(), 5);
        let more: Vec<_> = (0..3).map(|_| subs.listen(|| ())).collect();
        assert!(matches!(more[2], Err(ListenError { limit: 4 })));
    }

    #[test]
    fn a_set_is_matched_once_however_many_of_its_keys_match() {
        let (subs, table) = subs();
        let a = listener(&subs);
        let mut keys = interest(&table, 1);
        for n in [2, 2, 3] {
            keys.extend(interest(&table, n));
        }
        let merged = keys.into_iter().flat_map(|interest| match interest.filter {
            Filter::Keys(keys) => keys,
            Filter::All | Filter::Name(_) => Vec::new(),
        });
        let filter = Filter::Keys(merged.collect());
        a.subscribe("set", vec![Interest { topic: TOPIC, filter }], START).expect("room");
        a.subscribe(
            "none",
            vec![Interest { topic: TOPIC, filter: Filter::Keys(Vec::new()) }],
            START,
        )
        .expect("room");
        a.subscribe("all", vec![Interest { topic: TOPIC, filter: Filter::All }], START)
            .expect("room");
        let wanting = |numbers: &[u8]| {
            let keys: Vec<_> = numbers.iter().filter_map(|n| key(&table, *n)).collect();
            let mut found: Vec<_> =
                subs.matches().matching(TOPIC, keys).into_iter().map(|m| *m.identity).collect();
            found.sort_unstable();
            found
        };
        assert_eq!(wanting(&[1, 2, 3]), ["all", "set"]);
        assert_eq!(wanting(&[2]), ["all", "set"]);
        assert_eq!(wanting(&[]), ["all"]);
        assert!(subs.matches().matching(Topic(2), []).is_empty());
        assert!(!subs.matches().has(Topic(2)));
    }

    #[test]
    fn a_slow_listener_is_closed_and_the_others_go_on() {
        let (subs, table) = subs();
        let (slow, quick) = (listener(&subs), listener(&subs));
        let id = slow.subscribe("x", interest(&table, 1), START).expect("room");
        quick.subscribe("x", interest(&table, 1), START).expect("room");
        for _ in 0..9 {
            send(&subs, id, "m", Then::Stays);
            assert_eq!(bodies(&quick), ["m"]);
        }
        let closed = Closed::MessagesFull { limit: 8 };
        assert_eq!(slow.next(), Next::Closed(closed));
        assert_eq!(slow.subscribe("y", Vec::new(), START), Err(SubscribeError::Closed(closed)));
        subs.close_all(Closed::EventsLost);
        assert_eq!(quick.next(), Next::Closed(Closed::EventsLost));
        assert_eq!(slow.next(), Next::Closed(closed), "the first reason stays");
    }

    #[test]
    fn nobody_hears_of_what_was_before_he_subscribed() {
        let (subs, table) = subs();
        let (early, late) = (listener(&subs), listener(&subs));
        let id = early.subscribe("x", interest(&table, 1), START).expect("room");
        assert_eq!(late.subscribe("x", interest(&table, 1), Position(1)), Ok(id));
        send(&subs, id, "last", Then::Ends);
        assert_eq!((bodies(&early), bodies(&late)), (vec!["last"], vec![]));
        let counts = Counts { listeners: 2, subscriptions: 1, distinct: 1 };
        assert_eq!(subs.counts(), counts, "it goes on for the one who did not get its end");
        assert!(!early.unsubscribe(id));
        assert!(late.finish(id, "own", 3));
        assert_eq!(bodies(&late), ["own"]);
        assert!(table.is_empty());
    }
}
