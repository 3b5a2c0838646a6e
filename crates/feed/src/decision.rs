//! Decisions of a feed's caller about reported banks.

use ledger::{BlockId, Slot};
use solana_pubkey::Pubkey;

/// A decision of the caller, for [`Feed::apply`](crate::Feed::apply).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The bank and its ancestors may be confirmed and become the root
    /// ([`FeedConfig::needs_approval`](crate::FeedConfig::needs_approval)).
    Approve(BlockId),
    /// The bank is wrong. It is removed with its descendants, and every session ends with a gap. The next session may
    /// report the bank again. Ignored unless the bank is above the root and not confirmed.
    Retract(BlockId),
    /// Banks above this slot do not become the root. With `None` the sources' roots decide alone.
    LimitRoot(Option<Slot>),
    /// Votes that landed in a bank choose the processed tip.
    CountVotes(Vec<LandedVote>),
}

/// The newest vote of a vote account that landed in a bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LandedVote {
    /// Address of the vote account.
    pub voter: Pubkey,
    /// The slot that it voted for.
    pub slot: Slot,
    /// Lamports delegated to the account.
    pub stake: u64,
}
