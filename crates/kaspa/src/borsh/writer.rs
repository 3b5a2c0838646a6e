//! Appends Borsh to a buffer.

use crate::hash::Hash;

/// Appends the fields of a message.
pub(crate) trait BorshBuffer {
    fn put_u8(&mut self, value: u8);
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    fn put_hash(&mut self, hash: &Hash);
    /// Appends bytes after their length.
    fn put_bytes(&mut self, bytes: &[u8]);
    /// Appends a list of hashes.
    fn put_hashes(&mut self, hashes: &[Hash]);
    /// Appends a structure after its length.
    fn put_payload(&mut self, write: impl FnOnce(&mut Self));
}

impl BorshBuffer for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_hash(&mut self, hash: &Hash) {
        self.extend_from_slice(&hash.0);
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_u32(bytes.len() as u32);
        self.extend_from_slice(bytes);
    }

    fn put_hashes(&mut self, hashes: &[Hash]) {
        self.put_u32(hashes.len() as u32);
        hashes.iter().for_each(|hash| self.put_hash(hash));
    }

    fn put_payload(&mut self, write: impl FnOnce(&mut Self)) {
        let at = self.len();
        self.put_u32(0);
        write(self);
        let bytes = (self.len() - at - size_of::<u32>()) as u32;
        self[at..at + size_of::<u32>()].copy_from_slice(&bytes.to_le_bytes());
    }
}
