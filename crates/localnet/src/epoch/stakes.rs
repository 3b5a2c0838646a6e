//! Stakes: the delegated stake accounts of a view, how much is delegated to which vote account, and the entry of an
//! epoch in the stake history.

use std::collections::HashMap;

use chain_solana::View;
use ledger::Address;
use solana::key_kind;
use solana_account::ReadableAccount;
use solana_clock::Epoch;
use solana_pubkey::Pubkey;
use solana_sdk_ids::stake;
use solana_stake_interface::stake_history::{StakeHistory, StakeHistoryEntry};
use solana_stake_interface::state::{Stake, StakeStateV2};

/// A delegated stake account.
#[derive(Clone, Debug)]
pub(super) struct Delegated {
    pub(super) pubkey: Pubkey,
    pub(super) stake: Stake,
    pub(super) lamports: u64,
    pub(super) data_len: usize,
}

/// Every delegated stake account of a view, in the order of addresses.
///
/// Cost: reads every stake account, once an epoch.
pub(super) fn delegated(view: &View) -> Vec<Delegated> {
    let program = Address::from(stake::ID.to_bytes());
    let accounts = view.records_by_key(key_kind::PROGRAM, &program);
    let delegated = accounts.filter_map(|(address, account)| {
        let state = bincode::deserialize::<StakeStateV2>(account.0.data()).ok()?;
        Some(Delegated {
            pubkey: Pubkey::try_from(address.as_bytes()).ok()?,
            stake: state.stake()?,
            lamports: account.0.lamports(),
            data_len: account.0.data().len(),
        })
    });
    let mut delegated: Vec<Delegated> = delegated.collect();
    delegated.sort_unstable_by_key(|it| it.pubkey);
    delegated
}

/// The sum of all delegations' stake in an epoch.
pub(super) fn total(
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
pub(super) fn by_voter(
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
