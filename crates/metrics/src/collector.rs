//! The interface of a part of the node that appears in a scrape.

use crate::Exposition;

/// A part of the node that has metrics of its own.
pub trait Collector: Send + Sync {
    /// Writes its metric families. Called on a thread that may block.
    fn write(&self, to: &mut Exposition);

    /// Returns the heap bytes in use, by `part` of `hydrant_memory_bytes`.
    fn memory(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
