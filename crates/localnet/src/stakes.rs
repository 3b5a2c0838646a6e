//! Stakes: how much is delegated, and what an epoch leaves in the stake history.

use solana_account::{AccountSharedData, ReadableAccount};
use solana_clock::Epoch;
use solana_sdk_ids::{stake, sysvar};
use solana_stake_interface::stake_history::{StakeHistory, StakeHistoryEntry};
use solana_stake_interface::state::{Delegation, StakeStateV2};

use chain::View;
use ledger::Address;
use solana::facet;

use crate::vm::Vm;

/// The stake of every delegation in an epoch, together. `vm` has the history, `view` the delegations.
///
/// Cost: reads every stake account, once an epoch.
pub(crate) fn total(vm: &Vm, view: &View, epoch: Epoch) -> StakeHistoryEntry {
    let history = history(vm);
    delegations(view).fold(StakeHistoryEntry::default(), |total, delegation| {
        let status = delegation.stake_activating_and_deactivating_v2(epoch, &history, Some(0));
        StakeHistoryEntry {
            effective: total.effective + status.effective,
            activating: total.activating + status.activating,
            deactivating: total.deactivating + status.deactivating,
        }
    })
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
        tracing::error!(%err, "the stake history has no room for its own entries");
        return;
    }
    let lamports = vm.svm().minimum_balance_for_rent_exemption(data.len());
    let mut account = AccountSharedData::new(lamports, 0, &sysvar::ID);
    account.set_data_from_slice(&data);
    vm.put(sysvar::stake_history::ID, &account);
}

fn delegations(view: &View) -> impl Iterator<Item = Delegation> {
    let program = Address::from(stake::ID.to_bytes());
    view.keyed(facet::PROGRAM, &program)
        .filter_map(|(_, account)| bincode::deserialize::<StakeStateV2>(account.0.data()).ok())
        .filter_map(|state| state.delegation())
}
