//! The cache beside a model: whatever is written, and whoever makes an answer when, what is given out is
//! what would be made at that moment.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use fastrand::Rng;

use crate::{Cache, Config, Entry, Fill, Find, Weigh};

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

type Waiting = (u8, Receiver<Option<Arc<Entry<Answer>>>>);

#[test]
fn no_answer_is_ever_stale() {
    let mut given = 0;
    for seed in 1..=200_u64 {
        given += run(seed);
    }
    assert!(given > 100_000, "{given} answers from the cache");
}

fn run(seed: u64) -> u64 {
    let mut random = Rng::with_seed(seed);
    let config = Config { bytes_max: 20_000, entry_bytes_max: 16, waiters_max: 4 };
    let cache = Cache::new(config);
    let mut cells = Cells::default();
    let mut making: Vec<Making> = Vec::new();
    let mut waiting: Vec<Waiting> = Vec::new();
    let mut given = 0;
    for _ in 0..3_000 {
        match random.u64(..10) {
            0 => cells.write(random.u64(..40), random.u64(..1_000)),
            1 | 2 if !making.is_empty() => {
                let at = random.usize(..making.len());
                step(&mut making, at, &cells, &mut random);
            }
            _ => {
                let key = random.u8(..30);
                let (sender, receiver) = sync_channel(1);
                // Some do not wait.
                let waits = random.u8(..4) > 0;
                let tell = || -> Option<crate::Tell<Answer>> {
                    let tell = move |entry| sender.send(entry).expect("room for one");
                    waits.then(|| -> crate::Tell<Answer> { Box::new(tell) })
                };
                let changed_at = |cell| cells.changed_at(cell);
                let before = cache.counters().hits;
                let hit = cache.peek(&[key], cells.now, changed_at).is_some();
                assert_eq!(cache.counters().hits, before, "seed {seed}");
                let found = cache.find(&[key], cells.now, changed_at, tell);
                assert_eq!(hit, matches!(found, Find::Hit(_)), "seed {seed}");
                match found {
                    Find::Hit(entry) => {
                        assert_eq!(entry.answer, Some(cells.answer(key).0), "seed {seed}");
                        given += 1;
                    }
                    Find::Make(fill) => {
                        making.push(Making { key, fill, began_at: cells.now, read: None });
                    }
                    Find::Wait => waiting.push((key, receiver)),
                    Find::Bypass => {}
                }
            }
        }
        waiting.retain(|(key, told)| match told.try_recv() {
            Ok(Some(entry)) if entry.is_good(cells.now, |cell| cells.changed_at(cell)) => {
                let fresh = cells.answer(*key).0;
                assert!(entry.answer.as_ref().is_none_or(|answer| *answer == fresh), "seed {seed}");
                given += 1;
                false
            }
            Ok(_) => false,
            Err(_) => true,
        });
        let counters = cache.counters();
        assert!(counters.bytes <= config.bytes_max, "{counters:?}");
        assert!(waiting.len() <= config.waiters_max);
    }
    drop(making);
    assert!(
        waiting.iter().all(|(_, told)| matches!(told.try_recv(), Ok(None))),
        "nobody waits for ever"
    );
    given
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

#[test]
fn one_makes_and_the_others_get_it() {
    let cache = Cache::new(Config { bytes_max: 1 << 20, entry_bytes_max: 1 << 10, waiters_max: 2 });
    let (sender, told) = sync_channel(9);
    let ask = |now| {
        let sender = sender.clone();
        let tell = || -> Option<crate::Tell<Answer>> {
            Some(Box::new(move |entry| sender.send(entry.is_some()).expect("there is room")))
        };
        cache.find(b"key", now, |_| 0, tell)
    };
    let Find::Make(fill) = ask(0) else { panic!("the first makes it") };
    assert!(matches!((ask(0), ask(0), ask(0)), (Find::Wait, Find::Wait, Find::Bypass)));
    fill.done(Entry { answer: Some(Answer(vec![1])), made_at: 0, read: Box::default() });
    assert_eq!([told.try_recv(), told.try_recv()], [Ok(true); 2]);
    assert!(matches!(ask(0), Find::Hit(_)));
    let counters = cache.counters();
    assert_eq!((counters.misses, counters.shared, counters.hits), (4, 2, 1));
    assert_eq!((counters.bypassed, counters.entries), (1, 1));
}

#[test]
fn a_cache_of_no_bytes_makes_nobody_wait() {
    let cache = Cache::<Answer>::new(Config { bytes_max: 0, entry_bytes_max: 0, waiters_max: 2 });
    for _ in 0..2 {
        let found = cache.find(b"key", 1, |_| 0, || panic!("nobody is told"));
        assert!(matches!(found, Find::Bypass));
    }
    assert_eq!(cache.counters().bypassed, 2);
}

#[test]
fn who_gives_up_lets_the_next_one_make_it() {
    let cache = Cache::<Answer>::new(Config {
        bytes_max: 1 << 20,
        entry_bytes_max: 1 << 10,
        waiters_max: 2,
    });
    let ask = || cache.find(b"key", 0, |_| 0, || Some(Box::new(|_| {})));
    let Find::Make(fill) = ask() else { panic!("the first makes it") };
    drop(fill);
    assert!(matches!(ask(), Find::Make(_)));
}

#[test]
fn who_does_not_wait_makes_it_himself() {
    let cache = Cache::new(Config { bytes_max: 1 << 20, entry_bytes_max: 1 << 10, waiters_max: 2 });
    let ask = || cache.find(b"key", 0, |_| 0, || -> Option<crate::Tell<Answer>> { None });
    let Find::Make(_fill) = ask() else { panic!("the first makes it") };
    assert!(matches!(ask(), Find::Bypass));
    assert_eq!((cache.counters().shared, cache.counters().bypassed), (0, 1));
}
