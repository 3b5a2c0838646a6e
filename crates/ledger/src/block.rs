//! Which block, and how sure of it.

/// A position in time that holds at most one block of the final chain.
pub type Slot = u64;

/// A block's identity. A slot alone is not enough: it may be replayed in another bank (Alpenglow's
/// UpdateParent), and forks may give it two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId {
    /// Where the block stands.
    pub slot: Slot,
    /// Which attempt at that slot, unique within the node.
    pub bank: u64,
}

/// How sure a reader wants to be that what it reads will stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Commitment {
    /// Executed by this node.
    Processed,
    /// Its block is complete and voted for.
    Confirmed,
    /// Its block is the root or below it: it cannot be taken back.
    Finalized,
}

impl Commitment {
    /// All of them, the least sure first.
    pub const ALL: [Self; 3] = [Self::Processed, Self::Confirmed, Self::Finalized];
}
