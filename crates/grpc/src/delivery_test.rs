//! Random ledgers, requests and reads: a client gets the messages of a simple model of the log, in the same order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use chain_solana::{AccountUpdate, BankHashComponents, Block};
use clients::ClientId;
use grpc_server::{ServerState, StatusTimer};
use ledger::{BlockId, Commitment, Slot};
use prost::Message as _;
use solana::Account;
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    SlotStatus, SubscribeRequest, SubscribeRequestFilterAccounts, SubscribeRequestFilterBlocks,
    SubscribeRequestFilterBlocksMeta, SubscribeRequestFilterSlots, SubscribeUpdate,
};

use crate::broker::Broker;
use crate::config::Config;
use crate::counters::Event;
use crate::delivery::Delivery;
use crate::encode;
use crate::filter::FilterSet;
use crate::filter_index::IndexedFilters;
use crate::publisher;
use crate::queue::Queue;
use crate::update::{FrozenBlock, SlotUpdate, Update, UpdateKind};

const RUNS: u64 = 25;
const STEPS: usize = 300;
const KEYS: u8 = 3;
const FIRST_SLOT: Slot = 101;

#[test]
fn filters_that_change_at_any_time_skip_and_repeat_nothing() {
    for seed in 0..RUNS {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        while world.take() {}
        assert!(world.is_live(), "seed {seed}: the replay ends");
        world.add_bank();
        while world.take() {}
    }
}

#[test]
fn filters_that_need_more_than_restored_banks_have_are_refused() {
    let broker = new_broker(Config::default());
    let blocks =
        (FIRST_SLOT - 5..FIRST_SLOT).map(|slot| new_block(BlockId { slot, version: slot }));
    let events = publisher::start(&broker, blocks.collect()).expect("it starts");
    let (id, queue) = broker.connect(Arc::new(StatusTimer::default()), ClientId(1)).expect("space");
    let mut delivery = Delivery::new(Arc::clone(&broker), id, queue);
    let filters = |request| index_filters(&broker, &request);
    let metas = || {
        let meta = ("meta".to_owned(), SubscribeRequestFilterBlocksMeta {});
        SubscribeRequest { blocks_meta: [meta].into(), ..Default::default() }
    };
    delivery.set_filters(filters(metas()), Some(FIRST_SLOT - 4)).expect("they are restored");
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Ok(first)) = delivery.poll_next(&mut context) else {
        panic!("a restored bank")
    };
    assert_eq!(read_seen(&first.bytes).1, ["meta"]);
    let accounts = [("one".to_owned(), SubscribeRequestFilterAccounts::default())].into();
    let request = SubscribeRequest { accounts, ..metas() };
    delivery.set_filters(filters(request), None).expect("they are valid");
    let Poll::Ready(Err(status)) = delivery.poll_next(&mut context) else { panic!("a refusal") };
    assert_eq!(status.code(), tonic::Code::OutOfRange);
    assert!(status.message().contains("the first available slot is 101"), "{status}");
    events.close();
}

/// A broker without connections.
fn new_broker(config: Config) -> Arc<Broker> {
    let server = Arc::new(ServerState::new(config.transport()));
    Arc::new(Broker::new(config, server, Some(FIRST_SLOT - 1), None))
}

/// The identity of a message: the number of its update, which it carries as its time, and its filters. A pong has its
/// id as number.
type Seen = (u64, Vec<String>);

/// An entry of the model's log.
enum Entry {
    Update(Arc<Update>),
    Released(Commitment, Vec<Arc<Update>>),
}

impl Entry {
    /// The updates that a client of a commitment gets.
    fn updates(&self, commitment: Commitment) -> &[Arc<Update>] {
        match self {
            Self::Update(update) if update.is_at(commitment) => std::slice::from_ref(update),
            Self::Released(level, content) if *level == commitment => content,
            _ => &[],
        }
    }

    fn starts_bank_from(&self, slot: Slot) -> bool {
        let Self::Update(update) = self else { return false };
        let UpdateKind::Slot(status) = &update.kind else { return false };
        status.status == SlotStatus::SlotCreatedBank && update.slot >= slot
    }
}

/// A frozen bank and its content.
type Bank = (BlockId, Vec<Arc<Update>>);

#[derive(Default)]
struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_publisher_that_is_behind_closes_the_costliest_client_alone() {
    // A client with live updates, and one that replays.
    for from_slot in [None, Some(FIRST_SLOT)] {
        check_costliest_client(from_slot);
    }
}

fn check_costliest_client(from_slot: Option<Slot>) {
    let broker = new_broker(Config::default());
    let connect = |client: u128, request: &SubscribeRequest, from_slot| {
        let timer = Arc::new(StatusTimer::default());
        let (id, queue) = broker.connect(timer, ClientId(client)).expect("space");
        let delivery = Delivery::new(Arc::clone(&broker), id, queue);
        let filters = FilterSet::new(request, &Config::default()).expect("valid filters");
        let filters = IndexedFilters::new(&broker, ClientId(client), filters).expect("space");
        filters.replace_those_of(id, from_slot).expect("a slot of the log");
        delivery
    };
    let accounts = (0..64).map(|n| (n.to_string(), SubscribeRequestFilterAccounts::default()));
    let scans = SubscribeRequest { accounts: accounts.collect(), ..SubscribeRequest::default() };
    let meta = ("meta".to_owned(), SubscribeRequestFilterBlocksMeta {});
    let metas = SubscribeRequest { blocks_meta: [meta].into(), ..SubscribeRequest::default() };
    let mut costly = [connect(1, &scans, from_slot), connect(1, &metas, None)];
    let mut cheap = connect(2, &metas, None);
    let pubkey = Pubkey::default();
    let account = Arc::new(Account(AccountSharedData::new(1, 0, &pubkey)));
    let write =
        AccountUpdate { pubkey, account, write_version: 1, signature: None, executed: None };
    let kind = UpdateKind::Account(write);
    let update = Arc::new(Update { slot: FIRST_SLOT, bank_id: 1, created_ms: 0, kind });
    broker.start_bank(BlockId { slot: FIRST_SLOT, version: FIRST_SLOT });
    broker.start_cost_period();
    broker.publish(&[update]);
    let mut context = Context::from_waker(Waker::noop());
    broker.close_costliest_client(Duration::from_secs(3_600));
    assert!(cheap.poll_next(&mut context).is_pending(), "the publisher is slow, not a client");
    broker.close_costliest_client(Duration::from_nanos(1));
    for delivery in &mut costly {
        let status = loop {
            match delivery.poll_next(&mut context) {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(status)) => break status,
                Poll::Pending => panic!("it is closed"),
            }
        };
        assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}");
    }
    assert!(cheap.poll_next(&mut context).is_pending(), "it is still served");
    assert_eq!([Event::Shed, Event::Lagged].map(|event| broker.counters.sum(event)), [1, 0]);
}

fn index_filters(broker: &Arc<Broker>, request: &SubscribeRequest) -> IndexedFilters {
    let filters = FilterSet::new(request, &Config::default()).expect("valid filters");
    IndexedFilters::new(broker, ClientId(1), filters).expect("space")
}

/// A ledger and one client, with a model of the messages that the client has to get.
struct World {
    seed: u64,
    random: fastrand::Rng,
    broker: Arc<Broker>,
    delivery: Delivery,
    queue: Arc<Queue>,
    next_slot: Slot,
    next_number: u64,
    unconfirmed: VecDeque<Bank>,
    unrooted: VecDeque<Bank>,
    log: Vec<Entry>,
    filters: Option<FilterSet>,
    from_slot: Slot,
    /// The entry that the client replays next, and the next update in it. `None` if it is live.
    position: Option<(usize, usize)>,
    /// The messages in the client's queue.
    queued: VecDeque<Seen>,
    /// Further messages of an update that the client replays.
    unsent: VecDeque<Seen>,
}

impl World {
    fn new(seed: u64) -> Self {
        let config = Config { replay_slots_max: 1_000, ..Config::default() };
        let broker = new_broker(config);
        let timer = Arc::new(StatusTimer::default());
        let (id, queue) = broker.connect(timer, ClientId(1)).expect("space");
        Self {
            seed,
            random: fastrand::Rng::with_seed(seed),
            delivery: Delivery::new(Arc::clone(&broker), id, Arc::clone(&queue)),
            broker,
            queue,
            next_slot: FIRST_SLOT,
            next_number: 0,
            unconfirmed: VecDeque::new(),
            unrooted: VecDeque::new(),
            log: Vec::new(),
            filters: None,
            from_slot: 0,
            position: None,
            queued: VecDeque::new(),
            unsent: VecDeque::new(),
        }
    }

    fn step(&mut self) {
        match self.random.u8(..100) {
            0..15 => self.add_bank(),
            15..25 => self.release(Commitment::Confirmed),
            25..35 => self.release(Commitment::Finalized),
            35..38 => self.request(true),
            38..48 => self.request(false),
            48..53 => self.ping(),
            _ => {
                for _ in 0..self.random.u8(..20) {
                    self.take();
                }
            }
        }
    }

    /// Whether the client is live, by the model.
    fn is_live(&self) -> bool {
        self.position.is_none()
    }

    fn new_update(&mut self, slot: Slot, kind: UpdateKind) -> Arc<Update> {
        self.next_number += 1;
        Arc::new(Update { slot, bank_id: 1, created_ms: self.next_number, kind })
    }

    fn publish(&mut self, updates: &[Arc<Update>]) {
        self.broker.publish(updates);
        for update in updates {
            self.add_entry(Entry::Update(Arc::clone(update)));
        }
    }

    fn publish_status(&mut self, slot: Slot, status: SlotStatus) {
        let status = SlotUpdate { parent: Some(slot - 1), status, dead_error: None };
        let update = self.new_update(slot, UpdateKind::Slot(status));
        self.publish(&[update]);
    }

    fn add_entry(&mut self, entry: Entry) {
        if let (None, Some(filters)) = (self.position, &self.filters) {
            for update in entry.updates(filters.commitment) {
                if update.slot >= self.from_slot {
                    self.queued.extend(messages(filters, update));
                }
            }
        }
        self.log.push(entry);
    }

    /// Adds a bank, from its start to processed. One of ten skips slots.
    fn add_bank(&mut self) {
        let skipped = if self.random.u8(..10) == 0 { 1_000 } else { 0 };
        let slot = self.next_slot + skipped;
        self.next_slot = slot + 1;
        let block = BlockId { slot, version: slot };
        self.broker.start_bank(block);
        self.publish_status(slot, SlotStatus::SlotCreatedBank);
        let mut content = Vec::new();
        for _ in 0..self.random.u8(..8) {
            let pubkey = Pubkey::new_from_array([self.random.u8(..KEYS); 32]);
            let bytes = if self.random.u8(..8) == 0 { 200_000 } else { 10 };
            let account = AccountSharedData::new(1, bytes, &pubkey);
            let account = Arc::new(Account(account));
            let write_version = self.next_number;
            let write =
                AccountUpdate { pubkey, account, write_version, signature: None, executed: None };
            content.push(self.new_update(slot, UpdateKind::Account(write)));
        }
        self.publish(&content);
        let frozen = Arc::new(FrozenBlock { block: new_block(block), accounts: Vec::new() });
        let ends = [UpdateKind::Block(Arc::clone(&frozen)), UpdateKind::BlockMeta(frozen)];
        let ends = ends.map(|kind| self.new_update(slot, kind));
        self.publish(&ends);
        content.extend(ends);
        self.broker.set_content(block, content.clone().into());
        self.publish_status(slot, SlotStatus::SlotProcessed);
        self.unconfirmed.push_back((block, content));
    }

    /// The oldest bank that is not at a commitment gets there.
    fn release(&mut self, commitment: Commitment) {
        let is_final = commitment == Commitment::Finalized;
        let waiting = if is_final { &mut self.unrooted } else { &mut self.unconfirmed };
        let Some((block, content)) = waiting.pop_front() else { return };
        self.broker.release(commitment, block, false);
        self.add_entry(Entry::Released(commitment, content.clone()));
        if is_final {
            self.publish_status(block.slot, SlotStatus::SlotFinalized);
        } else {
            self.publish_status(block.slot, SlotStatus::SlotConfirmed);
            self.unrooted.push_back((block, content));
        }
    }

    fn request(&mut self, replays: bool) {
        while self.delivery.is_within_update() {
            self.take();
        }
        let request = random_request(&mut self.random);
        let filters = || FilterSet::new(&request, &Config::default()).expect("valid filters");
        let from_slot = replays.then(|| self.random.u64(FIRST_SLOT..self.next_slot + 3));
        if let Some(slot) = from_slot {
            let first = self.log.iter().position(|entry| entry.starts_bank_from(slot));
            self.from_slot = slot;
            self.position = Some((first.unwrap_or(self.log.len()), 0));
        }
        let indexed = index_filters(&self.broker, &request);
        self.delivery.set_filters(indexed, from_slot).expect("they are accepted");
        self.filters = Some(filters());
    }

    fn ping(&mut self) {
        self.next_number += 1;
        let id = i32::try_from(self.next_number).expect("few pings");
        self.queue.push(encode::pong(id, 0)).expect("space");
        self.queued.push_back((self.next_number, Vec::new()));
    }

    /// Takes a message, which must be that of the model. False if there is none.
    fn take(&mut self) -> bool {
        let found = self.poll().map(|message| read_seen(&message));
        let expected = self.next_expected();
        assert_eq!(found, expected, "seed {}", self.seed);
        found.is_some()
    }

    /// Polls until there is a message or nothing more to do.
    fn poll(&mut self) -> Option<bytes::Bytes> {
        let woken = Arc::new(WakeFlag::default());
        let waker = Waker::from(Arc::clone(&woken));
        loop {
            if let Poll::Ready(next) = self.delivery.poll_next(&mut Context::from_waker(&waker)) {
                return Some(next.expect("the client is not closed").bytes);
            }
            if !woken.0.swap(false, Ordering::Relaxed) {
                return None;
            }
        }
    }

    /// The next message, by the model.
    fn next_expected(&mut self) -> Option<Seen> {
        if let Some(next) = self.unsent.pop_front().or_else(|| self.queued.pop_front()) {
            return Some(next);
        }
        let (mut entry, mut item) = self.position?;
        let filters = self.filters.as_ref()?;
        while let Some(logged) = self.log.get(entry) {
            let Some(update) = logged.updates(filters.commitment).get(item) else {
                (entry, item) = (entry + 1, 0);
                continue;
            };
            item += 1;
            if update.slot >= self.from_slot {
                self.unsent.extend(messages(filters, update));
            }
            if let Some(next) = self.unsent.pop_front() {
                self.position = Some((entry, item));
                return Some(next);
            }
        }
        self.position = None;
        None
    }
}

/// The messages of an update, whatever the way in which a client gets them.
fn messages(filters: &FilterSet, update: &Update) -> Vec<Seen> {
    let specs = filters.all_messages(update).into_iter();
    specs.map(|spec| read_seen(&encode::Encoder::new(update).message(spec))).collect()
}

fn read_seen(message: &[u8]) -> Seen {
    let update = SubscribeUpdate::decode(message).expect("a message");
    if let Some(UpdateOneof::Pong(pong)) = update.update_oneof {
        return (pong.id.unsigned_abs().into(), Vec::new());
    }
    let created = update.created_at.expect("a time");
    let ms = created.seconds.unsigned_abs() * 1_000
        + u64::from(created.nanos.unsigned_abs()) / 1_000_000;
    (ms, update.filters)
}

/// Some filters of each kind. Most requests have the same commitment, as those of clients do.
fn random_request(random: &mut fastrand::Rng) -> SubscribeRequest {
    let mut request = SubscribeRequest::default();
    if random.u8(..4) == 0 {
        request.commitment = Some(random.i32(0..3));
    }
    if random.bool() {
        let interslot_updates = Some(random.bool());
        let filter = SubscribeRequestFilterSlots { interslot_updates, ..Default::default() };
        request.slots.insert("slots".to_owned(), filter);
    }
    for name in ["one", "two"] {
        if random.bool() {
            let key = Pubkey::new_from_array([random.u8(..KEYS); 32]);
            let account = if random.bool() { vec![key.to_string()] } else { Vec::new() };
            let filter = SubscribeRequestFilterAccounts { account, ..Default::default() };
            request.accounts.insert(name.to_owned(), filter);
        }
        if random.bool() {
            request.blocks.insert(name.to_owned(), SubscribeRequestFilterBlocks::default());
        }
    }
    if random.bool() {
        request.blocks_meta.insert("meta".to_owned(), SubscribeRequestFilterBlocksMeta {});
    }
    request
}

fn new_block(id: BlockId) -> Arc<Block> {
    Arc::new(Block {
        id,
        parent: BlockId { slot: id.slot - 1, version: id.slot - 1 },
        block_height: id.slot,
        blockhash: Hash::default(),
        previous_blockhash: Hash::default(),
        bank_hash: Hash::default(),
        hash_components: BankHashComponents::default(),
        block_time: 0,
        transaction_count: 0,
        transactions: Vec::new(),
        rewards: Vec::new(),
        reward_partitions: None,
        entries: Vec::new(),
        writes: Vec::new(),
    })
}
