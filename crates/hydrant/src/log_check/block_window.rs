//! The newest blocks of a log, by the numbers of their records.
//!
//! Bounds: the blocks of [`NUMBERS_MAX`] records. A name from before them, or from before the first record that was read,
//! is not checked.

use std::collections::BTreeMap;

use chain_solana::wire::BlockName;
use ledger::Slot;

/// Records whose blocks are known, as in a replica: more than can be above the root, with the marks between them.
const NUMBERS_MAX: u64 = 16_384;

/// The newest blocks of a log.
#[derive(Debug, Default)]
pub(super) struct BlockWindow {
    /// The lowest number that is known.
    first: u64,
    slots: BTreeMap<u64, Slot>,
}

impl BlockWindow {
    /// Forgets all blocks. `first` is the number of the next record.
    pub(super) fn restart(&mut self, first: u64) {
        self.first = first;
        self.slots.clear();
    }

    pub(super) fn insert(&mut self, block: BlockName) {
        self.slots.insert(block.number, block.slot);
        let first = block.number.saturating_sub(NUMBERS_MAX);
        if first > self.first {
            self.first = first;
            self.slots = self.slots.split_off(&first);
        }
    }

    /// Returns why a record cannot name this block, or `None` if it can.
    pub(super) fn find_fault(&self, name: BlockName) -> Option<String> {
        let BlockName { slot, number } = name;
        if number < self.first {
            return None;
        }
        match self.slots.get(&number) {
            Some(known) if *known == slot => None,
            Some(known) => Some(format!("record {number} is block {known}, not {slot}")),
            None => Some(format!("record {number} is not a block (slot {slot})")),
        }
    }
}
