//! The UTXO set at one chain block. It moves along the chain by differences.

use std::collections::HashMap;

use kaspa::{Hash, Outpoint, UtxoEntry};

use super::blocks::{Blocks, DagBlock};
use super::utxo_diff::UtxoDiff;

/// The UTXO set of a chain block.
pub(crate) struct UtxoSet {
    block: Hash,
    utxos: HashMap<Outpoint, UtxoEntry>,
}

/// A UTXO set with a difference above it.
#[derive(Clone, Copy)]
pub(crate) struct UtxoView<'a> {
    pub(crate) set: &'a UtxoSet,
    pub(crate) diff: &'a UtxoDiff,
}

impl UtxoSet {
    /// The empty set of the first block.
    pub(crate) fn at_genesis(block: Hash) -> Self {
        Self { block, utxos: HashMap::new() }
    }

    /// Moves to another block.
    pub(crate) fn move_to(&mut self, blocks: &Blocks, block: &Hash) {
        let path = blocks.chain_path(&self.block, block);
        for hash in &path.removed {
            self.apply(&chain_diff(blocks.expect_block(hash)).to_reversed());
        }
        for hash in &path.added {
            self.apply(chain_diff(blocks.expect_block(hash)));
        }
        self.block = *block;
    }

    /// The UTXOs of the block.
    pub(crate) fn utxos(&self) -> impl Iterator<Item = (&Outpoint, &UtxoEntry)> {
        self.utxos.iter()
    }

    fn apply(&mut self, diff: &UtxoDiff) {
        for (outpoint, entry) in &diff.removed {
            assert_eq!(self.utxos.remove(outpoint).as_ref(), Some(entry), "{outpoint:?}");
        }
        for (outpoint, entry) in &diff.added {
            let before = self.utxos.insert(*outpoint, entry.clone());
            assert_eq!(before, None, "{outpoint:?}");
        }
    }
}

/// The difference that a chain block makes.
pub(crate) fn chain_diff(block: &DagBlock) -> &UtxoDiff {
    let state = block.state.as_ref();
    &state.unwrap_or_else(|| panic!("block {} cannot be on the chain", block.hash)).diff
}

impl<'a> UtxoView<'a> {
    pub(crate) fn find(&self, outpoint: &Outpoint) -> Option<&'a UtxoEntry> {
        if let Some(entry) = self.diff.added.get(outpoint) {
            return Some(entry);
        }
        self.set.utxos.get(outpoint).filter(|_| !self.diff.removed.contains_key(outpoint))
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = (&'a Outpoint, &'a UtxoEntry)> {
        let diff = self.diff;
        let rest = self.set.utxos.iter();
        diff.added.iter().chain(rest.filter(|(outpoint, _)| {
            !diff.removed.contains_key(outpoint) && !diff.added.contains_key(outpoint)
        }))
    }
}
