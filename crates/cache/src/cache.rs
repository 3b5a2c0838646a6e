//! The cached values, their bounds and counters.
//!
//! Not here: looking up a value (`lookup`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use quick_cache::sync::Cache as QuickCache;
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

use crate::entry::{Entry, Weight};
use crate::single_flight::SingleFlight;

/// Bytes of an entry in addition to its value and its key: its slot in the table, the list of dependencies.
const ENTRY_BYTES: u64 = 256;

/// Number of shards, so that threads seldom wait for each other. Each has its share of the bytes.
const SHARDS: usize = 4;

/// Limits of the memory and the waiters of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Maximum bytes of values, their keys and entries. 0: nothing is cached, and no caller waits for another.
    pub bytes_max: u64,
    /// Maximum bytes of one value. A larger one is not cached.
    pub entry_bytes_max: u64,
    /// Maximum callers that wait for another caller's fill. One more computes the value itself.
    pub waiters_max: usize,
}

/// Counts of lookups and evictions, and the present size.
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
    /// Entries that were evicted for others.
    pub evicted: u64,
    /// Bytes of values, keys and entries now.
    pub bytes: u64,
    /// Number of cached entries now.
    pub entries: u64,
}

/// Values by request. Cheap to clone; clones share the cache.
///
/// ```
/// use cache::{Cache, CacheReader, Config, Entry, FillStart, Lookup, Weight};
///
/// struct Body(String);
///
/// impl Weight for Body {
///     fn bytes(&self) -> u64 {
///         self.0.len() as u64
///     }
/// }
///
/// let config = Config { bytes_max: 1 << 20, entry_bytes_max: 1 << 16, waiters_max: 100 };
/// let cache = Cache::new(config);
/// let reader = CacheReader { client: 1, version: 5 };
/// // The value depends on cell 7, which changed at version 3 last.
/// let changed_at = |_cell| 3;
/// let nothing_waits = || unreachable!("no fill is running");
/// let Lookup::Ticket(ticket) = cache.lookup(b"sum", reader, changed_at, nothing_waits) else {
///     panic!("it is not cached yet")
/// };
/// // The ticket is scheduled: compute the value.
/// let FillStart::Fill(fill) = cache.start_fill(b"sum", Some(ticket), 5, changed_at, || None) else {
///     panic!("no other caller computes it")
/// };
/// fill.complete(Entry { value: Some(Body("12".into())), valid_at: 5, dependencies: [7].into() });
///
/// let hit = |now, changed: u64| cache.peek(b"sum", now, |_| changed).is_some();
/// assert!(hit(6, 3));
/// assert!(!hit(6, 6), "cell 7 has changed since version 5");
/// ```
pub struct Cache<V: Weight>(pub(crate) Arc<Shared<V>>);

pub(crate) struct Shared<V: Weight> {
    pub(crate) config: Config,
    entries:
        QuickCache<Box<[u8]>, Arc<Entry<V>>, EntryWeighter, DefaultHashBuilder, EvictionCounter>,
    pub(crate) single_flight: Mutex<SingleFlight<V>>,
    eviction_lock: Mutex<()>,
    removals: Arc<RemovalCounters>,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) stale: AtomicU64,
    pub(crate) coalesced: AtomicU64,
    pub(crate) bypassed: AtomicU64,
}

impl<V: Weight> Cache<V> {
    /// Creates an empty cache with these bounds.
    pub fn new(config: Config) -> Self {
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .weight_capacity(config.bytes_max)
            .estimated_items_capacity((config.bytes_max / 65_536).clamp(16, 65_536) as usize)
            .build();
        // Both capacities are set above.
        let options = options.expect("the options are complete");
        let removals = Arc::new(RemovalCounters::default());
        let entries = QuickCache::with_options(
            options,
            EntryWeighter,
            DefaultHashBuilder::default(),
            EvictionCounter(Arc::clone(&removals)),
        );
        Self(Arc::new(Shared {
            config,
            entries,
            single_flight: Mutex::default(),
            eviction_lock: Mutex::default(),
            removals,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            stale: AtomicU64::new(0),
            coalesced: AtomicU64::new(0),
            bypassed: AtomicU64::new(0),
        }))
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

    /// Returns the maximum bytes of values, their keys and entries.
    pub fn bytes_max(&self) -> u64 {
        self.0.config.bytes_max
    }

    /// Returns the maximum bytes of a cached value.
    pub fn entry_bytes_max(&self) -> u64 {
        self.0.config.entry_bytes_max
    }

    /// Returns the bytes of values, keys and entries.
    pub fn bytes(&self) -> u64 {
        self.0.entries.weight()
    }

    /// Returns the bytes of the cached values' content: less than [`Self::bytes`], most of all for small values.
    pub fn content_bytes(&self) -> u64 {
        self.0.removals.content_bytes.load(Ordering::Relaxed)
    }

    /// Returns the counters of the cache.
    pub fn counters(&self) -> Counters {
        let shared = &self.0;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            hits: read(&shared.hits),
            misses: read(&shared.misses),
            stale: read(&shared.stale),
            coalesced: read(&shared.coalesced),
            bypassed: read(&shared.bypassed),
            evicted: read(&shared.removals.evicted),
            bytes: shared.entries.weight(),
            entries: shared.entries.len() as u64,
        }
    }

    /// Returns the entry of a key, valid or not.
    pub(crate) fn entry(&self, key: &[u8]) -> Option<Arc<Entry<V>>> {
        self.0.entries.get(key)
    }

    /// Removes an entry, unless another one has replaced it.
    pub(crate) fn remove(&self, key: &[u8], entry: &Arc<Entry<V>>) {
        let removed = self.0.entries.remove_if(key, |cached| Arc::ptr_eq(cached, entry));
        self.count_removal(removed.map(|(_, entry)| entry));
    }

    fn count_removal(&self, removed: Option<Arc<Entry<V>>>) {
        if let Some(entry) = removed {
            self.0.removals.subtract_content(&entry);
        }
    }

    /// Caches an entry. If its value is too large, only that is cached, so that later callers do not fill it again: a
    /// caller compares the length of a value with the limit while it computes the value, and [`Weight::bytes`] may be
    /// more.
    pub(crate) fn insert(&self, key: Box<[u8]>, entry: &Arc<Entry<V>>) {
        let Config { bytes_max, entry_bytes_max, .. } = self.0.config;
        if bytes_max == 0 {
            return;
        }
        let bytes = entry.value.as_ref().map_or(0, Weight::bytes);
        let entry = match bytes <= entry_bytes_max {
            true => Arc::clone(entry),
            false => Arc::new(entry.without_value()),
        };
        // A replaced entry does not count as evicted.
        let replaced = self.0.entries.remove(&key);
        self.count_removal(replaced.map(|(_, entry)| entry));
        // Before the insertion, which may evict the entry at once.
        self.0.removals.add_content(&entry);
        self.0.entries.insert(key, entry);
    }
}

impl<V: Weight> Clone for Cache<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

pub(crate) fn count(counter: &AtomicU64) {
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

/// Counters that change when an entry leaves the cache.
#[derive(Default)]
struct RemovalCounters {
    evicted: AtomicU64,
    /// Bytes of the cached values' content.
    content_bytes: AtomicU64,
}

impl RemovalCounters {
    fn add_content<V: Weight>(&self, entry: &Entry<V>) {
        self.content_bytes.fetch_add(content_bytes(entry), Ordering::Relaxed);
    }

    fn subtract_content<V: Weight>(&self, entry: &Entry<V>) {
        self.content_bytes.fetch_sub(content_bytes(entry), Ordering::Relaxed);
    }
}

fn content_bytes<V: Weight>(entry: &Entry<V>) -> u64 {
    entry.value.as_ref().map_or(0, Weight::content_bytes)
}

/// Counts the entries that the cache evicts, and those that it does not admit.
#[derive(Clone)]
struct EvictionCounter(Arc<RemovalCounters>);

impl<V: Weight> Lifecycle<Box<[u8]>, Arc<Entry<V>>> for EvictionCounter {
    type RequestState = ();

    fn begin_request(&self) -> Self::RequestState {}

    fn on_evict(&self, (): &mut Self::RequestState, _: Box<[u8]>, entry: Arc<Entry<V>>) {
        count(&self.0.evicted);
        self.0.subtract_content(&entry);
    }
}
