//! The stake history over epochs that have passed, with blocks or without any.
//!
//! A jump of slots may pass over millions of epochs. The stake program needs an entry for each of them, and reads the
//! newest 512.
//! Bounds: [`COMPUTED_MAX`] epochs are computed, each over all delegations, and as many and 512 more are returned.

use std::ops::Range;

use solana_stake_interface::stake_history::{MAX_ENTRIES, StakeHistory, StakeHistoryEntry};
use stakes_solana::{Delegated, StakeMath};

/// Epochs whose stake is computed. Stake that warms up or cools down by 9% an epoch has done so long before: only an
/// account that a command has set may name a later epoch.
const COMPUTED_MAX: u64 = 2_048;

/// Adds the total stake of each epoch in `passed` to the history. Returns the new entries, the oldest first.
///
/// No stake is delegated or deactivated in an epoch without a block: it only warms up and cools down. An epoch that
/// leaves the total as it was is followed by equal ones.
pub(super) fn add_totals(
    history: &mut StakeHistory,
    passed: Range<u64>,
    delegated: &[Delegated],
    math: &StakeMath,
) -> Vec<(u64, StakeHistoryEntry)> {
    let last_change = last_change(delegated);
    let computed_end = passed.end.min(passed.start.saturating_add(COMPUTED_MAX));
    let mut added: Vec<(u64, StakeHistoryEntry)> = Vec::new();
    let mut steady = StakeHistoryEntry::default();
    for epoch in passed.start..computed_end {
        let total = stakes_solana::total(delegated, history, epoch, math);
        let is_steady = epoch > last_change && !added.is_empty() && total == steady;
        steady = total;
        history.add(epoch, steady.clone());
        added.push((epoch, steady.clone()));
        if is_steady {
            break;
        }
    }
    let computed = passed.start + added.len() as u64;
    for epoch in computed.max(passed.end.saturating_sub(MAX_ENTRIES as u64))..passed.end {
        history.add(epoch, steady.clone());
        added.push((epoch, steady.clone()));
    }
    added
}

/// Returns the last epoch in which a stake was delegated or deactivated.
fn last_change(delegated: &[Delegated]) -> u64 {
    let delegations = delegated.iter().map(|it| &it.stake.delegation);
    let changes = delegations.flat_map(|it| [it.activation_epoch, it.deactivation_epoch]);
    // `u64::MAX` means no epoch, and stake of genesis.
    changes.filter(|epoch| *epoch != u64::MAX).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use solana_epoch_schedule::EpochSchedule;
    use solana_feature_set::FeatureSet;
    use solana_pubkey::Pubkey;
    use solana_stake_interface::state::{Delegation, Stake};

    use super::*;

    fn build_delegation(lamports: u64, activation: u64, deactivation: u64) -> Delegated {
        let mut delegation = Delegation::new(&Pubkey::default(), lamports, activation);
        delegation.deactivation_epoch = deactivation;
        let stake = Stake { delegation, credits_observed: 0 };
        Delegated { pubkey: Pubkey::new_unique(), stake, lamports, data_len: 200 }
    }

    fn math() -> StakeMath {
        StakeMath::new(&FeatureSet::all_enabled(), &EpochSchedule::custom(32, 32, false))
    }

    /// Bootstrap stake, stake that takes many epochs to warm up, and stake that cools down.
    fn stakes() -> [Delegated; 3] {
        [
            build_delegation(1_000_000, u64::MAX, u64::MAX),
            build_delegation(50_000_000, 3, u64::MAX),
            build_delegation(900_000, u64::MAX, 3),
        ]
    }

    #[test]
    fn a_jump_adds_what_epochs_one_by_one_would() {
        let mut stepped = StakeHistory::default();
        let mut jumped = StakeHistory::default();
        for epoch in 0..700 {
            let added = add_totals(&mut stepped, epoch..epoch + 1, &stakes(), &math());
            assert_eq!(added.len(), 1);
        }
        add_totals(&mut jumped, 0..700, &stakes(), &math());
        assert_eq!(jumped, stepped);
        assert_eq!(jumped.len(), MAX_ENTRIES);
        let warming = |epoch| stepped.get(epoch).map(|entry| entry.activating);
        assert_eq!((warming(699), jumped.get(187)), (Some(0), None));
    }

    #[test]
    fn a_jump_over_all_epochs_is_bounded() {
        let end = u64::MAX / 32;
        // One that claims to be delegated in a late epoch.
        let late = build_delegation(5, end - 100, u64::MAX);
        for stakes in [Vec::from(stakes()), vec![late]] {
            let mut history = StakeHistory::default();
            let added = add_totals(&mut history, 7..end, &stakes, &math());
            assert!(added.len() as u64 <= COMPUTED_MAX + MAX_ENTRIES as u64, "{}", added.len());
            let epochs: Vec<u64> = history.iter().map(|(epoch, _)| *epoch).collect();
            let newest_first: Vec<u64> = (end - MAX_ENTRIES as u64..end).rev().collect();
            assert_eq!(epochs, newest_first, "no epoch is missing");
        }
    }
}
