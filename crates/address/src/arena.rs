//! The data of an id: its address, and a byte with its reference state.
//!
//! Shape: chunks of 1,024 ids with 32 bytes for each address, and chunks of 32,768 ids with one byte for each reference
//! state. Chunks are allocated when first needed and never move. An address whose length is not 32 bytes is stored
//! in an arena of its own, 40 bytes each, and its index there in the 32 bytes. A bitmap of each chunk that has such an
//! address marks their ids.
//! Invariant: an address changes only while no reader can have its id (see `epoch`), so that plain
//! loads of its words belong together. A caller that passes an id that it does not own gets some
//! address or none, never undefined behaviour. A lookup, which owns no id yet, finds out that an id is
//! recycled meanwhile (`recycling`).

use std::hint::black_box;
use std::sync::OnceLock;

use ledger::{ADDRESS_BYTES_MAX, Address, AddressId};

use crate::hash::{KeyedHash, words};
use crate::refcount::RefState;
use crate::sync::{AtomicU8, AtomicU64, Ordering, zeros};

/// Ids in a chunk: 32 KiB, a size that allocators have without rounding.
const CHUNK_LEN: usize = if cfg!(loom) { 4 } else { 1024 };
/// Ids in a chunk of reference states: 32 KiB too, so that one kind can reuse the memory of the other.
const REF_COUNTS_LEN: usize = if cfg!(loom) { 4 } else { 32 * CHUNK_LEN };
/// A length byte, then the longest address, in whole words.
const LONG_WORDS: usize = (1 + ADDRESS_BYTES_MAX).div_ceil(8);

/// Addresses and reference states by id.
pub(crate) struct Arena {
    chunks: Box<[OnceLock<Box<Chunk>>]>,
    ref_counts: Box<[OnceLock<Box<RefCounts>>]>,
    /// Allocated for the first address whose length is not 32 bytes. A ledger of Solana has none.
    long: OnceLock<LongArena>,
}

/// Aligned to the system's pages: aligned to eight bytes, mimalloc would allocate 40 KiB.
#[repr(align(4096))]
struct Chunk([[AtomicU64; 4]; CHUNK_LEN]);

/// Aligned to pages, as [`Chunk`] is.
#[repr(align(4096))]
struct RefCounts([AtomicU8; REF_COUNTS_LEN]);

/// Addresses whose length is not 32 bytes.
struct LongArena {
    /// Maximum: as many chunks as ids have.
    chunks: Box<[OnceLock<Box<[LongAddress]>>]>,
    /// For each chunk of ids, which of them have a long address, if any.
    long_bits: Box<[OnceLock<Box<LongAddressBits>>]>,
}

/// A bit for every id of a chunk.
struct LongAddressBits([AtomicU64; CHUNK_LEN.div_ceil(64)]);

/// An address of any length, after its length byte.
#[derive(Default)]
struct LongAddress([AtomicU64; LONG_WORDS]);

/// The free entries of the [`LongArena`], for the writer.
#[derive(Default)]
pub(crate) struct LongFreeList {
    /// Maximum number of entries that were in use at once.
    len: u32,
    free: Vec<u32>,
}

impl Arena {
    /// Creates an arena for `limit` addresses, with no chunk allocated yet.
    pub(crate) fn new(limit: u32) -> Self {
        let chunks = (limit as usize).div_ceil(CHUNK_LEN);
        let ref_counts = (limit as usize).div_ceil(REF_COUNTS_LEN);
        Self {
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
            ref_counts: (0..ref_counts).map(|_| OnceLock::new()).collect(),
            long: OnceLock::new(),
        }
    }

    /// Allocates the chunks of all ids below `ids`.
    pub(crate) fn reserve(&self, ids: usize) {
        for chunk in self.chunks.iter().take(ids.div_ceil(CHUNK_LEN)) {
            chunk.get_or_init(Chunk::new);
        }
        for ref_counts in self.ref_counts.iter().take(ids.div_ceil(REF_COUNTS_LEN)) {
            ref_counts.get_or_init(RefCounts::new);
        }
    }

    /// Returns the address of `id`, if it has one.
    pub(crate) fn address(&self, id: AddressId) -> Option<Address> {
        let (chunk, at) = self.locate(id)?;
        if self.ref_state(id) == RefState::Free {
            return None;
        }
        let words = chunk.words(at);
        if self.is_long(id) {
            return self.long_address(words[0] as u32);
        }
        let mut bytes = [0; 32];
        for (word, bytes) in words.iter().zip(bytes.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Some(Address::from(bytes))
    }

    /// Returns the hash of the address of `id`, which must have one.
    pub(crate) fn hash(&self, id: AddressId, hash: &KeyedHash) -> Option<u64> {
        let (chunk, at) = self.locate(id)?;
        let words = chunk.words(at);
        if self.is_long(id) {
            return Some(hash.hash(self.long_address(words[0] as u32)?.as_bytes()));
        }
        Some(hash.hash_words(words))
    }

    /// Appends the addresses of `ids` that have 32 bytes.
    pub(crate) fn copy_addresses(
        &self,
        ids: impl ExactSizeIterator<Item = AddressId>,
        into: &mut Vec<[u8; 32]>,
    ) {
        if self.long.get().is_some() {
            into.extend(ids.filter_map(|id| self.address(id)?.to_array()));
            return;
        }
        // Each word is copied directly to its destination: assembling the address in between takes four times as long.
        let start = into.len();
        into.resize(start + ids.len(), [0; 32]);
        // Ids are mostly sorted: those of one chunk follow each other.
        let mut last = (usize::MAX, None);
        for (id, bytes) in ids.zip(&mut into[start..]) {
            let number = id.0 as usize / CHUNK_LEN;
            let at = id.0 as usize % CHUNK_LEN;
            if last.0 != number {
                last = (number, self.chunks.get(number).and_then(OnceLock::get));
            }
            let Some(chunk) = last.1 else { continue };
            for (word, bytes) in chunk.0[at].iter().zip(bytes.as_chunks_mut::<8>().0) {
                *bytes = word.load(Ordering::Relaxed).to_le_bytes();
            }
        }
    }

    /// Loads the data of `ids` into the CPU cache.
    pub(crate) fn prefetch(&self, ids: impl Iterator<Item = AddressId>) {
        let entries = ids.filter_map(|id| Some((self.locate(id)?, self.byte(id)?)));
        // The sum is not used: `black_box` makes the compiler load the words.
        black_box(entries.fold(0_u64, |sum, ((chunk, at), byte)| {
            let address = &chunk.0[at];
            let word = |n: usize| address[n].load(Ordering::Relaxed);
            let byte = byte.load(Ordering::Relaxed);
            sum.wrapping_add(word(0)).wrapping_add(word(3)).wrapping_add(byte.into())
        }));
    }

    /// Returns whether `id` has `address`.
    pub(crate) fn matches(&self, id: AddressId, address: &Address) -> bool {
        let Some((chunk, at)) = self.locate(id) else { return false };
        match <&[u8; 32]>::try_from(address.as_bytes()) {
            Ok(bytes) => chunk.words(at) == words(bytes) && !self.is_long(id),
            Err(_) => {
                self.is_long(id) && self.long_address(chunk.words(at)[0] as u32) == Some(*address)
            }
        }
    }

    /// Returns the reference state of `id`.
    pub(crate) fn ref_state(&self, id: AddressId) -> RefState {
        let byte = self.byte(id).map(|byte| byte.load(Ordering::Relaxed));
        byte.map_or(RefState::Free, RefState::from_byte)
    }

    /// Sets the reference state of `id`, which must have an address. Writer only.
    pub(crate) fn set_ref_state(&self, id: AddressId, state: RefState) {
        if let Some(byte) = self.byte(id) {
            byte.store(state.to_byte(), Ordering::Relaxed);
        }
    }

    /// Stores `address` under `id`, which must be below the limit and have no address. Writer only.
    pub(crate) fn set(&self, id: AddressId, address: &Address, free_list: &mut LongFreeList) {
        let chunk = id.0 as usize / CHUNK_LEN;
        let at = id.0 as usize % CHUNK_LEN;
        self.ref_counts[id.0 as usize / REF_COUNTS_LEN].get_or_init(RefCounts::new);
        let chunk = self.chunks[chunk].get_or_init(Chunk::new);
        if let Ok(bytes) = <&[u8; 32]>::try_from(address.as_bytes()) {
            chunk.set(at, words(bytes));
            self.set_long_bit(id, false);
            return;
        }
        let index = free_list.free.pop().unwrap_or_else(|| {
            free_list.len += 1; // at most one per id
            free_list.len - 1
        });
        self.set_long_address(index, address);
        chunk.set(at, [u64::from(index), 0, 0, 0]);
        self.set_long_bit(id, true);
    }

    /// Replaces the address of `id` by `note`. Writer only.
    pub(crate) fn clear(&self, id: AddressId, note: u32, free_list: &mut LongFreeList) {
        let Some((chunk, at)) = self.locate(id) else { return };
        if self.is_long(id) {
            free_list.free.push(chunk.words(at)[0] as u32);
        }
        chunk.set(at, [u64::from(note), 0, 0, 0]);
        self.set_long_bit(id, false);
    }

    /// Returns the note of a cleared id. Writer only.
    pub(crate) fn note(&self, id: AddressId) -> u32 {
        self.locate(id).map_or(0, |(chunk, at)| chunk.words(at)[0] as u32)
    }

    /// Returns the heap size in bytes. Cost: O(chunks).
    pub(crate) fn bytes(&self) -> usize {
        let laid_out = self.chunks.iter().filter(|chunk| chunk.get().is_some()).count();
        let long = self.long.get().map_or(0, |long| {
            let chunks = long.chunks.iter().filter_map(OnceLock::get);
            let marked = long.long_bits.iter().filter(|bits| bits.get().is_some()).count();
            size_of_val(&*long.chunks)
                + size_of_val(&*long.long_bits)
                + chunks.map(|chunk| size_of_val(&**chunk)).sum::<usize>()
                + marked * size_of::<LongAddressBits>()
        });
        let ref_counts =
            self.ref_counts.iter().filter(|ref_counts| ref_counts.get().is_some()).count();
        size_of_val(&*self.chunks)
            + size_of_val(&*self.ref_counts)
            + laid_out * size_of::<Chunk>()
            + ref_counts * size_of::<RefCounts>()
            + long
    }

    fn locate(&self, id: AddressId) -> Option<(&Chunk, usize)> {
        let id = id.0 as usize;
        Some((self.chunks.get(id / CHUNK_LEN)?.get()?, id % CHUNK_LEN))
    }

    fn byte(&self, id: AddressId) -> Option<&AtomicU8> {
        let id = id.0 as usize;
        Some(&self.ref_counts.get(id / REF_COUNTS_LEN)?.get()?.0[id % REF_COUNTS_LEN])
    }

    /// Returns whether the length of the address of `id` is not 32 bytes.
    fn is_long(&self, id: AddressId) -> bool {
        let Some(long) = self.long.get() else { return false };
        let chunk = id.0 as usize / CHUNK_LEN;
        let at = id.0 as usize % CHUNK_LEN;
        let bits = long.long_bits.get(chunk).and_then(OnceLock::get);
        bits.is_some_and(|bits| bits.0[at / 64].load(Ordering::Relaxed) >> (at % 64) & 1 != 0)
    }

    /// Sets or clears the bit of a long address. Writer only.
    fn set_long_bit(&self, id: AddressId, is_long: bool) {
        if is_long == self.is_long(id) {
            return;
        }
        let chunk = id.0 as usize / CHUNK_LEN;
        let at = id.0 as usize % CHUNK_LEN;
        let long = self.long.get_or_init(|| LongArena::new(self.chunks.len()));
        let empty = || Box::new(LongAddressBits(zeros![AtomicU64::new(0); CHUNK_LEN.div_ceil(64)]));
        let word = &long.long_bits[chunk].get_or_init(empty).0[at / 64];
        word.store(word.load(Ordering::Relaxed) ^ 1 << (at % 64), Ordering::Relaxed);
    }

    fn long_address(&self, index: u32) -> Option<Address> {
        let index = index as usize;
        let chunk = self.long.get()?.chunks.get(index / CHUNK_LEN)?.get()?;
        let mut bytes = [0; LONG_WORDS * 8];
        for (word, bytes) in chunk[index % CHUNK_LEN].0.iter().zip(bytes.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        Address::try_from(bytes.get(1..=usize::from(bytes[0]))?).ok()
    }

    fn set_long_address(&self, index: u32, address: &Address) {
        let mut bytes = [0; LONG_WORDS * 8];
        let address = address.as_bytes();
        bytes[0] = address.len() as u8; // at most ADDRESS_BYTES_MAX
        bytes[1..=address.len()].copy_from_slice(address);
        let index = index as usize;
        let chunk = self.long.get_or_init(|| LongArena::new(self.chunks.len())).chunks
            [index / CHUNK_LEN]
            .get_or_init(|| (0..CHUNK_LEN).map(|_| LongAddress::default()).collect());
        for (word, bytes) in chunk[index % CHUNK_LEN].0.iter().zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
    }
}

impl LongArena {
    /// Creates an arena with no chunk allocated yet.
    fn new(chunks: usize) -> Self {
        Self {
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
            long_bits: (0..chunks).map(|_| OnceLock::new()).collect(),
        }
    }
}

impl RefCounts {
    fn new() -> Box<Self> {
        Box::new(Self(zeros![AtomicU8::new(0); REF_COUNTS_LEN]))
    }
}

impl Chunk {
    fn new() -> Box<Self> {
        Box::new(Self(zeros![zeros![AtomicU64::new(0); 4]; CHUNK_LEN]))
    }

    fn words(&self, at: usize) -> [u64; 4] {
        self.0[at].each_ref().map(|word| word.load(Ordering::Relaxed))
    }

    fn set(&self, at: usize, words: [u64; 4]) {
        for (atomic, word) in self.0[at].iter().zip(words) {
            atomic.store(word, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    const COUNTED: RefState = RefState::Counted { low: 1, is_queued: false };

    #[test]
    fn addresses_with_every_length_round_trip() {
        let arena = Arena::new(2_000);
        let mut free_list = LongFreeList::default();
        assert_eq!(arena.address(AddressId(5)), None);
        for len in 1..=ADDRESS_BYTES_MAX {
            let Ok(address) = Address::try_from(&vec![len as u8; len][..]) else { continue };
            let id = AddressId(1_020 + len as u32);
            arena.set(id, &address, &mut free_list);
            arena.set_ref_state(id, COUNTED);
            assert_eq!(arena.address(id), Some(address));
            assert!(arena.matches(id, &address));
            assert!(!arena.matches(id, &Address::from([99; 32])));
            arena.set_ref_state(id, RefState::Free);
            arena.clear(id, 77, &mut free_list);
            assert_eq!((arena.address(id), arena.note(id)), (None, 77));
        }
        assert_eq!(
            (free_list.len, free_list.free.len()),
            (1, 1),
            "the long addresses shared one entry"
        );
    }

    #[test]
    fn many_addresses_are_copied_at_once_without_the_long_ones() {
        let arena = Arena::new(5_000);
        let mut free_list = LongFreeList::default();
        let address = |n: u32| Address::from([n as u8; 32]);
        for n in (0..5_000).step_by(3) {
            arena.set(AddressId(n), &address(n), &mut free_list);
            arena.set_ref_state(AddressId(n), COUNTED);
        }
        let ids = [4_998, 0, 3, 1_026, 1_023].map(AddressId);
        let mut copied = vec![[7; 32]];
        arena.copy_addresses(ids.into_iter(), &mut copied);
        let expected = [7, 4_998_u32 as u8, 0, 3, 1_026_u32 as u8, 1_023_u32 as u8];
        assert_eq!(copied, expected.map(|byte| [byte; 32]));
        let Ok(long) = Address::try_from(&[1; 36][..]) else { return };
        arena.set(AddressId(4), &long, &mut free_list);
        arena.set_ref_state(AddressId(4), COUNTED);
        copied.clear();
        arena.copy_addresses([3, 4, 6].map(AddressId).into_iter(), &mut copied);
        assert_eq!(copied, [[3; 32], [6; 32]]);
    }

    #[test]
    fn an_id_beyond_the_limit_has_no_address() {
        let arena = Arena::new(1);
        assert_eq!(arena.address(AddressId(0)), None);
        assert_eq!(arena.address(AddressId(u32::MAX)), None);
    }

    #[test]
    fn a_long_address_index_is_not_mistaken_for_an_address() {
        let arena = Arena::new(10);
        let mut free_list = LongFreeList::default();
        let Ok(short) = Address::try_from(&[1; 20][..]) else { return };
        arena.set(AddressId(3), &short, &mut free_list);
        arena.set_ref_state(AddressId(3), COUNTED);
        assert!(!arena.matches(AddressId(3), &Address::from([0; 32])), "its index is 0");
        assert!(arena.matches(AddressId(3), &short));
    }
}
