//! A version of a record: as it is written, and as it is found.

use std::sync::Arc;

use ledger::{Address, AddressId, Key, KeyKind, Record, Slot};

use crate::packed_leaf::PackedRecord;
use crate::persistent_array::ARC_BYTES;

/// A record as one block left it.
#[derive(Debug)]
pub struct Version<R> {
    /// The record; `None` if the block removed it.
    pub record: Option<Arc<R>>,
    /// The keys it is found by, in the order in which the record names them.
    pub keys: Arc<[Key]>,
}

/// A version that a read finds: the record as it is, or packed.
pub struct VisibleVersion<'a, R> {
    repr: VersionRepr<'a, R>,
}

enum VersionRepr<'a, R> {
    Unpacked { record: &'a Arc<R>, keys: &'a [Key], slot: Slot },
    Packed(PackedRecord<'a>),
}

impl<R: Record> Version<R> {
    /// About how many heap bytes it takes.
    pub(crate) fn weight(&self) -> usize {
        let record = self.record.as_ref().map_or(0, |record| ARC_BYTES + record.weight());
        record + ARC_BYTES + size_of_val(&*self.keys)
    }
}

impl<R> Version<R> {
    /// As a read finds it, unless it is a removal.
    pub(crate) fn as_visible(&self, slot: Slot) -> Option<VisibleVersion<'_, R>> {
        let record = self.record.as_ref()?;
        Some(VisibleVersion { repr: VersionRepr::Unpacked { record, keys: &self.keys, slot } })
    }
}

impl<'a, R> VisibleVersion<'a, R> {
    pub(crate) fn from_packed(packed: PackedRecord<'a>) -> Self {
        Self { repr: VersionRepr::Packed(packed) }
    }

    /// Something of the record, for who wants it in the cache.
    pub(crate) fn prefetch(&self) -> usize {
        match &self.repr {
            VersionRepr::Unpacked { record, .. } => Arc::strong_count(record),
            VersionRepr::Packed(packed) => packed.first_byte(),
        }
    }

    /// The slot of the block that wrote it.
    pub fn slot(&self) -> Slot {
        match &self.repr {
            VersionRepr::Unpacked { slot, .. } => *slot,
            VersionRepr::Packed(packed) => packed.slot(),
        }
    }

    /// Whether it is found by `key`. The record is not unpacked for it.
    pub fn has_key(&self, key: Key) -> bool {
        match &self.repr {
            VersionRepr::Unpacked { keys, .. } => keys.contains(&key),
            VersionRepr::Packed(packed) => packed.has_key(key),
        }
    }

    /// The keys it is found by, in the order in which the record names them.
    pub fn keys(&self) -> impl Iterator<Item = Key> + use<'a, R> {
        let (kept, packed) = match self.repr {
            VersionRepr::Unpacked { keys, .. } => (keys, None),
            VersionRepr::Packed(packed) => (&[][..], Some(packed)),
        };
        kept.iter().copied().chain(packed.into_iter().flat_map(PackedRecord::keys))
    }
}

impl<R: Record> VisibleVersion<'_, R> {
    /// The record. `resolve` gives the addresses of its keys.
    pub fn record(&self, resolve: impl Fn(AddressId) -> Address) -> Arc<R> {
        match &self.repr {
            VersionRepr::Unpacked { record, .. } => Arc::clone(record),
            VersionRepr::Packed(packed) => Arc::new(unpack(*packed, resolve)),
        }
    }

    /// Where the record stands among all, or among those found by its key under `facet`. It is
    /// unpacked only if it has to be.
    pub fn rank(
        &self,
        facet: Option<KeyKind>,
        resolve: impl Fn(AddressId) -> Address,
    ) -> Option<u64> {
        let rank = |record: &R| match facet {
            None => record.global_rank(),
            Some(facet) => record.rank_in(facet),
        };
        match &self.repr {
            VersionRepr::Unpacked { record, .. } => rank(record),
            VersionRepr::Packed(packed) => R::packed_rank(packed.body(), facet)
                .unwrap_or_else(|| rank(&unpack(*packed, resolve))),
        }
    }
}

impl<R> Clone for Version<R> {
    fn clone(&self) -> Self {
        Self { record: self.record.clone(), keys: Arc::clone(&self.keys) }
    }
}

fn unpack<R: Record>(packed: PackedRecord<'_>, resolve: impl Fn(AddressId) -> Address) -> R {
    let record = packed.with_addresses(resolve, |keys| R::unpack(keys, packed.body()));
    record.expect("what stands here was made by `pack`, of a record with these keys")
}
