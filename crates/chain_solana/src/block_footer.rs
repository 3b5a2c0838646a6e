//! The footer of a block, which Alpenglow adds: a statement of the block's leader. A ledger of TowerBFT has none.

/// The footer of a block, as the leader stated it. Nothing here verifies it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockFooter {
    /// The bank hash that the leader states.
    pub bank_hash: Vec<u8>,
    /// Nanoseconds since 1970 when the leader made the block.
    pub producer_time_nanos: u64,
    /// Name and version of the leader's program.
    pub user_agent: Vec<u8>,
    /// The certificates of votes: the fields of Yellowstone's message `SubscribeUpdateBlockFooter` from
    /// `block_final_cert` on, encoded.
    pub certificates: Vec<u8>,
}

impl BlockFooter {
    /// Returns the bytes that the footer occupies.
    pub fn bytes(&self) -> usize {
        let Self { bank_hash, producer_time_nanos: _, user_agent, certificates } = self;
        size_of::<Self>() + bank_hash.len() + user_agent.len() + certificates.len()
    }
}
