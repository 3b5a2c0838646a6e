//! Stakes: how much is delegated to which vote account, and the entry of an epoch in the stake history.

use std::collections::HashMap;

use solana_account::{AccountSharedData, ReadableAccount};
use solana_clock::Epoch;
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar;
use solana_stake_interface::stake_history::{StakeHistory, StakeHistoryEntry};

use crate::epoch::Delegated;
use crate::vm::Vm;

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

/// The stake history sysvar.
pub(crate) fn history(vm: &Vm) -> StakeHistory {
    vm.account(&sysvar::stake_history::ID)
        .and_then(|account| bincode::deserialize(account.data()).ok())
        .unwrap_or_default()
}

/// Writes the stake history sysvar.
pub(crate) fn set_history(vm: &mut Vm, history: &StakeHistory) {
    let mut data = vec![0; solana_stake_interface::stake_history::SIZE];
    if let Err(err) = bincode::serialize_into(&mut data[..], history) {
        tracing::error!(%err, "the stake history's account is too small for its entries");
        return;
    }
    let lamports = vm.svm().minimum_balance_for_rent_exemption(data.len());
    let mut account = AccountSharedData::new(lamports, 0, &sysvar::ID);
    account.set_data_from_slice(&data);
    vm.put(sysvar::stake_history::ID, &account);
}
