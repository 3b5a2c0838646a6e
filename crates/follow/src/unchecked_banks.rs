//! Banks whose transactions are not proven yet.
//!
//! Bounds: the banks above the root.

use std::collections::BTreeSet;

use ledger::BlockId;

/// Banks above the root whose transactions are not proven.
#[derive(Default)]
pub(crate) struct UncheckedBanks {
    /// Banks with checks that are not done, and those with a contradiction.
    pub(crate) all: BTreeSet<BlockId>,
    /// Banks with a contradiction.
    pub(crate) faulty: BTreeSet<BlockId>,
    /// Banks with a proven hash that wait for the checks of their own transactions or of an ancestor's.
    pub(crate) waiting: BTreeSet<BlockId>,
}

impl UncheckedBanks {
    pub(crate) fn insert(&mut self, bank: BlockId) {
        self.all.insert(bank);
    }

    pub(crate) fn wait(&mut self, bank: BlockId) {
        self.waiting.insert(bank);
    }

    pub(crate) fn faulty(&self) -> impl Iterator<Item = &BlockId> {
        self.faulty.iter()
    }

    pub(crate) fn remove(&mut self, bank: BlockId) {
        self.all.remove(&bank);
        self.faulty.remove(&bank);
        self.waiting.remove(&bank);
    }

    pub(crate) fn set_root(&mut self, root: BlockId) {
        for banks in [&mut self.all, &mut self.faulty, &mut self.waiting] {
            *banks = banks.split_off(&root);
        }
    }
}
