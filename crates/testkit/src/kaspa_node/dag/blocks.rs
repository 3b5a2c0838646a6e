//! The blocks of a DAG, and walks over them.
//!
//! Invariant: the blue work of a block is above that of each parent, so descending work is a topological order.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::sync::Arc;

use kaspa::{Hash, Header, ScriptPublicKey, Transaction, UtxoEntry};
use muhash::MuHash;

use super::utxo_diff::UtxoDiff;

/// A block in the DAG, with the state that follows from its parents.
#[derive(Debug)]
pub struct DagBlock {
    /// The hash of the header.
    pub hash: Hash,
    /// The header, as it was mined.
    pub header: Header,
    /// The transactions, the coinbase first.
    pub transactions: Vec<Transaction>,
    /// The ids of the transactions.
    pub transaction_ids: Vec<Hash>,
    /// The merged blocks and the scores.
    pub ghostdag: Ghostdag,
    /// `None` if the block cannot be on the selected chain: its commitment or a transaction is wrong.
    pub state: Option<ChainState>,
}

/// The blocks that a block, or the virtual block, merges, and the resulting scores.
#[derive(Clone, Debug)]
pub struct Ghostdag {
    /// `None` for the first block.
    pub selected_parent: Option<Hash>,
    /// The selected parent, then other blue blocks by work.
    pub blues: Vec<Hash>,
    /// The red blocks by work, which do not count in the blue score.
    pub reds: Vec<Hash>,
    /// The selected parent, then all others by work: the order of acceptance.
    pub merge_order: Vec<Hash>,
    /// The number of blue blocks below.
    pub blue_score: u64,
    /// The sum of the work of all blue blocks below.
    pub blue_work: u64,
    /// The number of blocks that count for the difficulty.
    pub daa_score: u64,
}

/// The acceptance of a chain block, or of the virtual block.
#[derive(Clone, Debug)]
pub struct ChainState {
    /// The accepted transactions, in order.
    pub accepted: Vec<Accepted>,
    /// The rewards of the merged blocks, in the order of acceptance.
    pub rewards: Vec<Reward>,
    /// The difference from the UTXO set of the selected parent to that of this block.
    pub diff: UtxoDiff,
    /// The product over the UTXO set of this block, normalized.
    pub mu_hash: MuHash,
}

/// An accepted transaction.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// The block that contains it.
    pub block: Hash,
    /// The index of the transaction in that block.
    pub index: usize,
    /// The outputs that it spends, one for each input.
    pub spent: Vec<UtxoEntry>,
}

/// The reward of a merged block, paid by the block that merges it.
#[derive(Clone, Debug)]
pub struct Reward {
    /// The merged block.
    pub block: Hash,
    /// New coins and fees, in sompi.
    pub amount: u64,
    /// The script of its miner.
    pub script: ScriptPublicKey,
}

/// A path along the selected chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainPath {
    /// Blocks that are left, the highest first.
    pub removed: Vec<Hash>,
    /// Blocks that are entered, the lowest first.
    pub added: Vec<Hash>,
}

/// The blocks of a DAG.
pub(crate) struct Blocks {
    genesis: Hash,
    blocks: HashMap<Hash, Arc<DagBlock>>,
    children: HashMap<Hash, Vec<Hash>>,
    tips: BTreeSet<Hash>,
}

/// The key that blocks are sorted by: the blue work, then the hash.
pub(crate) type SortKey = (u64, Hash);

impl Blocks {
    /// A DAG of one block.
    pub(crate) fn new(genesis: DagBlock) -> Self {
        let mut blocks = Self {
            genesis: genesis.hash,
            blocks: HashMap::new(),
            children: HashMap::new(),
            tips: BTreeSet::new(),
        };
        blocks.insert(genesis);
        blocks
    }

    pub(crate) fn insert(&mut self, block: DagBlock) -> Arc<DagBlock> {
        for parent in block.header.parents.direct() {
            self.tips.remove(parent);
            self.children.entry(*parent).or_default().push(block.hash);
        }
        self.tips.insert(block.hash);
        let block = Arc::new(block);
        self.blocks.insert(block.hash, Arc::clone(&block));
        block
    }

    pub(crate) fn find(&self, hash: &Hash) -> Option<&Arc<DagBlock>> {
        self.blocks.get(hash)
    }

    /// Returns a block that exists, such as a parent or a tip.
    pub(crate) fn expect_block(&self, hash: &Hash) -> &Arc<DagBlock> {
        self.find(hash).unwrap_or_else(|| panic!("block {hash} does not exist"))
    }

    pub(crate) fn children(&self, hash: &Hash) -> &[Hash] {
        self.children.get(hash).map_or(&[], Vec::as_slice)
    }

    /// The blocks without children.
    pub(crate) fn tips(&self) -> &BTreeSet<Hash> {
        &self.tips
    }

    pub(crate) fn count(&self) -> usize {
        self.blocks.len()
    }

    /// The first block, which every chain ends with.
    pub(crate) fn genesis(&self) -> Hash {
        self.genesis
    }

    pub(crate) fn sort_key(&self, hash: &Hash) -> SortKey {
        (self.expect_block(hash).ghostdag.blue_work, *hash)
    }

    /// Returns `tops` and all their ancestors, except `bottom` and its ancestors.
    pub(crate) fn difference(&self, tops: &[Hash], bottom: &Hash) -> Vec<Hash> {
        self.difference_up_to(usize::MAX, tops, bottom)
    }

    /// As [`Self::difference`], but stops after `count_max` blocks, those with the most work.
    pub(crate) fn difference_up_to(
        &self,
        count_max: usize,
        tops: &[Hash],
        bottom: &Hash,
    ) -> Vec<Hash> {
        let mut is_below_bottom = HashMap::from([(*bottom, true)]);
        let mut queue = BinaryHeap::from([self.sort_key(bottom)]);
        let mut open = 0;
        for top in tops {
            if let Entry::Vacant(entry) = is_below_bottom.entry(*top) {
                entry.insert(false);
                queue.push(self.sort_key(top));
                open += 1;
            }
        }
        let mut difference = Vec::new();
        while open > 0 && difference.len() < count_max {
            let Some((_, hash)) = queue.pop() else { break };
            let is_below = is_below_bottom[&hash];
            if !is_below {
                open -= 1;
                difference.push(hash);
            }
            for parent in self.expect_block(&hash).header.parents.direct() {
                match is_below_bottom.entry(*parent) {
                    Entry::Vacant(entry) => {
                        entry.insert(is_below);
                        queue.push(self.sort_key(parent));
                        open += usize::from(!is_below);
                    }
                    Entry::Occupied(mut entry) if is_below && !*entry.get() => {
                        entry.insert(true);
                        open -= 1;
                    }
                    Entry::Occupied(_) => {}
                }
            }
        }
        difference
    }

    /// Whether a block is an ancestor of another one, or the same block.
    pub(crate) fn is_ancestor(&self, hash: &Hash, of: &Hash) -> bool {
        self.difference(&[*hash], of).is_empty()
    }

    /// Returns the path from one block to another along selected parents.
    pub(crate) fn chain_path(&self, from: &Hash, to: &Hash) -> ChainPath {
        let mut path = ChainPath::default();
        let mut left = *from;
        let mut entered = *to;
        while left != entered {
            if self.sort_key(&left) >= self.sort_key(&entered) {
                path.removed.push(left);
                left = self.selected_parent(&left);
            } else {
                path.added.push(entered);
                entered = self.selected_parent(&entered);
            }
        }
        path.added.reverse();
        path
    }

    fn selected_parent(&self, hash: &Hash) -> Hash {
        let parent = self.expect_block(hash).ghostdag.selected_parent;
        parent.unwrap_or_else(|| panic!("the first block {hash} has no parent"))
    }
}
