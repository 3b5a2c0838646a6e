//! The packed records of one leaf, in one blob of exactly their size.
//!
//! Shape: a word with a bit for every position that has a record; the slot that the records' slots are relative
//! to; the end of each record, 2 bytes each; the records. A record is its keys, the slot of the
//! block that wrote it, and its packed body. Keys are 4 bytes each, after a byte with a
//! bit for each kind. In the rare case that the kinds are not in order, or high, they come after their number
//! and a byte for each kind.
//! Bounds: [`LEAF_LEN`] records of at most [`PACKED_BYTES_MAX`] bytes.
//! Invariant: a blob is never changed, only replaced.

use std::ops::Range;
use std::sync::Arc;

use ledger::{Address, AddressId, Key, KeyKind, Record, Slot, put_varint};

use crate::persistent_array::ARC_BYTES;

/// Positions in a leaf: bits in a word.
pub(crate) const LEAF_LEN: u32 = 64;
/// The longest packed record, including its keys. A longer one is better stored alone: a blob is copied when
/// one of its records changes.
pub(crate) const PACKED_BYTES_MAX: usize = 512;

const HEADER_BYTES: usize = 16;
const END_BYTES: usize = 2;
/// In a record's first byte: the rest of the byte is the number of keys, not a bit for each kind.
const COUNTED: u8 = 0x80;
/// Kinds below this have a bit in the first byte.
const BITMAP_KINDS: u8 = 7;
const KEY_BYTES: usize = 4;

/// The packed records of a leaf. Copies share them.
#[derive(Clone, Default)]
pub(crate) struct PackedLeaf(Option<Arc<[u8]>>);

/// A packed record in its blob.
#[derive(Clone, Copy)]
pub(crate) struct PackedRecord<'a> {
    bytes: &'a [u8],
    base: Slot,
}

/// A record to pack, its keys, and the slot at which it was written.
pub(crate) struct WrittenRecord<'a, R> {
    pub(crate) record: &'a R,
    pub(crate) keys: &'a [Key],
    pub(crate) slot: Slot,
}

/// Repacks leaves, for the writer: the changes to one of them, and buffers.
#[derive(Default)]
pub(crate) struct LeafRepacker {
    /// By position, each once. An empty range removes the record.
    changes: Vec<(u8, Range<usize>)>,
    bytes: Vec<u8>,
    /// The base of the slots of a leaf that had no record.
    base: Option<Slot>,
    /// The blob that is being built.
    blob: Vec<u8>,
}

impl PackedLeaf {
    /// Returns a bit for every position that has a record.
    pub(crate) fn occupied_bits(&self) -> u64 {
        self.0.as_deref().map_or(0, |blob| word(blob, 0))
    }

    pub(crate) fn has(&self, position: u8) -> bool {
        self.occupied_bits() & 1 << position != 0
    }

    fn base(&self) -> Option<Slot> {
        self.0.as_deref().map(|blob| word(blob, 8))
    }

    /// Returns the record at `position`.
    pub(crate) fn get(&self, position: u8) -> Option<PackedRecord<'_>> {
        let blob = self.0.as_deref()?;
        let occupied = word(blob, 0);
        if occupied & 1 << position == 0 {
            return None;
        }
        let at = (occupied & ((1 << position) - 1)).count_ones() as usize;
        let records = HEADER_BYTES + END_BYTES * occupied.count_ones() as usize;
        let start = if at == 0 { 0 } else { end(blob, at - 1) };
        let bytes = &blob[records + start..records + end(blob, at)];
        Some(PackedRecord { bytes, base: word(blob, 8) })
    }

    /// Returns some byte of the blob's head, to load it into the CPU cache.
    pub(crate) fn first_byte(&self) -> usize {
        self.0.as_deref().map_or(0, |blob| blob[0].into())
    }

    /// Returns the length of the blob. The blob itself is not read.
    pub(crate) fn blob_len(&self) -> usize {
        self.0.as_deref().map_or(0, <[u8]>::len)
    }

    /// Returns the heap size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |blob| ARC_BYTES + blob.len())
    }
}

impl<'a> PackedRecord<'a> {
    /// Returns some byte of the record, to load it into the CPU cache.
    pub(crate) fn first_byte(self) -> usize {
        self.bytes[0].into()
    }

    /// Returns the packed body of the record.
    pub(crate) fn body(self) -> &'a [u8] {
        &self.bytes[self.decode_slot().1..]
    }

    pub(crate) fn slot(self) -> Slot {
        self.base.wrapping_add(self.decode_slot().0)
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
        let mut kinds = head;
        (0..len).map(move |n| {
            let kind = if head & COUNTED != 0 {
                self.bytes[1 + n]
            } else {
                let lowest = kinds.trailing_zeros() as u8; // below 8
                kinds &= kinds - 1;
                lowest
            };
            Key { kind: KeyKind(kind), id: self.id(ids, n) }
        })
    }

    /// Passes the keys with their addresses to `read`.
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
        let len = few.iter_mut().zip(keys).map(|(slot, key)| *slot = key).count();
        read(&few[..len])
    }

    /// Returns the number of keys, and the offset of their ids.
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

    /// Returns the slot relative to `base`, and the offset of the body.
    fn decode_slot(self) -> (Slot, usize) {
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
    /// Returns whether a change of the record at `position` is pending. There may be only one at a time.
    pub(crate) fn has_change(&self, position: u8) -> bool {
        self.changes.iter().any(|(other, _)| *other == position)
    }

    /// Removes the record at `position`.
    pub(crate) fn remove(&mut self, position: u8) {
        self.changes.push((position, 0..0));
    }

    /// Puts a record at `position`; false if it does not pack.
    pub(crate) fn put<R: Record>(
        &mut self,
        leaf: &PackedLeaf,
        position: u8,
        written: WrittenRecord<'_, R>,
    ) -> bool {
        let WrittenRecord { record, keys, slot } = written;
        let start = self.bytes.len();
        let base = leaf.base().unwrap_or_else(|| *self.base.get_or_insert(slot));
        let is_packed = put_keys(&mut self.bytes, keys) && {
            put_varint(&mut self.bytes, slot.wrapping_sub(base));
            record.pack(&mut self.bytes) && self.bytes.len() - start <= PACKED_BYTES_MAX
        };
        if is_packed {
            self.changes.push((position, start..self.bytes.len()));
        } else {
            self.bytes.truncate(start);
        }
        is_packed
    }

    /// Applies the changes to `leaf`.
    pub(crate) fn finish(&mut self, leaf: &mut PackedLeaf) {
        if self.changes.is_empty() {
            return;
        }
        self.changes.sort_unstable_by_key(|(position, _)| *position);
        let mut occupied = leaf.occupied_bits();
        for (position, bytes) in &self.changes {
            occupied &= !(1 << position);
            occupied |= u64::from(!bytes.is_empty()) << position;
        }
        let base = leaf.base().or(self.base).unwrap_or(0); // no record is relative to that 0
        self.blob.clear();
        self.blob.extend_from_slice(&occupied.to_le_bytes());
        self.blob.extend_from_slice(&base.to_le_bytes());
        let records = HEADER_BYTES + END_BYTES * occupied.count_ones() as usize;
        self.blob.resize(records, 0);
        let mut changes = self.changes.iter().peekable();
        let mut left = occupied;
        let mut at = HEADER_BYTES;
        while left != 0 {
            let position = left.trailing_zeros() as u8; // below 64
            left &= left - 1;
            while changes.next_if(|(other, _)| *other < position).is_some() {}
            match changes.next_if(|(other, _)| *other == position) {
                Some((_, bytes)) => self.blob.extend_from_slice(&self.bytes[bytes.clone()]),
                None => {
                    let unchanged = leaf.get(position).map_or(&[][..], |packed| packed.bytes);
                    self.blob.extend_from_slice(unchanged);
                }
            }
            let end = (self.blob.len() - records) as u16; // 64 records of 512 bytes at most
            self.blob[at..at + END_BYTES].copy_from_slice(&end.to_le_bytes());
            at += END_BYTES;
        }
        *leaf = PackedLeaf((occupied != 0).then(|| Arc::from(&*self.blob)));
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

fn word(blob: &[u8], at: usize) -> u64 {
    let bytes = blob[at..at + 8].try_into();
    u64::from_le_bytes(bytes.expect("as many bytes as a word has"))
}

/// Returns the end of record number `at`, relative to the start of the first.
fn end(blob: &[u8], at: usize) -> usize {
    let at = HEADER_BYTES + END_BYTES * at;
    usize::from(u16::from_le_bytes([blob[at], blob[at + 1]]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fastrand::Rng;

    use super::*;

    /// A record that packs into its bytes.
    #[derive(Debug)]
    struct Bytes(Vec<u8>);

    impl Record for Bytes {
        fn keys(&self, _: &mut dyn FnMut(KeyKind, Address)) {}

        fn pack(&self, packed: &mut Vec<u8>) -> bool {
            packed.extend_from_slice(&self.0);
            true
        }
    }

    /// Returns no keys, some in order of their kinds, some in no order, or more than any record has.
    fn keys(random: &mut Rng) -> Vec<Key> {
        let len = match random.u8(..20) {
            0 => random.usize(127..129),
            _ => random.usize(..8),
        };
        let kind_max = [6, 8, u8::MAX][random.usize(..3)];
        let key = |_| Key { kind: KeyKind(random.u8(..=kind_max)), id: AddressId(random.u32(..)) };
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
            let kind = KeyKind(key.kind.0 ^ 1);
            for other in [Key { kind, ..*key }, Key { id: AddressId(key.id.0 ^ 1), ..*key }] {
                assert_eq!(packed.has_key(other), keys.contains(&other));
            }
        }
        let named: Vec<_> = keys.iter().map(|key| (key.kind, address(key.id))).collect();
        packed.with_addresses(address, |found| assert_eq!(found, named));
    }

    #[test]
    fn records_in_every_form_round_trip_alongside_others() {
        let mut random = Rng::with_seed(1);
        let mut leaf = PackedLeaf::default();
        let mut repacker = LeafRepacker::default();
        let mut model = BTreeMap::new();
        let mut refused = 0;
        for _ in 0..30_000 {
            for _ in 0..=random.u64(..4) {
                let position = random.u8(..LEAF_LEN as u8);
                if repacker.has_change(position) {
                    repacker.finish(&mut leaf);
                }
                if random.u64(..5) < 2 {
                    repacker.remove(position);
                    model.remove(&position);
                    continue;
                }
                let len = [5, 100, PACKED_BYTES_MAX + 1][random.usize(..3)];
                let bytes = vec![random.u8(..); random.usize(..len)];
                let slots = [10, 1_000, u64::MAX][random.usize(..3)];
                let keys = keys(&mut random);
                let slot = random.u64(..slots);
                let record = Bytes(bytes);
                let written = WrittenRecord { record: &record, keys: &keys, slot };
                if repacker.put(&leaf, position, written) {
                    model.insert(position, (record.0, keys, slot));
                } else {
                    assert!(
                        record.0.len() + 5 * keys.len() > PACKED_BYTES_MAX - 20 || keys.len() > 127
                    );
                    refused += 1;
                }
            }
            repacker.finish(&mut leaf);
            assert_eq!(leaf.occupied_bits().count_ones() as usize, model.len());
            for (position, record) in &model {
                check(leaf.get(*position).expect("it is there"), record);
            }
        }
        assert!(refused > 100);
        let occupied = leaf.occupied_bits();
        (0..64)
            .filter(|position| occupied & 1 << position != 0)
            .for_each(|position| repacker.remove(position));
        repacker.finish(&mut leaf);
        assert_eq!((leaf.occupied_bits(), leaf.bytes()), (0, 0));
    }
}
