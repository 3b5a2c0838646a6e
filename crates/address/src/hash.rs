//! The keyed hash of addresses: folded multiplications of all their bytes with secrets.
//!
//! An attacker may choose every byte of an address (a payment may go to any 32 bytes), so
//! every byte counts, and none is multiplied before a secret is mixed into it. Without the secrets
//! collisions cannot be computed.

/// The secrets of the hash. They are derived from the seed alone, so the seed must be unknown to anyone that chooses
/// addresses.
pub(crate) struct KeyedHash([u64; 8]);

impl KeyedHash {
    pub(crate) fn new(seed: u64) -> Self {
        let mut state = seed;
        Self(std::array::from_fn(|_| {
            // SplitMix64. Odd, so that no secret is zero.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) | 1
        }))
    }

    /// Returns the hash of an address' bytes.
    pub(crate) fn hash(&self, bytes: &[u8]) -> u64 {
        if let Ok(bytes) = <&[u8; 32]>::try_from(bytes) {
            return self.hash_words(words(bytes));
        }
        let secrets = &self.0;
        let mut hash = secrets[6] ^ bytes.len() as u64;
        for part in bytes.chunks(32) {
            let mut padded = [0; 32];
            padded[..part.len()].copy_from_slice(part);
            hash = fold_multiply(hash ^ secrets[7], self.hash_words(words(&padded)) ^ secrets[5]);
        }
        hash
    }

    /// Returns the hash of an address of 32 bytes.
    pub(crate) fn hash_words(&self, words: [u64; 4]) -> u64 {
        let secrets = &self.0;
        let low = fold_multiply(words[0] ^ secrets[0], words[1] ^ secrets[1]);
        let high = fold_multiply(words[2] ^ secrets[2], words[3] ^ secrets[3]);
        fold_multiply(low ^ secrets[4], high ^ secrets[5])
    }
}

/// Returns the words of 32 bytes.
pub(crate) fn words(bytes: &[u8; 32]) -> [u64; 4] {
    std::array::from_fn(|n| u64::from_le_bytes(bytes.as_chunks::<8>().0[n]))
}

fn fold_multiply(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_byte_and_the_length_count() {
        let hash = KeyedHash::new(7);
        let mut seen = BTreeSet::new();
        for len in 1..=36 {
            assert!(seen.insert(hash.hash(&vec![0; len])), "zeros of another length");
            for at in 0..len {
                for bit in 0..8 {
                    let mut bytes = vec![0; len];
                    bytes[at] = 1 << bit;
                    assert!(seen.insert(hash.hash(&bytes)), "bit {bit} of byte {at} of {len}");
                }
            }
        }
    }

    #[test]
    fn another_seed_gives_another_hash() {
        let [one, two] = [1, 2].map(KeyedHash::new);
        assert_ne!(one.hash(&[5; 32]), two.hash(&[5; 32]));
        assert_eq!(one.hash(&[5; 32]), KeyedHash::new(1).hash(&[5; 32]));
    }

    #[test]
    fn keys_that_differ_little_spread_over_all_bits() {
        // Vanity keys: equal except for a few bytes at one end.
        let hash = KeyedHash::new(99);
        for at in [0, 14, 28] {
            let mut counts = [0; 64];
            for n in 0..64_000_u32 {
                let mut bytes = [b'p'; 32];
                bytes[at..at + 4].copy_from_slice(&n.to_le_bytes());
                let hash = hash.hash(&bytes);
                counts.iter_mut().enumerate().for_each(|(bit, count)| *count += hash >> bit & 1);
            }
            for (bit, count) in counts.iter().enumerate() {
                assert!((30_500..33_500).contains(count), "bit {bit} is set {count} times");
            }
        }
    }
}
