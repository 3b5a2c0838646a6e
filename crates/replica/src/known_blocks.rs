//! The blocks of the log, by the number of their record.
//!
//! In: blocks as they are written, skipped and removed. Out: for a record's number, the ledger's block, or that the
//! block was skipped, or that no block has the number.
//! Shape: records from [`KnownBlocks::new`]'s number on are known. A block on a parent before that is of a fork that
//! died before the snapshot, so it is skipped, and so are its children and the marks of all of these. A new generation
//! of the log may list blocks again that the ledger has. They are found by slot and blockhash, so that a block has one
//! id for the life of the process.
//! Bounds: [`NUMBERS_MAX`] numbers, [`NAMES_MAX`] names.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use chain_solana::wire::BlockKey;
use ledger::{BlockId, Slot};
use solana_hash::Hash;

/// Maximum number of known records. Older ones count as records from before the snapshot. More than the blocks that can
/// be above the root, with the records of marks between them.
const NUMBERS_MAX: u64 = 16_384;
/// Maximum number of blocks that are found by name.
const NAMES_MAX: usize = 8_192;

/// The meaning of a record number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// A block that the ledger has above its root, or had.
    Block(BlockId),
    /// A block of a fork that is not here.
    Skipped,
    /// A record from before the snapshot, or from long ago.
    Older,
    /// No block has this number.
    Unknown,
}

/// A block by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedBlock {
    pub(crate) id: BlockId,
    pub(crate) bank_hash: Hash,
}

/// The blocks of the log.
#[derive(Debug)]
pub(crate) struct KnownBlocks {
    /// The lowest number that is known.
    first: u64,
    ids: BTreeMap<u64, BlockId>,
    skipped: BTreeSet<u64>,
    names: HashMap<BlockKey, NamedBlock>,
    /// The names in the order of their insertion.
    by_age: VecDeque<BlockKey>,
    /// The slot after which all blocks of the ledger's chain have names.
    named_after: Slot,
}

impl KnownBlocks {
    /// Creates the blocks of a log that is read after the record `number` of this block.
    pub(crate) fn new(number: u64, key: BlockKey, block: NamedBlock) -> Self {
        let mut known = Self {
            first: number,
            ids: BTreeMap::new(),
            skipped: BTreeSet::new(),
            names: HashMap::new(),
            by_age: VecDeque::new(),
            named_after: key.slot,
        };
        known.insert(number, key, block);
        known
    }

    /// Returns the meaning of a number.
    pub(crate) fn resolve(&self, number: u64) -> Resolved {
        if number < self.first {
            return Resolved::Older;
        }
        match self.ids.get(&number) {
            Some(id) => Resolved::Block(*id),
            None if self.skipped.contains(&number) => Resolved::Skipped,
            None => Resolved::Unknown,
        }
    }

    /// Returns the block of that name.
    pub(crate) fn find(&self, key: &BlockKey) -> Option<NamedBlock> {
        self.names.get(key).copied()
    }

    /// Returns the slot after which all blocks of the ledger's chain are found by name.
    pub(crate) fn named_after(&self) -> Slot {
        self.named_after
    }

    /// The ledger has jumped to a block of this slot: the blocks before it have no names.
    pub(crate) fn skip_names(&mut self, slot: Slot) {
        self.named_after = self.named_after.max(slot);
    }

    /// Adds a block.
    pub(crate) fn insert(&mut self, number: u64, key: BlockKey, block: NamedBlock) {
        self.add_number(number, block.id);
        if self.names.insert(key, block).is_none() {
            self.by_age.push_back(key);
        }
        if self.by_age.len() > NAMES_MAX
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.names.remove(&oldest);
            self.skip_names(oldest.slot);
        }
    }

    /// Adds another number of a block that is known.
    pub(crate) fn add_number(&mut self, number: u64, id: BlockId) {
        self.ids.insert(number, id);
        self.forget_old(number);
    }

    /// Adds a block of a fork that is not here.
    pub(crate) fn skip(&mut self, number: u64) {
        self.skipped.insert(number);
        self.forget_old(number);
    }

    /// Removes a block that the ledger no longer has. Later records may still name it.
    pub(crate) fn remove(&mut self, id: BlockId, key: &BlockKey) {
        let numbers: Vec<u64> =
            self.ids.iter().filter(|(_, known)| **known == id).map(|(number, _)| *number).collect();
        for number in numbers {
            self.ids.remove(&number);
            self.skipped.insert(number);
        }
        if self.names.remove(key).is_some() {
            self.by_age.retain(|known| known != key);
        }
    }

    /// A new generation of the log continues from a block under this number. `id` is the block if it is known.
    /// Otherwise it is older, and the blocks after it are found by their names as the generation lists them.
    pub(crate) fn rebase(&mut self, number: u64, id: Option<BlockId>) {
        self.first = if id.is_some() { number } else { number.saturating_add(1) };
        self.ids = id.map(|id| (number, id)).into_iter().collect();
        self.skipped.clear();
    }

    fn forget_old(&mut self, newest: u64) {
        let first = newest.saturating_sub(NUMBERS_MAX);
        if first > self.first {
            self.first = first;
            self.ids = self.ids.split_off(&first);
            self.skipped = self.skipped.split_off(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(slot: Slot, version: u64) -> BlockId {
        BlockId { slot, version }
    }

    fn key(slot: Slot) -> BlockKey {
        BlockKey { slot, blockhash: Hash::new_from_array([slot as u8; 32]) }
    }

    fn block(slot: Slot, version: u64) -> NamedBlock {
        NamedBlock { id: id(slot, version), bank_hash: Hash::default() }
    }

    #[test]
    fn numbers_before_the_snapshot_are_older_and_numbers_of_no_block_are_unknown() {
        let mut known = KnownBlocks::new(10, key(5), block(5, 10));
        known.insert(12, key(6), block(6, 12));
        known.skip(13);
        let resolved = [9, 10, 11, 12, 13].map(|number| known.resolve(number));
        let blocks = [id(5, 10), id(6, 12)].map(Resolved::Block);
        let expected =
            [Resolved::Older, blocks[0], Resolved::Unknown, blocks[1], Resolved::Skipped];
        assert_eq!(resolved, expected);
    }

    #[test]
    fn a_removed_block_is_skipped_under_all_its_numbers() {
        let mut known = KnownBlocks::new(1, key(1), block(1, 1));
        known.insert(2, key(2), block(2, 2));
        known.add_number(7, id(2, 2));
        assert_eq!(known.find(&key(2)), Some(block(2, 2)));
        known.remove(id(2, 2), &key(2));
        assert_eq!([2, 7].map(|number| known.resolve(number)), [Resolved::Skipped; 2]);
        assert_eq!(known.find(&key(2)), None);
    }

    #[test]
    fn a_new_generation_continues_from_a_known_block_and_finds_the_others_by_name() {
        let mut known = KnownBlocks::new(1, key(1), block(1, 1));
        known.insert(3, key(2), block(2, 3));
        known.rebase(100, Some(id(1, 1)));
        assert_eq!(known.resolve(3), Resolved::Older);
        assert_eq!(known.resolve(100), Resolved::Block(id(1, 1)));
        assert_eq!(known.find(&key(2)), Some(block(2, 3)));
    }

    #[test]
    fn a_new_generation_from_an_unknown_block_finds_the_others_by_name() {
        let mut known = KnownBlocks::new(1, key(5), block(5, 1));
        known.rebase(100, None);
        assert_eq!([1, 100].map(|number| known.resolve(number)), [Resolved::Older; 2]);
        assert_eq!(known.resolve(101), Resolved::Unknown);
        assert_eq!(known.find(&key(5)), Some(block(5, 1)));
        assert_eq!(known.named_after(), 5);
        known.insert(103, key(9), block(9, 103));
        known.skip_names(9);
        assert_eq!(known.named_after(), 9);
    }

    #[test]
    fn old_numbers_are_forgotten() {
        let mut known = KnownBlocks::new(1, key(1), block(1, 1));
        for n in 2..NUMBERS_MAX + 10 {
            known.insert(n, key(n), block(n, n));
        }
        assert_eq!(known.resolve(5), Resolved::Older);
        assert_eq!(known.ids.len() as u64, NUMBERS_MAX + 1);
        assert_eq!(known.names.len(), NAMES_MAX);
        assert_eq!(known.by_age.len(), NAMES_MAX);
        assert_eq!(known.named_after(), NUMBERS_MAX + 9 - NAMES_MAX as u64);
    }
}
