//! The highest-ranked records, of all and of every key with many records: updated by writes,
//! so that a read of the highest few visits only a few.
//!
//! Shape: for each such set a [`TopRecords`]: entries by rank, one for every live version, as the
//! index has one entry for every key of one. A reader walks it from the highest entry and skips
//! those that its block does not see; so forks and commitments need nothing more.
//!
//! Bounds: a [`TopRecords`] has at most [`RankBounds::entries_max`] entries and a floor below which it is
//! incomplete. When too many of them are removed it is refilled from the index, a few records per write.
//! A reader for which it does not suffice reads all records of the set. Keys with few records
//! have none: reading their records is as cheap.
//! Cost: a write below the floor costs a lookup.
//! Not here: the meaning of a rank (the record), reading (`top_records`).

use std::collections::BTreeMap;

use address::AddressTable;
use imbl::{OrdMap, OrdSet};
use index::Index;
use ledger::{Address, AddressId, Key, Record};
use state::{RemovedVersion, State, VisibleVersion};

use crate::address_resolver::address_resolver;
use crate::resolve_changes::ResolvedWrite;

/// The bounds of the rank index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankBounds {
    /// A key with at most this many records has no entries.
    pub scanned_max: usize,
    /// Maximum entries of all records, and of each key with more records: 24 bytes each.
    pub entries_max: usize,
    /// Records that a write reads to refill a set, in addition to as many as it writes.
    pub refill_batch_len: usize,
}

impl Default for RankBounds {
    fn default() -> Self {
        // Reading 512 records takes a quarter of a millisecond; at most 20 are returned to clients.
        Self { scanned_max: 512, entries_max: 512, refill_batch_len: 64 }
    }
}

/// Returns the approximate heap bytes of the published entries. Cost: O(sets); for reports.
pub(crate) fn heap_bytes(tops: &OrdMap<RankScope, TopRecords>) -> usize {
    tops.values().map(|top| top.entries.len()).sum::<usize>() * ENTRY_BYTES
}

/// Records read at a time when a set is refilled completely.
const REFILL_ALL_BATCH_LEN: usize = 4_096;
/// An entry and its part of the tree node, which is two thirds full.
const ENTRY_BYTES: usize = size_of::<RankEntry>() * 3 / 2;

/// The set of records in which a record has a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RankScope {
    All,
    Key(Key),
}

/// A version's entry in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RankEntry {
    pub(crate) rank: u64,
    /// The first bytes of the address: of equal ranks the higher address comes first.
    pub(crate) head: u64,
    pub(crate) id: AddressId,
}

/// The highest entries of a set.
#[derive(Clone, Default)]
pub(crate) struct TopRecords {
    entries: OrdSet<RankEntry>,
    /// The highest entry that is missing: every version above it has its entry here.
    floor: Option<RankEntry>,
}

/// The source of ranked records: the state, and the index of their keys.
pub(crate) struct IndexedRecords<'a, R, M> {
    pub(crate) state: &'a State<R, M>,
    pub(crate) index: &'a Index,
}

impl<R, M> Clone for IndexedRecords<'_, R, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R, M> Copy for IndexedRecords<'_, R, M> {}

/// The writer's side of the rank index.
pub(crate) struct RankIndex {
    bounds: RankBounds,
    tops: OrdMap<RankScope, TopRecords>,
    refills: BTreeMap<RankScope, RefillTask>,
}

/// A [`TopRecords`] that is being filled. Writes to records that were read already are applied to it too, so it is
/// correct once all are read.
struct RefillTask {
    next: TopRecords,
    /// The first record that has not been read yet.
    from: AddressId,
}

impl RankIndex {
    /// Creates the rank index of an empty ledger.
    pub(crate) fn new(bounds: RankBounds) -> Self {
        Self {
            bounds,
            tops: OrdMap::unit(RankScope::All, TopRecords::default()),
            refills: BTreeMap::new(),
        }
    }

    /// Returns the part for readers. Cheap to clone.
    pub(crate) fn tops(&self) -> &OrdMap<RankScope, TopRecords> {
        &self.tops
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        let refills = self.refills.values().map(|refill| &refill.next);
        self.tops.values().chain(refills).map(|top| top.entries.len()).sum()
    }

    /// Returns the approximate heap bytes of the entries, including those of sets that are being filled.
    pub(crate) fn bytes(&self) -> usize {
        self.len() * ENTRY_BYTES
    }

    /// Inserts a version that is written now. Its `new_keys` must be in the index already.
    pub(crate) fn insert<R: Record>(
        &mut self,
        addresses: &AddressTable,
        index: &Index,
        write: &ResolvedWrite<R>,
    ) {
        let ResolvedWrite { id, version, new_keys } = write;
        let Some(record) = version.record.as_deref() else { return };
        for (scope, rank) in ranks(record, version.keys.iter().copied()) {
            if let RankScope::Key(key) = scope
                && new_keys.contains(&key)
                && index.count_entries(key) > self.bounds.scanned_max
                && !self.tops.contains_key(&scope)
            {
                self.start_refill(scope);
            }
            self.insert_at(addresses, scope, rank, *id);
        }
    }

    /// Removes the entries that only a removed version needed. The caller has already removed it from the index and
    /// the state.
    pub(crate) fn remove<R: Record, M>(
        &mut self,
        addresses: &AddressTable,
        records: IndexedRecords<'_, R, M>,
        removed: &RemovedVersion<R>,
    ) {
        let IndexedRecords { state, index } = records;
        let Some(version) = removed.version() else { return };
        let resolve = address_resolver(addresses);
        let all = std::iter::once(RankScope::All).chain(version.keys().map(RankScope::Key));
        for scope in all {
            let Some(rank) = version_rank(&version, scope, &resolve) else { continue };
            let is_needed = || {
                let mut versions = state.find_versions(removed.id);
                versions.any(|version| version_rank(&version, scope, &resolve) == Some(rank))
            };
            if self.may_contain(scope, rank) && !is_needed() {
                self.remove_at(addresses, scope, rank, removed.id);
            }
        }
        for key in version.keys() {
            let scope = RankScope::Key(key);
            let is_ranked = self.tops.contains_key(&scope) || self.refills.contains_key(&scope);
            if is_ranked && index.count_entries(key) <= self.bounds.scanned_max / 2 {
                self.refills.remove(&scope);
                self.tops.remove(&scope);
            }
        }
    }

    /// Reads the next records for a set that must be refilled, if there is one. Their number grows with
    /// `written`.
    pub(crate) fn refill<R: Record, M>(
        &mut self,
        addresses: &AddressTable,
        from: IndexedRecords<'_, R, M>,
        written: usize,
    ) {
        if let Some((scope, refill)) = self.refills.pop_first() {
            self.refill_some(
                addresses,
                from,
                scope,
                refill,
                self.bounds.refill_batch_len + written,
            );
        }
    }

    /// Refills all sets that are incomplete.
    pub(crate) fn refill_all<R: Record, M>(
        &mut self,
        addresses: &AddressTable,
        from: IndexedRecords<'_, R, M>,
    ) {
        while let Some((scope, refill)) = self.refills.pop_first() {
            self.refill_some(addresses, from, scope, refill, REFILL_ALL_BATCH_LEN);
        }
    }

    fn refill_some<R: Record, M>(
        &mut self,
        addresses: &AddressTable,
        from: IndexedRecords<'_, R, M>,
        scope: RankScope,
        mut refill: RefillTask,
        batch_len: usize,
    ) {
        let IndexedRecords { state, index } = from;
        let resolve = address_resolver(addresses);
        let ids: Vec<AddressId> = match scope {
            RankScope::All => state.ids_from(refill.from).take(batch_len).collect(),
            RankScope::Key(key) => {
                index.postings().records_from(key, refill.from).take(batch_len).collect()
            }
        };
        for id in &ids {
            for rank in state
                .find_versions(*id)
                .filter_map(|version| version_rank(&version, scope, &resolve))
            {
                refill.next.insert(addresses, rank, *id, self.bounds.entries_max);
            }
        }
        match ids.last().and_then(|last| last.0.checked_add(1)) {
            Some(from) if ids.len() == batch_len => {
                refill.from = AddressId(from);
                self.refills.insert(scope, refill);
            }
            _ => {
                self.tops.insert(scope, refill.next);
            }
        }
    }

    fn start_refill(&mut self, scope: RankScope) {
        let start = || RefillTask { next: TopRecords::default(), from: AddressId(0) };
        self.refills.entry(scope).or_insert_with(start);
    }

    /// Returns whether there may be an entry of that rank.
    fn may_contain(&self, scope: RankScope, rank: u64) -> bool {
        self.tops.get(&scope).is_some_and(|top| top.reaches(rank))
            || self.refills.get(&scope).is_some_and(|refill| refill.next.reaches(rank))
    }

    fn insert_at(&mut self, addresses: &AddressTable, scope: RankScope, rank: u64, id: AddressId) {
        let entries_max = self.bounds.entries_max;
        if self.tops.get(&scope).is_some_and(|top| top.reaches(rank))
            && let Some(top) = self.tops.get_mut(&scope)
        {
            top.insert(addresses, rank, id, entries_max);
        }
        // Records at `from` or behind it are yet to be read.
        if let Some(refill) = self.refills.get_mut(&scope)
            && id < refill.from
        {
            refill.next.insert(addresses, rank, id, entries_max);
        }
    }

    fn remove_at(&mut self, addresses: &AddressTable, scope: RankScope, rank: u64, id: AddressId) {
        let entry = RankEntry::new(addresses, rank, id);
        if let Some(refill) = self.refills.get_mut(&scope) {
            refill.next.entries.remove(&entry);
        }
        let Some(top) = self.tops.get_mut(&scope) else { return };
        top.entries.remove(&entry);
        if top.floor.is_some() && top.entries.len() < self.bounds.entries_max / 4 {
            self.start_refill(scope);
        }
    }
}

impl TopRecords {
    /// Returns the entries, the highest first.
    pub(crate) fn descending(&self) -> impl Iterator<Item = &RankEntry> {
        self.entries.iter().rev()
    }

    /// Returns the highest missing entry; `None` if none is missing.
    pub(crate) fn floor(&self) -> Option<RankEntry> {
        self.floor
    }

    /// Returns whether an entry of that rank may be above the floor.
    fn reaches(&self, rank: u64) -> bool {
        self.floor.is_none_or(|floor| rank >= floor.rank)
    }

    fn insert(&mut self, addresses: &AddressTable, rank: u64, id: AddressId, entries_max: usize) {
        if !self.reaches(rank) {
            return;
        }
        let entry = RankEntry::new(addresses, rank, id);
        if self.floor.is_some_and(|floor| entry <= floor) || self.entries.contains(&entry) {
            return;
        }
        self.entries.insert(entry);
        if self.entries.len() > entries_max {
            self.floor = self.entries.remove_min();
        }
    }
}

impl RankEntry {
    fn new(addresses: &AddressTable, rank: u64, id: AddressId) -> Self {
        let address = addresses.address(id);
        debug_assert!(address.is_some(), "{id:?} has a version, which references its address");
        let mut head = [0; 8];
        let bytes = address.as_ref().map_or(&[][..], ledger::Address::as_bytes);
        head.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        Self { rank, head: u64::from_be_bytes(head), id }
    }
}

/// Returns a version's rank in a scope, if it has one.
pub(crate) fn version_rank<R: Record>(
    version: &VisibleVersion<'_, R>,
    scope: RankScope,
    resolve: impl Fn(AddressId) -> Address,
) -> Option<u64> {
    if let RankScope::Key(key) = scope
        && !version.has_key(key)
    {
        return None;
    }
    let kind = match scope {
        RankScope::All => None,
        RankScope::Key(key) => Some(key.kind),
    };
    version.rank(kind, resolve)
}

/// Returns the rank of a record that is in the scope.
pub(crate) fn rank<R: Record>(record: &R, scope: RankScope) -> Option<u64> {
    match scope {
        RankScope::All => record.global_rank(),
        RankScope::Key(key) => record.rank_in(key.kind),
    }
}

/// Returns all scopes in which a record has a rank.
fn ranks<R: Record>(
    record: &R,
    keys: impl Iterator<Item = Key>,
) -> impl Iterator<Item = (RankScope, u64)> {
    let all = std::iter::once(RankScope::All).chain(keys.map(RankScope::Key));
    all.filter_map(|scope| Some((scope, rank(record, scope)?)))
}
