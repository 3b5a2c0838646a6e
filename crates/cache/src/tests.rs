//! The cache against a model: after any writes, and with any order of fills, a returned value equals the value that
//! would be computed at that version.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use fastrand::Rng;

use crate::single_flight::LEADERS_MAX;
use crate::{
    Cache, CacheReader, Config, Counters, Entry, FillGuard, FillStart, FillTicket, Lookup,
    OnFilled, WaitGuard, Weight,
};

/// Maximum waiters in the model.
const WAITERS_MAX: usize = 8;

/// The values of the cells that a request reads.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CellValues(Vec<u64>);

impl Weight for CellValues {
    fn bytes(&self) -> u64 {
        8 * self.0.len() as u64
    }
}

/// Cells, each with its value and the version of its last write.
#[derive(Default)]
struct Cells {
    now: u64,
    cells: HashMap<u64, (u64, u64)>,
}

impl Cells {
    fn write(&mut self, cell: u64, value: u64) {
        self.now += 1;
        self.cells.insert(cell, (value, self.now));
    }

    fn changed_at(&self, cell: u64) -> u64 {
        self.cells.get(&cell).map_or(0, |(_, at)| *at)
    }

    /// Returns the result of the request `key`: the cells from `key` on.
    fn compute(&self, key: u8) -> (CellValues, Box<[u64]>) {
        let read: Vec<u64> = (u64::from(key)..).take(1 + usize::from(key) % 3).collect();
        let values = read.iter().map(|cell| self.cells.get(cell).map_or(0, |(value, _)| *value));
        (CellValues(values.collect()), read.into())
    }
}

/// A running fill: started at one version, computed at another, completed at a third.
struct PendingFill {
    key: u8,
    fill: FillGuard<CellValues>,
    started_at: u64,
    computed: Option<(CellValues, Box<[u64]>)>,
}

type FilledReceiver = Receiver<Option<Arc<Entry<CellValues>>>>;

/// Returns a callback, and the receiver of its argument.
fn filled_channel() -> (OnFilled<CellValues>, FilledReceiver) {
    let (sender, filled) = sync_channel(1);
    (Box::new(move |entry| sender.send(entry).expect("room for one")), filled)
}

#[test]
fn no_cached_value_is_ever_stale() {
    let mut served = 0;
    for seed in 1..=200_u64 {
        served += run(seed);
    }
    assert!(served > 100_000, "{served} values from the cache");
}

/// All callers of the cache: fills, tickets and waiters.
#[derive(Default)]
struct World {
    cells: Cells,
    /// The key, the client and the ticket.
    tickets: Vec<(u8, u128, FillTicket<CellValues>)>,
    fills: Vec<PendingFill>,
    /// The client is set if the waiter has no task to compute the value.
    waiters: Vec<(u8, Option<u128>, FilledReceiver, WaitGuard<CellValues>)>,
    served: u64,
}

fn run(seed: u64) -> u64 {
    let mut random = Rng::with_seed(seed);
    let config = Config { bytes_max: 20_000, entry_bytes_max: 16, waiters_max: WAITERS_MAX };
    let cache = Cache::new(config);
    let mut world = World::default();
    for _ in 0..3_000 {
        match random.u64(..12) {
            0 => world.cells.write(random.u64(..40), random.u64(..1_000)),
            1 | 2 if !world.fills.is_empty() => {
                let at = random.usize(..world.fills.len());
                advance_fill(&mut world.fills, at, &world.cells, &mut random);
            }
            3 | 4 if !world.tickets.is_empty() => {
                let (key, _, ticket) =
                    world.tickets.swap_remove(random.usize(..world.tickets.len()));
                if random.u8(..5) > 0 {
                    world.start_fill(&cache, key, Some(ticket), random.bool());
                }
            }
            5 if !world.waiters.is_empty() && random.bool() => {
                world.waiters.swap_remove(random.usize(..world.waiters.len()));
            }
            6 => world.start_fill(&cache, random.u8(..30), None, random.bool()),
            _ => world.lookup(&cache, random.u8(..30), random.u128(..12)),
        }
        world.poll_waiters();
        let counters = cache.counters();
        assert!(counters.bytes <= config.bytes_max, "{counters:?}");
        assert!(world.waiters.len() <= config.waiters_max);
    }
    drop((world.fills, world.tickets));
    let mut filled = world.waiters.iter().map(|(_, _, filled, _)| filled.try_recv());
    assert!(filled.all(|filled| matches!(filled, Ok(None))), "no waiter waits forever");
    world.served
}

impl World {
    fn lookup(&mut self, cache: &Cache<CellValues>, key: u8, client: u128) {
        let now = self.cells.now;
        let changed_at = |cell| self.cells.changed_at(cell);
        let before = cache.counters().hits;
        let hit = cache.peek(&[key], now, changed_at).is_some();
        assert_eq!(cache.counters().hits, before);
        let (on_filled, filled) = filled_channel();
        let found =
            cache.lookup(&[key], CacheReader { client, version: now }, changed_at, || on_filled);
        assert_eq!(hit, matches!(found, Lookup::Hit(_)));
        let is_filling = self.fills.iter().any(|pending| pending.key == key);
        match found {
            Lookup::Hit(entry) => self.check_hit(key, &entry),
            Lookup::Ticket(ticket) => {
                assert!(!is_filling, "a fill is running");
                self.tickets.push((key, client, ticket));
            }
            Lookup::Wait(guard) => {
                let tickets = self.tickets.iter().filter(|(of, ..)| *of == key);
                let mut owners = tickets.map(|(_, owner, _)| *owner);
                let is_waited_for =
                    owners.clone().count() == LEADERS_MAX || owners.any(|it| it == client);
                assert!(is_filling || is_waited_for, "a client waits for another client's ticket");
                self.waiters.push((key, Some(client), filled, guard));
            }
            Lookup::Bypass => {
                self.poll_waiters();
                let waits = self.waiters.iter().filter(|(_, waits, ..)| *waits == Some(client));
                let left = WAITERS_MAX - self.waiters.len();
                assert!(key % 3 == 2 || waits.count() >= left, "{left} more may wait");
            }
        }
    }

    fn start_fill(
        &mut self,
        cache: &Cache<CellValues>,
        key: u8,
        ticket: Option<FillTicket<CellValues>>,
        waits: bool,
    ) {
        let now = self.cells.now;
        let changed_at = |cell| self.cells.changed_at(cell);
        let (on_filled, filled) = filled_channel();
        match cache.start_fill(&[key], ticket, now, changed_at, || waits.then_some(on_filled)) {
            FillStart::Hit(entry) => self.check_hit(key, &entry),
            FillStart::Fill(fill) => {
                let is_filling = self.fills.iter().any(|pending| pending.key == key);
                assert!(!is_filling, "two fills of one key");
                self.fills.push(PendingFill { key, fill, started_at: now, computed: None });
            }
            FillStart::Wait(guard) => self.waiters.push((key, None, filled, guard)),
            FillStart::Bypass => self.check_bypass(key, waits),
        }
        self.poll_waiters();
    }

    fn check_hit(&mut self, key: u8, entry: &Entry<CellValues>) {
        assert_eq!(entry.value, Some(self.cells.compute(key).0));
        self.served += 1;
    }

    /// Checks that a bypass happens only if the value is too large or the maximum of waiters wait: waiters that left
    /// do not count.
    fn check_bypass(&mut self, key: u8, waits: bool) {
        self.poll_waiters();
        let waiting = self.waiters.len();
        assert!(!waits || key % 3 == 2 || waiting == WAITERS_MAX, "{waiting}");
    }

    fn poll_waiters(&mut self) {
        let Self { cells, waiters, served, .. } = self;
        waiters.retain(|(key, _, filled, _)| match filled.try_recv() {
            Ok(Some(entry)) if entry.is_valid_at(cells.now, |cell| cells.changed_at(cell)) => {
                let fresh = cells.compute(*key).0;
                assert!(entry.value.as_ref().is_none_or(|value| *value == fresh));
                *served += 1;
                false
            }
            Ok(_) => false,
            Err(_) => true,
        });
    }
}

/// Computes the value, or completes the fill, or drops it.
fn advance_fill(pending: &mut Vec<PendingFill>, at: usize, cells: &Cells, random: &mut Rng) {
    if pending[at].computed.is_none() && random.u64(..5) > 0 {
        pending[at].computed = Some(cells.compute(pending[at].key));
        return;
    }
    let PendingFill { fill, started_at, computed, .. } = pending.swap_remove(at);
    let Some((value, computed)) = computed else { return };
    let value = (value.bytes() <= fill.bytes_max()).then_some(value);
    fill.complete(Entry { value, valid_at: started_at, dependencies: computed });
}

fn cache(waiters_max: usize) -> Cache<CellValues> {
    Cache::new(Config { bytes_max: 1 << 20, entry_bytes_max: 1 << 10, waiters_max })
}

fn lookup(cache: &Cache<CellValues>, client: u128) -> (Lookup<CellValues>, FilledReceiver) {
    let (on_filled, filled) = filled_channel();
    (cache.lookup(b"key", CacheReader { client, version: 0 }, |_| 0, || on_filled), filled)
}

fn start_fill(
    cache: &Cache<CellValues>,
    ticket: Option<FillTicket<CellValues>>,
) -> (FillStart<CellValues>, FilledReceiver) {
    let (on_filled, filled) = filled_channel();
    (cache.start_fill(b"key", ticket, 0, |_| 0, || Some(on_filled)), filled)
}

fn ticket(cache: &Cache<CellValues>, client: u128) -> FillTicket<CellValues> {
    match lookup(cache, client).0 {
        Lookup::Ticket(ticket) => ticket,
        _ => panic!("no fill is running"),
    }
}

fn sample_entry() -> Entry<CellValues> {
    Entry { value: Some(CellValues(vec![1])), valid_at: 0, dependencies: Box::default() }
}

#[test]
fn one_client_fills_and_the_others_wait_for_it() {
    let cache = cache(2);
    let ticket = ticket(&cache, 1);
    let (Lookup::Wait(_waits), filled) = lookup(&cache, 1) else {
        panic!("the client has a ticket")
    };
    let FillStart::Fill(fill) = start_fill(&cache, Some(ticket)).0 else {
        panic!("the ticket fills")
    };
    let (Lookup::Wait(_waits_too), filled_too) = lookup(&cache, 2) else {
        panic!("a fill is running")
    };
    assert!(matches!(lookup(&cache, 3).0, Lookup::Bypass), "two are waiting");
    fill.complete(sample_entry());
    assert!([filled, filled_too].iter().all(|filled| matches!(filled.try_recv(), Ok(Some(_)))));
    assert!(matches!(lookup(&cache, 3).0, Lookup::Hit(_)));
    let counters = cache.counters();
    assert_eq!((counters.misses, counters.coalesced, counters.hits), (4, 2, 1));
    assert_eq!((counters.bypassed, counters.entries), (1, 1));
}

#[test]
fn the_first_scheduled_ticket_fills_and_no_client_waits_for_another_clients_ticket() {
    let cache = cache(9);
    let first = ticket(&cache, 1);
    let second = ticket(&cache, 2);
    let FillStart::Fill(fill) = start_fill(&cache, Some(second)).0 else {
        panic!("no fill is running")
    };
    let (FillStart::Wait(_waits), filled) = start_fill(&cache, Some(first)) else {
        panic!("a fill is running")
    };
    fill.complete(sample_entry());
    assert!(matches!(filled.try_recv(), Ok(Some(_))));
    assert_eq!(cache.counters().coalesced, 1);
}

#[test]
fn a_dropped_ticket_notifies_its_clients_waiters() {
    let cache = cache(9);
    let first = ticket(&cache, 1);
    let second = ticket(&cache, 2);
    let (Lookup::Wait(_waits), filled) = lookup(&cache, 1) else {
        panic!("the client has a ticket")
    };
    let (Lookup::Wait(_waits_too), filled_too) = lookup(&cache, 2) else {
        panic!("the client has a ticket")
    };
    drop(first);
    assert!(matches!(filled.try_recv(), Ok(None)) && filled_too.try_recv().is_err());
    let FillStart::Fill(_fill) = start_fill(&cache, Some(second)).0 else {
        panic!("no fill is running")
    };
    drop(ticket_for_another_key(&cache));
    assert!(filled_too.try_recv().is_err(), "the fill is running");
}

#[test]
fn a_flight_has_few_tickets_and_later_clients_wait_for_one() {
    let cache = cache(1_000);
    let mut tickets: Vec<_> =
        (0..LEADERS_MAX as u128).map(|client| ticket(&cache, client)).collect();
    let mut waits: Vec<_> = (100..100 + 4 * LEADERS_MAX as u128)
        .map(|client| match lookup(&cache, client) {
            (Lookup::Wait(guard), filled) => (client, guard, filled),
            _ => panic!("all tickets are taken"),
        })
        .collect();
    // A dropped ticket notifies the clients that waited for it, and one of them gets the next ticket.
    drop(tickets.remove(3));
    let notified = waits.extract_if(.., |(_, _, filled)| matches!(filled.try_recv(), Ok(None)));
    let notified: Vec<_> = notified.map(|(client, ..)| client).collect();
    assert_eq!(notified.len(), 4, "a share of them");
    tickets.push(ticket(&cache, notified[0]));
    let (Lookup::Wait(_guard), again) = lookup(&cache, notified[1]) else {
        panic!("all tickets are taken again")
    };
    // Any ticket may fill for all.
    let FillStart::Fill(fill) = start_fill(&cache, tickets.pop()).0 else {
        panic!("no fill is running")
    };
    drop(tickets);
    assert!(waits.iter().all(|(_, _, filled)| filled.try_recv().is_err()), "the fill is running");
    fill.complete(sample_entry());
    assert!(waits.iter().all(|(_, _, filled)| matches!(filled.try_recv(), Ok(Some(_)))));
    assert!(matches!(again.try_recv(), Ok(Some(_))));
    assert_eq!(cache.0.single_flight.lock().waiter_counts(), (0, 0));
}

#[test]
fn one_clients_many_waiters_leave_capacity_to_others() {
    let cache = cache(64);
    let FillStart::Fill(fill) = start_fill(&cache, None).0 else {
        panic!("the first client fills")
    };
    let waits = |client: u128| {
        let waiters = std::iter::from_fn(|| match lookup(&cache, client) {
            (Lookup::Wait(guard), filled) => Some((guard, filled)),
            _ => None,
        });
        waiters.collect::<Vec<_>>()
    };
    let mut all: Vec<_> = (1..=4).map(waits).collect();
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [32, 16, 8, 4]);
    // A waiter that leaves frees its capacity.
    drop(all.remove(0));
    assert_eq!(waits(1).len(), 18, "half of what the others leave");
    fill.complete(sample_entry());
    assert_eq!(cache.0.single_flight.lock().waiter_counts(), (0, 0));
}

fn ticket_for_another_key(cache: &Cache<CellValues>) -> FillTicket<CellValues> {
    match cache.lookup(
        b"other",
        CacheReader { client: 2, version: 0 },
        |_| 0,
        || filled_channel().0,
    ) {
        Lookup::Ticket(ticket) => ticket,
        _ => panic!("no fill is running"),
    }
}

#[test]
fn a_dropped_waiter_is_no_longer_counted() {
    let cache = cache(4);
    let ticket = ticket(&cache, 1);
    for _ in 0..100 {
        assert!(matches!(lookup(&cache, 1).0, Lookup::Wait(_)), "all before have left");
    }
    let stays = lookup(&cache, 1).0;
    let leaves = lookup(&cache, 1).0;
    assert!(matches!(lookup(&cache, 1).0, Lookup::Bypass));
    drop(leaves);
    assert!(matches!(lookup(&cache, 1).0, Lookup::Wait(_)));
    drop((stays, ticket));
    assert!(matches!(lookup(&cache, 1).0, Lookup::Ticket(_)), "and nothing is left");
}

#[test]
fn a_cache_without_bytes_bypasses_every_request() {
    let cache =
        Cache::<CellValues>::new(Config { bytes_max: 0, entry_bytes_max: 0, waiters_max: 2 });
    for _ in 0..2 {
        assert!(matches!(lookup(&cache, 1).0, Lookup::Bypass));
    }
    assert!(matches!(start_fill(&cache, None).0, FillStart::Bypass));
    assert_eq!(cache.counters().bypassed, 3);
}

#[test]
fn an_aborted_fill_lets_the_next_client_fill() {
    let cache = cache(2);
    let FillStart::Fill(fill) = start_fill(&cache, None).0 else {
        panic!("the first client fills")
    };
    let (Lookup::Wait(_waits), filled) = lookup(&cache, 1) else { panic!("a fill is running") };
    drop(fill);
    assert!(matches!(filled.try_recv(), Ok(None)));
    assert!(matches!(start_fill(&cache, None).0, FillStart::Fill(_)));
}

#[test]
fn a_completed_value_that_is_too_large_is_remembered_as_such() {
    let cache = cache(2);
    let FillStart::Fill(fill) = start_fill(&cache, None).0 else { panic!("no fill is running") };
    let (Lookup::Wait(_waits), filled) = lookup(&cache, 1) else { panic!("a fill is running") };
    let value = Some(CellValues(vec![7; 129]));
    fill.complete(Entry { value, valid_at: 0, dependencies: Box::default() });
    let filled = filled.try_recv();
    assert!(matches!(filled, Ok(Some(entry)) if entry.value.is_some()), "the waiter has the value");
    assert!(matches!(lookup(&cache, 1).0, Lookup::Bypass));
    assert!(matches!(start_fill(&cache, None).0, FillStart::Bypass));
    assert!(cache.counters().bytes < 1_000, "the value is not cached");
}

#[test]
fn stale_entries_free_their_bytes_and_the_least_used_are_evicted_on_demand() {
    let cache = cache(2);
    let insert = |key: u8| {
        let started = cache.start_fill(&[key], None, 1, |_| 1, || None);
        let FillStart::Fill(fill) = started else { panic!("the key is not cached") };
        let value = Some(CellValues(vec![7; 100]));
        fill.complete(Entry { value, valid_at: 1, dependencies: [0].into() });
    };
    let check_content = || {
        let Counters { entries, bytes, .. } = cache.counters();
        assert_eq!(cache.content_bytes(), 800 * entries);
        assert!(cache.content_bytes() < bytes, "without keys and records");
    };
    (0..200).for_each(insert);
    check_content();
    let full = cache.counters();
    assert_eq!(full.entries, 200);
    let found =
        cache.lookup(&[0], CacheReader { client: 1, version: 2 }, |_| 2, || filled_channel().0);
    assert!(matches!(found, Lookup::Ticket(_)));
    assert_eq!(cache.counters().entries, 199, "the stale entry is removed");
    check_content();
    // A caller at an older version says nothing about newer values.
    let _older =
        cache.lookup(&[1], CacheReader { client: 1, version: 0 }, |_| 1, || filled_channel().0);
    assert_eq!(cache.counters().entries, 199);
    cache.evict_for(full.bytes / 4);
    check_content();
    let counters = cache.counters();
    assert!(counters.bytes < full.bytes * 3 / 4 && counters.bytes > full.bytes / 2, "{counters:?}");
    (200..255).for_each(insert);
    assert_eq!(cache.counters().entries, counters.entries + 55, "the capacity is as before");
    check_content();
}
