//! Rival indices, in their own structures: an `RwLock<HashMap>` for each key,
//! Agave's maps there and back, and a DashMap for each key.

use std::collections::{HashMap, HashSet};
use std::sync::RwLock as StdRwLock;

use dashmap::DashMap;
use parking_lot::RwLock;
use solana_pubkey::Pubkey;

/// An index from keys to records, both by pubkey.
pub(crate) trait Baseline: Send + Sync {
    /// Adds a key or entry. The caller has the index to itself.
    fn put(&mut self, key: Pubkey, record: Pubkey);
    /// Adds an entry of an existing key, alongside readers.
    fn insert(&self, key: &Pubkey, record: Pubkey);
    /// Removes an entry, alongside readers.
    fn remove(&self, key: &Pubkey, record: &Pubkey);
    /// Visits all records of a key. Returns their number.
    fn scan(&self, key: &Pubkey) -> usize;
    /// Copies all records of a key, as Agave's reads do.
    fn copy(&self, key: &Pubkey, into: &mut Vec<Pubkey>);
}

/// `HashMap<Pubkey, RwLock<HashMap<Pubkey, ()>>>`.
#[derive(Default)]
pub(crate) struct Locked(HashMap<Pubkey, RwLock<HashMap<Pubkey, ()>>>);

impl Baseline for Locked {
    fn put(&mut self, key: Pubkey, record: Pubkey) {
        self.0.entry(key).or_default().get_mut().insert(record, ());
    }

    fn insert(&self, key: &Pubkey, record: Pubkey) {
        if let Some(records) = self.0.get(key) {
            records.write().insert(record, ());
        }
    }

    fn remove(&self, key: &Pubkey, record: &Pubkey) {
        if let Some(records) = self.0.get(key) {
            records.write().remove(record);
        }
    }

    fn scan(&self, key: &Pubkey) -> usize {
        let Some(records) = self.0.get(key) else { return 0 };
        records.read().keys().map(seen).sum()
    }

    fn copy(&self, key: &Pubkey, into: &mut Vec<Pubkey>) {
        if let Some(records) = self.0.get(key) {
            into.extend(records.read().keys());
        }
    }
}

/// `DashMap<Pubkey, RwLock<HashSet<Pubkey>>>`, and a map from each record to its keys: the
/// structures of agave-accounts-db 4.2.
#[derive(Default)]
pub(crate) struct Agave {
    index: DashMap<Pubkey, StdRwLock<HashSet<Pubkey>>>,
    reverse: DashMap<Pubkey, StdRwLock<Vec<Pubkey>>>,
}

impl Agave {
    /// With as many shards in its two maps as DashMap uses on `cores` cores.
    pub(crate) fn on_cores(cores: usize) -> Self {
        let shards = shards_on_cores(cores);
        Self {
            index: DashMap::with_shard_amount(shards),
            reverse: DashMap::with_shard_amount(shards),
        }
    }

    fn enter(&self, key: &Pubkey, record: Pubkey) {
        let is_new = match self.index.get(key) {
            Some(records) => records.write().is_ok_and(|mut records| records.insert(record)),
            None => {
                let records = self.index.entry(*key).or_default();
                records.write().is_ok_and(|mut records| records.insert(record))
            }
        };
        // As in Agave: capacity for one, so that a record of one key costs no more.
        let one = || StdRwLock::new(Vec::with_capacity(1));
        if is_new && let Ok(mut keys) = self.reverse.entry(record).or_insert_with(one).write() {
            keys.push(*key);
        }
    }
}

impl Baseline for Agave {
    fn put(&mut self, key: Pubkey, record: Pubkey) {
        self.enter(&key, record);
    }

    fn insert(&self, key: &Pubkey, record: Pubkey) {
        self.enter(key, record);
    }

    fn remove(&self, key: &Pubkey, record: &Pubkey) {
        self.reverse.remove(record);
        if let Some(records) = self.index.get(key)
            && let Ok(mut records) = records.write()
        {
            records.remove(record);
        }
    }

    fn scan(&self, key: &Pubkey) -> usize {
        let Some(records) = self.index.get(key) else { return 0 };
        records.read().map_or(0, |records| records.iter().map(seen).sum())
    }

    fn copy(&self, key: &Pubkey, into: &mut Vec<Pubkey>) {
        if let Some(records) = self.index.get(key)
            && let Ok(records) = records.read()
        {
            into.extend(records.iter());
        }
    }
}

/// `HashMap<Pubkey, DashMap<Pubkey, ()>>` with a number of shards.
pub(crate) struct Dash {
    index: HashMap<Pubkey, DashMap<Pubkey, ()>>,
    shards: usize,
}

impl Dash {
    pub(crate) fn new(shards: usize) -> Self {
        Self { index: HashMap::new(), shards }
    }
}

impl Baseline for Dash {
    fn put(&mut self, key: Pubkey, record: Pubkey) {
        let records =
            self.index.entry(key).or_insert_with(|| DashMap::with_shard_amount(self.shards));
        records.insert(record, ());
    }

    fn insert(&self, key: &Pubkey, record: Pubkey) {
        if let Some(records) = self.index.get(key) {
            records.insert(record, ());
        }
    }

    fn remove(&self, key: &Pubkey, record: &Pubkey) {
        if let Some(records) = self.index.get(key) {
            records.remove(record);
        }
    }

    fn scan(&self, key: &Pubkey) -> usize {
        let Some(records) = self.index.get(key) else { return 0 };
        records.iter().map(|record| seen(record.key())).sum()
    }

    fn copy(&self, key: &Pubkey, into: &mut Vec<Pubkey>) {
        if let Some(records) = self.index.get(key) {
            into.extend(records.iter().map(|record| *record.key()));
        }
    }
}

/// `DashMap<Pubkey, HashMap<Pubkey, ()>>`: a write locks the shard of the key.
#[derive(Default)]
pub(crate) struct DashOutside(DashMap<Pubkey, HashMap<Pubkey, ()>>);

impl Baseline for DashOutside {
    fn put(&mut self, key: Pubkey, record: Pubkey) {
        self.0.entry(key).or_default().insert(record, ());
    }

    fn insert(&self, key: &Pubkey, record: Pubkey) {
        if let Some(mut records) = self.0.get_mut(key) {
            records.insert(record, ());
        }
    }

    fn remove(&self, key: &Pubkey, record: &Pubkey) {
        if let Some(mut records) = self.0.get_mut(key) {
            records.remove(record);
        }
    }

    fn scan(&self, key: &Pubkey) -> usize {
        let Some(records) = self.0.get(key) else { return 0 };
        records.keys().map(seen).sum()
    }

    fn copy(&self, key: &Pubkey, into: &mut Vec<Pubkey>) {
        if let Some(records) = self.0.get(key) {
            into.extend(records.keys());
        }
    }
}

/// The default number of shards of a DashMap.
pub(crate) fn shards_on_cores(cores: usize) -> usize {
    (4 * cores).next_power_of_two()
}

/// Reads a record's address, as a response would.
fn seen(record: &Pubkey) -> usize {
    usize::from(std::hint::black_box(record).as_ref().len() == 32)
}
