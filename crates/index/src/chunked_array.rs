//! An array that grows and never moves: in chunks, laid out when first needed.
//!
//! Bounds: `CHUNKS` chunks of `len` places, and a chunk of places laid out ahead of their use.

use std::sync::OnceLock;

/// How many chunks there may be.
pub(crate) const CHUNKS: usize = 1024;

/// The array. Read by any thread, laid out by one.
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

    /// All places that are laid out.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().filter_map(OnceLock::get).flatten()
    }

    /// The heap bytes of the places, without what they lead to.
    pub(crate) fn bytes(&self) -> usize {
        let chunks = self.chunks.iter().filter_map(OnceLock::get);
        size_of_val(&*self.chunks) + chunks.map(|chunk| size_of_val(&**chunk)).sum::<usize>()
    }

    /// The place `at`, laid out if it is not. Panics beyond the bound: there is no room to go on.
    pub(crate) fn allocate(&self, at: u32, make: impl Fn() -> T) -> &T {
        let at = at as usize;
        let chunk = self.chunks.get(at / self.chunk_len);
        let chunk = chunk.unwrap_or_else(|| panic!("an index has no place {at}: out of bounds"));
        &chunk.get_or_init(|| (0..self.chunk_len).map(|_| make()).collect())[at % self.chunk_len]
    }
}
