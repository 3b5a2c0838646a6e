//! The versions of one record.

use std::sync::Arc;

use ledger::{BlockId, Key, Slot};

/// A record as one block left it.
#[derive(Debug)]
pub struct Version<R> {
    /// The record; `None` if the block removed it.
    pub record: Option<Arc<R>>,
    /// The keys it is found by.
    pub keys: Arc<[Key]>,
}

impl<R> Clone for Version<R> {
    fn clone(&self) -> Self {
        Self { record: self.record.clone(), keys: Arc::clone(&self.keys) }
    }
}

/// All versions that a read may still see.
pub(crate) struct Versions<R> {
    /// As the root or a block below it left it. Never a removal: that is `None`.
    pub(crate) rooted: Option<Version<R>>,
    /// Of the block that wrote the rooted one.
    pub(crate) rooted_slot: Slot,
    /// By unrooted blocks, one each. A block comes after its ancestors: those were complete when it
    /// was opened.
    pub(crate) unrooted: Vec<(BlockId, Version<R>)>,
}

impl<R> Versions<R> {
    pub(crate) fn new() -> Self {
        Self { rooted: None, rooted_slot: 0, unrooted: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rooted.is_none() && self.unrooted.is_empty()
    }

    /// The newest version by one of `ancestors` (sorted) or at the root.
    pub(crate) fn at(&self, ancestors: &[BlockId]) -> Option<&Version<R>> {
        self.written_at(ancestors).map(|(version, _)| version)
    }

    /// The same, with the slot of the block that wrote it.
    pub(crate) fn written_at(&self, ancestors: &[BlockId]) -> Option<(&Version<R>, Slot)> {
        let unrooted = self.unrooted.iter().rev();
        unrooted
            .filter(|(block, _)| ancestors.binary_search(block).is_ok())
            .map(|(block, version)| (version, block.slot))
            .next()
            .or_else(|| Some((self.rooted.as_ref()?, self.rooted_slot)))
    }

    /// All of them, the newest written first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Version<R>> {
        self.unrooted.iter().rev().map(|(_, version)| version).chain(&self.rooted)
    }

    /// Takes out the version that `block` wrote.
    pub(crate) fn take(&mut self, block: BlockId) -> Option<Version<R>> {
        let at = self.unrooted.iter().position(|(writer, _)| *writer == block)?;
        Some(self.unrooted.remove(at).1)
    }
}

impl<R> Clone for Versions<R> {
    fn clone(&self) -> Self {
        Self {
            rooted: self.rooted.clone(),
            rooted_slot: self.rooted_slot,
            unrooted: self.unrooted.clone(),
        }
    }
}
