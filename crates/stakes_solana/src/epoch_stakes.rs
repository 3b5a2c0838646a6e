//! The stakes of an epoch from its vote accounts, and the leaders from its stakes.

use std::num::NonZeroU64;

use chain_solana::{Cluster, LeaderSchedule, View};
use ledger::Address;
use solana::{EpochStakes, EpochVoter};
use solana_account::{AccountSharedData, ReadableAccount, WritableAccount};
use solana_clock::Epoch;
use solana_leader_schedule::NUM_CONSECUTIVE_LEADER_SLOTS;
use solana_pubkey::Pubkey;
use solana_sdk_ids::vote;
use solana_vote::vote_account::{VoteAccount, VoteAccountsHashMap};
use solana_vote_interface::state::{VoteStateV4, VoteStateVersions};

use crate::admission::VoteCandidate;

/// Returns the stakes of an epoch for which these vote accounts were admitted.
pub(crate) fn from_admitted(epoch: Epoch, admitted: Vec<VoteCandidate>) -> EpochStakes {
    let voter = |candidate: VoteCandidate| EpochVoter {
        vote_account: candidate.pubkey,
        node: candidate.state.node_pubkey,
        authorized_voter: candidate.state.authorized_voters.get_authorized_voter(epoch),
        stake: candidate.stake,
    };
    let staked = admitted.into_iter().filter(|candidate| candidate.stake > 0);
    let mut voters: Vec<EpochVoter> = staked.map(voter).collect();
    voters.sort_unstable_by_key(|voter| voter.vote_account);
    EpochStakes { epoch, voters }
}

/// Returns the stakes of an epoch at a block. If the cluster does not know them, they are the stakes of the block's
/// epoch, with the identities and voters that the vote accounts name at the block.
pub fn epoch_stakes(cluster: &dyn Cluster, view: &View, epoch: Epoch) -> EpochStakes {
    if let Some(stakes) = cluster.epoch_stakes(epoch) {
        return EpochStakes::clone(&stakes);
    }
    let stakes = cluster.stakes(view).unwrap_or_default();
    let voter = |(vote_account, stake): (&Pubkey, &u64)| {
        let account = view.record(&Address::from(vote_account.to_bytes()))?;
        let state = VoteStateV4::deserialize(account.0.data(), vote_account).ok()?;
        Some(EpochVoter {
            vote_account: *vote_account,
            node: state.node_pubkey,
            authorized_voter: state.authorized_voters.get_authorized_voter(epoch),
            stake: *stake,
        })
    };
    let staked = stakes.0.iter().filter(|(_, stake)| **stake > 0);
    let mut voters: Vec<EpochVoter> = staked.filter_map(voter).collect();
    voters.sort_unstable_by_key(|voter| voter.vote_account);
    EpochStakes { epoch, voters }
}

/// Computes the leaders of an epoch of `slots` slots, by Agave's own crate. Returns `None` without stake.
///
/// Cost: some milliseconds for 432,000 slots.
pub fn leader_schedule(stakes: &EpochStakes, slots: u64) -> Option<LeaderSchedule> {
    let accounts: VoteAccountsHashMap = stakes.voters.iter().filter_map(vote_account).collect();
    let len = usize::try_from(slots).ok()?;
    if accounts.is_empty() || !len.is_multiple_of(NUM_CONSECUTIVE_LEADER_SLOTS.get()) {
        return None;
    }
    let repeat = NUM_CONSECUTIVE_LEADER_SLOTS;
    let schedule =
        solana_leader_schedule::LeaderSchedule::new(&accounts, stakes.epoch, len, repeat);
    let windows = schedule.get_slot_leaders().step_by(repeat.get());
    let windows: Vec<Pubkey> = windows.map(|leader| leader.id).collect();
    let slots_per_window = NonZeroU64::try_from(repeat).ok()?;
    Some(LeaderSchedule::new(&windows, slots_per_window, slots))
}

/// A vote account that has no more than what the schedule depends on: stake, address and node.
fn vote_account(voter: &EpochVoter) -> Option<(Pubkey, (u64, VoteAccount))> {
    let state = VoteStateV4 { node_pubkey: voter.node, ..VoteStateV4::default() };
    let mut account = AccountSharedData::new(1, VoteStateV4::size_of(), &vote::ID);
    let versioned = VoteStateVersions::V4(Box::new(state));
    VoteStateV4::serialize(&versioned, account.data_as_mut_slice()).ok()?;
    let account = VoteAccount::try_from(account).ok()?;
    (voter.stake > 0).then_some((voter.vote_account, (voter.stake, account)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stakes(stakes: &[u64]) -> EpochStakes {
        let voter = |(n, stake): (usize, &u64)| EpochVoter {
            vote_account: Pubkey::new_from_array([n as u8 + 1; 32]),
            node: Pubkey::new_from_array([n as u8 + 101; 32]),
            authorized_voter: None,
            stake: *stake,
        };
        EpochStakes { epoch: 7, voters: stakes.iter().enumerate().map(voter).collect() }
    }

    #[test]
    fn nodes_lead_four_slots_at_a_time_by_their_stake() {
        let schedule = leader_schedule(&stakes(&[900, 100, 0]), 4_000).expect("there is stake");
        let nodes = [101, 102].map(|n| Pubkey::new_from_array([n; 32]));
        assert_eq!(schedule.leaders(), nodes);
        let slots_of = |leader: usize| -> u64 {
            (0..)
                .map_while(|n| schedule.nth_window(leader, n))
                .map(|window| window.end - window.start)
                .sum()
        };
        assert_eq!(slots_of(0) + slots_of(1), 4_000);
        assert!((3_400..3_800).contains(&slots_of(0)), "{}", slots_of(0));
        let (_, window) = schedule.find_window(6).expect("it is in the epoch");
        assert_eq!(window, 4..8);
    }

    #[test]
    fn there_is_no_leader_without_stake() {
        assert_eq!(leader_schedule(&stakes(&[]), 32), None);
        assert_eq!(leader_schedule(&stakes(&[0]), 32), None);
        assert_eq!(leader_schedule(&stakes(&[1]), 33), None, "windows have four slots");
    }
}
