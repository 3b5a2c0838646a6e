//! Fixed subscriptions: random listeners connect, subscribe, fall behind, unsubscribe and disconnect, while a publisher
//! publishes. Every queue must equal that of a model, which scans all listeners for every publication.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use address::AddressTable;
use ledger::{Address, Key, KeyKind};
use rand::seq::{IndexedMutRandom, IteratorRandom};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use subscriptions::{
    AddressSet, AfterDelivery, CloseReason, Delivery, ExactKey, Filter, Interest, Limits, Listener,
    Message, Next, OwnerId, Position, Publication, Stats, SubscribeError, SubscriptionId,
    Subscriptions, Topic,
};

/// Bytes of a message's entry in a queue.
const ENTRY: usize = size_of::<Delivery<Text>>();

pub(crate) const LIMITS: Limits = Limits {
    listeners_max: 8,
    subscriptions_max: 30,
    subscriptions_per_listener_max: 6,
    addresses_max: 1_000,
    address_pairs_max: 1_000,
    addresses_per_owner_max: 1_000,
    addresses_per_listener_max: 1_000,
    retained_steps: 1,
    retained_bytes: 1,
    unrooted_max: 1,
    queue_messages_max: 12,
    queue_bytes_max: 120 + 12 * ENTRY,
    queues_bytes_max: usize::MAX,
};

/// The filter of a test's subscription, which is also its identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum TestFilter {
    All(u16),
    Keys(u16, u8, Vec<u8>),
    Exact(u16, u8),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Text(String);

impl Message for Text {
    type Conflated = ();

    fn conflate(self, (): &mut ()) -> usize {
        unreachable!("fixed subscriptions are not conflated")
    }
}

struct TestEvent {
    topic: u16,
    keys: Vec<(u8, u8)>,
    name: u8,
}

impl TestFilter {
    fn random(rng: &mut ChaCha8Rng) -> Self {
        let topic = rng.random_range(0..3);
        match rng.random_range(0..4) {
            0 => Self::All(topic),
            1 => Self::Exact(topic, rng.random_range(0..3)),
            _ => {
                let count = rng.random_range(0..4);
                let keys = (0..count).map(|_| rng.random_range(0..6)).collect();
                Self::Keys(topic, rng.random_range(0..2), keys)
            }
        }
    }

    fn matches(&self, publication: &TestEvent) -> bool {
        match self {
            Self::All(topic) => *topic == publication.topic,
            Self::Keys(topic, key_kind, keys) => {
                *topic == publication.topic
                    && keys.iter().any(|key| publication.keys.contains(&(*key_kind, *key)))
            }
            Self::Exact(topic, name) => *topic == publication.topic && *name == publication.name,
        }
    }

    fn interests(&self, table: &Arc<AddressTable>) -> Vec<Interest> {
        let (topic, filter) = match self {
            Self::All(topic) => (topic, Filter::All),
            Self::Keys(topic, key_kind, keys) => {
                let addresses = keys.iter().map(|n| Address::from([*n; 32]));
                let set = AddressSet::register(table, addresses).expect("room");
                (topic, Filter::Set(KeyKind(*key_kind), Arc::new(set)))
            }
            Self::Exact(topic, name) => (topic, Filter::Exact(ExactKey::from(&[*name][..]))),
        };
        vec![Interest { topic: Topic(*topic), filter }]
    }
}

fn random_keys(rng: &mut ChaCha8Rng) -> Vec<(u8, u8)> {
    let count = rng.random_range(0..4);
    (0..count).map(|_| (rng.random_range(0..2), rng.random_range(0..6))).collect()
}

struct Modelled {
    listener: Listener<TestFilter, Text, ()>,
    /// With the position that it starts after, and the number of the next message.
    subscriptions: BTreeMap<SubscriptionId, (TestFilter, Position, u64)>,
    queue: VecDeque<(u64, SubscriptionId, String)>,
    bytes: usize,
    closed: Option<CloseReason>,
}

impl Modelled {
    fn push(&mut self, id: SubscriptionId, body: &str) {
        let Some((_, _, next)) = self.subscriptions.get_mut(&id) else {
            panic!("the listener has it")
        };
        let sequence = *next;
        *next += 1;
        if self.closed.is_some() {
        } else if self.queue.len() == LIMITS.queue_messages_max {
            self.close(CloseReason::MessagesFull { limit: LIMITS.queue_messages_max });
        } else if self.bytes + body.len() + (self.queue.len() + 1) * ENTRY > LIMITS.queue_bytes_max
        {
            self.close(CloseReason::BytesFull { limit: LIMITS.queue_bytes_max });
        } else {
            self.queue.push_back((sequence, id, body.to_owned()));
            self.bytes += body.len();
        }
    }

    fn close(&mut self, reason: CloseReason) {
        self.closed = Some(reason);
        self.queue.clear();
    }

    fn remove_subscription(&mut self, id: SubscriptionId) {
        self.subscriptions.remove(&id);
        self.queue.retain(|(_, of, _)| *of != id);
        self.bytes = self.queue.iter().map(|(_, _, body)| body.len()).sum();
    }

    fn take_message(&mut self) {
        let expected = match self.closed {
            Some(reason) => Err(Some(reason)),
            None => self.queue.pop_front().ok_or(None),
        };
        let taken = match self.listener.next() {
            Next::Message(delivery) => {
                Ok((delivery.sequence, delivery.subscription, delivery.body.0))
            }
            Next::Empty | Next::Conflated(_) => Err(None),
            Next::Closed(reason) => Err(Some(reason)),
        };
        self.bytes = self.queue.iter().map(|(_, _, body)| body.len()).sum();
        assert_eq!(taken, expected);
    }
}

struct World {
    rng: ChaCha8Rng,
    table: Arc<AddressTable>,
    subscriptions: Subscriptions<TestFilter, Text, ()>,
    listeners: Vec<Modelled>,
    /// The position of the last publication. Deliveries are up to three positions behind.
    published: u64,
}

impl World {
    fn step(&mut self) {
        match self.rng.random_range(0..100) {
            0..5 => self.listen(),
            5..8 => self.disconnect(),
            8..35 => self.subscribe(),
            35..45 => self.unsubscribe(),
            45..50 => self.finish(),
            50..75 => self.publish(),
            _ => {
                if let Some(listener) = self.listeners.choose_mut(&mut self.rng) {
                    listener.take_message();
                }
            }
        }
        self.check_counts();
    }

    fn listen(&mut self) {
        let listener = self.subscriptions.listen(OwnerId::default(), Arc::new(|| ()));
        assert_eq!(listener.is_ok(), self.listeners.len() < LIMITS.listeners_max);
        if let Ok(listener) = listener {
            self.listeners.push(Modelled {
                listener,
                subscriptions: BTreeMap::new(),
                queue: VecDeque::new(),
                bytes: 0,
                closed: None,
            });
        }
    }

    fn disconnect(&mut self) {
        if let Some(at) = (0..self.listeners.len()).choose(&mut self.rng) {
            self.listeners.swap_remove(at);
        }
    }

    fn pairs(&self) -> usize {
        self.listeners.iter().map(|listener| listener.subscriptions.len()).sum()
    }

    fn subscribe(&mut self) {
        let filter = TestFilter::random(&mut self.rng);
        let pairs = self.pairs();
        let shared = self
            .listeners
            .iter()
            .flat_map(|listener| &listener.subscriptions)
            .find_map(|(id, (other, ..))| (*other == filter).then_some(*id));
        let Some(listener) = self.listeners.choose_mut(&mut self.rng) else { return };
        let own = shared.filter(|id| listener.subscriptions.contains_key(id));
        let after = Position(self.published);
        let interests = filter.interests(&self.table);
        let result = listener.listener.subscribe(filter.clone(), interests, after);
        if let Some(reason) = listener.closed {
            assert_eq!(result, Err(SubscribeError::Closed(reason)));
        } else if let Some(own) = own {
            assert_eq!(result, Ok(own));
        } else if listener.subscriptions.len() == LIMITS.subscriptions_per_listener_max {
            let limit = LIMITS.subscriptions_per_listener_max;
            assert_eq!(result, Err(SubscribeError::ListenerFull { limit }));
        } else if pairs == LIMITS.subscriptions_max {
            assert_eq!(result, Err(SubscribeError::NodeFull { limit: LIMITS.subscriptions_max }));
        } else {
            let id = result.expect("below every limit");
            assert!(shared.is_none_or(|shared| shared == id));
            listener.subscriptions.insert(id, (filter, after, 0));
        }
    }

    /// One listener and one of its subscriptions, or an id that it does not have.
    fn choose(&mut self) -> Option<(usize, SubscriptionId)> {
        let at = (0..self.listeners.len()).choose(&mut self.rng)?;
        let own = self.listeners[at].subscriptions.keys().copied().choose(&mut self.rng);
        let none = SubscriptionId(self.rng.random_range(1_000_000..2_000_000));
        Some((at, own.unwrap_or(none)))
    }

    fn unsubscribe(&mut self) {
        let Some((at, id)) = self.choose() else { return };
        let listener = &mut self.listeners[at];
        assert_eq!(listener.listener.unsubscribe(id), listener.subscriptions.contains_key(&id));
        listener.remove_subscription(id);
    }

    fn finish(&mut self) {
        let Some((at, id)) = self.choose() else { return };
        let listener = &mut self.listeners[at];
        let has = listener.subscriptions.contains_key(&id);
        assert_eq!(listener.listener.finish(id, Text("last".to_owned()), 4), has);
        if has {
            listener.push(id, "last");
            listener.subscriptions.remove(&id);
        }
    }

    fn publish(&mut self) {
        let publication = TestEvent {
            topic: self.rng.random_range(0..3),
            keys: random_keys(&mut self.rng),
            name: self.rng.random_range(0..3),
        };
        let topic = Topic(publication.topic);
        let keys: Vec<_> = publication
            .keys
            .iter()
            .filter_map(|(key_kind, n)| {
                let id = self.table.lookup(&Address::from([*n; 32]))?;
                Some(Key { kind: KeyKind(*key_kind), id })
            })
            .collect();
        let matches = self.subscriptions.matches();
        let mut found = matches.matching(topic, keys);
        found.extend(matches.matching_exact(topic, &[publication.name]));
        drop(matches);
        let ids: BTreeSet<_> = found.iter().map(|found| found.id).collect();
        assert_eq!(ids.len(), found.len(), "each once");
        let expected: BTreeSet<_> = self
            .listeners
            .iter()
            .flat_map(|listener| &listener.subscriptions)
            .filter(|(_, (filter, ..))| filter.matches(&publication))
            .map(|(id, _)| *id)
            .collect();
        assert_eq!(ids, expected);
        self.published += 1;
        let at = Position(self.published.saturating_sub(self.rng.random_range(0..4)));
        for id in ids {
            let body = "m".repeat(self.rng.random_range(1..20));
            let after_delivery = if self.rng.random_ratio(1, 10) {
                AfterDelivery::End
            } else {
                AfterDelivery::Continue
            };
            let message = Publication {
                subscription: id,
                bytes: body.len(),
                body: Text(body.clone()),
                at,
                after_delivery,
            };
            let reached = self.subscriptions.deliver([message]);
            let mut expected = 0;
            for listener in &mut self.listeners {
                if listener.subscriptions.get(&id).is_some_and(|(_, after, _)| *after < at) {
                    expected += 1;
                    listener.push(id, &body);
                    if after_delivery == AfterDelivery::End {
                        listener.subscriptions.remove(&id);
                    }
                }
            }
            assert_eq!(reached, expected);
        }
    }

    fn check_counts(&self) {
        let filters = self.listeners.iter().flat_map(|listener| listener.subscriptions.values());
        let filters: BTreeSet<_> = filters.map(|(filter, ..)| filter).collect();
        let retained: BTreeSet<_> = filters
            .iter()
            .flat_map(|filter| match filter {
                TestFilter::Keys(_, _, keys) => keys.clone(),
                TestFilter::All(_) | TestFilter::Exact(..) => Vec::new(),
            })
            .collect();
        let now = self.subscriptions.stats();
        let listeners = self.listeners.len();
        let distinct = filters.len();
        let counts = Stats { listeners, subscriptions: self.pairs(), distinct, ..now };
        assert_eq!(now, counts);
        assert_eq!(
            self.table.len(),
            retained.len(),
            "the table has exactly the subscribed addresses"
        );
    }
}

#[test]
fn random_listeners_get_what_the_model_says() {
    for seed in 0..40 {
        #[expect(clippy::print_stdout, reason = "a failing test shows its seed")]
        {
            println!("seed {seed}");
        }
        let mut world = World {
            rng: ChaCha8Rng::seed_from_u64(seed),
            table: Arc::new(AddressTable::new(64, seed)),
            subscriptions: Subscriptions::new(LIMITS),
            listeners: Vec::new(),
            published: 0,
        };
        for _ in 0..3_000 {
            world.step();
        }
        world.listeners.clear();
        world.check_counts();
        assert!(world.table.is_empty());
        assert_eq!(world.subscriptions.stats(), Stats::default());
        assert!(world.subscriptions.is_idle());
    }
}

#[test]
fn a_subscription_that_ends_twice_at_once_is_removed_once() {
    let table = Arc::new(AddressTable::new(64, 1));
    let subscriptions: Subscriptions<TestFilter, Text, ()> = Subscriptions::new(LIMITS);
    let listener =
        subscriptions.listen(OwnerId::default(), Arc::new(|| ())).expect("there is room");
    let filter = TestFilter::Keys(0, 0, vec![7]);
    let subscribed = listener.subscribe(filter.clone(), filter.interests(&table), Position(0));
    let id = subscribed.expect("there is room");
    let tracked = table.lookup(&Address::from([7; 32])).expect("it is tracked");
    // It is ending: it is still in the index, and a message that was matched before is delivered now.
    let task = listener.start_unsubscribe(id).expect("the listener has it");
    let body = Text("last".to_owned());
    let last = Publication {
        subscription: id,
        body,
        bytes: 4,
        at: Position(1),
        after_delivery: AfterDelivery::End,
    };
    assert_eq!(subscriptions.deliver([last]), 0);
    assert_eq!(
        subscriptions.matches().matching(Topic(0), [Key { kind: KeyKind(0), id: tracked }]).len(),
        1
    );
    drop(task);
    assert!(table.is_empty());
    drop(listener);
    assert_eq!(subscriptions.stats(), Stats::default());
}
