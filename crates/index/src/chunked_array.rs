//! An array that grows and never moves: in chunks, allocated when first needed.
//!
//! Bounds: `CHUNKS` chunks of `len` entries, and one chunk of entries allocated ahead of their use.

use std::sync::OnceLock;

pub(crate) const CHUNKS: usize = 1024;

/// A growing array. Any thread reads it, one allocates.
pub(crate) struct ChunkedArray<T> {
    chunks: Box<[OnceLock<Box<[T]>>]>,
    chunk_len: usize,
}

impl<T> ChunkedArray<T> {
    pub(crate) fn new(chunk_len: usize) -> Self {
        Self { chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(), chunk_len }
    }

    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        let at = at as usize;
        Some(&self.chunks.get(at / self.chunk_len)?.get()?[at % self.chunk_len])
    }

    /// Returns all allocated entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().filter_map(OnceLock::get).flatten()
    }

    /// Returns the heap bytes of the entries, without memory that they own.
    pub(crate) fn bytes(&self) -> usize {
        let chunks = self.chunks.iter().filter_map(OnceLock::get);
        size_of_val(&*self.chunks) + chunks.map(|chunk| size_of_val(&**chunk)).sum::<usize>()
    }

    /// Returns the entry `at`, allocated if necessary. Panics beyond the bound: recovery is not possible there.
    pub(crate) fn allocate(&self, at: u32, make: impl Fn() -> T) -> &T {
        let at = at as usize;
        let chunk = self.chunks.get(at / self.chunk_len);
        let chunk = chunk.unwrap_or_else(|| panic!("an index has no entry {at}: out of bounds"));
        &chunk.get_or_init(|| (0..self.chunk_len).map(|_| make()).collect())[at % self.chunk_len]
    }
}
