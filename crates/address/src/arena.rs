//! Number to address: 40 bytes each, in chunks that are laid out when first needed.
//!
//! Invariant: an entry changes only while no reader can hold its id (see `epoch`), so that plain
//! loads of its words belong together. Whoever asks for an id that he does not hold gets some
//! address or none, never undefined behaviour.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use ledger::{ADDRESS_BYTES_MAX, Address, AddressId};

/// Addresses a chunk: 40 KiB at once.
const CHUNK_LEN: usize = 1024;
/// A length byte, then the longest address, in whole words.
const WORDS: usize = (1 + ADDRESS_BYTES_MAX).div_ceil(8);

/// The addresses by id.
pub(crate) struct Arena {
    chunks: Box<[OnceLock<Box<[Entry]>>]>,
}

#[derive(Default)]
struct Entry([AtomicU64; WORDS]);

impl Arena {
    /// Room for `limit` addresses, none of it laid out yet.
    pub(crate) fn new(limit: u32) -> Self {
        let chunks = (limit as usize).div_ceil(CHUNK_LEN);
        Self { chunks: (0..chunks).map(|_| OnceLock::new()).collect() }
    }

    /// The address of `id`, if it has one.
    pub(crate) fn address(&self, id: AddressId) -> Option<Address> {
        let id = id.0 as usize;
        let entry = &self.chunks.get(id / CHUNK_LEN)?.get()?[id % CHUNK_LEN];
        let mut bytes = [0; WORDS * 8];
        for (word, bytes) in entry.0.iter().zip(bytes.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        // An empty entry has length 0, which is no address.
        Address::try_from(bytes.get(1..=usize::from(bytes[0]))?).ok()
    }

    /// Sets or clears the address of `id`, which must be below the limit. One caller at a time.
    pub(crate) fn set(&self, id: AddressId, address: Option<&Address>) {
        let mut bytes = [0; WORDS * 8];
        if let Some(address) = address {
            let given = address.as_bytes();
            bytes[0] = given.len() as u8; // at most ADDRESS_BYTES_MAX
            bytes[1..=given.len()].copy_from_slice(given);
        }
        let id = id.0 as usize;
        let chunk = self.chunks[id / CHUNK_LEN]
            .get_or_init(|| (0..CHUNK_LEN).map(|_| Entry::default()).collect());
        for (word, bytes) in chunk[id % CHUNK_LEN].0.iter().zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_every_length_come_back() {
        let arena = Arena::new(2_000);
        assert_eq!(arena.address(AddressId(5)), None);
        for len in 1..=ADDRESS_BYTES_MAX {
            let address = Address::try_from(&vec![len as u8; len][..]).ok();
            let id = AddressId(1_020 + len as u32);
            arena.set(id, address.as_ref());
            assert_eq!(arena.address(id), address);
            arena.set(id, None);
            assert_eq!(arena.address(id), None);
        }
    }

    #[test]
    fn an_id_out_of_range_has_no_address() {
        let arena = Arena::new(1);
        assert_eq!(arena.address(AddressId(0)), None);
        assert_eq!(arena.address(AddressId(u32::MAX)), None);
    }
}
