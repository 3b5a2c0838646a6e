//! The length of the history that a node retains, whatever its chain.
//!
//! Not here: the flags and their ranges (`flags`, `bounds`), and the histories (`chain_solana`, `chain_kaspa`).

use chain_solana::HistoryLimits;

use crate::node::flags::HistoryFlags;

/// The limits of a node's history. `None`: the default of its chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistorySettings {
    /// Blocks, without skipped slots.
    pub(crate) blocks_max: Option<u64>,
    /// Estimated bytes.
    pub(crate) bytes_max: Option<u64>,
}

impl HistorySettings {
    pub(crate) fn from_flags(flags: &HistoryFlags) -> Self {
        Self { blocks_max: flags.history_slots, bytes_max: flags.history_bytes }
    }

    /// Returns the limits of a ledger of Solana.
    pub(crate) fn for_solana(self) -> HistoryLimits {
        HistoryLimits {
            blocks_max: self.blocks_max.unwrap_or(localnet::HISTORY_SLOTS_DEFAULT),
            bytes_max: self.bytes_max.unwrap_or(localnet::HISTORY_BYTES_DEFAULT),
        }
    }

    /// Returns the limits of a chain of Kaspa.
    pub(crate) fn for_kaspa(self) -> chain_kaspa::HistoryLimits {
        let defaults = chain_kaspa::HistoryLimits::default();
        let size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        chain_kaspa::HistoryLimits {
            blocks_max: self.blocks_max.map_or(defaults.blocks_max, size),
            bytes_max: self.bytes_max.map_or(defaults.bytes_max, size),
        }
    }
}
