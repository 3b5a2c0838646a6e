//! The events of a publication of the chain, in order.

use std::sync::Arc;

use kaspa::{ChainChange, Hash};
use ledger::BlockId;

use crate::ledger_block::LedgerBlock;

/// An event of the chain. A reader that gets it sees at least that state.
///
/// Events of one publication come in this order: refused blocks, added blocks, tips, the UTXO set's replacement, scores,
/// the chain's change, dropped blocks. A server may send its notifications in this order. kaspad's own is not
/// guaranteed: it emits changed UTXOs first, then the scores and the chain's change, and clients usually get the UTXOs
/// last.
#[derive(Clone, Debug)]
pub enum ChainEvent {
    /// A chain block or a virtual block was added. Readers see it already if it is below a tip of [`Self::TipsMoved`],
    /// which follows.
    BlockAdded(Arc<LedgerBlock>),
    /// Readers see other blocks as the newest ones.
    TipsMoved(Tips),
    /// The source replaced its whole UTXO set: clients read theirs again.
    UtxoSetReplaced,
    /// The blue score of the sink changed.
    SinkBlueScoreChanged {
        /// The blue score of the new sink.
        blue_score: u64,
    },
    /// The DAA score of the virtual block changed.
    VirtualDaaScoreChanged {
        /// The DAA score of the new virtual block.
        daa_score: u64,
    },
    /// Chain blocks left or joined the chain. The ids of accepted transactions are included.
    ChainChanged(Arc<ChainChange>),
    /// A block and its descendants were dropped. No tip is on one of them.
    BlockDropped(BlockId),
    /// A block of the source was refused. Nothing of the source is applied until [`crate::Chain::change_source`].
    BlockRefused {
        /// The hash that the source has for the block.
        hash: Hash,
    },
}

/// The blocks that readers see at each commitment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tips {
    /// Processed: the virtual block, or the sink if there is none.
    pub processed: BlockId,
    /// The confirmed block: the sink.
    pub confirmed: BlockId,
    /// Finalized: the newest block that no reorganization may remove.
    pub finalized: BlockId,
}
