//! The engine alone: bytes for each (client, address), and the cost of a block by its matches and by its listeners.

use std::sync::Arc;

use address::AddressTable;
use anyhow::{Result, ensure};
use cpu_time::ThreadTime;
use ledger::{Address, BlockId, Commitment, KeyKind};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde_json::json;
use solana::Encoding;
use solana_account::AccountSharedData;
use solana_account_decoder_client_types::UiAccountEncoding;
use solana_pubkey::Pubkey;
use subscriptions::{
    AddressSet, AfterDelivery, CatchUp, Limits, Listener, Message, Next, OwnerId, Position,
    Publication, ResumeFrom, SetSubscription, SlowConsumerPolicy, Subscriptions, Topic,
};

use super::addresses::address_of;
use super::size::Size;
use crate::index::heap;
use crate::median::median;

const TOPIC: Topic = Topic(0);
const FACET: KeyKind = KeyKind(0);
/// Matches of a measured block.
const MATCHES: usize = 100;
/// Addresses of each listener, where their number does not matter.
const WALLET: u32 = 800;
/// Blocks of one measurement.
const BLOCKS: usize = 300;
/// Blocks after which the queues are emptied.
const DRAIN_INTERVAL_BLOCKS: u64 = 20;

#[derive(Clone)]
struct Body(#[expect(dead_code, reason = "no client reads it here")] Arc<str>);

impl Message for Body {
    type Conflated = ();

    fn conflate(self, (): &mut ()) -> usize {
        0
    }
}

type TestSubscriptions = Subscriptions<u32, Body, Vec<u32>>;
type Client = Listener<u32, Body, Vec<u32>>;

fn test_subscriptions() -> TestSubscriptions {
    let subs = TestSubscriptions::new(Limits {
        listeners_max: 1 << 20,
        subscriptions_max: 1 << 20,
        subscriptions_per_listener_max: 10,
        addresses_max: 1 << 27,
        address_pairs_max: 1 << 27,
        addresses_per_owner_max: 1 << 27,
        addresses_per_listener_max: 1 << 27,
        retained_steps: 4,
        retained_bytes: 1 << 30,
        unrooted_max: 1 << 20,
        queue_messages_max: 1 << 20,
        queue_bytes_max: 1 << 30,
        queues_bytes_max: 1 << 30,
    });
    subs.start_at(|_| BlockId { slot: 0, version: 0 });
    subs
}

fn subscribed(
    subs: &TestSubscriptions,
    table: &Arc<AddressTable>,
    identity: u32,
    addresses: impl Iterator<Item = u32>,
) -> Result<Client> {
    let listener = subs.listen(OwnerId(0), Arc::new(|| ()))?;
    let set = AddressSet::register(table, addresses.map(|n| Address::from(address_of(n))))?;
    let when_slow = SlowConsumerPolicy::Close;
    let part = listener.subscribe_set(SetSubscription {
        identity,
        topic: TOPIC,
        key_kind: FACET,
        set,
        slow_consumer_policy: when_slow,
    })?;
    let Some(tip) = subs.tip(Commitment::Processed) else { unreachable!("it began") };
    let gone = listener.catch_up(part, Commitment::Processed, ResumeFrom::Block(tip));
    ensure!(matches!(gone, CatchUp::Live), "the tip is the newest block");
    Ok(listener)
}

pub(super) fn run(size: &Size) -> Result<()> {
    memory(size)?;
    by_listeners(size)?;
    by_matches(size)
}

/// The sets of the node's benchmark, and others that share less, as exact heap bytes.
fn memory(size: &Size) -> Result<()> {
    println!("bytes of heap for each (client, address), of that the address table's:");
    let sets: Vec<Vec<u32>> = size.sets.ranges().map(Iterator::collect).collect();
    let worst = bytes_a_pair("the benchmark's monitors and wallets", &sets)?;
    println!("bar subs_engine_bytes {worst:.1} B/pair <= 16");
    // Wallets over an existing ledger, so that their ids are far apart.
    let mut rng = StdRng::seed_from_u64(1);
    let scattered = |rng: &mut StdRng, clients: usize, of: u32| -> Vec<Vec<u32>> {
        let set = |rng: &mut StdRng| (0..WALLET).map(|_| rng.random_range(0..of)).collect();
        (0..clients).map(|_| set(rng)).collect()
    };
    let clients = size.sets.clients * 4;
    let addresses = clients as u32 * WALLET;
    for (name, of) in [
        ("scattered, in one set each", addresses.saturating_mul(50)),
        ("scattered, in two sets each", addresses / 2),
        ("scattered, in ten sets each", addresses / 10),
    ] {
        let scattered_sets = scattered(&mut rng, clients, of);
        bytes_without_table(name, &scattered_sets, of.min(size.sets.addresses * 20))?;
    }
    // The monitors and wallets again, over a ledger of five times as many accounts.
    bytes_without_table("scattered, monitors and wallets", &sets, size.sets.addresses * 4)
}

/// The parts of the memory when each client has one of the sets.
fn account(sets: &[Vec<u32>]) -> Result<[(&'static str, f64); 4]> {
    let subs = test_subscriptions();
    let table = Arc::new(AddressTable::new(1 << 26, 1));
    let empty = table.bytes();
    let before = heap::now();
    let clients = (0..).zip(sets).map(|(n, set)| subscribed(&subs, &table, n, set.iter().copied()));
    let clients: Vec<Client> = clients.collect::<Result<_>>()?;
    let all = heap::now() - before;
    let addresses = table.bytes() - empty;
    let bytes = subs.memory_usage();
    drop(clients);
    let rest = all as f64 - (addresses + bytes.index + bytes.sets) as f64;
    Ok([
        ("addresses", addresses as f64),
        ("index from addresses to subscriptions", bytes.index as f64),
        ("sets", bytes.sets as f64),
        ("subscriptions and queues", rest),
    ])
}

/// All included, the address table too.
fn bytes_a_pair(name: &str, sets: &[Vec<u32>]) -> Result<f64> {
    let subs = test_subscriptions();
    let table = Arc::new(AddressTable::new(1 << 26, 1));
    let pairs: usize = sets.iter().map(Vec::len).sum();
    let before = heap::now();
    let clients = (0..).zip(sets).map(|(n, set)| subscribed(&subs, &table, n, set.iter().copied()));
    let clients: Vec<Client> = clients.collect::<Result<_>>()?;
    let all = (heap::now() - before) as f64 / pairs as f64;
    let parts = account(sets)?.map(|(name, bytes)| format!("{name} {:.2}", bytes / pairs as f64));
    println!("  {name}: {pairs} pairs, {all:.1}: {}", parts.join(", "));
    drop(clients);
    ensure!(subs.is_idle() && table.is_empty(), "nothing is left");
    Ok(all)
}

/// Measures over a table that has the addresses already, and `known` others between them, like that of a running
/// ledger.
fn bytes_without_table(name: &str, sets: &[Vec<u32>], known: u32) -> Result<()> {
    let subs = test_subscriptions();
    let table = Arc::new(AddressTable::new(1 << 28, 1));
    let mut numbers: Vec<u32> = sets.iter().flatten().copied().collect();
    numbers.sort_unstable();
    numbers.dedup();
    let unique = numbers.len();
    // Ids far apart, in no order, as if the rest of the ledger were between them.
    let gap = (known as usize / unique.max(1)).min(16);
    numbers.shuffle(&mut StdRng::seed_from_u64(2));
    let mut known = Vec::with_capacity(unique * (gap + 1));
    for (at, n) in numbers.iter().enumerate() {
        known.push(table.retain(&Address::from(address_of(*n)))?);
        for between in 0..gap {
            let filler = u32::MAX - (at * gap + between) as u32;
            known.push(table.retain(&Address::from(address_of(filler)))?);
        }
    }
    let before = heap::now();
    let clients = (0..).zip(sets).map(|(n, set)| subscribed(&subs, &table, n, set.iter().copied()));
    let clients: Vec<Client> = clients.collect::<Result<_>>()?;
    let pairs = subs.stats().tracked_pairs;
    let all = (heap::now() - before) as f64 / pairs as f64;
    println!("  {name}: {pairs} pairs of {unique} addresses, {all:.1} besides the table");
    let name = name.replace([',', ' '], "_");
    println!("bar subs_{name}_bytes {all:.1} B/pair <= 12");
    drop(clients);
    ensure!(subs.is_idle(), "nothing is left");
    Ok(())
}

/// One engine with its listeners, to which blocks are published.
struct PublishBench {
    subs: TestSubscriptions,
    clients: Vec<Client>,
    table: Arc<AddressTable>,
    account: AccountSharedData,
    step: u64,
}

impl PublishBench {
    /// `listeners` listeners with a wallet each, no two with the same address.
    fn with_listeners(listeners: u32) -> Result<Self> {
        let subs = test_subscriptions();
        let table = Arc::new(AddressTable::new(1 << 26, 1));
        let clients = (0..listeners)
            .map(|n| subscribed(&subs, &table, n, n * WALLET..(n + 1) * WALLET))
            .collect::<Result<_>>()?;
        let account = AccountSharedData::new(1_000_000, 100, &Pubkey::new_unique());
        // No listener has a notification yet, so any number is later than its start.
        Ok(Self { subs, clients, table, account, step: 1_000 })
    }

    fn id(&self, number: u32) -> Option<u32> {
        Some(self.table.lookup(&Address::from(address_of(number)))?.0)
    }

    /// One block: finds the matches, creates a message for each, and queues it. Returns the microseconds of this
    /// thread's CPU time. The queues are emptied after that.
    fn block(&mut self, touched: &[u32]) -> f64 {
        let encoding = Encoding { form: UiAccountEncoding::Base64, slice: None };
        let message = || {
            let pubkey = Pubkey::new_unique();
            let account = encoding.encode(&pubkey, &self.account, |_| None);
            let value = json!({ "pubkey": pubkey.to_string(), "account": account });
            Body(value.to_string().into())
        };
        self.step += 1;
        let started = ThreadTime::now();
        let items = touched.iter().map(|id| (*id, *id));
        let found = self.subs.matches().matching_sets(TOPIC, FACET, self.step, items);
        let messages = found.into_iter().map(|(matched, _)| Publication {
            subscription: matched.id,
            body: message(),
            bytes: 300,
            at: Position(self.step),
            after_delivery: AfterDelivery::Continue,
        });
        self.subs.deliver(messages);
        let took = started.elapsed();
        if self.step.is_multiple_of(DRAIN_INTERVAL_BLOCKS) {
            let all = self.clients.iter();
            all.for_each(|client| while matches!(client.next(), Next::Message(_)) {});
        }
        took.as_secs_f64() * 1e6
    }
}

/// The same number of matches for each number of listeners. If there are more listeners than matches, each block
/// matches others of them, so that none is in the caches from the last block. Blocks of the two sizes alternate.
fn by_listeners(size: &Size) -> Result<()> {
    println!("a block of {MATCHES} matches, by listeners of {WALLET} addresses, in CPU time:");
    let mut all: Vec<(u32, PublishBench, Vec<f64>)> = Vec::new();
    for listeners in size.listeners {
        all.push((listeners, PublishBench::with_listeners(listeners)?, Vec::new()));
    }
    let mut rng = StdRng::seed_from_u64(3);
    for _ in 0..BLOCKS {
        for (listeners, published, times) in &mut all {
            // With few listeners several addresses each.
            let each = (MATCHES as u32).div_ceil(*listeners);
            let mut owners: Vec<u32> = (0..*listeners).collect();
            let (owners, _) = owners.partial_shuffle(&mut rng, MATCHES);
            let numbers = owners.iter().flat_map(|n| (0..each).map(move |k| (n * WALLET, k)));
            let numbers: Vec<u32> = numbers
                .take(MATCHES)
                .map(|(first, k)| first + (rng.random_range(0..WALLET / each) * each + k) % WALLET)
                .collect();
            let touched: Vec<u32> = numbers.iter().filter_map(|n| published.id(*n)).collect();
            ensure!(touched.len() == MATCHES, "{} of {MATCHES}", touched.len());
            times.push(published.block(&touched));
        }
    }
    let micros: Vec<f64> = all
        .into_iter()
        .map(|(listeners, _, times)| {
            let took = median(times);
            println!("  {listeners:>6} listeners: {took:.1} us");
            took
        })
        .collect();
    let ratio = micros[micros.len() - 1] / micros[micros.len() - 2];
    println!("bar subs_publish_by_listeners {ratio:.2} x <= 1.2");
    Ok(())
}

fn by_matches(size: &Size) -> Result<()> {
    println!("a block, by its matches:");
    let listeners = size.listeners[size.listeners.len() - 1];
    let mut published = PublishBench::with_listeners(listeners)?;
    for matches in [0, 10, 100, 1_000] {
        let matches: u32 = listeners.min(matches);
        // As many without a subscription.
        let numbers = (0..matches).map(|n| n * WALLET).chain((0..1_000).map(|n| u32::MAX / 2 + n));
        let touched: Vec<u32> = numbers.map(|n| published.id(n).unwrap_or(u32::MAX - 1)).collect();
        let took = median((0..BLOCKS).map(|_| published.block(&touched)).collect());
        println!("  {matches:>6} matches among {} addresses: {took:.1} us", touched.len());
    }
    Ok(())
}
