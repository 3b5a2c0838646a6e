//! The settings of a chain, with their bounds.

use query::LedgerConfig;

use crate::history::HistoryLimits;

/// Default of [`ChainConfig::depth_max`]: ten seconds of mainnet.
pub const DEPTH_DEFAULT: usize = 100;
/// The largest [`ChainConfig::depth_max`]. Blocks of 750 created and 750 spent UTXOs take 431 MB at this depth.
pub const DEPTH_LIMIT: usize = 1_000;

/// The settings of a chain.
#[derive(Clone, Debug)]
pub struct ChainConfig {
    /// The addresses and indices of the ledger. Each script and each UTXO outside of its script's record has an address.
    pub ledger: LedgerConfig,
    /// The number of chain blocks that a reorganization may remove: from 1 to [`DEPTH_LIMIT`], and the nearer of the two
    /// for other numbers. Blocks below are final.
    pub depth_max: usize,
    /// The limits of the history.
    pub history: HistoryLimits,
    /// The limits of the virtual state.
    pub virtual_limits: VirtualLimits,
}

/// The limits of the virtual state.
#[derive(Clone, Copy, Debug)]
pub struct VirtualLimits {
    /// Changes of UTXOs in which the virtual state may differ from the sink's. About 250 bytes each. Above it the
    /// differences are discarded, and the virtual state is that of the sink until messages say otherwise.
    pub differences_max: usize,
    /// Messages for which a contradiction may last: two that the source swapped are in order within a few. After them a
    /// message is taken as lost.
    pub contradiction_messages_max: u64,
    /// Steps of the chain for which a difference may last, not counting empty ones. The next chain blocks accept the
    /// transactions of the virtual block, so a longer one means that a message was lost.
    pub difference_steps_max: u64,
}

impl ChainConfig {
    /// Creates the default settings for a number of addresses.
    pub fn new(addresses_max: u32) -> Self {
        Self {
            ledger: LedgerConfig::new(addresses_max),
            depth_max: DEPTH_DEFAULT,
            history: HistoryLimits::default(),
            virtual_limits: VirtualLimits::default(),
        }
    }

    /// Returns the depth within its bounds.
    pub(crate) fn depth(&self) -> usize {
        self.depth_max.clamp(1, DEPTH_LIMIT)
    }
}

impl Default for VirtualLimits {
    fn default() -> Self {
        Self { differences_max: 500_000, contradiction_messages_max: 16, difference_steps_max: 100 }
    }
}
