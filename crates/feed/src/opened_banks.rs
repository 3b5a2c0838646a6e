//! The open banks that the feed has reported, and those that the caller prepares.
//!
//! Bounds: the open banks of all sessions. Not here: the events about them (`feed/open_banks.rs`).

use std::collections::BTreeMap;

use ledger::BlockId;

use crate::update::SourceId;

/// The open banks that were reported.
#[derive(Default)]
pub(crate) struct OpenedBanks {
    pub(crate) banks: BTreeMap<BlockId, OpenedBank>,
    /// Number of updates in the last batch.
    pub(crate) batch_len: u64,
}

/// An open bank that was reported.
pub(crate) struct OpenedBank {
    pub(crate) source: SourceId,
    /// Whether the caller prepares it.
    pub(crate) is_prepared: bool,
}

impl OpenedBanks {
    /// Forgets a bank that is reported as whole.
    pub(crate) fn remove(&mut self, bank: BlockId) {
        self.banks.remove(&bank);
    }
}
