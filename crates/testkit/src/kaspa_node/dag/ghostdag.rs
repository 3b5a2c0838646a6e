//! GHOSTDAG: from a block's parents to its selected parent, the blocks that it merges, their colours, and its scores.
//!
//! Simplification: a merged block is blue if its own anticone has at most K blocks, red ones included. kaspad counts
//! only blue ones, and also checks the anticones of earlier blue blocks. Both give the same colours while all parallel
//! branches together have at most K blocks. Colours change scores and rewards, but not the acceptance of transactions.

use kaspa::Hash;

use super::blocks::{Blocks, Ghostdag};

/// The largest anticone of a blue block, at 10 blocks a second.
const K: usize = 124;
/// The most blocks that a block merges, its selected parent included.
pub(crate) const MERGE_SET_MAX: usize = 2 * K;
/// The work of one block of simnet.
const BLOCK_DIFFICULTY: u64 = 2;

impl Blocks {
    /// Computes the merge set of a block with these parents.
    pub(crate) fn merge_parents(&self, parents: &[Hash]) -> Ghostdag {
        let selected = parents.iter().max_by_key(|parent| self.sort_key(parent));
        let selected = *selected.unwrap_or_else(|| panic!("a block has parents"));
        let mut others = self.difference(parents, &selected);
        others.sort_by_key(|hash| self.sort_key(hash));
        let mut blues = vec![selected];
        let mut reds = Vec::new();
        for hash in &others {
            let is_blue = self.difference_up_to(K + 1, &blues, hash).len() <= K;
            if is_blue { blues.push(*hash) } else { reds.push(*hash) }
        }
        let below = &self.expect_block(&selected).ghostdag;
        // The first block does not count in DAA scores.
        let counted = others.len() + usize::from(below.selected_parent.is_some());
        Ghostdag {
            selected_parent: Some(selected),
            blue_score: below.blue_score + blues.len() as u64,
            blue_work: below.blue_work + BLOCK_DIFFICULTY * blues.len() as u64,
            daa_score: below.daa_score + counted as u64,
            merge_order: std::iter::once(selected).chain(others).collect(),
            blues,
            reds,
        }
    }
}
