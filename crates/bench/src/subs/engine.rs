//! The engine alone: bytes for each (client, address), and what a block costs by its matches and by
//! its listeners.

use std::sync::Arc;

use address::AddressTable;
use anyhow::{Result, ensure};
use ledger::{Address, BlockId, Commitment, Facet};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde_json::json;
use solana::Encoding;
use solana_account::AccountSharedData;
use solana_account_decoder_client_types::UiAccountEncoding;
use solana_pubkey::Pubkey;
use subs::{
    AddressSet, From, GoOn, Limits, Listener, Message, Next, Outgoing, Position, Subs, Then, Topic,
    WhenSlow, Wish,
};

use super::{Size, address_of, set_of};
use crate::index::heap;
use crate::now;

const TOPIC: Topic = Topic(0);
const FACET: Facet = Facet(0);
/// Matches of a measured block.
const MATCHES: usize = 100;
/// Addresses of each listener whose number does not matter.
const WALLET: u32 = 800;
/// Blocks of one measurement.
const BLOCKS: usize = 200;

#[derive(Clone)]
struct Body(#[expect(dead_code, reason = "nobody reads it here")] Arc<str>);

impl Message for Body {
    type Kept = ();

    fn conflate(self, (): &mut ()) -> usize {
        0
    }
}

type Engine = Subs<u32, Body, Vec<u32>>;
type Client = Listener<u32, Body, Vec<u32>>;

fn engine() -> Engine {
    let subs = Engine::new(Limits {
        listeners_max: 1 << 20,
        subscriptions_max: 1 << 20,
        subscriptions_per_listener_max: 10,
        tracked_max: 1 << 27,
        tracked_per_listener_max: 1 << 27,
        lane_ids_laid_out: 0,
        steps_kept: 4,
        unrooted_max: 1 << 20,
        queue_messages_max: 1 << 20,
        queue_bytes_max: 1 << 30,
    });
    subs.begin(|_| BlockId { slot: 0, bank: 0 });
    subs
}

fn subscribed(
    subs: &Engine,
    table: &Arc<AddressTable>,
    identity: u32,
    addresses: impl Iterator<Item = u32>,
) -> Result<Client> {
    let listener = subs.listen(|| ())?;
    let set = AddressSet::register(table, addresses.map(|n| Address::from(address_of(n))))?;
    let when_slow = WhenSlow::Close;
    let part = listener.track(Wish { identity, topic: TOPIC, facet: FACET, set, when_slow })?;
    let Some(tip) = subs.tip(Commitment::Processed) else { unreachable!("it began") };
    let gone = listener.go_on(part, Commitment::Processed, From::Block(tip));
    ensure!(matches!(gone, GoOn::Live), "the tip is the present");
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
    let sets: Vec<Vec<u32>> =
        (0..size.clients).map(|client| set_of(size, client).collect()).collect();
    let worst = bytes_a_pair("the benchmark's monitors and wallets", &sets)?;
    println!("bar subs_engine_bytes {worst:.1} B/pair <= 16");
    // Wallets over a ledger that is there already, so that their numbers are far apart.
    let mut rng = StdRng::seed_from_u64(1);
    let scattered = |rng: &mut StdRng, clients: usize, of: u32| -> Vec<Vec<u32>> {
        let set = |rng: &mut StdRng| (0..WALLET).map(|_| rng.random_range(0..of)).collect();
        (0..clients).map(|_| set(rng)).collect()
    };
    let clients = size.clients * 4;
    let addresses = clients as u32 * WALLET;
    for (name, of) in [
        ("scattered, in one set each", addresses.saturating_mul(50)),
        ("scattered, in two sets each", addresses / 2),
        ("scattered, in ten sets each", addresses / 10),
    ] {
        let sets = scattered(&mut rng, clients, of);
        let pairs = beside_the_table(name, &sets, of.min(size.addresses * 20))?;
        println!("bar subs_{}_bytes {pairs:.1} B/pair <= 16", name.replace([',', ' '], "_"));
    }
    Ok(())
}

/// All included, the address table too.
fn bytes_a_pair(name: &str, sets: &[Vec<u32>]) -> Result<f64> {
    let subs = engine();
    let table = Arc::new(AddressTable::new(1 << 26, 1));
    let pairs: usize = sets.iter().map(Vec::len).sum();
    let before = heap::now();
    let held: Vec<AddressSet> = sets
        .iter()
        .map(|set| AddressSet::register(&table, set.iter().map(|n| Address::from(address_of(*n)))))
        .collect::<Result<_, _>>()?;
    let in_sets = heap::now() - before;
    drop(held);
    let table = Arc::new(AddressTable::new(1 << 26, 1));
    let before = heap::now();
    let clients = (0..).zip(sets).map(|(n, set)| subscribed(&subs, &table, n, set.iter().copied()));
    let clients: Vec<Client> = clients.collect::<Result<_>>()?;
    let all = (heap::now() - before) as f64 / pairs as f64;
    let rest = all - in_sets as f64 / pairs as f64;
    println!(
        "  {name}: {pairs} pairs, {all:.1}; beside the table and the sets themselves {rest:.1}"
    );
    drop(clients);
    ensure!(subs.is_idle() && table.is_empty(), "nothing is left");
    Ok(all)
}

/// Over a table that has the addresses already, as that of a running ledger.
fn beside_the_table(name: &str, sets: &[Vec<u32>], known: u32) -> Result<f64> {
    let subs = engine();
    let table = Arc::new(AddressTable::new(1 << 28, 1));
    let mut numbers: Vec<u32> = sets.iter().flatten().copied().collect();
    numbers.sort_unstable();
    numbers.dedup();
    let unique = numbers.len();
    // Numbers far apart, in no order: as if the rest of the ledger were between them.
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
    let pairs = subs.counts().tracked;
    let all = (heap::now() - before) as f64 / pairs as f64;
    println!("  {name}: {pairs} pairs of {unique} addresses, {all:.1} beside the table");
    drop(clients);
    ensure!(subs.is_idle(), "nothing is left");
    Ok(all)
}

/// One step over and over: who wants what, a message made for each, into the queues.
fn publish(subs: &Engine, clients: &[Client], touched: &[u32]) -> f64 {
    let account = AccountSharedData::new(1_000_000, 100, &Pubkey::new_unique());
    let encoding = Encoding { form: UiAccountEncoding::Base64, slice: None };
    let message = || {
        let pubkey = Pubkey::new_unique();
        let account = encoding.encode(&pubkey, &account, |_| None);
        let value = json!({ "pubkey": pubkey.to_string(), "account": account });
        Body(value.to_string().into())
    };
    let times = (0..BLOCKS).map(|round| {
        let started = now();
        let things = touched.iter().map(|id| (*id, *id));
        // Each listener has heard of nothing yet, so any number is later than its start.
        let step = 1_000 + round as u64;
        let found = subs.matches().tracking(TOPIC, FACET, step, things);
        let messages = found.into_iter().map(|(wanted, _)| Outgoing {
            subscription: wanted.id,
            body: message(),
            bytes: 300,
            at: Position(step),
            then: Then::Stays,
        });
        subs.deliver(messages);
        let took = started.elapsed();
        if round % 20 == 0 {
            clients.iter().for_each(|client| while matches!(client.next(), Next::Message(_)) {});
        }
        took.as_secs_f64() * 1e6
    });
    // What others do on the machine only ever adds to it.
    least_tenth(times.collect())
}

/// The time below which a tenth of all are.
fn least_tenth(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 10).copied().unwrap_or(f64::NAN)
}

/// The same number of matches, whatever the listeners: the first hundred have one touched address each.
fn by_listeners(size: &Size) -> Result<()> {
    println!("a block of {MATCHES} matches, by listeners of {WALLET} addresses:");
    let mut micros = Vec::new();
    for listeners in size.listeners {
        let subs = engine();
        let table = Arc::new(AddressTable::new(1 << 26, 1));
        let clients: Vec<Client> = (0..listeners)
            .map(|n| subscribed(&subs, &table, n, n * WALLET..(n + 1) * WALLET))
            .collect::<Result<_>>()?;
        // Spread over all of them; where there are fewer, several addresses of each.
        let each = (MATCHES as u32).div_ceil(listeners);
        let step = (listeners / MATCHES as u32).max(1);
        let touched: Vec<u32> = (0..listeners)
            .step_by(step as usize)
            .flat_map(|n| (0..each).map(move |k| n * WALLET + k * 7))
            .take(MATCHES)
            .filter_map(|n| Some(table.lookup(&Address::from(address_of(n)))?.0))
            .collect();
        ensure!(touched.len() == MATCHES, "{} of {MATCHES}", touched.len());
        let took = publish(&subs, &clients, &touched);
        println!("  {listeners:>6} listeners: {took:.1} us");
        micros.push(took);
    }
    let ratio = micros[micros.len() - 1] / micros[micros.len() - 2];
    println!("bar subs_publish_by_listeners {ratio:.2} x <= 1.2");
    Ok(())
}

fn by_matches(size: &Size) -> Result<()> {
    println!("a block, by its matches:");
    let listeners = size.listeners[size.listeners.len() - 1];
    let subs = engine();
    let table = Arc::new(AddressTable::new(1 << 26, 1));
    let clients: Vec<Client> = (0..listeners)
        .map(|n| subscribed(&subs, &table, n, n * WALLET..(n + 1) * WALLET))
        .collect::<Result<_>>()?;
    for matches in [0, 10, 100, 1_000] {
        let matches: u32 = listeners.min(matches);
        // As many that nobody wants.
        let numbers = (0..matches).map(|n| n * WALLET).chain((0..1_000).map(|n| u32::MAX / 2 + n));
        let ids = numbers.map(|n| table.lookup(&Address::from(address_of(n))));
        let touched: Vec<u32> = ids.map(|id| id.map_or(u32::MAX - 1, |id| id.0)).collect();
        let took = publish(&subs, &clients, &touched);
        println!("  {matches:>6} matches among {} addresses: {took:.1} us", touched.len());
    }
    Ok(())
}
