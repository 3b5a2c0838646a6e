//! The whole banks above the root, and the root.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ledger::{BlockId, Slot};
use solana_hash::Hash;

/// Number of rooted blocks with a remembered hash, which recognizes a source of another chain.
const ROOTED_MAX: usize = 512;

/// A whole bank above the root, or the root.
struct Node {
    parent: BlockId,
    blockhash: Hash,
    /// Children in the order in which they froze.
    children: Vec<BlockId>,
}

impl Node {
    fn new(parent: BlockId, blockhash: Hash) -> Self {
        Self { parent, blockhash, children: Vec::new() }
    }
}

pub(crate) struct BankTree {
    /// Parents sort before their children.
    nodes: BTreeMap<BlockId, Node>,
    root: BlockId,
    version: u64,
    /// Slots above the root in which a bank ended without becoming final.
    ended: BTreeSet<Slot>,
    /// The newest rooted blocks, the oldest first.
    rooted: VecDeque<(Slot, Hash)>,
}

impl BankTree {
    pub(crate) fn new(root: BlockId, blockhash: Hash) -> Self {
        Self {
            nodes: BTreeMap::from([(root, Node::new(root, blockhash))]),
            root,
            version: root.version,
            ended: BTreeSet::new(),
            rooted: VecDeque::from([(root.slot, blockhash)]),
        }
    }

    pub(crate) fn root(&self) -> BlockId {
        self.root
    }

    /// Returns the number of whole banks above the root.
    pub(crate) fn count_unrooted(&self) -> usize {
        self.nodes.len() - 1
    }

    pub(crate) fn contains(&self, bank: BlockId) -> bool {
        self.nodes.contains_key(&bank)
    }

    /// The bank of a slot with this hash.
    pub(crate) fn find(&self, slot: Slot, blockhash: &Hash) -> Option<BlockId> {
        self.banks_in_slot(slot).find(|(_, node)| node.blockhash == *blockhash).map(|(id, _)| id)
    }

    /// The bank of a slot, if there is exactly one.
    pub(crate) fn find_only(&self, slot: Slot) -> Option<BlockId> {
        let mut banks = self.banks_in_slot(slot);
        let (id, _) = banks.next()?;
        banks.next().is_none().then_some(id)
    }

    fn banks_in_slot(&self, slot: Slot) -> impl Iterator<Item = (BlockId, &Node)> {
        let range = BlockId { slot, version: 0 }..=BlockId { slot, version: u64::MAX };
        self.nodes.range(range).map(|(id, node)| (*id, node))
    }

    /// The hash of a rooted block, if the slot is remembered and has one.
    pub(crate) fn rooted_hash(&self, slot: Slot) -> Option<Hash> {
        let at = self.rooted.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
        Some(self.rooted[at].1)
    }

    /// An id for a bank of the slot, which no other bank has.
    pub(crate) fn reserve(&mut self, slot: Slot) -> BlockId {
        self.version += 1;
        BlockId { slot, version: self.version }
    }

    /// Adds a bank to its parent, with a reserved id.
    pub(crate) fn add(&mut self, id: BlockId, parent: BlockId, blockhash: Hash) {
        self.nodes.insert(id, Node::new(parent, blockhash));
        if let Some(node) = self.nodes.get_mut(&parent) {
            node.children.push(id);
        }
    }

    /// Whether `bank` is `ancestor` or descends from it.
    pub(crate) fn is_on_chain(&self, ancestor: BlockId, bank: BlockId) -> bool {
        let mut at = bank;
        while at > ancestor {
            let Some(node) = self.nodes.get(&at) else { return false };
            if node.parent == at {
                return false;
            }
            at = node.parent;
        }
        at == ancestor
    }

    /// The banks above `ancestor` on the chain up to `bank`, the newest first.
    pub(crate) fn above(&self, ancestor: BlockId, bank: BlockId) -> Vec<BlockId> {
        let mut chain = Vec::new();
        let mut at = bank;
        while at > ancestor {
            chain.push(at);
            let Some(node) = self.nodes.get(&at) else { break };
            at = node.parent;
        }
        chain
    }

    /// The children of a bank, the first frozen first.
    pub(crate) fn children(&self, bank: BlockId) -> &[BlockId] {
        self.nodes.get(&bank).map_or(&[], |node| &node.children)
    }

    /// `bank` and its descendants, the newest first.
    pub(crate) fn subtree(&self, bank: BlockId) -> Vec<BlockId> {
        let mut found = vec![bank];
        let mut at = 0;
        while at < found.len() {
            found.extend_from_slice(self.children(found[at]));
            at += 1;
        }
        found.sort_unstable_by(|left, right| right.cmp(left));
        found
    }

    /// Removes a bank without children.
    pub(crate) fn remove(&mut self, bank: BlockId) {
        if let Some(node) = self.nodes.remove(&bank)
            && let Some(parent) = self.nodes.get_mut(&node.parent)
        {
            parent.children.retain(|child| *child != bank);
        }
        self.ended.insert(bank.slot);
    }

    /// Records that an open bank of the slot ended.
    pub(crate) fn record_end(&mut self, slot: Slot) {
        if slot > self.root.slot {
            self.ended.insert(slot);
        }
    }

    /// Allows another bank of the slot.
    pub(crate) fn forget_end(&mut self, slot: Slot) {
        self.ended.remove(&slot);
    }

    /// Whether a bank of the slot ended without becoming final.
    pub(crate) fn has_ended(&self, slot: Slot) -> bool {
        self.ended.contains(&slot)
    }

    /// Returns the banks on forks that a new root is not on, the newest first.
    pub(crate) fn on_other_forks(&self, root: BlockId) -> Vec<BlockId> {
        let mut stays: BTreeSet<BlockId> = self.above(self.root, root).into_iter().collect();
        stays.insert(self.root);
        stays.extend(self.subtree(root));
        self.nodes.keys().rev().filter(|id| !stays.contains(id)).copied().collect()
    }

    /// Makes `root` the root. No bank is left that does not descend from it, or is its ancestor.
    pub(crate) fn set_root(&mut self, root: BlockId) {
        for id in self.above(self.root, root).into_iter().rev() {
            if let Some(node) = self.nodes.get(&id) {
                self.rooted.push_back((id.slot, node.blockhash));
            }
        }
        while self.rooted.len() > ROOTED_MAX {
            self.rooted.pop_front();
        }
        self.nodes = self.nodes.split_off(&root);
        self.root = root;
        self.ended = self.ended.split_off(&(root.slot + 1));
    }
}
