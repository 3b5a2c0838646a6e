//! The blocks of a log above its root.
//!
//! In: blocks by the numbers of their records. Out: the chain up to a new root, the oldest block first.
//! Bounds: [`UNROOTED_BYTES_MAX`].
//! Not here: the records (`span_reader`).

use std::collections::BTreeMap;

use chain_solana::Block;
use chain_solana::wire::BlockName;

/// Bound of the blocks above the root: about a hundred blocks or more of mainnet, where 32 are usual. An archiver has
/// up to two readers, so 512 MiB together.
const UNROOTED_BYTES_MAX: u64 = 1 << 28;

/// A block above the root.
pub(crate) struct UnrootedBlock {
    /// The number of its parent's record.
    pub(crate) parent_number: u64,
    pub(crate) block: Block,
}

/// The blocks above the root, by the numbers of their records.
#[derive(Default)]
pub(crate) struct UnrootedBlocks {
    blocks: BTreeMap<u64, UnrootedBlock>,
    bytes: u64,
}

impl UnrootedBlocks {
    /// Estimates the bytes of the blocks.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a block. At the bound the oldest one is dropped.
    pub(crate) fn insert(&mut self, number: u64, block: UnrootedBlock) {
        self.bytes += block.block.bytes();
        if let Some(replaced) = self.blocks.insert(number, block) {
            self.bytes -= replaced.block.bytes();
        }
        while self.bytes > UNROOTED_BYTES_MAX
            && let Some((_, oldest)) = self.blocks.pop_first()
        {
            self.bytes -= oldest.block.bytes();
        }
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<UnrootedBlock> {
        let removed = self.blocks.remove(&number)?;
        self.bytes -= removed.block.bytes();
        Some(removed)
    }

    /// Removes a new root and its ancestors, and returns them, the oldest first. Drops all other blocks up to the
    /// root's slot.
    pub(crate) fn take_chain(&mut self, root: BlockName) -> Vec<Block> {
        let mut chain = Vec::new();
        let mut number = root.number;
        while let Some(UnrootedBlock { parent_number, block }) = self.remove(number) {
            number = parent_number;
            chain.push(block);
        }
        let is_dead = |unrooted: &UnrootedBlock| unrooted.block.id.slot <= root.slot;
        let dead = self.blocks.iter().filter(|(_, unrooted)| is_dead(unrooted));
        let dead: Vec<u64> = dead.map(|(number, _)| *number).collect();
        for number in dead {
            self.remove(number);
        }
        chain.reverse();
        chain
    }
}
