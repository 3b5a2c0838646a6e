//! An array that grows and never moves: in chunks, allocated when first needed.
//!
//! Bounds: `CHUNKS` chunks of `len` entries, and one chunk of entries allocated ahead of their use.

use std::sync::OnceLock;

/// Maximum number of chunks.
pub(crate) const CHUNKS: usize = 1024;

/// The array. Read by any thread, allocated by one.
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

    /// All allocated entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().filter_map(OnceLock::get).flatten()
    }

    /// The heap bytes of the entries, without what they point to.
    pub(crate) fn bytes(&self) -> usize {
        let chunks = self.chunks.iter().filter_map(OnceLock::get);
        size_of_val(&*self.chunks) + chunks.map(|chunk| size_of_val(&**chunk)).sum::<usize>()
    }

    /// The entry `at`, allocated if necessary. Panics beyond the bound, from which there is no recovery.
    pub(crate) fn allocate(&self, at: u32, make: impl Fn() -> T) -> &T {
        let at = at as usize;
        let chunk = self.chunks.get(at / self.chunk_len);
        let chunk = chunk.unwrap_or_else(|| panic!("an index has no entry {at}: out of bounds"));
        &chunk.get_or_init(|| (0..self.chunk_len).map(|_| make()).collect())[at % self.chunk_len]
    }
}
