//! The open banks of a followed chain. Some are prepared: their writes are in the ledger, in blocks that no tip leads
//! to.
//!
//! Not here: the preparation itself (`writer/prepare_banks.rs`).

use std::collections::BTreeMap;

use ledger::{BlockId, Slot};
use solana_hash::Hash;

use crate::prepared_bank::PreparedBank;

#[derive(Default)]
pub(crate) struct OpenBanks {
    /// The start of each open bank.
    starts: BTreeMap<BlockId, BankStart>,
    pub(crate) prepared: Vec<PreparedBank>,
    /// Preparing has failed. The next whole bank is written at once, and reports the reason if it fails again.
    pub(crate) is_off: bool,
}

/// The sysvars that a bank writes at its start.
pub(crate) struct BankStart {
    /// The newest slot of its SlotHashes: that of its parent.
    pub(crate) parent_slot: Slot,
    /// The bank hash of the parent.
    pub(crate) parent_hash: Hash,
    /// The Unix time of its Clock.
    pub(crate) unix_timestamp: Option<i64>,
}

impl OpenBanks {
    /// Adds a bank that a source has started to send.
    pub(crate) fn insert(&mut self, bank: BlockId, start: BankStart) {
        self.starts.insert(bank, start);
    }

    /// Removes a bank that is not open any longer. Returns its preparation, if there is one.
    pub(crate) fn remove(&mut self, bank: BlockId) -> Option<PreparedBank> {
        self.starts.remove(&bank);
        let at = self.prepared.iter().position(|prepared| prepared.id == bank)?;
        Some(self.prepared.swap_remove(at))
    }

    pub(crate) fn start(&self, bank: BlockId) -> Option<&BankStart> {
        self.starts.get(&bank)
    }

    pub(crate) fn prepared_mut(&mut self, bank: BlockId) -> Option<&mut PreparedBank> {
        self.prepared.iter_mut().find(|prepared| prepared.id == bank)
    }

    /// The banks that are not prepared, by slot.
    pub(crate) fn iter_unprepared(&self) -> impl Iterator<Item = (BlockId, &BankStart)> {
        let is_prepared = |bank: &BlockId| self.prepared.iter().any(|it| it.id == *bank);
        let unprepared = self.starts.iter().filter(move |(bank, _)| !is_prepared(bank));
        unprepared.map(|(bank, start)| (*bank, start))
    }

    /// Estimated bytes, without those of the feed's open banks.
    pub(crate) fn bytes(&self) -> usize {
        self.prepared.iter().map(PreparedBank::bytes).sum()
    }
}
