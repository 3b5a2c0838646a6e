//! The candidates of the grid: one hot key of an index, its readers and its writers.
//!
//! Shape: a read finds the key by its address and ends with all its records in the reader's buffer,
//! as Agave's ends with a list of them, in the form by which the records are then looked up: in the
//! rivals' ledger by address, in ours by id. `ours, addresses` is ours with reads that end with the
//! addresses, for an answer that is nothing else. A write adds a record that is not in. Rivals
//! have as many writers as cores, as in `dashmap-benchmark`; ours has one, as the ledger has.
//! A write begins with what the ledger has at hand after it has stored the record: its address in
//! the rivals' ledger, its id in ours. The key is looked up by its address in all of them.
//! Ours publishes whenever it has caught up with what is due, and after [`SHOWN_AT_MOST`] writes at
//! the latest: entries are seen at once, and this is what makes them part of the readers' snapshot.

use std::sync::Arc;

use address::{AddressTable, Epoch};
use anyhow::Result;
use arc_swap::ArcSwap;
use index::{Index, Postings};
use ledger::{Address, AddressId, Key, KeyKind};
use solana_pubkey::Pubkey;

use super::super::keys::{Shuffled, pubkey};
use super::super::rivals::{Dash, Locked, Rival};
use super::load::Worker;

/// Writes that a publish of ours shows at most: a transaction writes tens of records, a block
/// thousands.
const SHOWN_AT_MOST: u32 = 1000;

/// Who is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Candidate {
    Locked,
    Dash(usize),
    /// Reads end with ids.
    Ours,
    /// Reads end with addresses.
    OursAddresses,
}

pub(crate) const CANDIDATES: [Candidate; 5] = [
    Candidate::Locked,
    Candidate::Dash(4),
    Candidate::Dash(8),
    Candidate::Ours,
    Candidate::OursAddresses,
];

/// Those of them that are ours.
pub(crate) const OURS: [Candidate; 2] = [Candidate::Ours, Candidate::OursAddresses];

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
            Self::Ours => "ours".to_owned(),
            Self::OursAddresses => "ours, addresses".to_owned(),
        }
    }

    /// What a read of it ends with.
    pub(crate) fn reads(self) -> &'static str {
        match self {
            Self::Ours => "ids: what the next look-up takes",
            Self::Locked | Self::Dash(_) | Self::OursAddresses => "addresses",
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
            Candidate::Locked => self.theirs(Locked::default(), prior),
            Candidate::Dash(shards) => self.theirs(Dash::new(shards), prior),
            Candidate::Ours => self.ours(prior, || Seen::Ids(Vec::new())),
            Candidate::OursAddresses => self.ours(prior, || Seen::Addresses(Vec::new())),
        }
    }

    fn theirs(&self, mut rival: impl Rival + 'static, prior: u32) -> Workers {
        let key = pubkey(u32::MAX);
        // The key is there in any case: a set without records is measured too.
        rival.put(key, key);
        rival.remove(&key, &key);
        (0..prior).for_each(|n| rival.put(key, pubkey(self.records.at(n))));
        let rival: Arc<dyn Rival> = Arc::new(rival);
        let reader = |_| -> Box<dyn Worker> {
            Box::new(TheirReader { rival: Arc::clone(&rival), key, seen: Vec::new() })
        };
        let writer = |nth| -> Box<dyn Worker> {
            Box::new(TheirWriter {
                rival: Arc::clone(&rival),
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

    fn ours(&self, prior: u32, seen: impl Fn() -> Seen) -> Workers {
        let mut index = Index::new(self.table.limit(), 42);
        let key = address(u32::MAX);
        if let Some(id) = self.table.lookup(&key) {
            for n in 0..prior {
                index.insert(Key { kind: KeyKind(0), id }, AddressId(self.records.at(n)));
            }
        }
        let reader = |_| -> Box<dyn Worker> {
            Box::new(OurReader {
                table: Arc::clone(&self.table),
                published: Arc::clone(&self.published),
                postings: Arc::clone(index.postings()),
                key,
                seen: seen(),
            })
        };
        let readers = (0..self.threads_each).map(reader).collect();
        let writer = OurWriter {
            table: Arc::clone(&self.table),
            published: Arc::clone(&self.published),
            index,
            key,
            records: self.records,
            next: prior,
            unshown: 0,
        };
        Workers { readers, writers: vec![Box::new(writer)] }
    }
}

fn address(n: u32) -> Address {
    Address::from(pubkey(n).to_bytes())
}

struct TheirReader {
    rival: Arc<dyn Rival>,
    key: Pubkey,
    seen: Vec<Pubkey>,
}

impl Worker for TheirReader {
    fn work(&mut self) {
        self.seen.clear();
        self.rival.copy(&self.key, &mut self.seen);
        std::hint::black_box(&self.seen);
    }
}

struct TheirWriter {
    rival: Arc<dyn Rival>,
    key: Pubkey,
    records: Shuffled,
    next: u32,
    step: u32,
}

impl Worker for TheirWriter {
    fn work(&mut self) {
        self.rival.insert(&self.key, pubkey(self.records.at(self.next)));
        self.next += self.step;
    }
}

struct OurReader {
    table: Arc<AddressTable>,
    published: Arc<ArcSwap<Epoch>>,
    postings: Arc<Postings>,
    key: Address,
    seen: Seen,
}

/// What a read of ours ends with.
enum Seen {
    Ids(Vec<AddressId>),
    Addresses(Vec<[u8; 32]>),
}

impl Worker for OurReader {
    fn work(&mut self) {
        let _epoch = self.published.load();
        let Some(id) = self.table.lookup(&self.key) else { return };
        let mut records = self.postings.records(Key { kind: KeyKind(0), id });
        match &mut self.seen {
            Seen::Ids(seen) => {
                seen.clear();
                while let Some(ids) = records.batch() {
                    seen.extend(ids);
                }
                std::hint::black_box(seen);
            }
            Seen::Addresses(seen) => {
                seen.clear();
                while let Some(ids) = records.batch() {
                    self.table.copy_addresses(ids, seen);
                }
                std::hint::black_box(seen);
            }
        }
    }
}

struct OurWriter {
    table: Arc<AddressTable>,
    published: Arc<ArcSwap<Epoch>>,
    index: Index,
    key: Address,
    records: Shuffled,
    next: u32,
    unshown: u32,
}

impl Worker for OurWriter {
    fn work(&mut self) {
        let Some(id) = self.table.lookup(&self.key) else { return };
        self.index.insert(Key { kind: KeyKind(0), id }, AddressId(self.records.at(self.next)));
        self.next += 1;
        self.unshown += 1;
        if self.unshown == SHOWN_AT_MOST {
            self.rest();
        }
    }

    fn rest(&mut self) {
        if std::mem::take(&mut self.unshown) > 0 {
            self.published.store(Arc::new(self.table.epoch()));
            self.index.reclaim_some(self.table.oldest_pinned_epoch());
        }
    }
}
