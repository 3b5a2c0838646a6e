//! The voters of an epoch, sorted for counting: whose vote counts for its slots, and how much.

use std::ops::RangeInclusive;

use ledger::Slot;
use solana::EpochVoter;
use solana_pubkey::Pubkey;

/// Maximum number of vote accounts of an epoch. Mainnet has about 1,000, and SIMD-0357 limits them to 2,000.
pub const VOTERS_MAX: usize = 65_536;

/// The vote accounts whose votes count for the slots of one epoch, with their stakes.
#[derive(Clone, Debug)]
pub struct StakedVoters {
    slots: RangeInclusive<Slot>,
    /// Sorted by vote account.
    voters: Vec<EpochVoter>,
    total: u128,
}

impl StakedVoters {
    /// Makes the table for votes on `slots`. Of two entries of a vote account the later one counts. Beyond
    /// [`VOTERS_MAX`] those with the least stake are left out; they still count in the total, as does an account
    /// without an authorized voter, whose votes do not count.
    pub fn new(slots: RangeInclusive<Slot>, mut voters: Vec<EpochVoter>) -> Self {
        voters.reverse();
        voters.sort_by_key(|voter| voter.vote_account);
        voters.dedup_by_key(|voter| voter.vote_account);
        let total = voters.iter().map(|voter| u128::from(voter.stake)).sum();
        if voters.len() > VOTERS_MAX {
            voters.sort_by_key(|voter| std::cmp::Reverse(voter.stake));
            voters.truncate(VOTERS_MAX);
            voters.sort_by_key(|voter| voter.vote_account);
        }
        Self { slots, voters, total }
    }

    /// The slots of the epoch.
    pub fn slots(&self) -> &RangeInclusive<Slot> {
        &self.slots
    }

    /// The stake of a vote account; 0 if it has none.
    pub fn stake(&self, vote_account: &Pubkey) -> u64 {
        self.voter(vote_account).map_or(0, |(_, voter)| voter.stake)
    }

    /// Whether a stake is more than two thirds of all, the threshold of Agave's confirmation.
    pub fn is_supermajority(&self, stake: u128) -> bool {
        stake * 3 > self.total * 2
    }

    /// The number of a vote account, and the account.
    pub(crate) fn voter(&self, vote_account: &Pubkey) -> Option<(usize, &EpochVoter)> {
        let find = |voter: &EpochVoter| voter.vote_account.cmp(vote_account);
        let number = self.voters.binary_search_by(find).ok()?;
        Some((number, &self.voters[number]))
    }

    /// The vote accounts, in the order of their addresses.
    pub fn voters(&self) -> &[EpochVoter] {
        &self.voters
    }

    /// Stake of all vote accounts.
    pub fn total(&self) -> u128 {
        self.total
    }

    /// Number of vote accounts.
    pub(crate) fn len(&self) -> usize {
        self.voters.len()
    }

    /// Bytes that the stakes occupy.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.voters.capacity() * size_of::<EpochVoter>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_thirds_of_the_stake_are_not_enough() {
        let voter = |n: u8| EpochVoter {
            vote_account: Pubkey::new_from_array([n; 32]),
            node: Pubkey::default(),
            authorized_voter: None,
            stake: 100,
        };
        let stakes = StakedVoters::new(0..=31, vec![voter(1), voter(2), voter(3), voter(1)]);
        assert_eq!((stakes.len(), stakes.total), (3, 300));
        assert!(!stakes.is_supermajority(200));
        assert!(stakes.is_supermajority(201));
        assert!(!StakedVoters::new(0..=31, Vec::new()).is_supermajority(0));
    }
}
