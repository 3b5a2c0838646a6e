//! The writes of each block, until every commitment has published them: the writer's part of [`ChangeTracker`].
//!
//! Bounds: eight bytes for each record written above the root and for each of its keys; twice that in an open
//! hidden block, however often it writes a record.

use std::collections::HashMap;
use std::sync::Arc;

use address::AddressTable;
use ledger::{AddressId, BlockId, Commitment, Key};

use crate::change_tracker::{ChangeTracker, Dependency};

/// Minimum number of writes in a block that is compacted.
const COMPACTED_MIN: usize = 4_096;

/// Numbers of written dependencies, by block.
pub(crate) struct BlockWrites {
    change_tracker: Arc<ChangeTracker>,
    blocks: HashMap<BlockId, Block>,
    version: u64,
    /// The last publish at each commitment.
    published: [PublishedUpTo; 3],
}

struct Block {
    parent: Option<BlockId>,
    numbers: Vec<u64>,
    /// Their number after the last compaction; `None` if some of them may be published, so that their order
    /// counts.
    compacted: Option<usize>,
}

impl Block {
    fn new(parent: Option<BlockId>, compacted: Option<usize>) -> Self {
        Self { parent, numbers: Vec::new(), compacted }
    }

    /// Removes duplicates, if they may be half of all.
    fn compact(&mut self) {
        let Some(compacted) = self.compacted else { return };
        if self.numbers.len() > 2 * compacted.max(COMPACTED_MIN) {
            self.numbers.sort_unstable();
            self.numbers.dedup();
            self.compacted = Some(self.numbers.len());
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct PublishedUpTo {
    tip: BlockId,
    /// Number of the tip's writes that were published.
    len: usize,
}

const COMMITMENTS: [Commitment; 3] =
    [Commitment::Processed, Commitment::Confirmed, Commitment::Finalized];

impl BlockWrites {
    pub(crate) fn new(root: BlockId) -> Self {
        let block = Block::new(None, None);
        Self {
            change_tracker: Arc::new(ChangeTracker::new()),
            blocks: HashMap::from([(root, block)]),
            version: 0,
            published: [PublishedUpTo { tip: root, len: 0 }; 3],
        }
    }

    pub(crate) fn change_tracker(&self) -> &Arc<ChangeTracker> {
        &self.change_tracker
    }

    pub(crate) fn open(&mut self, block: BlockId, parent: BlockId) {
        self.blocks.insert(block, Block::new(Some(parent), None));
    }

    /// Like [`Self::open`], for a block that is not published before it is complete.
    pub(crate) fn open_hidden(&mut self, block: BlockId, parent: BlockId) {
        self.blocks.insert(block, Block::new(Some(parent), Some(0)));
    }

    /// Tracks that a block writes a record with these keys. The record's other versions had the keys `before`.
    pub(crate) fn write(
        &mut self,
        block: BlockId,
        addresses: &AddressTable,
        id: AddressId,
        keys: &[Key],
        before: impl Iterator<Item = Key>,
    ) {
        let Some(block) = self.blocks.get_mut(&block) else { return };
        let address = |id| addresses.address(id);
        let changes = &self.change_tracker;
        let record = address(id).map(|it| changes.number(Dependency::Record(&it)));
        let number = |key: Key| Some(changes.number(Dependency::Key(key.kind, &address(key.id)?)));
        let gone = before.filter(|key| !keys.contains(key));
        block.numbers.extend(record);
        block.numbers.extend(keys.iter().copied().chain(gone).filter_map(number));
        block.compact();
    }

    /// Marks everything that becomes visible when these blocks are published, and the blocks themselves if they are
    /// new, longer or have new metadata. Returns the version that the publish will have.
    pub(crate) fn publish(&mut self, tips: [BlockId; 3], has_new_facts: [bool; 3]) -> u64 {
        self.version += 1;
        self.change_tracker.prepare(self.version);
        if let Some(block) = self.blocks.get_mut(&tips[0]) {
            block.compacted = None;
        }
        for (at, commitment) in COMMITMENTS.into_iter().enumerate() {
            let shown = self.published[at];
            let tip = tips[at];
            let len = self.blocks.get(&tip).map_or(0, |block| block.numbers.len());
            if shown != (PublishedUpTo { tip, len }) || has_new_facts[at] {
                self.change_tracker.mark_block(commitment, self.version);
            }
            if self.mark(commitment, shown, tip).is_none() {
                self.change_tracker.mark_all(commitment, self.version);
            }
            self.published[at] = PublishedUpTo { tip, len };
        }
        self.version
    }

    /// Marks the difference between the views of the last published block and of `tip`: the writes of each block that
    /// is on one of their chains only, and those that the published block has got since. `None` if their chains do not
    /// meet.
    ///
    /// Cost: O(writes of those blocks).
    fn mark(&self, commitment: Commitment, shown: PublishedUpTo, tip: BlockId) -> Option<()> {
        let mut left = shown.tip;
        let mut entered = tip;
        while left != entered {
            // Go back from the block in the later slot; in the same slot from either.
            let later = if left.slot > entered.slot { &mut left } else { &mut entered };
            let block = self.blocks.get(later)?;
            self.mark_numbers(commitment, &block.numbers);
            *later = block.parent?;
        }
        if entered == shown.tip {
            self.mark_numbers(commitment, &self.blocks.get(&entered)?.numbers[shown.len..]);
        }
        Some(())
    }

    fn mark_numbers(&self, commitment: Commitment, numbers: &[u64]) {
        for number in numbers {
            self.change_tracker.mark(commitment, *number, self.version);
        }
    }

    /// Marks everything as changed.
    pub(crate) fn mark_all(&self) {
        for commitment in COMMITMENTS {
            self.change_tracker.mark_all(commitment, self.version + 1);
        }
    }

    /// Removes the blocks that can no longer become ancestors.
    pub(crate) fn retain_blocks(&mut self, is_there: impl Fn(BlockId) -> bool) {
        self.blocks.retain(|block, _| is_there(*block));
    }
}

#[cfg(test)]
mod tests {
    use ledger::KeyKind;

    use super::*;

    #[test]
    fn a_record_that_an_unseen_block_writes_again_and_again_takes_its_numbers_once() {
        let id = |slot| BlockId { slot, version: slot };
        let addresses = AddressTable::new(100, 7);
        let retained = |n: u8| addresses.retain(&ledger::Address::from([n; 32]));
        let record = retained(1).expect("there is space");
        let key = Key { kind: KeyKind(2), id: retained(2).expect("there is space") };
        let mut writes = BlockWrites::new(id(0));
        writes.open_hidden(id(1), id(0));
        let address = |id| addresses.address(id).expect("it is retained");
        let tracker = Arc::clone(writes.change_tracker());
        let of_record = tracker.watch(Dependency::Record(&address(record)));
        let of_key = tracker.watch(Dependency::Key(key.kind, &address(key.id)));
        for _ in 0..100_000 {
            writes.write(id(1), &addresses, record, &[key], std::iter::empty());
        }
        let len = writes.blocks[&id(1)].numbers.len();
        assert!(len <= 2 * COMPACTED_MIN + 2, "{len}");
        let version = writes.publish([id(1), id(0), id(0)], [true, false, false]);
        for number in [of_record, of_key] {
            assert_eq!(tracker.changed_at(Commitment::Processed, number), version);
        }
    }
}
