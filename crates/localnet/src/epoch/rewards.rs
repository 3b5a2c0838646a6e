//! The distribution of an epoch's rewards.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use agave_reserved_account_keys::ReservedAccountKeys;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_feature_set::FeatureSet;
use solana_pubkey::Pubkey;
use solana_rent::Rent;
use solana_sdk_ids::{incinerator, system_program};
use solana_stake_interface::stake_history::StakeHistory;
use solana_stake_interface::state::Stake;
use stakes_solana::Delegated;

use super::points::{self, Candidate, Earned};

/// 100% in basis points.
const WHOLE_BPS: u16 = 10_000;

/// Keys that may not collect: programs and sysvars.
static RESERVED: LazyLock<ReservedAccountKeys> =
    LazyLock::new(ReservedAccountKeys::new_all_activated);

/// The inputs of the distribution.
pub(super) struct Terms<'a> {
    /// The rewarded epoch.
    pub(super) ended: u64,
    /// Lamports and points of all stakes together.
    pub(super) rewards: u64,
    pub(super) points: u128,
    pub(super) history: &'a StakeHistory,
    pub(super) warmup: Option<u64>,
    pub(super) rent: Rent,
    /// Whether a delegation is reduced to the account's lamports beyond its rent reserve.
    pub(super) adjusts_for_rent: bool,
    /// Whether a vote account may name the collector of its commission.
    pub(super) has_collectors: bool,
}

/// The reward of a stake account, and its delegation after the payment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StakeReward {
    pub(crate) pubkey: Pubkey,
    pub(crate) stake: Stake,
    pub(crate) lamports: u64,
    pub(crate) commission_bps: Option<u16>,
}

/// The commission of a vote account, or of the collector for vote accounts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Commission {
    pub(crate) collector: Pubkey,
    pub(crate) lamports: u64,
    /// Lamports that are burnt, because the collector may not get them.
    pub(crate) burnt: u64,
    /// Whether the collector is the vote account itself.
    pub(crate) is_voter: bool,
    pub(crate) commission_bps: Option<u16>,
}

/// The rewards of an epoch.
#[derive(Debug, Default)]
pub(super) struct Redeemed {
    pub(super) stakes: Vec<StakeReward>,
    pub(super) commissions: Vec<Commission>,
}

/// The rewards of all stake accounts and of all collectors of commissions.
pub(super) fn redeem_all(
    terms: &Terms<'_>,
    delegated: Vec<Delegated>,
    voters: &HashMap<Pubkey, Candidate>,
    commission_of: impl Fn(&Pubkey) -> u16,
) -> Redeemed {
    let mut redeemed = Redeemed::default();
    let mut collected: BTreeMap<Pubkey, Collected> = BTreeMap::new();
    for it in delegated {
        let voter_pubkey = it.stake.delegation.voter_pubkey;
        let Some(voter) = voters.get(&voter_pubkey) else {
            redeemed.stakes.extend(adjust_only(terms, &it));
            continue;
        };
        let bps = commission_of(&voter_pubkey);
        let Some(split) = redeem(terms, &it, voter, bps) else { continue };
        let shown_bps = (!terms.has_collectors).then_some(bps);
        redeemed.stakes.push(StakeReward {
            pubkey: it.pubkey,
            stake: split.stake,
            lamports: split.staker,
            commission_bps: shown_bps,
        });
        let collector = if terms.has_collectors { voter.collector } else { voter_pubkey };
        let entry = collected.entry(collector).or_default();
        entry.commission_bps = shown_bps;
        if collector == voter_pubkey {
            *entry.own.get_or_insert(0) += split.voter;
        } else {
            entry.others += split.voter;
        }
    }
    let commissions =
        collected.into_iter().map(|(collector, collected)| collected.into_commission(collector));
    redeemed.commissions = commissions.collect();
    redeemed
}

/// The commissions of one collector.
#[derive(Default)]
struct Collected {
    /// As the vote account itself.
    own: Option<u64>,
    /// For other vote accounts.
    others: u64,
    commission_bps: Option<u16>,
}

impl Collected {
    /// A vote account collects for itself only: commissions of others for it are burnt.
    fn into_commission(self, collector: Pubkey) -> Commission {
        let Self { own, others, commission_bps } = self;
        let (lamports, burnt) = own.map_or((others, 0), |own| (own, others));
        Commission { collector, lamports, burnt, is_voter: own.is_some(), commission_bps }
    }
}

/// A stake whose vote account does not exist or may not vote is only reduced to its account's lamports.
fn adjust_only(terms: &Terms<'_>, it: &Delegated) -> Option<StakeReward> {
    let needs = terms.adjusts_for_rent && needs_adjustment(terms, it, it.stake.delegation.stake, 0);
    needs.then(|| StakeReward {
        pubkey: it.pubkey,
        stake: it.stake,
        lamports: 0,
        commission_bps: (!terms.has_collectors).then_some(0),
    })
}

/// Whether a delegation has to be reduced to the account's lamports beyond its rent reserve.
fn needs_adjustment(terms: &Terms<'_>, it: &Delegated, new_stake: u64, gained: u64) -> bool {
    let delegation = &it.stake.delegation;
    let status =
        delegation.stake_activating_and_deactivating_v2(terms.ended, terms.history, terms.warmup);
    if status.effective == 0 && status.activating == 0 {
        return false;
    }
    let lamports = it.lamports.saturating_add(gained);
    let reserve = terms.rent.minimum_balance(it.data_len);
    new_stake.min(lamports.saturating_sub(reserve)) != delegation.stake
}

/// A reward shared between a stake account and its vote account.
#[derive(Debug, PartialEq)]
struct Split {
    staker: u64,
    voter: u64,
    stake: Stake,
}

fn redeem(terms: &Terms<'_>, it: &Delegated, voter: &Candidate, bps: u16) -> Option<Split> {
    let reward = reward(terms, &it.stake, voter, bps);
    let (staker, voter, credits_observed) = match reward {
        Some((staker, voter, observed)) => (staker, voter, observed),
        None => (0, 0, it.stake.credits_observed),
    };
    let new_stake = it.stake.delegation.stake.saturating_add(staker);
    let is_due = reward.is_some()
        || (terms.adjusts_for_rent && needs_adjustment(terms, it, new_stake, staker));
    let mut stake = it.stake;
    stake.credits_observed = credits_observed;
    stake.delegation.stake = new_stake;
    is_due.then_some(Split { staker, voter, stake })
}

/// Lamports for the stake account and for the vote account, and the credits observed after the payment. `None`: the
/// credits are paid in a later epoch.
fn reward(
    terms: &Terms<'_>,
    stake: &Stake,
    voter: &Candidate,
    bps: u16,
) -> Option<(u64, u64, u64)> {
    let earned = points::earnings(stake, &voter.credits, terms.history, terms.warmup);
    let Earned { points, credits_observed, is_rewound } = earned;
    let is_new = stake.delegation.activation_epoch == terms.ended;
    if is_rewound || is_new || terms.rewards == 0 {
        return Some((0, 0, credits_observed));
    }
    if points == 0 || terms.points == 0 {
        return None;
    }
    let lamports = points.checked_mul(u128::from(terms.rewards))? / terms.points;
    let lamports = u64::try_from(lamports).ok().filter(|lamports| *lamports > 0)?;
    let (staker, voter) = split(lamports, bps);
    // If one of them would get less than a lamport, both are paid later.
    let is_shared = bps > 0 && bps < WHOLE_BPS;
    let is_fair = !is_shared || (staker > 0 && voter > 0);
    is_fair.then_some((staker, voter, credits_observed))
}

/// The parts of a reward, each rounded down.
fn split(lamports: u64, bps: u16) -> (u64, u64) {
    let bps = bps.min(WHOLE_BPS);
    let part = |bps: u16| {
        let part = u128::from(lamports) * u128::from(bps) / u128::from(WHOLE_BPS);
        part as u64 // a part of a u64
    };
    (part(WHOLE_BPS - bps), part(bps))
}

/// Whether an account other than the vote account may get a commission or fees: a wallet that is rent exempt after it,
/// or the incinerator.
pub(super) fn may_collect(
    features: &FeatureSet,
    rent: &Rent,
    collector: &Pubkey,
    lamports_before: u64,
    account: &AccountSharedData,
) -> bool {
    let is_relaxed = features.snapshot().relax_post_exec_min_balance_check;
    let can_stay = rent.is_exempt(account.lamports(), account.data().len())
        || (is_relaxed && lamports_before > 0);
    account.owner() == &system_program::ID
        && !RESERVED.is_reserved(collector)
        && (*collector == incinerator::ID || can_stay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_of_a_reward_are_rounded_down() {
        assert_eq!(split(1_000, 0), (1_000, 0));
        assert_eq!(split(1_000, WHOLE_BPS), (0, 1_000));
        assert_eq!(split(1_001, 1_000), (900, 100));
        assert_eq!(split(u64::MAX, WHOLE_BPS / 2), (u64::MAX / 2, u64::MAX / 2));
        assert_eq!(split(7, 20_000), (0, 7));
    }
}
