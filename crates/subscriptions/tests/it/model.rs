//! Random listeners connect, subscribe to sets, change them, fall behind, unsubscribe and disconnect, while a
//! ledger forks, abandons forks and jumps. The messages of each must equal those of a model that scans all
//! sets for every step of every commitment. After all have disconnected, nothing is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use address::AddressTable;
use ledger::{Address, AddressId, BlockId, Commitment, KeyKind};
use rand::seq::{IndexedRandom, IteratorRandom};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use subscriptions::{
    Activation, AddressSet, AfterDelivery, CatchUp, CloseReason, Delivery, Direction, Limits,
    Listener, Message, Next, OwnerId, Position, Publication, ResumeFrom, SetChange,
    SetChangeResult, SetSubscription, SlowConsumerPolicy, Stats, SubscribeError, SubscriptionId,
    Subscriptions, Topic,
};

const LIMITS: Limits = Limits {
    listeners_max: 8,
    subscriptions_max: 30,
    subscriptions_per_listener_max: 6,
    addresses_max: 2_000,
    address_pairs_max: 2_000,
    addresses_per_owner_max: 2_000,
    addresses_per_listener_max: 400,
    retained_steps: 40,
    retained_bytes: 1 << 20,
    unrooted_max: 1_000,
    queue_messages_max: 40,
    queue_bytes_max: 4_000 + 40 * size_of::<Delivery<StepUpdate>>(),
    queues_bytes_max: usize::MAX,
};
const ADDRESSES: u8 = 120;
const KEY_KINDS: [KeyKind; 2] = [KeyKind(0), KeyKind(1)];
const ROOT: BlockId = BlockId { slot: 0, version: 0 };

#[derive(Clone, Debug, PartialEq, Eq)]
struct StepUpdate {
    step: u64,
    touched: Vec<u8>,
}

impl Message for StepUpdate {
    type Conflated = Vec<Self>;

    fn conflate(self, state: &mut Self::Conflated) -> usize {
        state.push(self);
        10
    }
}

/// The addresses that a block touches, under both key kinds.
type Body = [BTreeSet<u8>; 2];
type Identity = (Commitment, u8);

/// The position of a set in the model: its client, and its subscription if the client has it already.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SetPosition {
    client: usize,
    subscription: Option<usize>,
}

#[derive(Clone)]
struct Logged {
    number: u64,
    commitment: Commitment,
    direction: Direction,
    block: BlockId,
    body: Arc<Body>,
}

#[derive(Clone, Copy, Debug)]
enum Start {
    After(u64),
    With(BlockId),
}

struct ModelSubscription {
    id: SubscriptionId,
    commitment: Commitment,
    facet: usize,
    conflates: bool,
    starts: BTreeMap<u8, Start>,
    /// Nothing is delivered before this block.
    waiting: Option<BlockId>,
    expected: Vec<StepUpdate>,
    received: Vec<StepUpdate>,
    next_sequence: u64,
}

struct Client {
    owner: OwnerId,
    listener: Arc<Listener<Identity, StepUpdate, Body>>,
    subscriptions: Vec<ModelSubscription>,
}

struct World {
    rng: ChaCha8Rng,
    table: Arc<AddressTable>,
    subscriptions: Subscriptions<Identity, StepUpdate, Body>,
    clients: Vec<Client>,
    log: Vec<Logged>,
    /// Blocks that may still be built on, with their parents.
    tree: BTreeMap<BlockId, BlockId>,
    tips: [BlockId; 3],
    next_version: u64,
    closed: usize,
    conflated: usize,
    refused: usize,
    /// Refusals because of the distinct addresses.
    full: usize,
    /// Blocks of dropped forks.
    dropped: usize,
}

fn address(n: u8) -> Address {
    Address::from([n; 32])
}

fn topic(commitment: Commitment) -> Topic {
    Topic(commitment as u16)
}

impl World {
    fn new(seed: u64, limits: Limits) -> Self {
        let subscriptions = Subscriptions::new(limits);
        subscriptions.start_at(|_| ROOT);
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            table: Arc::new(AddressTable::new(100_000, seed)),
            subscriptions,
            clients: Vec::new(),
            log: Vec::new(),
            tree: BTreeMap::from([(ROOT, ROOT)]),
            tips: [ROOT; 3],
            next_version: 1,
            closed: 0,
            conflated: 0,
            refused: 0,
            full: 0,
            dropped: 0,
        }
    }

    fn random_set(&mut self) -> BTreeSet<u8> {
        let count = *[0, 1, 3, 8, 60].choose(&mut self.rng).expect("some");
        (0..count).map(|_| self.rng.random_range(0..ADDRESSES)).collect()
    }

    fn register_set(&self, set: &BTreeSet<u8>) -> AddressSet {
        AddressSet::register(&self.table, set.iter().map(|n| address(*n))).expect("room")
    }

    fn step(&mut self) {
        match self.rng.random_range(0..100) {
            0..30 => self.add_block(),
            30..55 => self.advance(),
            55..58 => self.drop_fork(),
            58..64 => self.connect(),
            64..66 => self.disconnect(),
            66..74 => self.subscribe_set(),
            74..86 => self.change(),
            86..89 => self.unsubscribe(),
            _ => self.receive_messages(),
        }
    }

    fn add_block(&mut self) {
        let parent = *self.tree.keys().choose(&mut self.rng).expect("the root is there");
        // Mostly on the newest one.
        let newest = self.tips[0];
        let parent = if self.rng.random_bool(0.8) { newest } else { parent };
        let slot = parent.slot + self.rng.random_range(1..3);
        let block = BlockId { slot, version: self.next_version };
        self.next_version += 1;
        let body: Body = [self.random_set(), self.random_set()];
        self.subscriptions
            .add_block(block, parent, Arc::new(body), 1)
            .expect("bounded by the roots below");
        self.tree.insert(block, parent);
    }

    fn chain(&self, from: BlockId) -> Vec<BlockId> {
        let mut chain = vec![from];
        while let Some(parent) = self.tree.get(&chain[chain.len() - 1])
            && *parent != chain[chain.len() - 1]
        {
            chain.push(*parent);
        }
        chain
    }

    fn advance(&mut self) {
        let commitment = *Commitment::ALL.choose(&mut self.rng).expect("three");
        let Some(to) = self.tree.keys().copied().choose(&mut self.rng) else { return };
        // Commitments do not go back; a processed tip may change forks.
        let safer_tip = self.tips[(commitment as usize + 1).min(2)];
        if !self.chain(to).contains(&safer_tip)
            || (commitment != Commitment::Processed
                && !self.chain(to).contains(&self.tips[commitment as usize]))
        {
            return;
        }
        let steps = self.subscriptions.advance(commitment, to).expect("it is in the tree");
        for step in steps.iter() {
            self.log.push(Logged {
                number: step.number,
                commitment: step.commitment,
                direction: step.direction,
                block: step.block,
                body: Arc::clone(&step.body),
            });
            for (nth, key_kind) in KEY_KINDS.iter().enumerate() {
                let ids = step.body[nth]
                    .iter()
                    .filter_map(|n| Some((self.table.lookup(&address(*n))?.0, u32::from(*n))));
                let ids: Vec<_> = ids.collect();
                let topic = topic(step.commitment);
                let found =
                    self.subscriptions.matches().matching_sets(topic, *key_kind, step.number, ids);
                self.subscriptions.deliver(found.into_iter().map(|(matched, touched)| {
                    Publication {
                        subscription: matched.id,
                        body: StepUpdate {
                            step: step.number,
                            touched: touched.into_iter().map(|n| n as u8).collect(),
                        },
                        bytes: 10,
                        at: Position(step.number),
                        after_delivery: AfterDelivery::Continue,
                    }
                }));
            }
            let logged = self.log.len() - 1;
            self.tips[step.commitment as usize] = match step.direction {
                Direction::Applied => step.block,
                Direction::Reverted => self.tree[&step.block],
            };
            for sub in self.clients.iter_mut().flat_map(|client| &mut client.subscriptions) {
                sub.expect_step(&self.log[logged]);
            }
        }
        drop(steps);
        if commitment == Commitment::Finalized {
            let descendants: Vec<_> = self
                .tree
                .keys()
                .copied()
                .filter(|block| self.chain(*block).contains(&to))
                .collect();
            self.tree.retain(|block, _| descendants.contains(block));
            self.tree.insert(to, to);
        }
    }

    /// Drops a block with its descendants, unless a commitment is on it.
    fn drop_fork(&mut self) {
        let Some(block) = self.tree.keys().copied().choose(&mut self.rng) else { return };
        let is_in_use = self.tips.iter().any(|tip| self.chain(*tip).contains(&block));
        assert_eq!(self.subscriptions.drop_fork(block).is_err(), is_in_use);
        if !is_in_use {
            let fork = self.tree.keys().copied();
            let fork: Vec<_> = fork.filter(|from| self.chain(*from).contains(&block)).collect();
            self.tree.retain(|from, _| !fork.contains(from));
            self.dropped += fork.len();
        }
    }

    fn connect(&mut self) {
        let owner = OwnerId(self.rng.random_range(0..3));
        match self.subscriptions.listen(owner, Arc::new(|| ())) {
            Ok(listener) => {
                let listener = Arc::new(listener);
                let subscriptions = Vec::new();
                self.clients.push(Client { owner, listener, subscriptions });
            }
            Err(full) => assert_eq!((full.limit, self.clients.len()), (8, 8)),
        }
    }

    fn disconnect(&mut self) {
        if let Some(at) = (0..self.clients.len()).choose(&mut self.rng) {
            self.clients.swap_remove(at);
        }
    }

    fn subscribe_set(&mut self) {
        let Some(at) = (0..self.clients.len()).choose(&mut self.rng) else { return };
        let commitment = *Commitment::ALL.choose(&mut self.rng).expect("three");
        let facet = self.rng.random_range(0..2);
        let set = self.random_set();
        let conflates = self.rng.random_bool(0.5);
        let subscription = SetSubscription {
            identity: (commitment, facet as u8),
            topic: topic(commitment),
            key_kind: KEY_KINDS[facet],
            set: self.register_set(&set),
            slow_consumer_policy: if conflates {
                SlowConsumerPolicy::Conflate
            } else {
                SlowConsumerPolicy::Close
            },
        };
        let activation = match self.clients[at].listener.subscribe_set(subscription) {
            Ok(activation) => activation,
            Err(refused) => {
                return self.check_refusal(
                    SetPosition { client: at, subscription: None },
                    refused,
                    &set,
                );
            }
        };
        let sub = ModelSubscription {
            id: activation.subscription,
            commitment,
            facet,
            conflates,
            starts: BTreeMap::new(),
            waiting: None,
            expected: Vec::new(),
            received: Vec::new(),
            next_sequence: 0,
        };
        self.clients[at].subscriptions.push(sub);
        let last = self.clients[at].subscriptions.len() - 1;
        self.start(at, last, activation, &set);
    }

    /// Checks that a limit was reached: a client may not have a set, in addition or instead of that of a subscription.
    fn check_refusal(
        &mut self,
        position: SetPosition,
        refused: SubscribeError,
        set: &BTreeSet<u8>,
    ) {
        self.refused += 1;
        let client = &self.clients[position.client];
        let replaced =
            position.subscription.map_or(0, |sub| client.subscriptions[sub].starts.len());
        let more = set.len().saturating_sub(replaced);
        match refused {
            SubscribeError::ListenerFull { limit } => assert_eq!(client.subscriptions.len(), limit),
            SubscribeError::NodeFull { limit } => {
                assert_eq!(
                    self.clients.iter().map(|client| client.subscriptions.len()).sum::<usize>(),
                    limit
                );
            }
            SubscribeError::ListenerAddressesFull { addresses, limit } => {
                assert_eq!(client.addresses(), client.listener.tracked_addresses());
                assert_eq!(addresses, client.addresses() + more);
                assert!(addresses > limit);
            }
            SubscribeError::OwnerAddressesFull { addresses, limit } => {
                let own = self.clients.iter().filter(|it| it.owner == client.owner);
                assert_eq!(addresses, own.map(Client::addresses).sum::<usize>() + more);
                assert!(addresses > limit);
            }
            SubscribeError::AddressesFull { limit, .. } => {
                self.full += 1;
                let mut all = self.tracked_without(Some(position));
                all.extend(set);
                assert!(all.len() > limit, "{} fit into {limit}", all.len());
            }
            SubscribeError::Closed(_) => self.drop_client(position.client),
            refused => panic!("{refused}"),
        }
    }

    /// Returns the addresses of all sets, except that at a position.
    fn tracked_without(&self, excluded: Option<SetPosition>) -> BTreeSet<u8> {
        let clients = self.clients.iter().enumerate();
        let all = clients.flat_map(|(client, it)| {
            it.subscriptions
                .iter()
                .enumerate()
                .map(move |(nth, sub)| (SetPosition { client, subscription: Some(nth) }, sub))
        });
        let others = all.filter(|(position, _)| Some(*position) != excluded);
        others.flat_map(|(_, sub)| sub.starts.keys().copied()).collect()
    }

    /// Checks the counts of addresses.
    fn check_counts(&self) {
        let stats = self.subscriptions.stats();
        let all = self.tracked_without(None);
        assert_eq!(stats.tracked_addresses, all.len(), "each address counts once");
        assert!(all.len() <= self.subscriptions.limits().addresses_max);
        let pairs: usize = self.clients.iter().map(Client::addresses).sum();
        assert!((all.len()..=pairs).contains(&stats.tracked_pairs), "{stats:?} of {pairs}");
    }

    fn drop_client(&mut self, at: usize) {
        assert!(matches!(
            self.clients[at].listener.closed(),
            Some(CloseReason::MessagesFull { .. } | CloseReason::BytesFull { .. })
        ));
        let unread = |sub: &ModelSubscription| sub.expected.len() - sub.received.len();
        let waiting: usize = self.clients[at].subscriptions.iter().map(unread).sum();
        assert!(waiting > LIMITS.queue_messages_max, "{waiting} waited");
        assert!(self.clients[at].subscriptions.iter().any(|sub| !sub.conflates));
        self.closed += 1;
        self.clients.swap_remove(at);
    }

    /// Starts an activation from some block: the tip, a retained one, or one ahead.
    fn start(&mut self, at: usize, sub: usize, activation: Activation, added: &BTreeSet<u8>) {
        let commitment = self.clients[at].subscriptions[sub].commitment;
        let tip = self.tips[commitment as usize];
        let mut from = ResumeFrom::Block(match self.rng.random_range(0..4) {
            0 => self.log_block(commitment).unwrap_or(tip),
            1 => self.random_descendant(tip).unwrap_or(tip),
            _ => tip,
        });
        if let Some(block) = self.clients[at].subscriptions[sub].waiting {
            from = ResumeFrom::Block(block);
        }
        let ResumeFrom::Block(block) = from else { unreachable!() };
        let client = &mut self.clients[at];
        let subscription = &mut client.subscriptions[sub];
        let mut updates = Vec::new();
        loop {
            match client.listener.catch_up(activation, commitment, from) {
                CatchUp::Live => break,
                CatchUp::Expired if matches!(from, ResumeFrom::Block(block) if block != tip) => {
                    from = ResumeFrom::Block(tip);
                    continue;
                }
                CatchUp::Expired => panic!("the tip is retained"),
                CatchUp::Steps(steps) => {
                    for step in steps {
                        let touched = &step.body[subscription.facet];
                        let touched: Vec<u8> = touched.intersection(added).copied().collect();
                        if !touched.is_empty() {
                            updates.push(StepUpdate { step: step.number, touched });
                        }
                        from = ResumeFrom::Step(step.number);
                    }
                }
            }
        }
        let of = |logged: &&Logged| logged.commitment == commitment;
        let applied = |logged: &&Logged| {
            of(logged) && logged.direction == Direction::Applied && logged.block == block
        };
        let applied_at = self.log.iter().rev().find(applied).map(|logged| logged.number);
        let newest = self.log.last().map_or(0, |logged| logged.number);
        let (start, is_retained) = match applied_at {
            Some(number) if matches!(from, ResumeFrom::Step(_)) || block == tip => (number, true),
            None if block == tip => (0, true), // the root that all commitments start on
            Some(_) => (newest, false),        // too long ago: it started at the tip
            None if block.slot > tip.slot => {
                added.iter().for_each(|n| {
                    subscription.starts.insert(*n, Start::With(block));
                });
                subscription.waiting = Some(block);
                return assert!(updates.is_empty());
            }
            None => (newest, false),
        };
        if is_retained {
            let after = self.log.iter().filter(of).filter(|logged| logged.number > start);
            let expected: Vec<StepUpdate> = after
                .filter_map(|logged| {
                    expected_update(logged, subscription.facet, |n| added.contains(&n))
                })
                .collect();
            assert_eq!(updates, expected);
        }
        added.iter().for_each(|n| {
            subscription.starts.insert(*n, Start::After(newest));
        });
    }

    fn log_block(&mut self, commitment: Commitment) -> Option<BlockId> {
        let of = |logged: &&Logged| {
            logged.commitment == commitment && logged.direction == Direction::Applied
        };
        Some(self.log.iter().rev().filter(of).take(20).choose(&mut self.rng)?.block)
    }

    fn random_descendant(&mut self, tip: BlockId) -> Option<BlockId> {
        let ahead: Vec<_> = self.tree.keys().copied().filter(|of| of.slot > tip.slot).collect();
        let ahead: Vec<_> = ahead.into_iter().filter(|of| self.chain(*of).contains(&tip)).collect();
        ahead.choose(&mut self.rng).copied()
    }

    fn random_sub(&mut self) -> Option<(usize, usize)> {
        let all = self.clients.iter().enumerate();
        let all =
            all.flat_map(|(at, client)| (0..client.subscriptions.len()).map(move |sub| (at, sub)));
        all.choose(&mut self.rng)
    }

    fn change(&mut self) {
        let Some((at, sub)) = self.random_sub() else { return };
        let set = self.random_set();
        let had: BTreeSet<u8> =
            self.clients[at].subscriptions[sub].starts.keys().copied().collect();
        let registered = self.register_set(&set);
        let (change, now): (_, BTreeSet<u8>) = match self.rng.random_range(0..3) {
            0 => (SetChange::Add(registered), had.union(&set).copied().collect()),
            1 => (SetChange::Remove(registered), had.difference(&set).copied().collect()),
            _ => (SetChange::Replace(registered), set),
        };
        let id = self.clients[at].subscriptions[sub].id;
        let changed = match change_set(&self.clients[at].listener, id, change) {
            Ok(changed) => changed,
            Err(refused) => {
                let position = SetPosition { client: at, subscription: Some(sub) };
                return self.check_refusal(position, refused, &now);
            }
        };
        let added: BTreeSet<u8> = now.difference(&had).copied().collect();
        let ids: BTreeSet<AddressId> =
            added.iter().filter_map(|n| self.table.lookup(&address(*n))).collect();
        assert!(changed.added.ids().eq(ids.iter().copied()));
        assert_eq!((changed.len, changed.removed), (now.len(), had.difference(&now).count()));
        self.clients[at].subscriptions[sub].starts.retain(|n, _| now.contains(n));
        match changed.activation {
            Some(activation) => self.start(at, sub, activation, &added),
            None => assert!(added.is_empty()),
        }
    }

    fn unsubscribe(&mut self) {
        let Some((at, sub)) = self.random_sub() else { return };
        if self.clients[at].listener.closed().is_some() {
            return self.drop_client(at); // while the messages that it missed are counted
        }
        let ended = self.clients[at].subscriptions.swap_remove(sub);
        let task = self.clients[at].listener.start_unsubscribe(ended.id);
        let mut task = task.expect("the client has it");
        (0..self.rng.random_range(0..4)).for_each(|_| {
            task.step();
        });
        drop(task); // runs the remaining steps
        assert!(!self.clients[at].listener.unsubscribe(ended.id));
    }

    fn receive_messages(&mut self) {
        let Some(at) = (0..self.clients.len()).choose(&mut self.rng) else { return };
        let count = self.rng.random_range(0..60);
        for _ in 0..count {
            let client = &mut self.clients[at];
            match client.listener.next() {
                Next::Message(delivery) => {
                    let sequence = delivery.sequence;
                    let body = delivery.body;
                    client.subscription(delivery.subscription).receive(sequence, [body]);
                }
                Next::Conflated(conflated) => {
                    assert_eq!(conflated.messages, conflated.state.len() as u64);
                    let first = conflated.sequence + 1 - conflated.messages;
                    client.subscription(conflated.subscription).receive(first, conflated.state);
                    self.conflated += 1;
                }
                Next::Closed(_) => return self.drop_client(at),
                Next::Empty => {
                    for sub in &client.subscriptions {
                        assert_eq!(sub.received, sub.expected);
                    }
                    return;
                }
            }
        }
    }
}

impl Client {
    fn addresses(&self) -> usize {
        self.subscriptions.iter().map(|sub| sub.starts.len()).sum()
    }

    fn subscription(&mut self, id: SubscriptionId) -> &mut ModelSubscription {
        self.subscriptions.iter_mut().find(|sub| sub.id == id).expect("the client has it")
    }
}

fn expected_update(
    logged: &Logged,
    facet: usize,
    contains: impl Fn(u8) -> bool,
) -> Option<StepUpdate> {
    let touched: Vec<u8> = logged.body[facet].iter().copied().filter(|n| contains(*n)).collect();
    (!touched.is_empty()).then_some(StepUpdate { step: logged.number, touched })
}

impl ModelSubscription {
    /// The model: adds the messages of a step to the expected ones.
    fn expect_step(&mut self, logged: &Logged) {
        if logged.commitment != self.commitment {
            return;
        }
        if logged.direction == Direction::Applied {
            // If it waits for a block that is not on this chain, it starts with the first block from its slot on.
            let after = |block: BlockId| {
                let is_same = block == logged.block;
                let is_reached = block.slot <= logged.block.slot;
                is_reached.then(|| if is_same { logged.number } else { logged.number - 1 })
            };
            self.waiting = self.waiting.filter(|block| after(*block).is_none());
            for start in self.starts.values_mut() {
                if let Start::With(block) = start
                    && let Some(number) = after(*block)
                {
                    *start = Start::After(number);
                }
            }
        }
        let contains = |n: u8| match self.starts.get(&n) {
            Some(Start::After(number)) => *number < logged.number,
            Some(Start::With(_)) | None => false,
        };
        self.expected.extend(expected_update(logged, self.facet, contains));
    }

    fn receive(&mut self, first: u64, updates: impl IntoIterator<Item = StepUpdate>) {
        for (update, sequence) in updates.into_iter().zip(first..) {
            assert_eq!(sequence, self.next_sequence, "no gap");
            self.next_sequence += 1;
            self.received.push(update);
            let at = self.received.len() - 1;
            assert_eq!(self.received[at], self.expected[at]);
        }
    }
}

/// Changes a set, all steps at once.
fn change_set(
    listener: &Arc<Listener<Identity, StepUpdate, Body>>,
    id: SubscriptionId,
    change: SetChange,
) -> Result<SetChangeResult, SubscribeError> {
    let mut update = listener.start_set_update(id, change)?;
    loop {
        if let Some(changed) = update.step()? {
            return Ok(changed);
        }
    }
}

#[test]
fn every_listener_gets_what_a_scan_of_all_sets_says_and_nothing_is_left() {
    let mut closed = 0;
    let mut conflated = 0;
    let mut refused = 0;
    let mut full = 0;
    let mut dropped = 0;
    let narrow = Limits { addresses_max: 90, addresses_per_owner_max: 300, ..LIMITS };
    for seed in 0..90 {
        let mut world = World::new(seed, if seed % 3 == 0 { narrow } else { LIMITS });
        for _ in 0..1_500 {
            world.step();
            if world.rng.random_bool(0.1) {
                world.check_counts();
            }
        }
        full += world.full;
        dropped += world.dropped;
        let counts = world.subscriptions.stats();
        let subscriptions = || world.clients.iter().flat_map(|client| &client.subscriptions);
        assert_eq!(counts.listeners, world.clients.len());
        assert_eq!(counts.subscriptions, subscriptions().count());
        assert!(counts.distinct <= counts.subscriptions);
        closed += world.closed;
        conflated += world.conflated;
        refused += world.refused;
        world.clients.clear();
        let expected = Stats { retained_bytes: counts.retained_bytes, ..Stats::default() };
        assert_eq!(world.subscriptions.stats(), expected, "seed {seed}");
        assert!(world.subscriptions.is_idle() && world.table.is_empty(), "seed {seed}");
    }
    assert!(closed > 10 && conflated > 10 && refused > 10, "{closed} {conflated} {refused}");
    assert!(full > 10 && dropped > 100, "{full} {dropped}");
}

/// Limits of addresses that only `addresses_max` may reach.
fn large_limits(addresses_max: usize) -> Limits {
    Limits {
        addresses_max,
        address_pairs_max: 1 << 30,
        addresses_per_owner_max: 1 << 30,
        addresses_per_listener_max: 1 << 30,
        ..LIMITS
    }
}

#[test]
fn a_change_or_an_end_that_is_dropped_midway_leaves_nothing() {
    let many = |first: u32| {
        (first..first + 3_000).map(|n| {
            let mut bytes = [0; 32];
            bytes[..4].copy_from_slice(&n.to_be_bytes());
            Address::from(bytes)
        })
    };
    let table = Arc::new(AddressTable::new(100_000, 1));
    let register_set = |first| AddressSet::register(&table, many(first)).expect("room");
    let limits = large_limits(100_000);
    let subscriptions = Subscriptions::<Identity, StepUpdate, Body>::new(limits);
    subscriptions.start_at(|_| ROOT);
    let mut done = 0;
    for steps in 0..40 {
        let changes: [fn(AddressSet) -> SetChange; 3] =
            [SetChange::Add, SetChange::Remove, SetChange::Replace];
        for change in changes {
            let listener =
                Arc::new(subscriptions.listen(OwnerId::default(), Arc::new(|| ())).expect("room"));
            let subscription = SetSubscription {
                identity: (Commitment::Confirmed, 0),
                topic: Topic(0),
                key_kind: KEY_KINDS[0],
                set: register_set(0),
                slow_consumer_policy: SlowConsumerPolicy::Close,
            };
            let activation = listener.subscribe_set(subscription).expect("room");
            let change = change(register_set(1_500));
            let mut update = listener
                .start_set_update(activation.subscription, change)
                .expect("the client has it");
            let result = (0..steps).find_map(|_| update.step().expect("room"));
            done += usize::from(result.is_some());
            drop(update);
            assert_eq!(
                table.len(),
                listener.tracked_addresses(),
                "exactly the addresses of the set are retained"
            );
            let task = listener.start_unsubscribe(activation.subscription);
            let mut task = task.expect("the client has it");
            (0..steps).for_each(|_| {
                task.step();
            });
            drop((task, listener));
            assert!(subscriptions.is_idle() && table.is_empty());
        }
    }
    assert!(done > 0, "forty steps are enough for some");
}
