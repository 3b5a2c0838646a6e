//! The cache beside a model: whatever is written, and whoever makes an answer when, what is given out is
//! what would be made at that moment.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use fastrand::Rng;

use crate::single_flight::LEADERS_MAX;
use crate::{
    Cache, Config, Entry, FillGuard, FillStart, FillTicket, Lookup, OnFilled, WaitGuard, Weight,
};

/// So many may wait in the model.
const WAITERS_MAX: usize = 8;

/// The values that an answer was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CellValues(Vec<u64>);

impl Weight for CellValues {
    fn bytes(&self) -> u64 {
        8 * self.0.len() as u64
    }
}

/// Cells, each with its value and when it was written.
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

    /// What the request `key` is answered: the cells from it on.
    fn compute(&self, key: u8) -> (CellValues, Box<[u64]>) {
        let read: Vec<u64> = (u64::from(key)..).take(1 + usize::from(key) % 3).collect();
        let values = read.iter().map(|cell| self.cells.get(cell).map_or(0, |(value, _)| *value));
        (CellValues(values.collect()), read.into())
    }
}

/// An answer that is being made: begun at a moment, read at another, given at a third.
struct PendingFill {
    key: u8,
    fill: FillGuard<CellValues>,
    started_at: u64,
    computed: Option<(CellValues, Box<[u64]>)>,
}

type FilledReceiver = Receiver<Option<Arc<Entry<CellValues>>>>;

/// Where to be told, and how.
fn filled_channel() -> (OnFilled<CellValues>, FilledReceiver) {
    let (sender, told) = sync_channel(1);
    (Box::new(move |entry| sender.send(entry).expect("room for one")), told)
}

#[test]
fn no_cached_value_is_ever_stale() {
    let mut given = 0;
    for seed in 1..=200_u64 {
        given += run(seed);
    }
    assert!(given > 100_000, "{given} answers from the cache");
}

/// Everybody who is there.
#[derive(Default)]
struct World {
    cells: Cells,
    /// For which key, and whose.
    tickets: Vec<(u8, u128, FillTicket<CellValues>)>,
    fills: Vec<PendingFill>,
    /// And who waits, if he has nothing to make it with.
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
                let (key, _, turn) = world.tickets.swap_remove(random.usize(..world.tickets.len()));
                if random.u8(..5) > 0 {
                    world.start_fill(&cache, key, Some(turn), random.bool());
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
    let mut told = world.waiters.iter().map(|(_, _, told, _)| told.try_recv());
    assert!(told.all(|told| matches!(told, Ok(None))), "nobody waits for ever");
    world.served
}

impl World {
    fn lookup(&mut self, cache: &Cache<CellValues>, key: u8, who: u128) {
        let (now, changed_at) = (self.cells.now, |cell| self.cells.changed_at(cell));
        let before = cache.counters().hits;
        let hit = cache.peek(&[key], now, changed_at).is_some();
        assert_eq!(cache.counters().hits, before);
        let (tell, told) = filled_channel();
        let found = cache.lookup(&[key], (who, now), changed_at, || tell);
        assert_eq!(hit, matches!(found, Lookup::Hit(_)));
        let is_made = self.fills.iter().any(|making| making.key == key);
        match found {
            Lookup::Hit(entry) => self.check_hit(key, &entry),
            Lookup::Ticket(turn) => {
                assert!(!is_made, "somebody is at it");
                self.tickets.push((key, who, turn));
            }
            Lookup::Wait(waiting) => {
                let turns = self.tickets.iter().filter(|(of, ..)| *of == key);
                let mut whose = turns.map(|(_, whose, _)| *whose);
                let is_waited_for =
                    whose.clone().count() == LEADERS_MAX || whose.any(|it| it == who);
                assert!(is_made || is_waited_for, "who waits for another's turn?");
                self.waiters.push((key, Some(who), told, waiting));
            }
            Lookup::Bypass => {
                self.poll_waiters();
                let waits = self.waiters.iter().filter(|(_, waits, ..)| *waits == Some(who));
                let left = WAITERS_MAX - self.waiters.len();
                assert!(key % 3 == 2 || waits.count() >= left, "{left} places are left");
            }
        }
    }

    fn start_fill(
        &mut self,
        cache: &Cache<CellValues>,
        key: u8,
        turn: Option<FillTicket<CellValues>>,
        waits: bool,
    ) {
        let (now, changed_at) = (self.cells.now, |cell| self.cells.changed_at(cell));
        let (tell, told) = filled_channel();
        match cache.start_fill(&[key], turn, now, changed_at, || waits.then_some(tell)) {
            FillStart::Hit(entry) => self.check_hit(key, &entry),
            FillStart::Fill(fill) => {
                let is_made = self.fills.iter().any(|making| making.key == key);
                assert!(!is_made, "nobody makes what somebody is at");
                self.fills.push(PendingFill { key, fill, started_at: now, computed: None });
            }
            FillStart::Wait(waiting) => self.waiters.push((key, None, told, waiting)),
            FillStart::Bypass => self.check_bypass(key, waits),
        }
        self.poll_waiters();
    }

    fn check_hit(&mut self, key: u8, entry: &Entry<CellValues>) {
        assert_eq!(entry.value, Some(self.cells.compute(key).0));
        self.served += 1;
    }

    /// Only because it is too large, or because as many wait as may: whoever left counts no more.
    fn check_bypass(&mut self, key: u8, waits: bool) {
        self.poll_waiters();
        let waiting = self.waiters.len();
        assert!(!waits || key % 3 == 2 || waiting == WAITERS_MAX, "{waiting}");
    }

    fn poll_waiters(&mut self) {
        let Self { cells, waiters: waiting, served: given, .. } = self;
        waiting.retain(|(key, _, told, _)| match told.try_recv() {
            Ok(Some(entry)) if entry.is_valid_at(cells.now, |cell| cells.changed_at(cell)) => {
                let fresh = cells.compute(*key).0;
                assert!(entry.value.as_ref().is_none_or(|answer| *answer == fresh));
                *given += 1;
                false
            }
            Ok(_) => false,
            Err(_) => true,
        });
    }
}

/// Reads, or gives what was read, or gives up.
fn advance_fill(making: &mut Vec<PendingFill>, at: usize, cells: &Cells, random: &mut Rng) {
    if making[at].computed.is_none() && random.u64(..5) > 0 {
        making[at].computed = Some(cells.compute(making[at].key));
        return;
    }
    let PendingFill { fill, started_at: began_at, computed: read, .. } = making.swap_remove(at);
    let Some((answer, read)) = read else { return };
    let answer = (answer.bytes() <= fill.bytes_max()).then_some(answer);
    fill.complete(Entry { value: answer, valid_at: began_at, dependencies: read });
}

fn cache(waiters_max: usize) -> Cache<CellValues> {
    Cache::new(Config { bytes_max: 1 << 20, entry_bytes_max: 1 << 10, waiters_max })
}

fn lookup(cache: &Cache<CellValues>, who: u128) -> (Lookup<CellValues>, FilledReceiver) {
    let (tell, told) = filled_channel();
    (cache.lookup(b"key", (who, 0), |_| 0, || tell), told)
}

fn start_fill(
    cache: &Cache<CellValues>,
    turn: Option<FillTicket<CellValues>>,
) -> (FillStart<CellValues>, FilledReceiver) {
    let (tell, told) = filled_channel();
    (cache.start_fill(b"key", turn, 0, |_| 0, || Some(tell)), told)
}

fn ticket(cache: &Cache<CellValues>, who: u128) -> FillTicket<CellValues> {
    match lookup(cache, who).0 {
        Lookup::Ticket(turn) => turn,
        _ => panic!("nobody is at it"),
    }
}

fn sample_entry() -> Entry<CellValues> {
    Entry { value: Some(CellValues(vec![1])), valid_at: 0, dependencies: Box::default() }
}

#[test]
fn one_client_fills_and_the_others_wait_for_it() {
    let cache = cache(2);
    let turn = ticket(&cache, 1);
    let (Lookup::Wait(_waits), told) = lookup(&cache, 1) else { panic!("he has a turn") };
    let FillStart::Fill(fill) = start_fill(&cache, Some(turn)).0 else { panic!("he makes it") };
    let (Lookup::Wait(_waits_too), told_too) = lookup(&cache, 2) else { panic!("it is begun") };
    assert!(matches!(lookup(&cache, 3).0, Lookup::Bypass), "two wait");
    fill.complete(sample_entry());
    assert!([told, told_too].iter().all(|told| matches!(told.try_recv(), Ok(Some(_)))));
    assert!(matches!(lookup(&cache, 3).0, Lookup::Hit(_)));
    let counters = cache.counters();
    assert_eq!((counters.misses, counters.coalesced, counters.hits), (4, 2, 1));
    assert_eq!((counters.bypassed, counters.entries), (1, 1));
}

#[test]
fn the_first_scheduled_ticket_fills_and_no_client_waits_for_another_clients_ticket() {
    let cache = cache(9);
    let (first, second) = (ticket(&cache, 1), ticket(&cache, 2));
    let FillStart::Fill(fill) = start_fill(&cache, Some(second)).0 else {
        panic!("it is his turn")
    };
    let (FillStart::Wait(_waits), told) = start_fill(&cache, Some(first)) else {
        panic!("it is begun")
    };
    fill.complete(sample_entry());
    assert!(matches!(told.try_recv(), Ok(Some(_))));
    assert_eq!(cache.counters().coalesced, 1);
}

#[test]
fn a_dropped_ticket_notifies_the_waiters_of_its_client() {
    let cache = cache(9);
    let (first, second) = (ticket(&cache, 1), ticket(&cache, 2));
    let (Lookup::Wait(_waits), told) = lookup(&cache, 1) else { panic!("he has a turn") };
    let (Lookup::Wait(_waits_too), told_too) = lookup(&cache, 2) else { panic!("he has a turn") };
    drop(first);
    assert!(matches!(told.try_recv(), Ok(None)) && told_too.try_recv().is_err());
    let FillStart::Fill(_fill) = start_fill(&cache, Some(second)).0 else {
        panic!("it is his turn")
    };
    drop(ticket_for_another_key(&cache));
    assert!(told_too.try_recv().is_err(), "it is being made");
}

#[test]
fn a_flight_has_a_few_tickets_and_later_clients_wait_for_one_of_them() {
    let cache = cache(1_000);
    let mut turns: Vec<_> = (0..LEADERS_MAX as u128).map(|who| ticket(&cache, who)).collect();
    let mut waits: Vec<_> = (100..100 + 4 * LEADERS_MAX as u128)
        .map(|who| match lookup(&cache, who) {
            (Lookup::Wait(place), told) => (who, place, told),
            _ => panic!("there are turns enough"),
        })
        .collect();
    // Whoever leaves his turn sends those to ask again who waited for him, and one of them gets it.
    drop(turns.remove(3));
    let told = waits.extract_if(.., |(_, _, told)| matches!(told.try_recv(), Ok(None)));
    let told: Vec<_> = told.map(|(who, ..)| who).collect();
    assert_eq!(told.len(), 4, "a share of them");
    turns.push(ticket(&cache, told[0]));
    let (Lookup::Wait(_place), again) = lookup(&cache, told[1]) else {
        panic!("it has turns again")
    };
    // Any of them makes it for all.
    let FillStart::Fill(fill) = start_fill(&cache, turns.pop()).0 else { panic!("it is his turn") };
    drop(turns);
    assert!(waits.iter().all(|(_, _, told)| told.try_recv().is_err()), "it is being made");
    fill.complete(sample_entry());
    assert!(waits.iter().all(|(_, _, told)| matches!(told.try_recv(), Ok(Some(_)))));
    assert!(matches!(again.try_recv(), Ok(Some(_))));
    assert_eq!(cache.0.single_flight.lock().waiter_counts(), (0, 0));
}

#[test]
fn many_waiters_of_one_client_leave_capacity_to_others() {
    let cache = cache(64);
    let FillStart::Fill(fill) = start_fill(&cache, None).0 else { panic!("the first makes it") };
    let waits = |who: u128| {
        let places = std::iter::from_fn(|| match lookup(&cache, who) {
            (Lookup::Wait(place), told) => Some((place, told)),
            _ => None,
        });
        places.collect::<Vec<_>>()
    };
    let mut all: Vec<_> = (1..=4).map(waits).collect();
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [32, 16, 8, 4]);
    // Whoever leaves gives his place back.
    drop(all.remove(0));
    assert_eq!(waits(1).len(), 18, "half of what the others leave");
    fill.complete(sample_entry());
    assert_eq!(cache.0.single_flight.lock().waiter_counts(), (0, 0));
}

fn ticket_for_another_key(cache: &Cache<CellValues>) -> FillTicket<CellValues> {
    match cache.lookup(b"other", (2, 0), |_| 0, || filled_channel().0) {
        Lookup::Ticket(turn) => turn,
        _ => panic!("nobody is at it"),
    }
}

#[test]
fn a_dropped_waiter_is_no_longer_counted() {
    let cache = cache(4);
    let turn = ticket(&cache, 1);
    for _ in 0..100 {
        assert!(matches!(lookup(&cache, 1).0, Lookup::Wait(_)), "all before have left");
    }
    let (stays, leaves) = (lookup(&cache, 1).0, lookup(&cache, 1).0);
    assert!(matches!(lookup(&cache, 1).0, Lookup::Bypass));
    drop(leaves);
    assert!(matches!(lookup(&cache, 1).0, Lookup::Wait(_)));
    drop((stays, turn));
    assert!(matches!(lookup(&cache, 1).0, Lookup::Ticket(_)), "and nothing is left");
}

#[test]
fn a_cache_of_zero_bytes_bypasses_every_request() {
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
    let FillStart::Fill(fill) = start_fill(&cache, None).0 else { panic!("the first makes it") };
    let (Lookup::Wait(_waits), told) = lookup(&cache, 1) else { panic!("it is begun") };
    drop(fill);
    assert!(matches!(told.try_recv(), Ok(None)));
    assert!(matches!(start_fill(&cache, None).0, FillStart::Fill(_)));
}

#[test]
fn stale_entries_free_their_bytes_and_the_least_used_are_evicted_on_demand() {
    let cache = cache(2);
    let keep = |key: u8| {
        let begun = cache.start_fill(&[key], None, 1, |_| 1, || None);
        let FillStart::Fill(fill) = begun else { panic!("it is not there") };
        let answer = Some(CellValues(vec![7; 100]));
        fill.complete(Entry { value: answer, valid_at: 1, dependencies: [0].into() });
    };
    (0..200).for_each(keep);
    let full = cache.counters();
    assert_eq!(full.entries, 200);
    let turn = cache.lookup(&[0], (1, 2), |_| 2, || filled_channel().0);
    assert!(matches!(turn, Lookup::Ticket(_)));
    assert_eq!(cache.counters().entries, 199, "it is never asked for again");
    // Somebody who sees an older state says nothing of what is newer.
    let _older = cache.lookup(&[1], (1, 0), |_| 1, || filled_channel().0);
    assert_eq!(cache.counters().entries, 199);
    cache.evict_for(full.bytes / 4);
    let counters = cache.counters();
    assert!(counters.bytes < full.bytes * 3 / 4 && counters.bytes > full.bytes / 2, "{counters:?}");
    (200..255).for_each(keep);
    assert_eq!(cache.counters().entries, counters.entries + 55, "there is as much room as before");
}
