//! A version of a record, in three forms: as a block writes it, as a leaf stores it, and as a read finds it.

use std::sync::Arc;

use ledger::{Address, AddressId, Key, KeyKind, Record, Slot, StoredRecord};

use crate::packed_leaf::PackedRecord;
use crate::persistent_array::ARC_BYTES;

/// A record as one block left it.
#[derive(Debug)]
pub struct Version<R> {
    /// The record; `None` if the block removed it.
    pub record: Option<Arc<R>>,
    /// The keys of the record, in the order in which the record lists them.
    pub keys: Arc<[Key]>,
}

/// A version as a leaf stores it unpacked. It shares data with another version of the record if possible.
#[derive(Debug)]
pub(crate) struct SharedVersion<R> {
    /// The record; `None` if the block removed it.
    pub(crate) record: Option<StoredRecord<R>>,
    /// `None` if there are none: a version without keys has no allocation for them.
    keys: Option<Arc<[Key]>>,
}

/// A version that a read finds: unpacked, or packed.
pub struct VisibleVersion<'a, R> {
    repr: VersionRepr<'a, R>,
}

enum VersionRepr<'a, R> {
    Unpacked {
        record: &'a StoredRecord<R>,
        keys: &'a [Key],
        slot: Slot,
    },
    /// A packed record, and the id of its own address.
    Packed {
        packed: PackedRecord<'a>,
        id: AddressId,
    },
}

impl<R: Record> SharedVersion<R> {
    /// Creates a version that is written, as a patch of `other` if the two differ little.
    pub(crate) fn new(version: Version<R>, other: Option<&Self>) -> Self {
        let Version { record, keys } = version;
        let base = other.and_then(|other| other.record.as_ref());
        let keys = (!keys.is_empty()).then_some(keys);
        let known_keys = other.map(|other| &other.keys).filter(|known| **known == keys);
        Self {
            record: record.map(|record| StoredRecord::new(record, base)),
            keys: known_keys.cloned().unwrap_or(keys),
        }
    }

    /// Returns the approximate heap bytes of its record, without those of a patch's base.
    pub(crate) fn record_weight(&self) -> usize {
        self.record.as_ref().map_or(0, StoredRecord::weight)
    }

    /// Returns the approximate heap bytes of its keys.
    pub(crate) fn keys_weight(&self) -> usize {
        self.keys.as_deref().map_or(0, |keys| ARC_BYTES + size_of_val(keys))
    }
}

impl<R> SharedVersion<R> {
    /// Returns the keys of the record, in the order in which the record lists them.
    pub(crate) fn keys(&self) -> &[Key] {
        self.keys.as_deref().unwrap_or_default()
    }

    /// Returns whether its keys take no memory in addition to those of `other`.
    pub(crate) fn shares_keys(&self, other: &Self) -> bool {
        match (&self.keys, &other.keys) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, _) => own.is_none(),
        }
    }

    /// Returns the version with its record in another stored form.
    pub(crate) fn with_record(self, record: StoredRecord<R>) -> Self {
        Self { record: Some(record), ..self }
    }

    /// Returns the version as a read finds it, unless it is a removal.
    pub(crate) fn as_visible(&self, slot: Slot) -> Option<VisibleVersion<'_, R>> {
        let record = self.record.as_ref()?;
        Some(VisibleVersion { repr: VersionRepr::Unpacked { record, keys: self.keys(), slot } })
    }
}

impl<'a, R> VisibleVersion<'a, R> {
    /// Creates the version of `id` from its packed form.
    pub(crate) fn from_packed(id: AddressId, packed: PackedRecord<'a>) -> Self {
        Self { repr: VersionRepr::Packed { packed, id } }
    }

    /// Returns some value of the record, to load it into the CPU cache.
    pub(crate) fn prefetch(&self) -> usize {
        match &self.repr {
            VersionRepr::Unpacked { record, .. } => Arc::strong_count(record.base()),
            VersionRepr::Packed { packed, .. } => packed.first_byte(),
        }
    }

    /// Returns the slot of the block that wrote it.
    pub fn slot(&self) -> Slot {
        match &self.repr {
            VersionRepr::Unpacked { slot, .. } => *slot,
            VersionRepr::Packed { packed, .. } => packed.slot(),
        }
    }

    /// Returns whether it has `key`. The record is not unpacked for that.
    pub fn has_key(&self, key: Key) -> bool {
        match &self.repr {
            VersionRepr::Unpacked { keys, .. } => keys.contains(&key),
            VersionRepr::Packed { packed, .. } => packed.has_key(key),
        }
    }

    /// Returns the keys of the record, in the order in which the record lists them.
    pub fn keys(&self) -> impl Iterator<Item = Key> + use<'a, R> {
        let (unpacked, packed) = match self.repr {
            VersionRepr::Unpacked { keys, .. } => (keys, None),
            VersionRepr::Packed { packed, .. } => (&[][..], Some(packed)),
        };
        unpacked.iter().copied().chain(packed.into_iter().flat_map(PackedRecord::keys))
    }
}

impl<R: Record> VisibleVersion<'_, R> {
    /// Returns the record. `resolve` returns its own address and those of its keys.
    pub fn record(&self, resolve: impl Fn(AddressId) -> Address) -> Arc<R> {
        match &self.repr {
            VersionRepr::Unpacked { record, .. } => record.record(),
            VersionRepr::Packed { packed, id } => Arc::new(unpack(*id, *packed, resolve)),
        }
    }

    /// Returns the record in its stored form; a packed one is unpacked. `resolve` returns its own address and those of
    /// its keys.
    pub fn to_stored(&self, resolve: impl Fn(AddressId) -> Address) -> StoredRecord<R> {
        match &self.repr {
            VersionRepr::Unpacked { record, .. } => StoredRecord::clone(record),
            VersionRepr::Packed { packed, id } => {
                Arc::new(unpack::<R>(*id, *packed, resolve)).into()
            }
        }
    }

    /// Returns the rank of the record among all, or among those with the same key of `kind`. The record is
    /// unpacked only if necessary. `resolve` returns its own address and those of its keys.
    pub fn rank(
        &self,
        kind: Option<KeyKind>,
        resolve: impl Fn(AddressId) -> Address,
    ) -> Option<u64> {
        let rank = |record: &R| match kind {
            None => record.global_rank(),
            Some(kind) => record.rank_in(kind),
        };
        match &self.repr {
            VersionRepr::Unpacked { record, .. } => record.rank(kind),
            VersionRepr::Packed { packed, id } => R::packed_rank(packed.body(), kind)
                .unwrap_or_else(|| rank(&unpack(*id, *packed, resolve))),
        }
    }
}

impl<R> Clone for SharedVersion<R> {
    fn clone(&self) -> Self {
        Self { record: self.record.clone(), keys: self.keys.clone() }
    }
}

/// Returns the record of `id`. Its own address is looked up only if the record requests it.
fn unpack<R: Record>(
    id: AddressId,
    packed: PackedRecord<'_>,
    resolve: impl Fn(AddressId) -> Address,
) -> R {
    let own_address = || resolve(id);
    let record =
        packed.with_addresses(&resolve, |keys| R::unpack(keys, packed.body(), &own_address));
    record.expect("these bytes were made by `pack`, of a record with these keys at this address")
}
