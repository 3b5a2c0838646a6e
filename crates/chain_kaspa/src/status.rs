//! The state of a chain for health checks, metrics and response headers: its proof, its virtual state, counters.

use kaspa::Hash;
use query::LedgerError;

use crate::block_info::Supply;
use crate::refusal::Refusal;
use crate::virtual_state::VirtualStatus;

/// The state of a chain at one publication.
#[derive(Clone, Debug)]
pub struct ChainStatus {
    /// The newest block of the selected chain. Its UTXO set is proven by the commitment of its header. The work of the
    /// header is not checked.
    pub sink: ChainPoint,
    /// The newest block that no reorganization may remove.
    pub root: ChainPoint,
    /// The sums over the sink's UTXO set.
    pub supply: Supply,
    /// The DAA score of the virtual block.
    pub virtual_daa_score: u64,
    /// The virtual UTXO set.
    pub virtual_state: VirtualStatus,
    /// The block that was refused last, until the source is changed.
    pub refused: Option<RefusedBlock>,
    /// Why the virtual UTXO set could not be written, so that readers see the sink's.
    pub virtual_error: Option<LedgerError>,
    /// Counters since the start.
    pub counters: ChainCounters,
}

/// A block of the selected chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainPoint {
    /// The hash of the block.
    pub hash: Hash,
    /// The DAA score of the block.
    pub daa_score: u64,
    /// The blue score of the block.
    pub blue_score: u64,
    /// The time, in Unix milliseconds.
    pub timestamp_ms: u64,
}

/// A block of the source that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedBlock {
    /// The hash that the source has for the block.
    pub hash: Hash,
    /// The rule that the block breaks.
    pub reason: Refusal,
}

/// Counters of a chain since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChainCounters {
    /// Chain blocks that were checked and added.
    pub blocks: u64,
    /// Transactions that they accepted.
    pub transactions: u64,
    /// Blocks that broke a rule.
    pub refused: u64,
    /// Steps that removed blocks.
    pub reorganizations: u64,
    /// Blocks that left the chain.
    pub removed_blocks: u64,
    /// The most blocks that one step removed.
    pub deepest_reorganization: usize,
}
