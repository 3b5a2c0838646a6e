//! Hashes of 32 bytes, and the hash functions of Kaspa, each with the key of its purpose.

use std::fmt;

use muhash::ElementHasher;

use crate::hex::{self, HexError};

/// A hash: of a block, a transaction, a covenant.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Result<Self, HexError> {
        hex::decode_array(text).map(Self)
    }

    /// Appends 64 hexadecimal digits.
    pub fn encode_hex_into(&self, text: &mut Vec<u8>) {
        hex::encode_into(&self.0, text);
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The receiver of a structure's fields, in the encoding that Kaspa hashes.
pub(crate) trait FieldHasher {
    fn write(&mut self, bytes: &[u8]);

    fn write_len(&mut self, len: usize) {
        self.write(&(len as u64).to_le_bytes());
    }

    fn write_bytes(&mut self, bytes: &[u8]) {
        self.write_len(bytes.len());
        self.write(bytes);
    }

    fn write_hash(&mut self, hash: &Hash) {
        self.write(&hash.0);
    }

    fn write_u64(&mut self, number: u64) {
        self.write(&number.to_le_bytes());
    }

    fn write_u32(&mut self, number: u32) {
        self.write(&number.to_le_bytes());
    }

    fn write_u16(&mut self, number: u16) {
        self.write(&number.to_le_bytes());
    }
}

impl FieldHasher for ElementHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

/// BLAKE2b of 32 bytes under a key.
pub(crate) struct Blake2b(blake2b_simd::State);

impl Blake2b {
    pub(crate) fn with_key(key: &[u8]) -> Self {
        Self(blake2b_simd::Params::new().hash_length(32).key(key).to_state())
    }

    pub(crate) fn finish(&self) -> Hash {
        let mut hash = Hash::default();
        hash.0.copy_from_slice(self.0.finalize().as_bytes());
        hash
    }
}

impl FieldHasher for Blake2b {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

/// BLAKE3 under a key, which is filled up with zeros.
pub(crate) struct Blake3(blake3::Hasher);

impl Blake3 {
    pub(crate) fn with_key(short_key: &[u8]) -> Self {
        let mut key = [0; blake3::KEY_LEN];
        key[..short_key.len()].copy_from_slice(short_key);
        Self(blake3::Hasher::new_keyed(&key))
    }

    pub(crate) fn finish(&self) -> Hash {
        Hash(self.0.finalize().into())
    }
}

impl FieldHasher for Blake3 {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}
