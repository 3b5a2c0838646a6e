//! Vote accounts at the start of epochs: the voters and their commissions.
//!
//! A commission counts only some epochs after it was set, so that a validator cannot take a commission that it did not
//! announce. So the vote accounts of five epochs are retained, and stored with the ledger.
//! Bounds: 66 bytes for each vote account with stake, five times, and eight after a jump of slots. Beyond 2,000
//! accounts only those with the most stake.

use std::collections::{BTreeMap, HashMap};

use chain_solana::View;
use ledger::Address;
use serde::{Deserialize, Serialize};
use solana::key_kind;
use solana_account::ReadableAccount;
use solana_epoch_schedule::EpochSchedule;
use solana_feature_set::FeatureSet;
use solana_pubkey::Pubkey;
use solana_rent::Rent;
use solana_sdk_ids::{sysvar, vote};
use solana_vote_interface::state::VoteStateV4;
use stakes_solana::{StakeMath, VoteCandidate};
use svm::{Vm, sysvars};

use super::points::{Candidate, Credits};

/// Epochs that are retained, as in Agave.
pub(super) const EPOCHS_RETAINED: u64 = 5;

/// A vote account at the start of an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Voter {
    pubkey: [u8; 32],
    commission_bps: u16,
    fee_collector: [u8; 32],
}

impl Voter {
    /// The collector of its blocks' fees.
    pub(crate) fn fee_collector(&self) -> Pubkey {
        Pubkey::new_from_array(self.fee_collector)
    }
}

/// The vote accounts of the last epochs, by the epoch for which they could be leaders; each list in the order of
/// addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Voters(BTreeMap<u64, Vec<Voter>>);

impl Voters {
    /// Whether the vote accounts of an epoch are known.
    pub(crate) fn has(&self, epoch: u64) -> bool {
        self.0.contains_key(&epoch)
    }

    /// The record of a vote account for the leaders of an epoch.
    pub(crate) fn voter(&self, epoch: u64, pubkey: &Pubkey) -> Option<&Voter> {
        let voters = self.0.get(&epoch)?;
        let index = voters.binary_search_by_key(pubkey.as_array(), |voter| voter.pubkey).ok()?;
        voters.get(index)
    }

    /// Records the vote accounts of `view` at the start of an epoch, for the leaders of the epoch `scheduled`.
    pub(crate) fn record_epoch(
        &mut self,
        features: &FeatureSet,
        view: &View,
        staked: &HashMap<Pubkey, u64>,
        scheduled: u64,
    ) {
        let in_bps = features.snapshot().commission_rate_in_basis_points;
        let mut candidates: Vec<VoteCandidate> = states(view)
            .map(|(pubkey, state, lamports)| {
                let stake = staked.get(&pubkey).copied().unwrap_or(0);
                VoteCandidate { pubkey, stake, state, lamports }
            })
            .collect();
        stakes_solana::admit(features, reserve(view), &mut candidates);
        let mut voters: Vec<Voter> = candidates
            .into_iter()
            .map(|VoteCandidate { pubkey, state, .. }| {
                let bps = state.inflation_rewards_commission_bps;
                Voter {
                    pubkey: pubkey.to_bytes(),
                    // Whole percents without the feature.
                    commission_bps: if in_bps { bps } else { bps / 100 * 100 },
                    fee_collector: state.block_revenue_collector.to_bytes(),
                }
            })
            .collect();
        voters.sort_unstable_by_key(|voter| voter.pubkey);
        self.0.insert(scheduled, voters);
    }

    /// Removes the epochs that are too far below the newest one, but not `needed`.
    pub(crate) fn retain(&mut self, newest: u64, needed: &[u64]) {
        let oldest = newest.saturating_sub(EPOCHS_RETAINED - 1);
        self.0.retain(|epoch, _| *epoch >= oldest || needed.contains(epoch));
    }

    /// The vote accounts of `view`, for all epochs from `first` on whose leaders are known.
    pub(crate) fn from_view(
        features: &FeatureSet,
        schedule: &EpochSchedule,
        vm: &Vm,
        view: &View,
        (first, scheduled): (u64, u64),
    ) -> Self {
        let math = StakeMath::new(features, schedule);
        let delegated = stakes_solana::read_delegations(view);
        let history = sysvars::stake_history(vm);
        let staked = stakes_solana::by_voter(&delegated, &history, first, &math);
        let mut voters = Self::default();
        (first..=scheduled).for_each(|epoch| voters.record_epoch(features, view, &staked, epoch));
        voters
    }

    /// The vote accounts for which rewards of the epoch `ended` are computed, with their credits at its end.
    pub(super) fn candidates(
        &self,
        view: &View,
        scheduled: u64,
        ended: u64,
    ) -> HashMap<Pubkey, Candidate> {
        let admitted = states(view).filter(|(pubkey, ..)| self.voter(scheduled, pubkey).is_some());
        let candidates = admitted.map(|(pubkey, state, _)| {
            let credits = state.epoch_credits.into_iter().filter(|(epoch, ..)| *epoch <= ended);
            let collector = state.inflation_rewards_collector;
            (pubkey, Candidate { credits: Credits(credits.collect()), collector })
        });
        candidates.collect()
    }

    /// The commission for rewards of the epoch `ended`: that of the vote account at the start of the epoch before, if
    /// it existed then.
    pub(super) fn commission(
        &self,
        features: &FeatureSet,
        pubkey: &Pubkey,
        [ended, now, scheduled]: [u64; 3],
    ) -> u16 {
        let is_delayed = features.snapshot().delay_commission_updates;
        let epochs = if is_delayed { [ended, now, scheduled] } else { [scheduled; 3] };
        let known = epochs.into_iter().find_map(|epoch| self.voter(epoch, pubkey));
        known.map_or(0, |voter| voter.commission_bps)
    }
}

/// Every vote account of a view.
fn states(view: &View) -> impl Iterator<Item = (Pubkey, VoteStateV4, u64)> + '_ {
    let program = Address::from(vote::ID.to_bytes());
    view.records_by_key(key_kind::PROGRAM, &program).filter_map(|(address, account)| {
        let pubkey = Pubkey::try_from(address.as_bytes()).ok()?;
        let state = VoteStateV4::deserialize(account.0.data(), &pubkey).ok()?;
        Some((pubkey, state, account.0.lamports()))
    })
}

/// The rent reserve of a vote account.
fn reserve(view: &View) -> u64 {
    let rent = view.record(&Address::from(sysvar::rent::ID.to_bytes()));
    let rent: Rent =
        rent.and_then(|account| bincode::deserialize(account.0.data()).ok()).unwrap_or_default();
    rent.minimum_balance(VoteStateV4::size_of())
}
