//! What each block touched, until every commitment has seen it: the writer's part of [`Changes`].
//!
//! Bounds: eight bytes for each record written above the root and for each of its keys.

use std::collections::HashMap;
use std::sync::Arc;

use address::AddressTable;
use ledger::{AddressId, BlockId, Commitment, Key};

use crate::changes::{Changes, Read};

/// Block by block, what was touched.
pub(crate) struct Touched {
    changes: Arc<Changes>,
    blocks: HashMap<BlockId, Block>,
    moment: u64,
    /// What each commitment was shown last.
    shown: [Shown; 3],
}

struct Block {
    parent: Option<BlockId>,
    numbers: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Shown {
    tip: BlockId,
    /// How much of what the tip touched.
    len: usize,
}

const COMMITMENTS: [Commitment; 3] =
    [Commitment::Processed, Commitment::Confirmed, Commitment::Finalized];

impl Touched {
    pub(crate) fn new(root: BlockId) -> Self {
        let block = Block { parent: None, numbers: Vec::new() };
        Self {
            changes: Arc::new(Changes::new()),
            blocks: HashMap::from([(root, block)]),
            moment: 0,
            shown: [Shown { tip: root, len: 0 }; 3],
        }
    }

    pub(crate) fn changes(&self) -> &Arc<Changes> {
        &self.changes
    }

    pub(crate) fn open(&mut self, block: BlockId, parent: BlockId) {
        self.blocks.insert(block, Block { parent: Some(parent), numbers: Vec::new() });
    }

    /// A block writes a record that has these keys from now on, and had those in other versions.
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
        let changes = &self.changes;
        let record = address(id).map(|it| changes.number(Read::Record(&it)));
        let number = |key: Key| Some(changes.number(Read::Key(key.facet, &address(key.id)?)));
        let gone = before.filter(|key| !keys.contains(key));
        block.numbers.extend(record);
        block.numbers.extend(keys.iter().copied().chain(gone).filter_map(number));
    }

    /// Marks what becomes visible when these blocks are shown; those that have new facts are given.
    /// Gives the moment by which they will be known.
    pub(crate) fn show(&mut self, tips: [BlockId; 3], has_new_facts: [bool; 3]) -> u64 {
        self.moment += 1;
        self.changes.prepare(self.moment);
        for (at, commitment) in COMMITMENTS.into_iter().enumerate() {
            let (shown, tip) = (self.shown[at], tips[at]);
            let len = self.blocks.get(&tip).map_or(0, |block| block.numbers.len());
            if shown != (Shown { tip, len }) || has_new_facts[at] {
                self.changes.mark_block(commitment, self.moment);
            }
            if self.mark(commitment, shown, tip).is_none() {
                self.changes.mark_all(commitment, self.moment);
            }
            self.shown[at] = Shown { tip, len };
        }
        self.moment
    }

    /// Marks what was touched from what was shown to `tip`; `None` if `tip` does not stand on it.
    fn mark(&self, commitment: Commitment, shown: Shown, tip: BlockId) -> Option<()> {
        let mut at = tip;
        loop {
            let block = self.blocks.get(&at)?;
            let known = if at == shown.tip { shown.len } else { 0 };
            for number in &block.numbers[known..] {
                self.changes.mark(commitment, *number, self.moment);
            }
            if at == shown.tip {
                return Some(());
            }
            at = block.parent?;
        }
    }

    /// Everything has changed, as far as anybody knows.
    pub(crate) fn mark_all(&self) {
        for commitment in COMMITMENTS {
            self.changes.mark_all(commitment, self.moment + 1);
        }
    }

    /// Forgets the blocks that nothing can be built on any more.
    pub(crate) fn forget(&mut self, is_there: impl Fn(BlockId) -> bool) {
        self.blocks.retain(|block, _| is_there(*block));
    }
}
