//! Blocks, and the commitment of a block.

/// The height that orders the blocks of one chain. It rises along every chain. It may have gaps, and several blocks may
/// share it; of these at most one is final.
pub type Slot = u64;

/// The identity of a block. The slot alone does not suffice: a block may be replayed, and forks may have two blocks in
/// one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId {
    /// The slot of the block.
    pub slot: Slot,
    /// A counter of the producer. It distinguishes the blocks of one slot, and replays of one block.
    pub version: u64,
}

/// The commitment level: how certain it is that a block will stay. The producer says which block has which level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Commitment {
    /// The best block that is known. It may be replaced at any time.
    Processed,
    /// A complete block that the network agrees on. It may still be replaced.
    Confirmed,
    /// The root. This process never takes it back.
    Finalized,
}

impl Commitment {
    /// All levels, the least certain first.
    pub const ALL: [Self; 3] = [Self::Processed, Self::Confirmed, Self::Finalized];
}
