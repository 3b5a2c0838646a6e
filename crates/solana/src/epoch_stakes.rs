//! The stakes of an epoch: whose votes count in it, and which nodes lead its slots.
//!
//! Not here: how they are computed and which leaders follow from them (`stakes_solana`), their form in an archive
//! (`snapshot_solana`), counting votes by them (`verify`).

use solana_pubkey::Pubkey;

/// The stakes of one epoch. They are known at the start of the epoch before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpochStakes {
    /// The epoch whose votes and leaders they determine.
    pub epoch: u64,
    /// The vote accounts with stake, sorted by address.
    pub voters: Vec<EpochVoter>,
}

/// A vote account with stake in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochVoter {
    /// Address of the vote account.
    pub vote_account: Pubkey,
    /// Identity of the node that leads the account's slots.
    pub node: Pubkey,
    /// The key that must sign the account's votes in the epoch. Without one no vote of it counts.
    pub authorized_voter: Option<Pubkey>,
    /// Delegated lamports.
    pub stake: u64,
}
