//! The cache beside a model: whatever is written, and whoever makes an answer when, what is given out is
//! what would be made at that moment.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use fastrand::Rng;

use crate::flight::TURNS_MAX;
use crate::{Begun, Cache, Config, Entry, Fill, Find, Tell, Turn, Waiting, Weigh};

/// So many may wait in the model.
const WAITERS_MAX: usize = 8;

/// The values that an answer was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer(Vec<u64>);

impl Weigh for Answer {
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
    fn answer(&self, key: u8) -> (Answer, Box<[u64]>) {
        let read: Vec<u64> = (u64::from(key)..).take(1 + usize::from(key) % 3).collect();
        let values = read.iter().map(|cell| self.cells.get(cell).map_or(0, |(value, _)| *value));
        (Answer(values.collect()), read.into())
    }
}

/// An answer that is being made: begun at a moment, read at another, given at a third.
struct Making {
    key: u8,
    fill: Fill<Answer>,
    began_at: u64,
    read: Option<(Answer, Box<[u64]>)>,
}

type Told = Receiver<Option<Arc<Entry<Answer>>>>;

/// Where to be told, and how.
fn teller() -> (Tell<Answer>, Told) {
    let (sender, told) = sync_channel(1);
    (Box::new(move |entry| sender.send(entry).expect("room for one")), told)
}

#[test]
fn no_answer_is_ever_stale() {
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
    turns: Vec<(u8, u128, Turn<Answer>)>,
    making: Vec<Making>,
    /// And who waits, if he has nothing to make it with.
    waiting: Vec<(u8, Option<u128>, Told, Waiting<Answer>)>,
    given: u64,
}

fn run(seed: u64) -> u64 {
    let mut random = Rng::with_seed(seed);
    let config = Config { bytes_max: 20_000, entry_bytes_max: 16, waiters_max: WAITERS_MAX };
    let cache = Cache::new(config);
    let mut world = World::default();
    for _ in 0..3_000 {
        match random.u64(..12) {
            0 => world.cells.write(random.u64(..40), random.u64(..1_000)),
            1 | 2 if !world.making.is_empty() => {
                let at = random.usize(..world.making.len());
                step(&mut world.making, at, &world.cells, &mut random);
            }
            3 | 4 if !world.turns.is_empty() => {
                let (key, _, turn) = world.turns.swap_remove(random.usize(..world.turns.len()));
                if random.u8(..5) > 0 {
                    world.begin(&cache, key, Some(turn), random.bool());
                }
            }
            5 if !world.waiting.is_empty() && random.bool() => {
                world.waiting.swap_remove(random.usize(..world.waiting.len()));
            }
            6 => world.begin(&cache, random.u8(..30), None, random.bool()),
            _ => world.find(&cache, random.u8(..30), random.u128(..12)),
        }
        world.hear();
        let counters = cache.counters();
        assert!(counters.bytes <= config.bytes_max, "{counters:?}");
        assert!(world.waiting.len() <= config.waiters_max);
    }
    drop((world.making, world.turns));
    let mut told = world.waiting.iter().map(|(_, _, told, _)| told.try_recv());
    assert!(told.all(|told| matches!(told, Ok(None))), "nobody waits for ever");
    world.given
}

impl World {
    fn find(&mut self, cache: &Cache<Answer>, key: u8, who: u128) {
        let (now, changed_at) = (self.cells.now, |cell| self.cells.changed_at(cell));
        let before = cache.counters().hits;
        let hit = cache.peek(&[key], now, changed_at).is_some();
        assert_eq!(cache.counters().hits, before);
        let (tell, told) = teller();
        let found = cache.find(&[key], (who, now), changed_at, || tell);
        assert_eq!(hit, matches!(found, Find::Hit(_)));
        let is_made = self.making.iter().any(|making| making.key == key);
        match found {
            Find::Hit(entry) => self.take(key, &entry),
            Find::Turn(turn) => {
                assert!(!is_made, "somebody is at it");
                self.turns.push((key, who, turn));
            }
            Find::Wait(waiting) => {
                let turns = self.turns.iter().filter(|(of, ..)| *of == key);
                let mut whose = turns.map(|(_, whose, _)| *whose);
                let is_waited_for = whose.clone().count() == TURNS_MAX || whose.any(|it| it == who);
                assert!(is_made || is_waited_for, "who waits for another's turn?");
                self.waiting.push((key, Some(who), told, waiting));
            }
            Find::Bypass => {
                self.hear();
                let waits = self.waiting.iter().filter(|(_, waits, ..)| *waits == Some(who));
                let left = WAITERS_MAX - self.waiting.len();
                assert!(key % 3 == 2 || waits.count() >= left, "{left} places are left");
            }
        }
    }

    fn begin(&mut self, cache: &Cache<Answer>, key: u8, turn: Option<Turn<Answer>>, waits: bool) {
        let (now, changed_at) = (self.cells.now, |cell| self.cells.changed_at(cell));
        let (tell, told) = teller();
        match cache.begin(&[key], turn, now, changed_at, || waits.then_some(tell)) {
            Begun::Hit(entry) => self.take(key, &entry),
            Begun::Make(fill) => {
                let is_made = self.making.iter().any(|making| making.key == key);
                assert!(!is_made, "nobody makes what somebody is at");
                self.making.push(Making { key, fill, began_at: now, read: None });
            }
            Begun::Wait(waiting) => self.waiting.push((key, None, told, waiting)),
            Begun::Bypass => self.is_alone(key, waits),
        }
        self.hear();
    }

    fn take(&mut self, key: u8, entry: &Entry<Answer>) {
        assert_eq!(entry.answer, Some(self.cells.answer(key).0));
        self.given += 1;
    }

    /// Only because it is too large, or because as many wait as may: whoever left counts no more.
    fn is_alone(&mut self, key: u8, waits: bool) {
        self.hear();
        let waiting = self.waiting.len();
        assert!(!waits || key % 3 == 2 || waiting == WAITERS_MAX, "{waiting}");
    }

    fn hear(&mut self) {
        let Self { cells, waiting, given, .. } = self;
        waiting.retain(|(key, _, told, _)| match told.try_recv() {
            Ok(Some(entry)) if entry.is_good(cells.now, |cell| cells.changed_at(cell)) => {
                let fresh = cells.answer(*key).0;
                assert!(entry.answer.as_ref().is_none_or(|answer| *answer == fresh));
                *given += 1;
                false
            }
            Ok(_) => false,
            Err(_) => true,
        });
    }
}

/// Reads, or gives what was read, or gives up.
fn step(making: &mut Vec<Making>, at: usize, cells: &Cells, random: &mut Rng) {
    if making[at].read.is_none() && random.u64(..5) > 0 {
        making[at].read = Some(cells.answer(making[at].key));
        return;
    }
    let Making { fill, began_at, read, .. } = making.swap_remove(at);
    let Some((answer, read)) = read else { return };
    let answer = (answer.bytes() <= fill.bytes_max()).then_some(answer);
    fill.done(Entry { answer, made_at: began_at, read });
}

fn cache(waiters_max: usize) -> Cache<Answer> {
    Cache::new(Config { bytes_max: 1 << 20, entry_bytes_max: 1 << 10, waiters_max })
}

fn find(cache: &Cache<Answer>, who: u128) -> (Find<Answer>, Told) {
    let (tell, told) = teller();
    (cache.find(b"key", (who, 0), |_| 0, || tell), told)
}

fn begin(cache: &Cache<Answer>, turn: Option<Turn<Answer>>) -> (Begun<Answer>, Told) {
    let (tell, told) = teller();
    (cache.begin(b"key", turn, 0, |_| 0, || Some(tell)), told)
}

fn turn(cache: &Cache<Answer>, who: u128) -> Turn<Answer> {
    match find(cache, who).0 {
        Find::Turn(turn) => turn,
        _ => panic!("nobody is at it"),
    }
}

fn one() -> Entry<Answer> {
    Entry { answer: Some(Answer(vec![1])), made_at: 0, read: Box::default() }
}

#[test]
fn one_makes_and_the_others_get_it() {
    let cache = cache(2);
    let turn = turn(&cache, 1);
    let (Find::Wait(_waits), told) = find(&cache, 1) else { panic!("he has a turn") };
    let Begun::Make(fill) = begin(&cache, Some(turn)).0 else { panic!("he makes it") };
    let (Find::Wait(_waits_too), told_too) = find(&cache, 2) else { panic!("it is begun") };
    assert!(matches!(find(&cache, 3).0, Find::Bypass), "two wait");
    fill.done(one());
    assert!([told, told_too].iter().all(|told| matches!(told.try_recv(), Ok(Some(_)))));
    assert!(matches!(find(&cache, 3).0, Find::Hit(_)));
    let counters = cache.counters();
    assert_eq!((counters.misses, counters.shared, counters.hits), (4, 2, 1));
    assert_eq!((counters.bypassed, counters.entries), (1, 1));
}

#[test]
fn whose_turn_comes_first_makes_it_and_nobody_waits_for_anothers_turn() {
    let cache = cache(9);
    let (first, second) = (turn(&cache, 1), turn(&cache, 2));
    let Begun::Make(fill) = begin(&cache, Some(second)).0 else { panic!("it is his turn") };
    let (Begun::Wait(_waits), told) = begin(&cache, Some(first)) else { panic!("it is begun") };
    fill.done(one());
    assert!(matches!(told.try_recv(), Ok(Some(_))));
    assert_eq!(cache.counters().shared, 1);
}

#[test]
fn who_leaves_his_turn_tells_those_who_would_wait_for_it() {
    let cache = cache(9);
    let (first, second) = (turn(&cache, 1), turn(&cache, 2));
    let (Find::Wait(_waits), told) = find(&cache, 1) else { panic!("he has a turn") };
    let (Find::Wait(_waits_too), told_too) = find(&cache, 2) else { panic!("he has a turn") };
    drop(first);
    assert!(matches!(told.try_recv(), Ok(None)) && told_too.try_recv().is_err());
    let Begun::Make(_fill) = begin(&cache, Some(second)).0 else { panic!("it is his turn") };
    drop(turn_of_another_key(&cache));
    assert!(told_too.try_recv().is_err(), "it is being made");
}

#[test]
fn an_answer_has_a_few_turns_and_whoever_comes_after_waits_for_one_of_them() {
    let cache = cache(1_000);
    let mut turns: Vec<_> = (0..TURNS_MAX as u128).map(|who| turn(&cache, who)).collect();
    let mut waits: Vec<_> = (100..100 + 4 * TURNS_MAX as u128)
        .map(|who| match find(&cache, who) {
            (Find::Wait(place), told) => (who, place, told),
            _ => panic!("there are turns enough"),
        })
        .collect();
    // Whoever leaves his turn sends those to ask again who waited for him, and one of them gets it.
    drop(turns.remove(3));
    let told = waits.extract_if(.., |(_, _, told)| matches!(told.try_recv(), Ok(None)));
    let told: Vec<_> = told.map(|(who, ..)| who).collect();
    assert_eq!(told.len(), 4, "a share of them");
    turns.push(turn(&cache, told[0]));
    let (Find::Wait(_place), again) = find(&cache, told[1]) else { panic!("it has turns again") };
    // Any of them makes it for all.
    let Begun::Make(fill) = begin(&cache, turns.pop()).0 else { panic!("it is his turn") };
    drop(turns);
    assert!(waits.iter().all(|(_, _, told)| told.try_recv().is_err()), "it is being made");
    fill.done(one());
    assert!(waits.iter().all(|(_, _, told)| matches!(told.try_recv(), Ok(Some(_)))));
    assert!(matches!(again.try_recv(), Ok(Some(_))));
    assert_eq!(cache.0.flights.lock().waiting(), (0, 0));
}

#[test]
fn one_clients_many_who_wait_leave_places_to_others() {
    let cache = cache(64);
    let Begun::Make(fill) = begin(&cache, None).0 else { panic!("the first makes it") };
    let waits = |who: u128| {
        let places = std::iter::from_fn(|| match find(&cache, who) {
            (Find::Wait(place), told) => Some((place, told)),
            _ => None,
        });
        places.collect::<Vec<_>>()
    };
    let mut all: Vec<_> = (1..=4).map(waits).collect();
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [32, 16, 8, 4]);
    // Whoever leaves gives his place back.
    drop(all.remove(0));
    assert_eq!(waits(1).len(), 18, "half of what the others leave");
    fill.done(one());
    assert_eq!(cache.0.flights.lock().waiting(), (0, 0));
}

fn turn_of_another_key(cache: &Cache<Answer>) -> Turn<Answer> {
    match cache.find(b"other", (2, 0), |_| 0, || teller().0) {
        Find::Turn(turn) => turn,
        _ => panic!("nobody is at it"),
    }
}

#[test]
fn who_left_is_not_counted_among_those_who_wait() {
    let cache = cache(4);
    let turn = turn(&cache, 1);
    for _ in 0..100 {
        assert!(matches!(find(&cache, 1).0, Find::Wait(_)), "all before have left");
    }
    let (stays, leaves) = (find(&cache, 1).0, find(&cache, 1).0);
    assert!(matches!(find(&cache, 1).0, Find::Bypass));
    drop(leaves);
    assert!(matches!(find(&cache, 1).0, Find::Wait(_)));
    drop((stays, turn));
    assert!(matches!(find(&cache, 1).0, Find::Turn(_)), "and nothing is left");
}

#[test]
fn a_cache_of_no_bytes_makes_nobody_wait() {
    let cache = Cache::<Answer>::new(Config { bytes_max: 0, entry_bytes_max: 0, waiters_max: 2 });
    for _ in 0..2 {
        assert!(matches!(find(&cache, 1).0, Find::Bypass));
    }
    assert!(matches!(begin(&cache, None).0, Begun::Bypass));
    assert_eq!(cache.counters().bypassed, 3);
}

#[test]
fn who_gives_up_lets_the_next_one_make_it() {
    let cache = cache(2);
    let Begun::Make(fill) = begin(&cache, None).0 else { panic!("the first makes it") };
    let (Find::Wait(_waits), told) = find(&cache, 1) else { panic!("it is begun") };
    drop(fill);
    assert!(matches!(told.try_recv(), Ok(None)));
    assert!(matches!(begin(&cache, None).0, Begun::Make(_)));
}

#[test]
fn what_is_stale_gives_its_room_back_and_what_is_asked_for_least_when_there_is_none() {
    let cache = cache(2);
    let keep = |key: u8| {
        let begun = cache.begin(&[key], None, 1, |_| 1, || None);
        let Begun::Make(fill) = begun else { panic!("it is not there") };
        let answer = Some(Answer(vec![7; 100]));
        fill.done(Entry { answer, made_at: 1, read: [0].into() });
    };
    (0..200).for_each(keep);
    let full = cache.counters();
    assert_eq!(full.entries, 200);
    let turn = cache.find(&[0], (1, 2), |_| 2, || teller().0);
    assert!(matches!(turn, Find::Turn(_)));
    assert_eq!(cache.counters().entries, 199, "it is never asked for again");
    // Somebody who sees an older state says nothing of what is newer.
    let _older = cache.find(&[1], (1, 0), |_| 1, || teller().0);
    assert_eq!(cache.counters().entries, 199);
    cache.make_room(full.bytes / 4);
    let counters = cache.counters();
    assert!(counters.bytes < full.bytes * 3 / 4 && counters.bytes > full.bytes / 2, "{counters:?}");
    (200..255).for_each(keep);
    assert_eq!(cache.counters().entries, counters.entries + 55, "there is as much room as before");
}
