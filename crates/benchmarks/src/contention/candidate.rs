//! The compared structures: one hot key of an index, its readers and its writers.
//!
//! Shape: a read finds the key by its address and copies all its records into the reader's buffer, in the form in which
//! they are then looked up: by address in the rivals' ledger, by id in ours. A write adds a new record, from the form
//! that the ledger has after it has stored the record. Rivals have as many writers as cores, as in dashmap-benchmark;
//! ours has one, as the ledger has. Ours publishes whenever it has caught up with the due writes, and after
//! [`WRITES_PER_PUBLISH_MAX`] writes at the latest.
//! Not here: reads that end with addresses or with records, and registration (`like_for_like`).

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use address::{AddressTable, Epoch};
use anyhow::Result;
use arc_swap::ArcSwap;
use index::{Index, Postings};
use ledger::{Address, AddressId, Key, KeyKind};
use solana_pubkey::Pubkey;

use super::load::Worker;
use crate::index::baselines::{Baseline, Dash, DashOutside, Locked};
use crate::index::keys::{Shuffled, pubkey};

/// Maximum writes of one publish of ours: a transaction writes tens of records, a block thousands.
pub(super) const WRITES_PER_PUBLISH_MAX: u32 = 1_000;

/// A candidate's name and constructor.
pub(super) type NamedCandidate = (&'static str, fn(prior: u32) -> Result<Box<dyn Candidate>>);

pub(super) const CANDIDATES: [NamedCandidate; 6] = [
    ("rwlock-hashmap", |prior| baseline(Locked::default(), prior)),
    ("dashmap-4", |prior| baseline(Dash::new(4), prior)),
    ("dashmap-8", |prior| baseline(Dash::new(8), prior)),
    ("dashmap-16", |prior| baseline(Dash::new(16), prior)),
    ("dashmap-hashmap", |prior| baseline(DashOutside::default(), prior)),
    (OURS, |prior| Ok(Box::new(HydrantKey::new(prior)?))),
];

pub(super) const OURS: &str = "ours";

/// A key with its records.
pub(super) trait Candidate {
    fn readers(&self) -> Vec<Box<dyn Worker>>;
    /// Writers of the records with numbers from `first` on: the nth of `n` writes every nth of them.
    fn writers(&self, first: u32) -> Vec<Box<dyn Worker>>;
    /// Removes records by their numbers.
    fn remove(&self, numbers: Range<u32>);
    /// Number of records.
    #[cfg(test)]
    fn len(&self) -> usize;
}

/// The order in which records are taken from all possible ones.
const RECORDS: Shuffled = Shuffled { bits: 25 };

fn record(number: u32) -> Pubkey {
    pubkey(RECORDS.at(number))
}

fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

struct BaselineKey {
    baseline: Arc<dyn Baseline>,
    key: Pubkey,
}

fn baseline(mut baseline: impl Baseline + 'static, prior: u32) -> Result<Box<dyn Candidate>> {
    let key = pubkey(u32::MAX);
    // The key always exists: a set without records is measured too.
    baseline.put(key, key);
    baseline.remove(&key, &key);
    (0..prior).for_each(|number| baseline.put(key, record(number)));
    Ok(Box::new(BaselineKey { baseline: Arc::new(baseline), key }))
}

impl Candidate for BaselineKey {
    fn readers(&self) -> Vec<Box<dyn Worker>> {
        let reader = |_| -> Box<dyn Worker> {
            let baseline = Arc::clone(&self.baseline);
            Box::new(BaselineReader { baseline, key: self.key, buffer: Vec::new() })
        };
        (0..cores()).map(reader).collect()
    }

    fn writers(&self, first: u32) -> Vec<Box<dyn Worker>> {
        let writer = |nth| -> Box<dyn Worker> {
            let baseline = Arc::clone(&self.baseline);
            Box::new(BaselineWriter { baseline, key: self.key, next: first + nth, step: cores() })
        };
        (0..cores()).map(writer).collect()
    }

    fn remove(&self, numbers: Range<u32>) {
        numbers.for_each(|number| self.baseline.remove(&self.key, &record(number)));
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.baseline.scan(&self.key)
    }
}

struct BaselineReader {
    baseline: Arc<dyn Baseline>,
    key: Pubkey,
    buffer: Vec<Pubkey>,
}

impl Worker for BaselineReader {
    fn run_once(&mut self) -> u64 {
        self.buffer.clear();
        self.baseline.copy(&self.key, &mut self.buffer);
        std::hint::black_box(&self.buffer).len() as u64
    }
}

struct BaselineWriter {
    baseline: Arc<dyn Baseline>,
    key: Pubkey,
    next: u32,
    step: u32,
}

impl Worker for BaselineWriter {
    fn run_once(&mut self) -> u64 {
        self.baseline.insert(&self.key, record(self.next));
        self.next += self.step;
        1
    }
}

/// The index, the address table that has the key, and the epoch that readers pin.
#[derive(Clone)]
struct HydrantKey {
    table: Arc<AddressTable>,
    published: Arc<ArcSwap<Epoch>>,
    postings: Arc<Postings>,
    /// Taken by the one writer for as long as it writes.
    index: Arc<Mutex<Index>>,
    address: Address,
}

impl HydrantKey {
    fn new(prior: u32) -> Result<Self> {
        let table = Arc::new(AddressTable::new(1, 42));
        let address = Address::from(pubkey(u32::MAX).to_bytes());
        let id = table.retain(&address)?;
        let mut index = Index::new(1 << RECORDS.bits, 42);
        let key = Key { kind: KeyKind(0), id };
        for number in 0..prior {
            index.insert(key, AddressId(RECORDS.at(number)));
        }
        let published = Arc::new(ArcSwap::from_pointee(table.epoch()));
        let postings = Arc::clone(index.postings());
        Ok(Self { table, published, postings, index: Arc::new(Mutex::new(index)), address })
    }

    fn key(&self) -> Option<Key> {
        Some(Key { kind: KeyKind(0), id: self.table.lookup(&self.address)? })
    }

    fn with_index<T>(&self, work: impl FnOnce(&mut Index) -> T) -> T {
        work(&mut self.index.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Candidate for HydrantKey {
    fn readers(&self) -> Vec<Box<dyn Worker>> {
        let reader = |_| -> Box<dyn Worker> {
            Box::new(HydrantReader { of: self.clone(), buffer: Vec::new() })
        };
        (0..cores()).map(reader).collect()
    }

    fn writers(&self, first: u32) -> Vec<Box<dyn Worker>> {
        vec![Box::new(HydrantWriter { of: self.clone(), next: first, unpublished: 0 })]
    }

    fn remove(&self, numbers: Range<u32>) {
        let Some(key) = self.key() else { return };
        self.with_index(|index| {
            for number in numbers {
                index.remove(key, AddressId(RECORDS.at(number)), 0);
            }
            index.reclaim(u64::MAX);
        });
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.key().map_or(0, |key| self.postings.records(key).count())
    }
}

struct HydrantReader {
    of: HydrantKey,
    buffer: Vec<AddressId>,
}

impl Worker for HydrantReader {
    fn run_once(&mut self) -> u64 {
        let _epoch = self.of.published.load();
        let Some(key) = self.of.key() else { return 0 };
        let mut records = self.of.postings.records(key);
        self.buffer.clear();
        while let Some(ids) = records.batch() {
            self.buffer.extend(ids);
        }
        std::hint::black_box(&self.buffer).len() as u64
    }
}

struct HydrantWriter {
    of: HydrantKey,
    next: u32,
    unpublished: u32,
}

impl Worker for HydrantWriter {
    fn run_once(&mut self) -> u64 {
        let Some(key) = self.of.key() else { return 0 };
        // Not needed here, but the rivals' writers compute it too.
        std::hint::black_box(record(self.next));
        // A lock that no other thread takes meanwhile, for each write: the rivals take one, too.
        self.of.with_index(|index| index.insert(key, AddressId(RECORDS.at(self.next))));
        self.next += 1;
        self.unpublished += 1;
        if self.unpublished == WRITES_PER_PUBLISH_MAX {
            self.on_idle();
        }
        1
    }

    fn on_idle(&mut self) {
        if std::mem::take(&mut self.unpublished) > 0 {
            self.of.published.store(Arc::new(self.of.table.epoch()));
            let oldest = self.of.table.oldest_pinned_epoch();
            self.of.with_index(|index| index.reclaim_some(oldest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_read_and_undone() -> Result<()> {
        for (name, make) in CANDIDATES {
            let candidate = make(1_000)?;
            assert_eq!(candidate.len(), 1_000, "{name}");
            let mut writers = candidate.writers(1_000);
            for writer in &mut writers {
                assert_eq!((0..10).map(|_| writer.run_once()).sum::<u64>(), 10, "{name}");
            }
            writers.iter_mut().for_each(|writer| writer.on_idle());
            let written = 10 * writers.len() as u32;
            assert_eq!(candidate.len(), 1_000 + written as usize, "{name}");
            let read = candidate.readers()[0].run_once();
            assert_eq!(read, u64::from(1_000 + written), "{name}");
            candidate.remove(1_000..1_000 + written);
            assert_eq!(candidate.len(), 1_000, "{name}");
        }
        Ok(())
    }
}
