//! The events of the own ledger, and its blocks as the queue holds them.

use std::sync::Arc;
use std::time::Duration;

use chain_solana::RevertReason;
use chain_solana::wire::{BlockDigests, BlockKey, EncodedBlock};
use ledger::BlockId;

/// Bytes of a block without its encoded sections: its head, names, items and entries of indices.
const BLOCK_BYTES: usize = 1_000;

/// The content of an own block, or the reason why it has no record.
pub(crate) type BlockContent = Result<Arc<EncodedBlock>, Arc<str>>;

/// An event of the own ledger.
#[derive(Clone, Debug)]
pub(crate) enum OwnEvent {
    /// A block is complete.
    Frozen(FrozenBlock),
    /// A block is the processed tip.
    TipMoved(BlockId),
    /// A block is confirmed.
    Confirmed(BlockKey),
    /// A block is the root.
    Rooted {
        /// The block in this process.
        id: BlockId,
        /// The block at every ingester.
        key: BlockKey,
    },
    /// A block is removed.
    Reverted {
        /// The removed block.
        key: BlockKey,
        /// The reason of the removal.
        reason: RevertReason,
    },
    /// Events were lost before they could be encoded.
    Lost,
}

/// A complete block of the own ledger.
#[derive(Clone, Debug)]
pub(crate) struct FrozenBlock {
    pub(crate) id: BlockId,
    pub(crate) key: BlockKey,
    pub(crate) parent: BlockKey,
    /// Whether blocks are missing between the parent and it.
    pub(crate) is_jump: bool,
    pub(crate) content: BlockContent,
}

/// The state of the own ledger at its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnStart {
    pub(crate) root: BlockId,
    pub(crate) root_key: BlockKey,
    /// Whether no block above the root exists yet. Otherwise their content is unknown.
    pub(crate) is_complete: bool,
}

/// An entry of the queue, by the number of its arrival.
pub(crate) type ItemNumber = u64;

/// A block or a mark that the log has to get.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) number: ItemNumber,
    pub(crate) key: BlockKey,
    pub(crate) kind: ItemKind,
    /// The time at which it arrived.
    pub(crate) received: Duration,
}

/// The kind of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ItemKind {
    /// The block itself. Its content has the number of the item.
    Block,
    TipMoved,
    Confirmed,
    Rooted,
    Reverted(RevertReason),
}

/// An own block from its arrival until the root has passed it and the log has it.
#[derive(Clone, Debug)]
pub(crate) struct OwnBlock {
    pub(crate) key: BlockKey,
    pub(crate) parent: BlockKey,
    /// Whether blocks are missing between the parent and it.
    pub(crate) is_jump: bool,
    pub(crate) content: BlockContent,
    pub(super) is_reverted: bool,
    pub(super) is_rooted: bool,
    /// Whether the queue has the block.
    pub(super) is_queued: bool,
    pub(super) received: Duration,
}

impl OwnBlock {
    /// Whether the block was removed from the own ledger.
    pub(crate) fn is_reverted(&self) -> bool {
        self.is_reverted
    }

    /// Returns the digests of the content, if it could be encoded.
    pub(crate) fn digests(&self) -> Option<BlockDigests> {
        self.content.as_ref().ok().map(|content| content.digests())
    }

    pub(super) fn bytes(&self) -> usize {
        BLOCK_BYTES + self.content.as_ref().map_or(0, |content| content.bytes())
    }

    pub(super) fn item(&self, number: ItemNumber, kind: ItemKind) -> Item {
        Item { number, key: self.key, kind, received: self.received }
    }
}
