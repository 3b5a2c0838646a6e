//! The expected results of a forked ledger, from plain maps without optimizations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ledger::{Address, BlockId, Change, Commitment, KeyKind, Record, Slot};

/// The block facts of the tests' ledgers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelBlock {
    /// Which block.
    pub block: BlockId,
    /// Number of its writes.
    pub writes: u64,
    /// Whether it is complete.
    pub is_complete: bool,
}

/// A ledger of whole maps. Its calls are those of `query::Ledger`, and must be allowed there.
#[derive(Clone, Debug)]
pub struct Model<R> {
    root: BlockId,
    processed: BlockId,
    confirmed: BlockId,
    rooted: BTreeMap<Address, Arc<R>>,
    /// The slot of the last write of each.
    rooted_slots: BTreeMap<Address, Slot>,
    /// The root, with nothing written, and all above it.
    blocks: BTreeMap<BlockId, Block<R>>,
}

#[derive(Clone, Debug)]
struct Block<R> {
    parent: Option<BlockId>,
    meta: ModelBlock,
    written: BTreeMap<Address, Option<Arc<R>>>,
}

impl<R: Record> Model<R> {
    /// An empty ledger at a complete root.
    pub fn new(root: BlockId) -> Self {
        let facts = ModelBlock { block: root, writes: 0, is_complete: true };
        let block = Block { parent: None, meta: facts, written: BTreeMap::new() };
        let blocks = BTreeMap::from([(root, block)]);
        Self {
            root,
            processed: root,
            confirmed: root,
            rooted: BTreeMap::new(),
            rooted_slots: BTreeMap::new(),
            blocks,
        }
    }

    /// The root.
    pub fn root(&self) -> BlockId {
        self.root
    }

    /// The block that readers at `commitment` see.
    pub fn tip(&self, commitment: Commitment) -> BlockId {
        match commitment {
            Commitment::Processed => self.processed,
            Commitment::Confirmed => self.confirmed,
            Commitment::Finalized => self.root,
        }
    }

    /// The blocks above the root that are complete, or those that are open.
    pub fn unrooted(&self, is_complete: bool) -> Vec<BlockId> {
        let is_match =
            |block: &&Block<R>| block.parent.is_some() && block.meta.is_complete == is_complete;
        self.blocks.values().filter(is_match).map(|block| block.meta.block).collect()
    }

    /// The facts of `block`.
    pub fn meta(&self, block: BlockId) -> ModelBlock {
        self.blocks[&block].meta
    }

    /// All records as `block` sees them.
    pub fn records(&self, block: BlockId) -> BTreeMap<Address, Arc<R>> {
        let mut records = self.rooted.clone();
        for block in self.chain(block) {
            apply(&mut records, &block.written);
        }
        records
    }

    /// The slots at which `block` and its ancestors wrote each address last, removals included.
    pub fn slots(&self, block: BlockId) -> BTreeMap<Address, Slot> {
        let mut slots = self.rooted_slots.clone();
        for block in self.chain(block) {
            slots.extend(block.written.keys().map(|address| (*address, block.meta.block.slot)));
        }
        slots
    }

    /// The blocks from the root to `block`.
    fn chain(&self, block: BlockId) -> Vec<&Block<R>> {
        let mut chain = Vec::new();
        let mut at = Some(block);
        while let Some(block) = at {
            chain.push(&self.blocks[&block]);
            at = self.blocks[&block].parent;
        }
        chain.reverse();
        chain
    }

    /// Number of versions that a read could still see.
    pub fn versions(&self) -> usize {
        self.rooted.len() + self.blocks.values().map(|block| block.written.len()).sum::<usize>()
    }

    /// Every record by every key of any version.
    pub fn entries(&self) -> BTreeSet<(KeyKind, Address, Address)> {
        let mut entries = BTreeSet::new();
        for (address, record) in self.retained_versions() {
            if let Some(record) = record {
                record.keys(&mut |facet, key| {
                    entries.insert((facet, key, *address));
                });
            }
        }
        entries
    }

    /// Every address with a version, removals included.
    pub fn written_addresses(&self) -> BTreeSet<Address> {
        self.retained_versions().map(|(address, _)| *address).collect()
    }

    /// Every address that has a version or is a key of one.
    pub fn addresses(&self) -> BTreeSet<Address> {
        let keys = self.entries().into_iter().map(|(_, key, _)| key);
        self.written_addresses().into_iter().chain(keys).collect()
    }

    /// Models `query::Ledger::apply` while the root is open.
    pub fn fill(&mut self, changes: &[Change<R>]) {
        for Change { address, record } in changes {
            match record {
                Some(record) => {
                    self.rooted.insert(*address, Arc::clone(record));
                    self.rooted_slots.insert(*address, self.root.slot);
                }
                None => {
                    self.rooted.remove(address);
                    self.rooted_slots.remove(address);
                }
            }
        }
    }

    /// Models `query::Ledger::open`.
    pub fn open(&mut self, block: BlockId, parent: BlockId) {
        let facts = ModelBlock { block, writes: 0, is_complete: false };
        let opened = Block { parent: Some(parent), meta: facts, written: BTreeMap::new() };
        self.blocks.insert(block, opened);
        self.processed = block;
    }

    /// Models `query::Ledger::apply`.
    pub fn apply(&mut self, block: BlockId, changes: &[Change<R>]) {
        let block = self.blocks.get_mut(&block).expect("only open blocks are written");
        block.meta.writes += 1;
        for change in changes {
            block.written.insert(change.address, change.record.clone());
        }
    }

    /// Models `query::Ledger::complete`.
    pub fn complete(&mut self, block: BlockId) {
        let found = self.blocks.get_mut(&block).expect("only open blocks are completed");
        found.meta.is_complete = true;
    }

    /// Models `query::Ledger::confirm`.
    pub fn confirm(&mut self, block: BlockId) {
        self.confirmed = block;
    }

    /// Models `query::Ledger::set_tip`.
    pub fn set_tip(&mut self, block: BlockId) {
        self.processed = block;
    }

    /// Models `query::Ledger::finalize`.
    pub fn finalize(&mut self, block: BlockId) {
        self.rooted_slots = self.slots(block);
        self.rooted = self.records(block);
        let retained: Vec<BlockId> =
            self.blocks.keys().copied().filter(|id| self.is_on(*id, block)).collect();
        self.blocks.retain(|id, _| retained.contains(id));
        self.root = block;
        let root = self.blocks.get_mut(&block).expect("a block is on itself");
        root.parent = None;
        root.written.clear();
        if !retained.contains(&self.confirmed) {
            self.confirmed = block;
        }
        if !retained.contains(&self.processed) {
            self.processed = self.confirmed;
        }
    }

    /// Models `query::Ledger::drop_fork`.
    pub fn drop_fork(&mut self, block: BlockId) {
        let parent = self.blocks[&block].parent.expect("the root is not dropped");
        for tip in [self.processed, self.confirmed] {
            if self.is_on(tip, block) && tip == self.processed {
                self.processed = parent;
            }
            if self.is_on(tip, block) && tip == self.confirmed {
                self.confirmed = parent;
            }
        }
        let gone: Vec<BlockId> =
            self.blocks.keys().copied().filter(|id| self.is_on(*id, block)).collect();
        self.blocks.retain(|id, _| !gone.contains(id));
    }

    /// Whether `block` is `below` or built on it.
    pub fn is_on(&self, block: BlockId, below: BlockId) -> bool {
        let mut at = Some(block);
        while let Some(block) = at {
            if block == below {
                return true;
            }
            at = self.blocks[&block].parent;
        }
        false
    }

    fn retained_versions(&self) -> impl Iterator<Item = (&Address, Option<&Arc<R>>)> {
        let rooted = self.rooted.iter().map(|(address, record)| (address, Some(record)));
        let unrooted = self.blocks.values().flat_map(|block| &block.written);
        rooted.chain(unrooted.map(|(address, record)| (address, record.as_ref())))
    }
}

fn apply<R>(records: &mut BTreeMap<Address, Arc<R>>, written: &BTreeMap<Address, Option<Arc<R>>>) {
    for (address, record) in written {
        match record {
            Some(record) => records.insert(*address, Arc::clone(record)),
            None => records.remove(address),
        };
    }
}
