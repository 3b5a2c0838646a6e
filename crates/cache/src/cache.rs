//! The cached values, and whether one of them is still valid.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use quick_cache::sync::Cache as QuickCache;
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

use crate::single_flight::{FillGuard, FillTicket, JoinOutcome, OnFilled, SingleFlight, WaitGuard};

/// Bytes of an entry besides its value and its key: its slot in the table, the list of dependencies.
const ENTRY_BYTES: u64 = 256;

/// Number of shards, so that threads seldom wait for each other. Each has its share of the bytes.
const SHARDS: usize = 4;

/// Bounds of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Maximum bytes of values, their keys and entries. 0: nothing is cached, and no caller waits for another.
    pub bytes_max: u64,
    /// Maximum bytes of one value. A larger one is not cached.
    pub entry_bytes_max: u64,
    /// Maximum callers that wait for another caller's fill. One more computes the value itself.
    pub waiters_max: usize,
}

/// The size of a value.
pub trait Weight {
    /// The size in bytes.
    fn bytes(&self) -> u64;
}

/// A value with its dependencies.
#[derive(Debug)]
pub struct Entry<V> {
    /// The value; `None` if it is too large to cache, which is remembered.
    pub value: Option<V>,
    /// The version at which the value is valid. May be earlier than the version at which it was computed.
    pub valid_at: u64,
    /// What the value was computed from, in the caller's numbers.
    pub dependencies: Box<[u64]>,
}

/// The reader of a [`Cache::lookup`].
#[derive(Clone, Copy, Debug)]
pub struct CacheReader {
    /// Its client: equal calls of one client wait for each other.
    pub client: u128,
    /// The version of the state that it sees.
    pub version: u64,
}

/// The result of [`Cache::lookup`].
pub enum Lookup<V: Weight> {
    /// The value is valid now.
    Hit(Arc<Entry<V>>),
    /// The value is not cached, and no fill is running. Call [`Cache::start_fill`] when the task is scheduled.
    Ticket(FillTicket<V>),
    /// A fill is running, or the client has a ticket already. The caller is notified while the guard lives. The
    /// value may be of another version: check [`Entry::is_valid_at`], as for a cached one.
    Wait(WaitGuard<V>),
    /// Compute the value, and do not cache it is too large, too many callers wait, or the cache has no bytes.
    Bypass,
}

/// The result of [`Cache::start_fill`].
pub enum FillStart<V: Weight> {
    /// The value is valid now.
    Hit(Arc<Entry<V>>),
    /// Compute the value and pass it to the [`FillGuard`]. Later callers wait for it.
    Fill(FillGuard<V>),
    /// As [`Lookup::Wait`]; a fill is running.
    Wait(WaitGuard<V>),
    /// As [`Lookup::Bypass`], or the caller does not wait.
    Bypass,
}

/// The cached entry of a key, at the caller's version.
enum EntryState<V> {
    Valid(Arc<Entry<V>>),
    /// The value is too large to cache.
    TooLarge,
    /// A dependency has changed.
    Stale,
    Missing,
}

/// The counters of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Lookups that found a valid value.
    pub hits: u64,
    /// Lookups that found no value.
    pub misses: u64,
    /// Lookups that found a value that was no longer valid.
    pub stale: u64,
    /// Callers that waited for another caller's fill.
    pub coalesced: u64,
    /// Callers that computed a value for themselves alone.
    pub bypassed: u64,
    /// Entries that were evicted.
    pub evicted: u64,
    /// Bytes in use.
    pub bytes: u64,
    /// Cached entries.
    pub entries: u64,
}

/// Values by request. Cheap to clone; clones share the cache.
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
        // Both capacities are set above.
        let options = options.expect("the options are complete");
        let evicted = Arc::new(AtomicU64::new(0));
        let evictions = EvictionCounter(Arc::clone(&evicted));
        let entries = QuickCache::with_options(
            options,
            EntryWeighter,
            DefaultHashBuilder::default(),
            evictions,
        );
        Self(Arc::new(Shared {
            config,
            entries,
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

    /// Looks up the value of `key` for `reader`. `changed_at` returns the version at which a dependency last changed, or
    /// a later one. It is called after the reader chose its version. If the reader waits, the fill calls what
    /// `on_filled` returned.
    ///
    /// Cost: a lookup, and one `changed_at` for each dependency.
    pub fn lookup(
        &self,
        key: &[u8],
        reader: CacheReader,
        changed_at: impl Fn(u64) -> u64,
        on_filled: impl FnOnce() -> OnFilled<V>,
    ) -> Lookup<V> {
        let CacheReader { client, version: now } = reader;
        let shared = &self.0;
        if shared.config.bytes_max == 0 {
            // A waiter would be notified that nothing was cached, and would compute the value after all.
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
        let joined =
            shared.single_flight.lock().join(key, client, shared.config.waiters_max, on_filled);
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

    /// As [`Cache::lookup`], but the caller computes the value now unless a fill is running: its `ticket` was
    /// scheduled, or it needs none. If a fill is running and `on_filled` returns nothing, the caller does not wait.
    pub fn start_fill(
        &self,
        key: &[u8],
        ticket: Option<FillTicket<V>>,
        now: u64,
        changed_at: impl Fn(u64) -> u64,
        on_filled: impl FnOnce() -> Option<OnFilled<V>>,
    ) -> FillStart<V> {
        let shared = &self.0;
        if shared.config.bytes_max == 0 {
            count(&shared.bypassed);
            return FillStart::Bypass;
        }
        let state = self.entry_state(key, now, changed_at);
        match (state, &ticket) {
            (EntryState::Valid(entry), ticket) => {
                // Another caller filled it before the ticket was scheduled.
                count(if ticket.is_some() { &shared.coalesced } else { &shared.hits });
                return FillStart::Hit(entry);
            }
            (EntryState::TooLarge, _) => {
                count(&shared.bypassed);
                return FillStart::Bypass;
            }
            // This was counted when the ticket was issued.
            (EntryState::Stale | EntryState::Missing, Some(_)) => {}
            (EntryState::Stale, None) => count(&shared.stale),
            (EntryState::Missing, None) => count(&shared.misses),
        }
        let joined = shared.single_flight.lock().start(key, shared.config.waiters_max, on_filled);
        // Only now: the waiters of this ticket wait for the running fill instead.
        drop(ticket);
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

    /// A stale entry never becomes valid again, so it is removed.
    fn entry_state(&self, key: &[u8], now: u64, changed_at: impl Fn(u64) -> u64) -> EntryState<V> {
        let Some(entry) = self.0.entries.get(key) else { return EntryState::Missing };
        if !entry.is_valid_at(now, changed_at) {
            if entry.valid_at <= now {
                self.0.entries.remove_if(key, |cached| Arc::ptr_eq(cached, &entry));
            }
            return EntryState::Stale;
        }
        if entry.value.is_none() { EntryState::TooLarge } else { EntryState::Valid(entry) }
    }

    /// Evicts the least used entries, `bytes` in all.
    ///
    /// Cost: the evicted entries, and some of the history that the eviction policy has of them.
    pub fn evict_for(&self, bytes: u64) {
        let shared = &self.0;
        let _one_at_a_time = shared.eviction_lock.lock();
        let left = shared.entries.weight().saturating_sub(bytes);
        // A capacity of 0 would disable the cache, so it is at least 1.
        shared.entries.set_capacity(left.max(1));
        shared.entries.set_capacity(shared.config.bytes_max);
    }

    /// The value, for a caller that would compute it in another way or may not use it. Nothing is counted, and no
    /// caller waits. A caller that uses the value calls [`Cache::count_hit`].
    pub fn peek(
        &self,
        key: &[u8],
        now: u64,
        changed_at: impl Fn(u64) -> u64,
    ) -> Option<Arc<Entry<V>>> {
        let entry = self.0.entries.get(key)?;
        (entry.value.is_some() && entry.is_valid_at(now, changed_at)).then_some(entry)
    }

    /// Counts the use of a value that [`Cache::peek`] returned.
    pub fn count_hit(&self) {
        count(&self.0.hits);
    }

    /// Maximum bytes of a cached value.
    pub fn entry_bytes_max(&self) -> u64 {
        self.0.config.entry_bytes_max
    }

    /// Bytes in use.
    pub fn bytes(&self) -> u64 {
        self.0.entries.weight()
    }

    /// The counters of the cache.
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
            // A replaced entry does not count as evicted.
            self.0.entries.remove(&key);
            self.0.entries.insert(key, Arc::clone(entry));
        }
    }
}

impl<V> Entry<V> {
    /// Whether the value is valid at `now`.
    pub fn is_valid_at(&self, now: u64, changed_at: impl Fn(u64) -> u64) -> bool {
        // A value of a later version says nothing about earlier ones.
        self.valid_at <= now
            && self.dependencies.iter().all(|dependency| changed_at(*dependency) <= self.valid_at)
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
        let value_bytes = entry.value.as_ref().map_or(0, Weight::bytes);
        ENTRY_BYTES + value_bytes + (key.len() + 8 * entry.dependencies.len()) as u64
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
