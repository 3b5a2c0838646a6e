//! The highest-ranked records, of all and of every key that many are found by: kept at write time,
//! so that a read of the highest few looks at a few.
//!
//! Shape: for each such set a [`TopRecords`]: places by rank, one for every version that is kept, as the
//! index has one entry for every key of one. A reader walks it from the highest place and leaves out
//! those that his block does not see; so forks and commitments need nothing more.
//!
//! Bounds: a [`TopRecords`] has at most [`RankBounds::entries_max`] places and says below which it knows
//! nothing. When too many of them are gone it is filled again from the index, a few records a write;
//! a reader for whom it does not suffice reads all records of the set. Keys that few records are found
//! by keep nothing: reading those is as good.
//! Cost: a write below the lowest place kept costs a look-up.
//! Not here: what a rank is (the record says), reading (`highest`).

use std::collections::BTreeMap;

use address::AddressTable;
use imbl::{OrdMap, OrdSet};
use index::Index;
use ledger::{Address, AddressId, Key, Record};
use state::{RemovedVersion, State, Version, VisibleVersion};

use crate::view::address_resolver;

/// How much is kept to answer which records rank highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankBounds {
    /// A key that no more records are found by keeps nothing.
    pub scanned_max: usize,
    /// How many places are kept of all, and of each key of more: 24 bytes each.
    pub entries_max: usize,
    /// How many records are read again at a time to fill a set up, beside as many as are written.
    pub refill_batch_len: usize,
}

impl Default for RankBounds {
    fn default() -> Self {
        // Reading 512 records is a quarter of a millisecond; clients are given 20.
        Self { scanned_max: 512, entries_max: 512, refill_batch_len: 64 }
    }
}

/// About how many heap bytes the places that readers have take. Cost: O(sets); for reports.
pub(crate) fn bytes_of(tops: &OrdMap<RankScope, TopRecords>) -> usize {
    tops.values().map(|top| top.entries.len()).sum::<usize>() * ENTRY_BYTES
}

/// Records read at a time when a set is filled up at once.
const REFILL_ALL_BATCH_LEN: usize = 4_096;
/// A place and its part of the tree that it stands in, two thirds full.
const ENTRY_BYTES: usize = size_of::<RankEntry>() * 3 / 2;

/// Among which records one has a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RankScope {
    All,
    Key(Key),
}

/// A version's place in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RankEntry {
    pub(crate) rank: u64,
    /// The first bytes of the address: of equal ranks the higher address is first.
    pub(crate) head: u64,
    pub(crate) id: AddressId,
}

/// The highest places of a set.
#[derive(Clone, Default)]
pub(crate) struct TopRecords {
    entries: OrdSet<RankEntry>,
    /// The highest place that was left out: every kept version above it has its place here.
    floor: Option<RankEntry>,
}

/// The writer's side.
pub(crate) struct RankIndex {
    bounds: RankBounds,
    tops: OrdMap<RankScope, TopRecords>,
    refills: BTreeMap<RankScope, RefillTask>,
}

/// A [`TopRecords`] in the making. Writes to what was read already go to it as well, so that it is right
/// once all was read.
struct RefillTask {
    next: TopRecords,
    /// Records from here on are yet to be read.
    from: AddressId,
}

impl RankIndex {
    /// Of an empty ledger.
    pub(crate) fn new(bounds: RankBounds) -> Self {
        Self {
            bounds,
            tops: OrdMap::unit(RankScope::All, TopRecords::default()),
            refills: BTreeMap::new(),
        }
    }

    /// What readers get. Cheap to clone.
    pub(crate) fn tops(&self) -> &OrdMap<RankScope, TopRecords> {
        &self.tops
    }

    /// How many places are kept.
    pub(crate) fn len(&self) -> usize {
        let refills = self.refills.values().map(|refill| &refill.next);
        self.tops.values().chain(refills).map(|top| top.entries.len()).sum()
    }

    /// About how many heap bytes the places take, those of sets that are being filled included.
    pub(crate) fn bytes(&self) -> usize {
        self.len() * ENTRY_BYTES
    }

    /// Takes in a version that is written now. Its `new_keys` are in the index already.
    pub(crate) fn insert<R: Record>(
        &mut self,
        addresses: &AddressTable,
        index: &Index,
        (id, version, new_keys): (AddressId, &Version<R>, &[Key]),
    ) {
        let Some(record) = version.record.as_deref() else { return };
        for (among, rank) in ranks(record, version.keys.iter().copied()) {
            if let RankScope::Key(key) = among
                && new_keys.contains(&key)
                && index.len_of(key) > self.bounds.scanned_max
                && !self.tops.contains_key(&among)
            {
                self.start_refill(among);
            }
            self.insert_at(addresses, among, rank, id);
        }
    }

    /// Takes out what only a removed version needed. The index and the state are without it already.
    pub(crate) fn remove<R: Record, M>(
        &mut self,
        addresses: &AddressTable,
        (state, index): (&State<R, M>, &Index),
        removed: &RemovedVersion<R>,
    ) {
        let Some(version) = removed.version() else { return };
        let resolve = address_resolver(addresses);
        let all = std::iter::once(RankScope::All).chain(version.keys().map(RankScope::Key));
        for among in all {
            let Some(rank) = rank_of(&version, among, &resolve) else { continue };
            let is_needed = || {
                let mut kept = state.versions_of(removed.id);
                kept.any(|version| rank_of(&version, among, &resolve) == Some(rank))
            };
            if self.may_contain(among, rank) && !is_needed() {
                self.remove_at(addresses, among, rank, removed.id);
            }
        }
        for key in version.keys() {
            let among = RankScope::Key(key);
            let is_kept = self.tops.contains_key(&among) || self.refills.contains_key(&among);
            if is_kept && index.len_of(key) <= self.bounds.scanned_max / 2 {
                self.refills.remove(&among);
                self.tops.remove(&among);
            }
        }
    }

    /// Reads a few more records for a set that is to be filled up, if there is one: more, the more
    /// were `written`.
    pub(crate) fn refill<R: Record, M>(
        &mut self,
        addresses: &AddressTable,
        from: (&State<R, M>, &Index),
        written: usize,
    ) {
        if let Some((among, refill)) = self.refills.pop_first() {
            self.refill_some(
                addresses,
                from,
                among,
                refill,
                self.bounds.refill_batch_len + written,
            );
        }
    }

    /// Fills up all sets that are to be.
    pub(crate) fn refill_all<R: Record, M>(
        &mut self,
        addresses: &AddressTable,
        from: (&State<R, M>, &Index),
    ) {
        while let Some((among, refill)) = self.refills.pop_first() {
            self.refill_some(addresses, from, among, refill, REFILL_ALL_BATCH_LEN);
        }
    }

    fn refill_some<R: Record, M>(
        &mut self,
        addresses: &AddressTable,
        (state, index): (&State<R, M>, &Index),
        among: RankScope,
        mut refill: RefillTask,
        at_once: usize,
    ) {
        let resolve = address_resolver(addresses);
        let ids: Vec<AddressId> = match among {
            RankScope::All => state.ids_from(refill.from).take(at_once).collect(),
            RankScope::Key(key) => {
                index.postings().records_from(key, refill.from).take(at_once).collect()
            }
        };
        for id in &ids {
            for rank in
                state.versions_of(*id).filter_map(|version| rank_of(&version, among, &resolve))
            {
                refill.next.insert(addresses, rank, *id, self.bounds.entries_max);
            }
        }
        match ids.last().and_then(|last| last.0.checked_add(1)) {
            Some(from) if ids.len() == at_once => {
                refill.from = AddressId(from);
                self.refills.insert(among, refill);
            }
            _ => {
                self.tops.insert(among, refill.next);
            }
        }
    }

    fn start_refill(&mut self, among: RankScope) {
        let start = || RefillTask { next: TopRecords::default(), from: AddressId(0) };
        self.refills.entry(among).or_insert_with(start);
    }

    /// Whether a place of that rank may be kept.
    fn may_contain(&self, among: RankScope, rank: u64) -> bool {
        self.tops.get(&among).is_some_and(|top| top.reaches(rank))
            || self.refills.get(&among).is_some_and(|refill| refill.next.reaches(rank))
    }

    fn insert_at(&mut self, addresses: &AddressTable, among: RankScope, rank: u64, id: AddressId) {
        let kept_max = self.bounds.entries_max;
        if self.tops.get(&among).is_some_and(|top| top.reaches(rank))
            && let Some(top) = self.tops.get_mut(&among)
        {
            top.insert(addresses, rank, id, kept_max);
        }
        // What stands at `from` or behind it is yet to be read.
        if let Some(refill) = self.refills.get_mut(&among)
            && id < refill.from
        {
            refill.next.insert(addresses, rank, id, kept_max);
        }
    }

    fn remove_at(&mut self, addresses: &AddressTable, among: RankScope, rank: u64, id: AddressId) {
        let place = RankEntry::new(addresses, rank, id);
        if let Some(refill) = self.refills.get_mut(&among) {
            refill.next.entries.remove(&place);
        }
        let Some(top) = self.tops.get_mut(&among) else { return };
        top.entries.remove(&place);
        if top.floor.is_some() && top.entries.len() < self.bounds.entries_max / 4 {
            self.start_refill(among);
        }
    }
}

impl TopRecords {
    /// The places, the highest first.
    pub(crate) fn descending(&self) -> impl Iterator<Item = &RankEntry> {
        self.entries.iter().rev()
    }

    /// The highest place that is not kept; `None` if all are.
    pub(crate) fn floor(&self) -> Option<RankEntry> {
        self.floor
    }

    /// Whether a place of that rank may be above the floor.
    fn reaches(&self, rank: u64) -> bool {
        self.floor.is_none_or(|floor| rank >= floor.rank)
    }

    fn insert(&mut self, addresses: &AddressTable, rank: u64, id: AddressId, kept_max: usize) {
        if !self.reaches(rank) {
            return;
        }
        let place = RankEntry::new(addresses, rank, id);
        if self.floor.is_some_and(|floor| place <= floor) || self.entries.contains(&place) {
            return;
        }
        self.entries.insert(place);
        if self.entries.len() > kept_max {
            self.floor = self.entries.remove_min();
        }
    }
}

impl RankEntry {
    fn new(addresses: &AddressTable, rank: u64, id: AddressId) -> Self {
        let address = addresses.address(id);
        debug_assert!(address.is_some(), "{id:?} has a version, which counts on its address");
        let mut head = [0; 8];
        let bytes = address.as_ref().map_or(&[][..], ledger::Address::as_bytes);
        head.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        Self { rank, head: u64::from_be_bytes(head), id }
    }
}

/// A version's rank, if it has one there.
pub(crate) fn rank_of<R: Record>(
    version: &VisibleVersion<'_, R>,
    among: RankScope,
    resolve: impl Fn(AddressId) -> Address,
) -> Option<u64> {
    if let RankScope::Key(key) = among
        && !version.has_key(key)
    {
        return None;
    }
    let facet = match among {
        RankScope::All => None,
        RankScope::Key(key) => Some(key.kind),
    };
    version.rank(facet, resolve)
}

/// The rank of a record that is among those.
pub(crate) fn rank<R: Record>(record: &R, among: RankScope) -> Option<u64> {
    match among {
        RankScope::All => record.global_rank(),
        RankScope::Key(key) => record.rank_in(key.kind),
    }
}

/// Everywhere that a record has a rank.
fn ranks<R: Record>(
    record: &R,
    keys: impl Iterator<Item = Key>,
) -> impl Iterator<Item = (RankScope, u64)> {
    let all = std::iter::once(RankScope::All).chain(keys.map(RankScope::Key));
    all.filter_map(|among| Some((among, rank(record, among)?)))
}
