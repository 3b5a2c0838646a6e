//! Stakes: how much is delegated to which vote account, and the entry of an epoch in the stake history.

use std::collections::HashMap;

use solana_clock::Epoch;
use solana_pubkey::Pubkey;
use solana_stake_interface::stake_history::{StakeHistory, StakeHistoryEntry};

use crate::epoch::Delegated;

/// The sum of all delegations' stake in an epoch.
pub(crate) fn total(
    delegated: &[Delegated],
    history: &StakeHistory,
    epoch: Epoch,
    warmup: Option<Epoch>,
) -> StakeHistoryEntry {
    delegated.iter().fold(StakeHistoryEntry::default(), |total, it| {
        let delegation = &it.stake.delegation;
        let status = delegation.stake_activating_and_deactivating_v2(epoch, history, warmup);
        StakeHistoryEntry {
            effective: total.effective + status.effective,
            activating: total.activating + status.activating,
            deactivating: total.deactivating + status.deactivating,
        }
    })
}

/// The stake that counts for each vote account in an epoch.
pub(crate) fn by_voter(
    delegated: &[Delegated],
    history: &StakeHistory,
    epoch: Epoch,
    warmup: Option<Epoch>,
) -> HashMap<Pubkey, u64> {
    let mut stakes: HashMap<Pubkey, u64> = HashMap::new();
    for it in delegated {
        let delegation = &it.stake.delegation;
        let stake = delegation.stake_v2(epoch, history, warmup);
        let total = stakes.entry(delegation.voter_pubkey).or_default();
        *total = total.saturating_add(stake);
    }
    stakes
}
