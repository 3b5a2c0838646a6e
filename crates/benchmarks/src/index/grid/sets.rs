//! The candidates of the grid: one hot key of an index, its readers and its writers.
//!
//! Shape: a read finds the key by its address, and copies all its records into the reader's buffer, as Agave's reads
//! return a list. The records are in the form in which they are then looked up: by address in the rivals' ledger, by
//! id in ours. `ours, addresses` is ours with reads that end with the addresses, for a response that lists only these.
//! A write adds a new record. Rivals have as many writers as cores, as in `dashmap-benchmark`; ours has one, as the
//! ledger has. A write starts with the form that the ledger has after it has stored the record: its address in the
//! rivals' ledger, its id in ours. The key is looked up by its address in all of them.
//! Ours publishes whenever it has caught up with the due writes, and after [`WRITES_PER_PUBLISH_MAX`] writes at the
//! latest. Entries are visible at once; publishing makes them part of the readers' snapshot.

use std::sync::Arc;

use address::{AddressTable, Epoch};
use anyhow::Result;
use arc_swap::ArcSwap;
use index::{Index, Postings};
use ledger::{Address, AddressId, Key, KeyKind};
use solana_pubkey::Pubkey;

use super::super::baselines::{Baseline, Dash, Locked};
use super::super::keys::{Shuffled, pubkey};
use super::workload::Worker;

/// Maximum writes of one publish of ours: a transaction writes tens of records, a block thousands.
const WRITES_PER_PUBLISH_MAX: u32 = 1000;

/// The compared structures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Candidate {
    Locked,
    Dash(usize),
    /// Reads end with ids.
    Hydrant,
    /// Reads end with addresses.
    HydrantAddresses,
}

pub(crate) const CANDIDATES: [Candidate; 5] = [
    Candidate::Locked,
    Candidate::Dash(4),
    Candidate::Dash(8),
    Candidate::Hydrant,
    Candidate::HydrantAddresses,
];

/// The candidates that are ours.
pub(crate) const HYDRANT_CANDIDATES: [Candidate; 2] =
    [Candidate::Hydrant, Candidate::HydrantAddresses];

/// A key with its records, ready for the load.
pub(crate) struct Workers {
    pub(crate) readers: Vec<Box<dyn Worker>>,
    pub(crate) writers: Vec<Box<dyn Worker>>,
}

/// The ledger around the key: the addresses that its records are taken from.
pub(crate) struct World {
    table: Arc<AddressTable>,
    published: Arc<ArcSwap<Epoch>>,
    records: Shuffled,
    threads_each: u32,
}

impl Candidate {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Locked => "rwlock-hashmap".to_owned(),
            Self::Dash(shards) => format!("dashmap-{shards}"),
            Self::Hydrant => "ours".to_owned(),
            Self::HydrantAddresses => "ours, addresses".to_owned(),
        }
    }

    pub(crate) fn reads(self) -> &'static str {
        match self {
            Self::Hydrant => "ids: the input of the next lookup",
            Self::Locked | Self::Dash(_) | Self::HydrantAddresses => "addresses",
        }
    }
}

impl World {
    /// A ledger of 2^`bits` addresses and the key. Ids come in the order of registration.
    pub(crate) fn new(bits: u32) -> Result<Self> {
        let table = Arc::new(AddressTable::new((1 << bits) + 1, 42));
        for n in 0..1 << bits {
            table.retain(&address(n))?;
        }
        table.retain(&address(u32::MAX))?;
        let published = Arc::new(ArcSwap::from_pointee(table.epoch()));
        let threads_each = std::thread::available_parallelism()?.get() as u32;
        Ok(Self { table, published, records: Shuffled { bits }, threads_each })
    }

    pub(crate) fn threads_each(&self) -> u32 {
        self.threads_each
    }

    /// A candidate's key with `prior` records, random ones among all addresses.
    pub(crate) fn workers(&self, candidate: Candidate, prior: u32) -> Workers {
        match candidate {
            Candidate::Locked => self.baseline_workers(Locked::default(), prior),
            Candidate::Dash(shards) => self.baseline_workers(Dash::new(shards), prior),
            Candidate::Hydrant => self.hydrant_workers(prior, || ReadBuffer::Ids(Vec::new())),
            Candidate::HydrantAddresses => {
                self.hydrant_workers(prior, || ReadBuffer::Addresses(Vec::new()))
            }
        }
    }

    fn baseline_workers(&self, mut rival: impl Baseline + 'static, prior: u32) -> Workers {
        let key = pubkey(u32::MAX);
        // The key always exists: a set without records is measured too.
        rival.put(key, key);
        rival.remove(&key, &key);
        (0..prior).for_each(|n| rival.put(key, pubkey(self.records.at(n))));
        let rival: Arc<dyn Baseline> = Arc::new(rival);
        let reader = |_| -> Box<dyn Worker> {
            Box::new(BaselineReader { baseline: Arc::clone(&rival), key, buffer: Vec::new() })
        };
        let writer = |nth| -> Box<dyn Worker> {
            Box::new(BaselineWriter {
                baseline: Arc::clone(&rival),
                key,
                records: self.records,
                next: prior + nth,
                step: self.threads_each,
            })
        };
        Workers {
            readers: (0..self.threads_each).map(reader).collect(),
            writers: (0..self.threads_each).map(writer).collect(),
        }
    }

    fn hydrant_workers(&self, prior: u32, seen: impl Fn() -> ReadBuffer) -> Workers {
        let mut index = Index::new(self.table.limit(), 42);
        let key = address(u32::MAX);
        if let Some(id) = self.table.lookup(&key) {
            for n in 0..prior {
                index.insert(Key { kind: KeyKind(0), id }, AddressId(self.records.at(n)));
            }
        }
        let reader = |_| -> Box<dyn Worker> {
            Box::new(HydrantReader {
                table: Arc::clone(&self.table),
                published: Arc::clone(&self.published),
                postings: Arc::clone(index.postings()),
                key,
                buffer: seen(),
            })
        };
        let readers = (0..self.threads_each).map(reader).collect();
        let writer = HydrantWriter {
            table: Arc::clone(&self.table),
            published: Arc::clone(&self.published),
            index,
            key,
            records: self.records,
            next: prior,
            unpublished: 0,
        };
        Workers { readers, writers: vec![Box::new(writer)] }
    }
}

fn address(n: u32) -> Address {
    Address::from(pubkey(n).to_bytes())
}

struct BaselineReader {
    baseline: Arc<dyn Baseline>,
    key: Pubkey,
    buffer: Vec<Pubkey>,
}

impl Worker for BaselineReader {
    fn work(&mut self) {
        self.buffer.clear();
        self.baseline.copy(&self.key, &mut self.buffer);
        std::hint::black_box(&self.buffer);
    }
}

struct BaselineWriter {
    baseline: Arc<dyn Baseline>,
    key: Pubkey,
    records: Shuffled,
    next: u32,
    step: u32,
}

impl Worker for BaselineWriter {
    fn work(&mut self) {
        self.baseline.insert(&self.key, pubkey(self.records.at(self.next)));
        self.next += self.step;
    }
}

struct HydrantReader {
    table: Arc<AddressTable>,
    published: Arc<ArcSwap<Epoch>>,
    postings: Arc<Postings>,
    key: Address,
    buffer: ReadBuffer,
}

/// The result of a read of ours.
enum ReadBuffer {
    Ids(Vec<AddressId>),
    Addresses(Vec<[u8; 32]>),
}

impl Worker for HydrantReader {
    fn work(&mut self) {
        let _epoch = self.published.load();
        let Some(id) = self.table.lookup(&self.key) else { return };
        let mut records = self.postings.records(Key { kind: KeyKind(0), id });
        match &mut self.buffer {
            ReadBuffer::Ids(seen) => {
                seen.clear();
                while let Some(ids) = records.batch() {
                    seen.extend(ids);
                }
                std::hint::black_box(seen);
            }
            ReadBuffer::Addresses(seen) => {
                seen.clear();
                while let Some(ids) = records.batch() {
                    self.table.copy_addresses(ids, seen);
                }
                std::hint::black_box(seen);
            }
        }
    }
}

struct HydrantWriter {
    table: Arc<AddressTable>,
    published: Arc<ArcSwap<Epoch>>,
    index: Index,
    key: Address,
    records: Shuffled,
    next: u32,
    unpublished: u32,
}

impl Worker for HydrantWriter {
    fn work(&mut self) {
        let Some(id) = self.table.lookup(&self.key) else { return };
        self.index.insert(Key { kind: KeyKind(0), id }, AddressId(self.records.at(self.next)));
        self.next += 1;
        self.unpublished += 1;
        if self.unpublished == WRITES_PER_PUBLISH_MAX {
            self.on_idle();
        }
    }

    fn on_idle(&mut self) {
        if std::mem::take(&mut self.unpublished) > 0 {
            self.published.store(Arc::new(self.table.epoch()));
            self.index.reclaim_some(self.table.oldest_pinned_epoch());
        }
    }
}
