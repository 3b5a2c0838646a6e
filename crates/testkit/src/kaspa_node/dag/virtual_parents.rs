//! The parents of the virtual block.

use std::collections::BinaryHeap;

use kaspa::Hash;

use super::blocks::Blocks;
use super::ghostdag::MERGE_SET_MAX;
use super::new_block::PARENTS_MAX;

impl Blocks {
    /// Returns the sink, then other tips while the merge set is within its limit. A tip over the limit is left out,
    /// where kaspad would try its ancestors.
    pub(crate) fn pick_virtual_parents(&self) -> Vec<Hash> {
        let tips = self.tips().iter();
        let mut heap: BinaryHeap<_> = tips.map(|tip| self.sort_key(tip)).collect();
        let sink = loop {
            let (_, candidate) = heap.pop().unwrap_or_else(|| panic!("the first block is valid"));
            let block = self.expect_block(&candidate);
            if block.state.is_some() {
                break candidate;
            }
            for parent in block.header.parents.direct() {
                if !heap.iter().any(|(_, other)| self.is_ancestor(parent, other)) {
                    heap.push(self.sort_key(parent));
                }
            }
        };
        let mut parents = vec![sink];
        while let Some((_, candidate)) = heap.pop().filter(|_| parents.len() < PARENTS_MAX) {
            parents.push(candidate);
            let merged = self.difference_up_to(MERGE_SET_MAX, &parents[1..], &sink);
            if merged.len() >= MERGE_SET_MAX {
                parents.pop();
            }
        }
        parents
    }
}
