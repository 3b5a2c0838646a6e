//! The answers that are kept, and the question whether one of them will do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use quick_cache::sync::Cache as QuickCache;
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

use crate::single_flight::{FillGuard, FillTicket, JoinOutcome, OnFilled, SingleFlight, WaitGuard};

/// What an entry costs beside its answer and its key: the table's place, the list of what was read.
const ENTRY_BYTES: u64 = 256;

/// Locks, so that threads seldom wait for each other; each has its share of the bytes.
const SHARDS: usize = 4;

/// Bounds of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes of answers, their keys and places. 0 keeps nothing, and nobody waits for anybody.
    pub bytes_max: u64,
    /// Bytes of one answer; a larger one is not kept.
    pub entry_bytes_max: u64,
    /// Who may wait for an answer that somebody else makes; one more makes it himself.
    pub waiters_max: usize,
}

/// How many bytes an answer holds.
pub trait Weight {
    /// The bytes.
    fn bytes(&self) -> u64;
}

/// An answer with what it was read from.
#[derive(Debug)]
pub struct Entry<V> {
    /// The answer; `None` if it is too large to be kept, which is worth knowing.
    pub value: Option<V>,
    /// It is what would be made at this moment. May be earlier than when it was made.
    pub valid_at: u64,
    /// What it was read from, in the caller's numbers.
    pub dependencies: Box<[u64]>,
}

/// What [`Cache::lookup`] found.
pub enum Lookup<V: Weight> {
    /// This is what would be made now.
    Hit(Arc<Entry<V>>),
    /// Nobody has it and nobody is at it: [`Cache::start_fill`] when it is your turn.
    Ticket(FillTicket<V>),
    /// Somebody is at it, or you are to make it already. It will be told for as long as this lives. What is
    /// told may be of another moment: ask [`Entry::is_valid_at`], as of what is kept.
    Wait(WaitGuard<V>),
    /// Make it, and keep it to yourself: it is too large, too many wait, or nothing is kept.
    Bypass,
}

/// What [`Cache::start_fill`] found.
pub enum FillStart<V: Weight> {
    /// This is what would be made now.
    Hit(Arc<Entry<V>>),
    /// Make it, and give it to the [`FillGuard`]: from here on all wait for you.
    Fill(FillGuard<V>),
    /// As [`Lookup::Wait`]; somebody is at it.
    Wait(WaitGuard<V>),
    /// As [`Lookup::Bypass`], or you do not wait.
    Bypass,
}

/// What is kept, to somebody who asks now.
enum EntryState<V> {
    Valid(Arc<Entry<V>>),
    /// It is too large to be kept.
    TooLarge,
    /// It is there, and something has changed.
    Stale,
    Missing,
}

/// What a cache has done and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Answers that were there and good.
    pub hits: u64,
    /// Answers that were not there.
    pub misses: u64,
    /// Answers that were there and no longer good.
    pub stale: u64,
    /// Who waited for an answer that somebody else was making.
    pub coalesced: u64,
    /// Who made an answer for himself alone.
    pub bypassed: u64,
    /// Answers that made room for others.
    pub evicted: u64,
    /// Bytes held.
    pub bytes: u64,
    /// Answers held.
    pub entries: u64,
}

/// Answers by request. Cheap to clone; copies are the same cache.
pub struct Cache<V: Weight>(pub(crate) Arc<Shared<V>>);

pub(crate) struct Shared<V: Weight> {
    config: Config,
    entries:
        QuickCache<Box<[u8]>, Arc<Entry<V>>, EntryWeighter, DefaultHashBuilder, EvictionCounter>,
    pub(crate) single_flight: Mutex<SingleFlight<V>>,
    eviction_lock: Mutex<()>,
    evicted: Arc<AtomicU64>,
    hits: AtomicU64,
    misses: AtomicU64,
    stale: AtomicU64,
    coalesced: AtomicU64,
    bypassed: AtomicU64,
}

impl<V: Weight> Cache<V> {
    /// An empty cache.
    pub fn new(config: Config) -> Self {
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .weight_capacity(config.bytes_max)
            .estimated_items_capacity((config.bytes_max / 65_536).clamp(16, 65_536) as usize)
            .build();
        // Both capacities are given above.
        let options = options.expect("the options are whole");
        let evicted = Arc::new(AtomicU64::new(0));
        let evictions = EvictionCounter(Arc::clone(&evicted));
        let kept = QuickCache::with_options(
            options,
            EntryWeighter,
            DefaultHashBuilder::default(),
            evictions,
        );
        Self(Arc::new(Shared {
            config,
            entries: kept,
            single_flight: Mutex::default(),
            eviction_lock: Mutex::default(),
            evicted,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            stale: AtomicU64::new(0),
            coalesced: AtomicU64::new(0),
            bypassed: AtomicU64::new(0),
        }))
    }

    /// The answer to `key` for `who`, who sees the state of `now`. `changed_at` gives when what has this
    /// number last changed, at the latest; it is asked after whoever asks chose his `now`. Whoever makes it
    /// calls what `tell` gives, if he is to wait.
    ///
    /// Cost: a look-up, and one `changed_at` for each thing that the answer was read from.
    pub fn lookup(
        &self,
        key: &[u8],
        (who, now): (u128, u64),
        changed_at: impl Fn(u64) -> u64,
        tell: impl FnOnce() -> OnFilled<V>,
    ) -> Lookup<V> {
        let shared = &self.0;
        if shared.config.bytes_max == 0 {
            // Whoever waited would be told that it was not kept, and make it after all.
            count(&shared.bypassed);
            return Lookup::Bypass;
        }
        match self.entry_state(key, now, changed_at) {
            EntryState::Valid(entry) => {
                count(&shared.hits);
                return Lookup::Hit(entry);
            }
            EntryState::TooLarge => {
                count(&shared.bypassed);
                return Lookup::Bypass;
            }
            EntryState::Stale => count(&shared.stale),
            EntryState::Missing => count(&shared.misses),
        }
        let joined = shared.single_flight.lock().join(key, who, shared.config.waiters_max, tell);
        match joined {
            JoinOutcome::Ticket(number) => {
                Lookup::Ticket(FillTicket::new(self.clone(), key, number))
            }
            JoinOutcome::Wait(number) => {
                count(&shared.coalesced);
                Lookup::Wait(WaitGuard::new(self.clone(), key, number))
            }
            JoinOutcome::TooMany => {
                count(&shared.bypassed);
                Lookup::Bypass
            }
        }
    }

    /// The same for somebody who makes it from here on if nobody is at it: because his `turn` has come, or
    /// he has waited for none. If somebody is, and `tell` gives nothing, he does not wait.
    pub fn start_fill(
        &self,
        key: &[u8],
        turn: Option<FillTicket<V>>,
        now: u64,
        changed_at: impl Fn(u64) -> u64,
        tell: impl FnOnce() -> Option<OnFilled<V>>,
    ) -> FillStart<V> {
        let shared = &self.0;
        if shared.config.bytes_max == 0 {
            count(&shared.bypassed);
            return FillStart::Bypass;
        }
        let looked = self.entry_state(key, now, changed_at);
        match (looked, &turn) {
            (EntryState::Valid(entry), turn) => {
                // Somebody made it while his turn came.
                count(if turn.is_some() { &shared.coalesced } else { &shared.hits });
                return FillStart::Hit(entry);
            }
            (EntryState::TooLarge, _) => {
                count(&shared.bypassed);
                return FillStart::Bypass;
            }
            // That was counted when he got it.
            (EntryState::Stale | EntryState::Missing, Some(_)) => {}
            (EntryState::Stale, None) => count(&shared.stale),
            (EntryState::Missing, None) => count(&shared.misses),
        }
        let joined = shared.single_flight.lock().start(key, shared.config.waiters_max, tell);
        // Only now: who waits for it waits for whoever is at it.
        drop(turn);
        match joined {
            None => FillStart::Fill(FillGuard::new(self.clone(), key)),
            Some(JoinOutcome::Wait(number)) => {
                count(&shared.coalesced);
                FillStart::Wait(WaitGuard::new(self.clone(), key, number))
            }
            Some(JoinOutcome::Ticket(_) | JoinOutcome::TooMany) => {
                count(&shared.bypassed);
                FillStart::Bypass
            }
        }
    }

    /// What is stale will never be good again, so its room is given back.
    fn entry_state(&self, key: &[u8], now: u64, changed_at: impl Fn(u64) -> u64) -> EntryState<V> {
        let Some(entry) = self.0.entries.get(key) else { return EntryState::Missing };
        if !entry.is_valid_at(now, changed_at) {
            if entry.valid_at <= now {
                self.0.entries.remove_if(key, |kept| Arc::ptr_eq(kept, &entry));
            }
            return EntryState::Stale;
        }
        if entry.value.is_none() { EntryState::TooLarge } else { EntryState::Valid(entry) }
    }

    /// Forgets what is asked for least, of so many bytes.
    ///
    /// Cost: what is forgotten, and some of what is known of it for when it is asked for again.
    pub fn evict_for(&self, bytes: u64) {
        let shared = &self.0;
        let _one_at_a_time = shared.eviction_lock.lock();
        let left = shared.entries.weight().saturating_sub(bytes);
        // Nothing is kept in a cache of no capacity, so it never has none.
        shared.entries.set_capacity(left.max(1));
        shared.entries.set_capacity(shared.config.bytes_max);
    }

    /// The answer for somebody who makes it in another way if it is not there, or may not use it: nothing is
    /// counted, and nobody waits. Who uses it says so ([`Cache::count_hit`]).
    pub fn peek(
        &self,
        key: &[u8],
        now: u64,
        changed_at: impl Fn(u64) -> u64,
    ) -> Option<Arc<Entry<V>>> {
        let entry = self.0.entries.get(key)?;
        (entry.value.is_some() && entry.is_valid_at(now, changed_at)).then_some(entry)
    }

    /// What was found by [`Cache::peek`] is used.
    pub fn count_hit(&self) {
        count(&self.0.hits);
    }

    /// How large an answer may be to be kept.
    pub fn entry_bytes_max(&self) -> u64 {
        self.0.config.entry_bytes_max
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.0.entries.weight()
    }

    /// What the cache has done and holds.
    pub fn counters(&self) -> Counters {
        let shared = &self.0;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            hits: read(&shared.hits),
            misses: read(&shared.misses),
            stale: read(&shared.stale),
            coalesced: read(&shared.coalesced),
            bypassed: read(&shared.bypassed),
            evicted: read(&shared.evicted),
            bytes: shared.entries.weight(),
            entries: shared.entries.len() as u64,
        }
    }

    pub(crate) fn insert(&self, key: Box<[u8]>, entry: &Arc<Entry<V>>) {
        let bytes = entry.value.as_ref().map_or(0, Weight::bytes);
        if bytes <= self.0.config.entry_bytes_max && self.0.config.bytes_max > 0 {
            // What is replaced is not evicted.
            self.0.entries.remove(&key);
            self.0.entries.insert(key, Arc::clone(entry));
        }
    }
}

impl<V> Entry<V> {
    /// Whether it is what would be made at `now`.
    pub fn is_valid_at(&self, now: u64, changed_at: impl Fn(u64) -> u64) -> bool {
        // One of a later moment says nothing of what was before.
        self.valid_at <= now
            && self.dependencies.iter().all(|read| changed_at(*read) <= self.valid_at)
    }
}

impl<V: Weight> Clone for Cache<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[derive(Clone)]
struct EntryWeighter;

impl<V: Weight> Weighter<Box<[u8]>, Arc<Entry<V>>> for EntryWeighter {
    fn weight(&self, key: &Box<[u8]>, entry: &Arc<Entry<V>>) -> u64 {
        let answer = entry.value.as_ref().map_or(0, Weight::bytes);
        ENTRY_BYTES + answer + (key.len() + 8 * entry.dependencies.len()) as u64
    }
}

#[derive(Clone)]
struct EvictionCounter(Arc<AtomicU64>);

impl<K, V> Lifecycle<K, V> for EvictionCounter {
    type RequestState = ();

    fn begin_request(&self) -> Self::RequestState {}

    fn on_evict(&self, (): &mut Self::RequestState, _: K, _: V) {
        count(&self.0);
    }
}
