//! A version of a record: as it is written, and as it is found.

use std::sync::Arc;

use ledger::{Address, AddressId, Facet, Key, Record, Slot};

use crate::packs::Packed;
use crate::pages::ARC_BYTES;

/// A record as one block left it.
#[derive(Debug)]
pub struct Version<R> {
    /// The record; `None` if the block removed it.
    pub record: Option<Arc<R>>,
    /// The keys it is found by, in the order in which the record names them.
    pub keys: Arc<[Key]>,
}

/// A version that a read finds: the record as it is, or packed.
pub struct Seen<'a, R> {
    form: Form<'a, R>,
}

enum Form<'a, R> {
    Kept { record: &'a Arc<R>, keys: &'a [Key], slot: Slot },
    Packed(Packed<'a>),
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
    pub(crate) fn seen(&self, slot: Slot) -> Option<Seen<'_, R>> {
        let record = self.record.as_ref()?;
        Some(Seen { form: Form::Kept { record, keys: &self.keys, slot } })
    }
}

impl<'a, R> Seen<'a, R> {
    pub(crate) fn packed(packed: Packed<'a>) -> Self {
        Self { form: Form::Packed(packed) }
    }

    /// Something of the record, for who wants it in the cache.
    pub(crate) fn touch(&self) -> usize {
        match &self.form {
            Form::Kept { record, .. } => Arc::strong_count(record),
            Form::Packed(packed) => packed.first_byte(),
        }
    }

    /// The slot of the block that wrote it.
    pub fn slot(&self) -> Slot {
        match &self.form {
            Form::Kept { slot, .. } => *slot,
            Form::Packed(packed) => packed.slot(),
        }
    }

    /// Whether it is found by `key`. The record is not unpacked for it.
    pub fn has_key(&self, key: Key) -> bool {
        match &self.form {
            Form::Kept { keys, .. } => keys.contains(&key),
            Form::Packed(packed) => packed.has_key(key),
        }
    }

    /// The keys it is found by, in the order in which the record names them.
    pub fn keys(&self) -> impl Iterator<Item = Key> + use<'a, R> {
        let (kept, packed) = match self.form {
            Form::Kept { keys, .. } => (keys, None),
            Form::Packed(packed) => (&[][..], Some(packed)),
        };
        kept.iter().copied().chain(packed.into_iter().flat_map(Packed::keys))
    }
}

impl<R: Record> Seen<'_, R> {
    /// The record. `resolve` gives the addresses of its keys.
    pub fn record(&self, resolve: impl Fn(AddressId) -> Address) -> Arc<R> {
        match &self.form {
            Form::Kept { record, .. } => Arc::clone(record),
            Form::Packed(packed) => Arc::new(unpack(*packed, resolve)),
        }
    }

    /// Where the record stands among all, or among those found by its key under `facet`. It is
    /// unpacked only if it has to be.
    pub fn rank(
        &self,
        facet: Option<Facet>,
        resolve: impl Fn(AddressId) -> Address,
    ) -> Option<u64> {
        let rank = |record: &R| match facet {
            None => record.rank_among_all(),
            Some(facet) => record.rank_under(facet),
        };
        match &self.form {
            Form::Kept { record, .. } => rank(record),
            Form::Packed(packed) => R::packed_rank(packed.body(), facet)
                .unwrap_or_else(|| rank(&unpack(*packed, resolve))),
        }
    }
}

impl<R> Clone for Version<R> {
    fn clone(&self) -> Self {
        Self { record: self.record.clone(), keys: Arc::clone(&self.keys) }
    }
}

fn unpack<R: Record>(packed: Packed<'_>, resolve: impl Fn(AddressId) -> Address) -> R {
    let record = packed.with_addresses(resolve, |keys| R::unpack(keys, packed.body()));
    record.expect("what stands here was made by `pack`, of a record with these keys")
}
