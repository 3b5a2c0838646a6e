//! The state of the vote accounts: the last vote of each voter, and the super-majority root.
//!
//! In: the stakes of the epoch, and writes of vote accounts. Out: votes for the choice of the processed tip; the
//! highest slot that voters with more than two thirds of the stake have as their root, which is what RPC's `finalized`
//! means.
//! A validator's root is a fact of that validator, whatever fork its vote landed on, so the highest one counts.
//! Bounds: the vote accounts with stake, at most [`verify::VOTERS_MAX`].
//! Not here: whether votes are signed (`votes`, `verify`).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use feed::LandedVote;
use ledger::Slot;
use solana::Account;
use solana_pubkey::Pubkey;
use solana_vote::vote_state_view::VoteStateView;
use verify::StakedVoters;

/// Number of slots after which votes are old. If voters with two thirds of the stake have not voted for that long, the
/// cluster has halted, or it no longer votes on chain (Alpenglow).
const VOTE_AGE_MAX: Slot = 512;

/// The last state of a vote account.
#[derive(Clone, Copy, Debug, Default)]
struct Tower {
    voted: Slot,
    root: Slot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VoteAccountState {
    voted: Option<Slot>,
    root: Option<Slot>,
}

impl VoteAccountState {
    /// Reads the state of an account. Returns `None` if it is not a vote account.
    pub(crate) fn read(account: &Account) -> Option<Self> {
        let state = VoteStateView::try_new(account.0.data_clone()).ok()?;
        Some(Self { voted: state.last_voted_slot(), root: state.root_slot() })
    }
}

/// The vote accounts with stake.
#[derive(Default)]
pub(crate) struct VoteAccounts {
    stakes: Option<Arc<StakedVoters>>,
    towers: HashMap<Pubkey, Tower>,
}

impl VoteAccounts {
    /// Whether the stakes count for a slot.
    pub(crate) fn has_stakes(&self, slot: Slot) -> bool {
        self.stakes.as_ref().is_some_and(|stakes| stakes.slots().contains(&slot))
    }

    /// Sets the stakes of the epoch of a slot. If they are not known yet, those of the epoch before count for
    /// [`VOTE_AGE_MAX`] more slots: in a short epoch the next stakes are known some slots after its start.
    pub(crate) fn set_stakes(&mut self, slot: Slot, stakes: Option<Arc<StakedVoters>>) {
        let is_recent = |known: &StakedVoters| known.slots().end() + VOTE_AGE_MAX >= slot;
        if stakes.is_none() && self.stakes.as_deref().is_some_and(is_recent) {
            return;
        }
        if let Some(stakes) = &stakes {
            self.towers.retain(|vote_account, _| stakes.stake(vote_account) > 0);
        }
        self.stakes = stakes;
    }

    /// The vote accounts with stake.
    pub(crate) fn pubkeys(&self) -> impl Iterator<Item = &Pubkey> {
        self.stakes.iter().flat_map(|stakes| stakes.voters()).map(|voter| &voter.vote_account)
    }

    /// Records the state of an account in a bank of `slot`. Returns its last vote, if it has stake.
    pub(crate) fn record(
        &mut self,
        pubkey: &Pubkey,
        account: &Account,
        slot: Slot,
    ) -> Option<LandedVote> {
        self.record_state(pubkey, VoteAccountState::read(account)?, slot)
    }

    /// Like [`Self::record`], for an account that was read before.
    pub(crate) fn record_state(
        &mut self,
        pubkey: &Pubkey,
        state: VoteAccountState,
        slot: Slot,
    ) -> Option<LandedVote> {
        let stake = self.stakes.as_ref()?.stake(pubkey);
        if stake == 0 {
            return None;
        }
        let tower = self.towers.entry(*pubkey).or_default();
        // A vote can only be for a bank before the one that it landed in.
        let past = |voted: Option<Slot>| voted.filter(|voted| *voted < slot).unwrap_or_default();
        tower.root = tower.root.max(past(state.root));
        tower.voted = tower.voted.max(past(state.voted));
        Some(LandedVote { voter: *pubkey, slot: tower.voted, stake })
    }

    /// The super-majority root. `None` if the stakes are unknown, or if the voters do not vote on chain near `tip`:
    /// then the sources' roots decide alone.
    pub(crate) fn super_majority_root(&self, tip: Slot) -> Option<Slot> {
        let stakes = self.stakes.as_ref()?;
        let voted = self.supermajority_slot(stakes, |tower| tower.voted)?;
        (voted.saturating_add(VOTE_AGE_MAX) >= tip)
            .then(|| self.supermajority_slot(stakes, |tower| tower.root))?
    }

    /// The highest slot that voters with more than two thirds of the stake have reached.
    fn supermajority_slot(
        &self,
        stakes: &StakedVoters,
        slot: impl Fn(&Tower) -> Slot,
    ) -> Option<Slot> {
        let towers = self.towers.iter();
        let mut slots: Vec<(Slot, u64)> =
            towers.map(|(pubkey, tower)| (slot(tower), stakes.stake(pubkey))).collect();
        slots.sort_unstable_by_key(|(slot, _)| Reverse(*slot));
        let mut sum = 0;
        slots.into_iter().find_map(|(slot, stake)| {
            sum += u128::from(stake);
            stakes.is_supermajority(sum).then_some(slot)
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.towers.capacity() * (size_of::<Pubkey>() + size_of::<Tower>())
    }
}

#[cfg(test)]
mod tests {
    use solana::EpochVoter;
    use solana_account::AccountSharedData;
    use solana_vote_interface::state::{Lockout, VoteStateV4, VoteStateVersions};

    use super::*;

    fn key(n: u8) -> Pubkey {
        Pubkey::new_from_array([n; 32])
    }

    fn account(voted: Slot, root: Slot) -> Account {
        let mut state = VoteStateV4 { root_slot: Some(root), ..VoteStateV4::default() };
        state.votes.push_back(Lockout::new(voted).into());
        let state = VoteStateVersions::new_v4(state);
        let data = bincode::serialize(&state).expect("a state");
        let owner = solana_sdk_ids::vote::ID;
        let account = solana_account::Account { lamports: 1, data, owner, ..Default::default() };
        Account(AccountSharedData::from(account))
    }

    fn accounts() -> VoteAccounts {
        let voter = |n| EpochVoter {
            vote_account: key(n),
            node: key(n),
            authorized_voter: Some(key(n)),
            stake: 100,
        };
        let mut accounts = VoteAccounts::default();
        let stakes = StakedVoters::new(0..=999, (1..=4).map(voter).collect());
        accounts.set_stakes(0, Some(Arc::new(stakes)));
        accounts
    }

    #[test]
    fn the_root_of_more_than_two_thirds_of_the_stake_counts() {
        let mut accounts = accounts();
        assert_eq!(accounts.record(&key(9), &account(50, 40), 60), None, "it has no stake");
        for (n, root) in [(1, 40), (2, 30)] {
            assert_eq!(
                accounts.record(&key(n), &account(50, root), 60),
                Some(LandedVote { voter: key(n), slot: 50, stake: 100 })
            );
        }
        assert_eq!(accounts.super_majority_root(50), None, "half of the stake");
        accounts.record(&key(3), &account(50, 20), 60);
        assert_eq!(accounts.super_majority_root(50), Some(20));
        accounts.record(&key(4), &account(50, 35), 60);
        assert_eq!(accounts.super_majority_root(50), Some(30));
        accounts.record(&key(1), &account(45, 10), 60);
        assert_eq!(accounts.super_majority_root(50), Some(30), "no root is taken back");
        accounts.record(&key(2), &account(50, 70), 60);
        assert_eq!(accounts.super_majority_root(50), Some(30), "no root is ahead of its bank");
    }

    #[test]
    fn voters_that_stopped_to_vote_hold_no_root_back() {
        let mut accounts = accounts();
        for n in 1..=4 {
            accounts.record(&key(n), &account(50, 20), 60);
        }
        assert_eq!(accounts.super_majority_root(50 + VOTE_AGE_MAX), Some(20));
        assert_eq!(accounts.super_majority_root(51 + VOTE_AGE_MAX), None);
    }

    #[test]
    fn the_stakes_of_an_epoch_count_until_the_next_are_known_but_not_for_long() {
        let mut accounts = accounts();
        for n in 1..=4 {
            accounts.record(&key(n), &account(999, 968), 1_000);
        }
        accounts.set_stakes(1_000, None);
        assert_eq!(accounts.super_majority_root(1_000), Some(968));
        assert!(!accounts.has_stakes(1_000), "those of the epoch are still looked for");
        accounts.set_stakes(1_000 + VOTE_AGE_MAX, None);
        assert_eq!(accounts.super_majority_root(1_000), None);
    }
}
