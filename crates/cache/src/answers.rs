//! The answers that are kept, and the question whether one of them will do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use quick_cache::sync::Cache as Kept;
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

use crate::flight::{Fill, Flights, Joined, Tell, Turn, Waiting};

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
pub trait Weigh {
    /// The bytes.
    fn bytes(&self) -> u64;
}

/// An answer with what it was read from.
#[derive(Debug)]
pub struct Entry<V> {
    /// The answer; `None` if it is too large to be kept, which is worth knowing.
    pub answer: Option<V>,
    /// It is what would be made at this moment. May be earlier than when it was made.
    pub made_at: u64,
    /// What it was read from, in the caller's numbers.
    pub read: Box<[u64]>,
}

/// What [`Cache::find`] found.
pub enum Find<V: Weigh> {
    /// This is what would be made now.
    Hit(Arc<Entry<V>>),
    /// Nobody has it and nobody is at it: [`Cache::begin`] when it is your turn.
    Turn(Turn<V>),
    /// Somebody is at it, or you are to make it already. It will be told for as long as this lives. What is
    /// told may be of another moment: ask [`Entry::is_good`], as of what is kept.
    Wait(Waiting<V>),
    /// Make it, and keep it to yourself: it is too large, too many wait, or nothing is kept.
    Bypass,
}

/// What [`Cache::begin`] found.
pub enum Begun<V: Weigh> {
    /// This is what would be made now.
    Hit(Arc<Entry<V>>),
    /// Make it, and give it to the [`Fill`]: from here on all wait for you.
    Make(Fill<V>),
    /// As [`Find::Wait`]; somebody is at it.
    Wait(Waiting<V>),
    /// As [`Find::Bypass`], or you do not wait.
    Bypass,
}

/// What is kept, to somebody who asks now.
enum Looked<V> {
    Good(Arc<Entry<V>>),
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
    pub shared: u64,
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
pub struct Cache<V: Weigh>(pub(crate) Arc<Shared<V>>);

pub(crate) struct Shared<V: Weigh> {
    config: Config,
    kept: Kept<Box<[u8]>, Arc<Entry<V>>, Bytes, DefaultHashBuilder, Evictions>,
    pub(crate) flights: Mutex<Flights<V>>,
    making_room: Mutex<()>,
    evicted: Arc<AtomicU64>,
    hits: AtomicU64,
    misses: AtomicU64,
    stale: AtomicU64,
    shared: AtomicU64,
    bypassed: AtomicU64,
}

impl<V: Weigh> Cache<V> {
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
        let evictions = Evictions(Arc::clone(&evicted));
        let kept = Kept::with_options(options, Bytes, DefaultHashBuilder::default(), evictions);
        Self(Arc::new(Shared {
            config,
            kept,
            flights: Mutex::default(),
            making_room: Mutex::default(),
            evicted,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            stale: AtomicU64::new(0),
            shared: AtomicU64::new(0),
            bypassed: AtomicU64::new(0),
        }))
    }

    /// The answer to `key` for `who`, who sees the state of `now`. `changed_at` gives when what has this
    /// number last changed, at the latest; it is asked after whoever asks chose his `now`. Whoever makes it
    /// calls what `tell` gives, if he is to wait.
    ///
    /// Cost: a look-up, and one `changed_at` for each thing that the answer was read from.
    pub fn find(
        &self,
        key: &[u8],
        (who, now): (u128, u64),
        changed_at: impl Fn(u64) -> u64,
        tell: impl FnOnce() -> Tell<V>,
    ) -> Find<V> {
        let shared = &self.0;
        if shared.config.bytes_max == 0 {
            // Whoever waited would be told that it was not kept, and make it after all.
            count(&shared.bypassed);
            return Find::Bypass;
        }
        match self.look(key, now, changed_at) {
            Looked::Good(entry) => {
                count(&shared.hits);
                return Find::Hit(entry);
            }
            Looked::TooLarge => {
                count(&shared.bypassed);
                return Find::Bypass;
            }
            Looked::Stale => count(&shared.stale),
            Looked::Missing => count(&shared.misses),
        }
        let joined = shared.flights.lock().join(key, who, shared.config.waiters_max, tell);
        match joined {
            Joined::Turn(number) => Find::Turn(Turn::new(self.clone(), key, number)),
            Joined::Waits(number) => {
                count(&shared.shared);
                Find::Wait(Waiting::new(self.clone(), key, number))
            }
            Joined::TooMany => {
                count(&shared.bypassed);
                Find::Bypass
            }
        }
    }

    /// The same for somebody who makes it from here on if nobody is at it: because his `turn` has come, or
    /// he has waited for none. If somebody is, and `tell` gives nothing, he does not wait.
    pub fn begin(
        &self,
        key: &[u8],
        turn: Option<Turn<V>>,
        now: u64,
        changed_at: impl Fn(u64) -> u64,
        tell: impl FnOnce() -> Option<Tell<V>>,
    ) -> Begun<V> {
        let shared = &self.0;
        if shared.config.bytes_max == 0 {
            count(&shared.bypassed);
            return Begun::Bypass;
        }
        let looked = self.look(key, now, changed_at);
        match (looked, &turn) {
            (Looked::Good(entry), turn) => {
                // Somebody made it while his turn came.
                count(if turn.is_some() { &shared.shared } else { &shared.hits });
                return Begun::Hit(entry);
            }
            (Looked::TooLarge, _) => {
                count(&shared.bypassed);
                return Begun::Bypass;
            }
            // That was counted when he got it.
            (Looked::Stale | Looked::Missing, Some(_)) => {}
            (Looked::Stale, None) => count(&shared.stale),
            (Looked::Missing, None) => count(&shared.misses),
        }
        let joined = shared.flights.lock().begin(key, shared.config.waiters_max, tell);
        // Only now: who waits for it waits for whoever is at it.
        drop(turn);
        match joined {
            None => Begun::Make(Fill::new(self.clone(), key)),
            Some(Joined::Waits(number)) => {
                count(&shared.shared);
                Begun::Wait(Waiting::new(self.clone(), key, number))
            }
            Some(Joined::Turn(_) | Joined::TooMany) => {
                count(&shared.bypassed);
                Begun::Bypass
            }
        }
    }

    /// What is stale will never be good again, so its room is given back.
    fn look(&self, key: &[u8], now: u64, changed_at: impl Fn(u64) -> u64) -> Looked<V> {
        let Some(entry) = self.0.kept.get(key) else { return Looked::Missing };
        if !entry.is_good(now, changed_at) {
            if entry.made_at <= now {
                self.0.kept.remove_if(key, |kept| Arc::ptr_eq(kept, &entry));
            }
            return Looked::Stale;
        }
        if entry.answer.is_none() { Looked::TooLarge } else { Looked::Good(entry) }
    }

    /// Forgets what is asked for least, of so many bytes.
    ///
    /// Cost: what is forgotten, and some of what is known of it for when it is asked for again.
    pub fn make_room(&self, bytes: u64) {
        let shared = &self.0;
        let _one_at_a_time = shared.making_room.lock();
        let left = shared.kept.weight().saturating_sub(bytes);
        // Nothing is kept in a cache of no capacity, so it never has none.
        shared.kept.set_capacity(left.max(1));
        shared.kept.set_capacity(shared.config.bytes_max);
    }

    /// The answer for somebody who makes it in another way if it is not there, or may not use it: nothing is
    /// counted, and nobody waits. Who uses it says so ([`Cache::count_hit`]).
    pub fn peek(
        &self,
        key: &[u8],
        now: u64,
        changed_at: impl Fn(u64) -> u64,
    ) -> Option<Arc<Entry<V>>> {
        let entry = self.0.kept.get(key)?;
        (entry.answer.is_some() && entry.is_good(now, changed_at)).then_some(entry)
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
        self.0.kept.weight()
    }

    /// What the cache has done and holds.
    pub fn counters(&self) -> Counters {
        let shared = &self.0;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            hits: read(&shared.hits),
            misses: read(&shared.misses),
            stale: read(&shared.stale),
            shared: read(&shared.shared),
            bypassed: read(&shared.bypassed),
            evicted: read(&shared.evicted),
            bytes: shared.kept.weight(),
            entries: shared.kept.len() as u64,
        }
    }

    pub(crate) fn keep(&self, key: Box<[u8]>, entry: &Arc<Entry<V>>) {
        let bytes = entry.answer.as_ref().map_or(0, Weigh::bytes);
        if bytes <= self.0.config.entry_bytes_max && self.0.config.bytes_max > 0 {
            // What is replaced is not evicted.
            self.0.kept.remove(&key);
            self.0.kept.insert(key, Arc::clone(entry));
        }
    }
}

impl<V> Entry<V> {
    /// Whether it is what would be made at `now`.
    pub fn is_good(&self, now: u64, changed_at: impl Fn(u64) -> u64) -> bool {
        // One of a later moment says nothing of what was before.
        self.made_at <= now && self.read.iter().all(|read| changed_at(*read) <= self.made_at)
    }
}

impl<V: Weigh> Clone for Cache<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[derive(Clone)]
struct Bytes;

impl<V: Weigh> Weighter<Box<[u8]>, Arc<Entry<V>>> for Bytes {
    fn weight(&self, key: &Box<[u8]>, entry: &Arc<Entry<V>>) -> u64 {
        let answer = entry.answer.as_ref().map_or(0, Weigh::bytes);
        ENTRY_BYTES + answer + (key.len() + 8 * entry.read.len()) as u64
    }
}

#[derive(Clone)]
struct Evictions(Arc<AtomicU64>);

impl<K, V> Lifecycle<K, V> for Evictions {
    type RequestState = ();

    fn begin_request(&self) -> Self::RequestState {}

    fn on_evict(&self, (): &mut Self::RequestState, _: K, _: V) {
        count(&self.0);
    }
}
