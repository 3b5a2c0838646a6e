//! Blocks, and the commitment of a block.

/// A position in time that holds at most one block of the final chain.
pub type Slot = u64;

/// The identity of a block. The slot alone does not suffice: it may be replayed in another bank (Alpenglow's
/// UpdateParent), and forks may have two blocks in one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId {
    /// The slot of the block.
    pub slot: Slot,
    /// The attempt at that slot, unique within the node.
    pub bank: u64,
}

/// The commitment level: how certain it is that a block will stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Commitment {
    /// Executed by this node.
    Processed,
    /// Its block is complete and voted for.
    Confirmed,
    /// The block is the root or below it cannot be reverted.
    Finalized,
}

impl Commitment {
    /// All levels, the least certain first.
    pub const ALL: [Self; 3] = [Self::Processed, Self::Confirmed, Self::Finalized];
}
