//! Decisions of a feed's caller about banks.

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
    /// The caller prepares an open bank. The accounts that it has written so far are reported at once, and later ones
    /// after each batch ([`Event::Quiescent`](crate::Event::Quiescent)). A second decision starts again with all of
    /// them.
    Prepare(BlockId),
    /// The caller discarded its preparation of an open bank. Its accounts are not reported further.
    StopPreparing(BlockId),
}

/// The newest vote of a vote account that landed in a bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LandedVote {
    /// Address of the vote account.
    pub voter: Pubkey,
    /// The newest slot of the vote.
    pub slot: Slot,
    /// Lamports delegated to the account.
    pub stake: u64,
}
