//! The packed records of one leaf, in one blob of exactly their size.
//!
//! Shape: a word with a bit for every place that has a record; the slot that theirs are counted
//! from; where each record ends, 2 bytes each; the records. A record is its keys, the slot of the
//! block that wrote it, and what it packs itself into. Keys are 4 bytes each, behind a byte with a
//! bit for each facet; in the rare case that facets are not in order, or high, behind their number
//! and a byte for each.
//! Bounds: [`LEAF_LEN`] records of at most [`PACKED_BYTES_MAX`] bytes.
//! Invariant: a blob is never changed, only replaced.

use std::ops::Range;
use std::sync::Arc;

use ledger::{Address, AddressId, Key, KeyKind, Record, Slot};

use crate::persistent_array::ARC_BYTES;

/// Places in a leaf: bits in a word.
pub(crate) const LEAF_LEN: u32 = 64;
/// The longest packed record, keys and all. A longer one is better off alone: a blob is copied when
/// one of its records changes.
pub(crate) const PACKED_BYTES_MAX: usize = 512;

const HEADER_BYTES: usize = 16;
const END_BYTES: usize = 2;
/// In a record's first byte: what follows is the number of keys, not a bit for each facet.
const COUNTED: u8 = 0x80;
/// Facets below this have a bit in the first byte.
const BITMAP_KINDS: u8 = 7;
const KEY_BYTES: usize = 4;

/// The packed records of a leaf. Copies share them.
#[derive(Clone, Default)]
pub(crate) struct PackedLeaf(Option<Arc<[u8]>>);

/// One packed record.
#[derive(Clone, Copy)]
pub(crate) struct PackedRecord<'a> {
    bytes: &'a [u8],
    base: Slot,
}

/// What the writer repacks leaves with: changes to one of them, and room to work in.
#[derive(Default)]
pub(crate) struct LeafRepacker {
    /// By place, each once. What has no bytes is taken out.
    changes: Vec<(u8, Range<usize>)>,
    /// The records of `changes`.
    bytes: Vec<u8>,
    /// What the slots of a leaf that had no record are counted from.
    base: Option<Slot>,
    /// The blob in the making.
    blob: Vec<u8>,
}

impl PackedLeaf {
    /// A bit for every place that has a record.
    pub(crate) fn occupied(&self) -> u64 {
        self.0.as_deref().map_or(0, |blob| word(blob, 0))
    }

    pub(crate) fn has(&self, place: u8) -> bool {
        self.occupied() & 1 << place != 0
    }

    fn base(&self) -> Option<Slot> {
        self.0.as_deref().map(|blob| word(blob, 8))
    }

    /// The record at `place`.
    pub(crate) fn get(&self, place: u8) -> Option<PackedRecord<'_>> {
        let blob = self.0.as_deref()?;
        let places = word(blob, 0);
        if places & 1 << place == 0 {
            return None;
        }
        let at = (places & ((1 << place) - 1)).count_ones() as usize;
        let records = HEADER_BYTES + END_BYTES * places.count_ones() as usize;
        let start = if at == 0 { 0 } else { end(blob, at - 1) };
        let bytes = &blob[records + start..records + end(blob, at)];
        Some(PackedRecord { bytes, base: word(blob, 8) })
    }

    /// Something of the blob's head, for who wants it in the cache.
    pub(crate) fn first_byte(&self) -> usize {
        self.0.as_deref().map_or(0, |blob| blob[0].into())
    }

    /// How long the blob is. It is not looked at for it.
    pub(crate) fn blob_len(&self) -> usize {
        self.0.as_deref().map_or(0, <[u8]>::len)
    }

    /// How many heap bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |blob| ARC_BYTES + blob.len())
    }
}

impl<'a> PackedRecord<'a> {
    /// Something of the record, for who wants it in the cache.
    pub(crate) fn first_byte(self) -> usize {
        self.bytes[0].into()
    }

    /// What the record packed itself into.
    pub(crate) fn body(self) -> &'a [u8] {
        &self.bytes[self.written().1..]
    }

    pub(crate) fn slot(self) -> Slot {
        self.base.wrapping_add(self.written().0)
    }

    pub(crate) fn has_key(self, key: Key) -> bool {
        let head = self.bytes[0];
        if head & COUNTED != 0 {
            return self.keys().any(|own| own == key);
        }
        let bit = 1_u8.checked_shl(u32::from(key.kind.0)).unwrap_or(0);
        head & bit != 0 && self.id(1, (head & (bit - 1)).count_ones() as usize) == key.id
    }

    pub(crate) fn keys(self) -> impl Iterator<Item = Key> + use<'a> {
        let (len, ids) = self.layout();
        let head = self.bytes[0];
        let mut facets = head;
        (0..len).map(move |n| {
            let facet = if head & COUNTED != 0 {
                self.bytes[1 + n]
            } else {
                let lowest = facets.trailing_zeros() as u8; // below 8
                facets &= facets - 1;
                lowest
            };
            Key { kind: KeyKind(facet), id: self.id(ids, n) }
        })
    }

    /// Gives the keys with their addresses to `read`.
    pub(crate) fn with_addresses<T>(
        self,
        resolve: impl Fn(AddressId) -> Address,
        read: impl FnOnce(&[(KeyKind, Address)]) -> T,
    ) -> T {
        let keys = self.keys().map(|key| (key.kind, resolve(key.id)));
        if self.bytes[0] & COUNTED != 0 {
            return read(&keys.collect::<Vec<_>>());
        }
        let mut few = [(KeyKind(0), Address::from([0; 32])); BITMAP_KINDS as usize];
        let len = few.iter_mut().zip(keys).map(|(place, key)| *place = key).count();
        read(&few[..len])
    }

    /// How many keys there are, and where their ids begin.
    fn layout(self) -> (usize, usize) {
        let head = self.bytes[0];
        if head & COUNTED == 0 {
            return (head.count_ones() as usize, 1);
        }
        let len = usize::from(head & !COUNTED);
        (len, 1 + len)
    }

    fn id(self, ids: usize, n: usize) -> AddressId {
        let at = ids + KEY_BYTES * n;
        let bytes = self.bytes[at..at + KEY_BYTES].try_into();
        AddressId(u32::from_le_bytes(bytes.expect("as many bytes as a key has")))
    }

    /// The slot after `base`, and where the body begins.
    fn written(self) -> (Slot, usize) {
        let (len, ids) = self.layout();
        let mut at = ids + KEY_BYTES * len;
        let mut slot = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.bytes[at];
            at += 1;
            slot |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        (slot, at)
    }
}

impl LeafRepacker {
    /// Whether the record at `place` is to change. Of two changes only the first may be pending.
    pub(crate) fn has_change(&self, place: u8) -> bool {
        self.changes.iter().any(|(other, _)| *other == place)
    }

    /// Takes the record at `place` out.
    pub(crate) fn remove(&mut self, place: u8) {
        self.changes.push((place, 0..0));
    }

    /// Puts a record that was written at `slot` in at `place`; false if it does not pack.
    pub(crate) fn put<R: Record>(
        &mut self,
        packs: &PackedLeaf,
        place: u8,
        (record, keys, slot): (&R, &[Key], Slot),
    ) -> bool {
        let start = self.bytes.len();
        let base = packs.base().unwrap_or_else(|| *self.base.get_or_insert(slot));
        let is_packed = put_keys(&mut self.bytes, keys) && {
            put_varint(&mut self.bytes, slot.wrapping_sub(base));
            record.pack(&mut self.bytes) && self.bytes.len() - start <= PACKED_BYTES_MAX
        };
        if is_packed {
            self.changes.push((place, start..self.bytes.len()));
        } else {
            self.bytes.truncate(start);
        }
        is_packed
    }

    /// Replaces `packs` by what the changes make of it.
    pub(crate) fn finish(&mut self, packs: &mut PackedLeaf) {
        if self.changes.is_empty() {
            return;
        }
        self.changes.sort_unstable_by_key(|(place, _)| *place);
        let mut places = packs.occupied();
        for (place, bytes) in &self.changes {
            places &= !(1 << place);
            places |= u64::from(!bytes.is_empty()) << place;
        }
        let base = packs.base().or(self.base).unwrap_or(0); // nothing is counted from that 0
        self.blob.clear();
        self.blob.extend_from_slice(&places.to_le_bytes());
        self.blob.extend_from_slice(&base.to_le_bytes());
        let records = HEADER_BYTES + END_BYTES * places.count_ones() as usize;
        self.blob.resize(records, 0);
        let mut changes = self.changes.iter().peekable();
        let mut left = places;
        let mut at = HEADER_BYTES;
        while left != 0 {
            let place = left.trailing_zeros() as u8; // below 64
            left &= left - 1;
            while changes.next_if(|(other, _)| *other < place).is_some() {}
            match changes.next_if(|(other, _)| *other == place) {
                Some((_, bytes)) => self.blob.extend_from_slice(&self.bytes[bytes.clone()]),
                None => {
                    let kept = packs.get(place).map_or(&[][..], |packed| packed.bytes);
                    self.blob.extend_from_slice(kept);
                }
            }
            let end = (self.blob.len() - records) as u16; // 64 records of 512 bytes at most
            self.blob[at..at + END_BYTES].copy_from_slice(&end.to_le_bytes());
            at += END_BYTES;
        }
        *packs = PackedLeaf((places != 0).then(|| Arc::from(&*self.blob)));
        self.changes.clear();
        self.bytes.clear();
        self.base = None;
    }
}

/// Appends the keys; false if there are too many.
fn put_keys(bytes: &mut Vec<u8>, keys: &[Key]) -> bool {
    let in_order = keys.is_sorted_by(|left, right| left.kind < right.kind);
    if in_order && keys.last().is_none_or(|last| last.kind.0 < BITMAP_KINDS) {
        bytes.push(keys.iter().fold(0, |head, key| head | 1 << key.kind.0));
    } else if keys.len() < usize::from(COUNTED) {
        bytes.push(COUNTED | keys.len() as u8);
        bytes.extend(keys.iter().map(|key| key.kind.0));
    } else {
        return false;
    }
    keys.iter().for_each(|key| bytes.extend_from_slice(&key.id.0.to_le_bytes()));
    true
}

fn put_varint(bytes: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        bytes.push(n as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
}

fn word(blob: &[u8], at: usize) -> u64 {
    let bytes = blob[at..at + 8].try_into();
    u64::from_le_bytes(bytes.expect("as many bytes as a word has"))
}

/// Where the record that is `at` among the blob's ends, counted from the first one's start.
fn end(blob: &[u8], at: usize) -> usize {
    let at = HEADER_BYTES + END_BYTES * at;
    usize::from(u16::from_le_bytes([blob[at], blob[at + 1]]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fastrand::Rng;

    use super::*;

    /// Packs into its bytes.
    #[derive(Debug)]
    struct Bytes(Vec<u8>);

    impl Record for Bytes {
        fn keys(&self, _: &mut dyn FnMut(KeyKind, Address)) {}

        fn pack(&self, packed: &mut Vec<u8>) -> bool {
            packed.extend_from_slice(&self.0);
            true
        }
    }

    /// None, some in order of their facets, some in no order, or more than any record has.
    fn keys(random: &mut Rng) -> Vec<Key> {
        let len = match random.u8(..20) {
            0 => random.usize(127..129),
            _ => random.usize(..8),
        };
        let facets = [6, 8, u8::MAX][random.usize(..3)];
        let key = |_| Key { kind: KeyKind(random.u8(..=facets)), id: AddressId(random.u32(..)) };
        let mut keys: Vec<Key> = (0..len).map(key).collect();
        if random.u8(..3) > 0 {
            keys.sort_unstable();
            keys.dedup_by_key(|key| key.kind);
        }
        keys
    }

    fn address(id: AddressId) -> Address {
        Address::try_from(&id.0.to_le_bytes()[..]).expect("four bytes are an address")
    }

    fn check(packed: PackedRecord<'_>, (bytes, keys, slot): &(Vec<u8>, Vec<Key>, Slot)) {
        assert_eq!(packed.body(), bytes);
        assert_eq!(packed.slot(), *slot);
        assert_eq!(packed.keys().collect::<Vec<_>>(), *keys);
        for key in keys {
            assert!(packed.has_key(*key));
            let facet = KeyKind(key.kind.0 ^ 1);
            for other in [Key { kind: facet, ..*key }, Key { id: AddressId(key.id.0 ^ 1), ..*key }]
            {
                assert_eq!(packed.has_key(other), keys.contains(&other));
            }
        }
        let named: Vec<_> = keys.iter().map(|key| (key.kind, address(key.id))).collect();
        packed.with_addresses(address, |found| assert_eq!(found, named));
    }

    #[test]
    fn records_of_every_form_come_back_whatever_is_packed_alongside_them() {
        let mut random = Rng::with_seed(1);
        let (mut packs, mut repack) = (PackedLeaf::default(), LeafRepacker::default());
        let mut model = BTreeMap::new();
        let mut refused = 0;
        for _ in 0..30_000 {
            for _ in 0..=random.u64(..4) {
                let place = random.u8(..LEAF_LEN as u8);
                if repack.has_change(place) {
                    repack.finish(&mut packs);
                }
                if random.u64(..5) < 2 {
                    repack.remove(place);
                    model.remove(&place);
                    continue;
                }
                let len = [5, 100, PACKED_BYTES_MAX + 1][random.usize(..3)];
                let bytes = vec![random.u8(..); random.usize(..len)];
                let slots = [10, 1_000, u64::MAX][random.usize(..3)];
                let (keys, slot) = (keys(&mut random), random.u64(..slots));
                let record = Bytes(bytes);
                if repack.put(&packs, place, (&record, &keys, slot)) {
                    model.insert(place, (record.0, keys, slot));
                } else {
                    assert!(
                        record.0.len() + 5 * keys.len() > PACKED_BYTES_MAX - 20 || keys.len() > 127
                    );
                    refused += 1;
                }
            }
            repack.finish(&mut packs);
            assert_eq!(packs.occupied().count_ones() as usize, model.len());
            for (place, record) in &model {
                check(packs.get(*place).expect("it is there"), record);
            }
        }
        assert!(refused > 100);
        let places = packs.occupied();
        (0..64).filter(|place| places & 1 << place != 0).for_each(|place| repack.remove(place));
        repack.finish(&mut packs);
        assert_eq!((packs.occupied(), packs.bytes()), (0, 0));
    }
}
