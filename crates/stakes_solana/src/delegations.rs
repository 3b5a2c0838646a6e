//! The delegated stake accounts of a view, how much is delegated to which vote account, and the entry of an epoch in the
//! stake history.

use std::collections::HashMap;

use chain_solana::View;
use ledger::Address;
use solana::{Account, key_kind};
use solana_account::ReadableAccount;
use solana_clock::Epoch;
use solana_pubkey::Pubkey;
use solana_sdk_ids::stake;
use solana_stake_interface::stake_history::{StakeHistory, StakeHistoryEntry};
use solana_stake_interface::state::{Delegation, Stake, StakeStateV2};

use crate::stake_math::StakeMath;

/// A delegated stake account.
#[derive(Clone, Debug)]
pub struct Delegated {
    /// Address of the stake account.
    pub pubkey: Pubkey,
    /// What it delegates.
    pub stake: Stake,
    /// All its lamports.
    pub lamports: u64,
    /// Bytes of its data.
    pub data_len: usize,
}

/// Every delegated stake account of a view, in the order of addresses.
///
/// Cost: reads every stake account.
pub fn read_delegations(view: &View) -> Vec<Delegated> {
    let program = Address::from(stake::ID.to_bytes());
    let accounts = view.records_by_key(key_kind::PROGRAM, &program);
    let delegated = accounts.filter_map(|(address, account)| {
        Some(Delegated {
            pubkey: Pubkey::try_from(address.as_bytes()).ok()?,
            stake: read_stake(&account)?,
            lamports: account.0.lamports(),
            data_len: account.0.data().len(),
        })
    });
    let mut delegated: Vec<Delegated> = delegated.collect();
    delegated.sort_unstable_by_key(|it| it.pubkey);
    delegated
}

/// What an account delegates, if it is a delegated stake account.
pub fn read_delegation(account: &Account) -> Option<Delegation> {
    read_stake(account).map(|stake| stake.delegation)
}

fn read_stake(account: &Account) -> Option<Stake> {
    if account.0.owner() != &stake::ID {
        return None;
    }
    bincode::deserialize::<StakeStateV2>(account.0.data()).ok()?.stake()
}

/// The sum of all delegations' stake in an epoch.
pub fn total(
    delegated: &[Delegated],
    history: &StakeHistory,
    epoch: Epoch,
    math: &StakeMath,
) -> StakeHistoryEntry {
    delegated.iter().fold(StakeHistoryEntry::default(), |total, it| {
        let status = math.status(&it.stake.delegation, epoch, history);
        StakeHistoryEntry {
            effective: total.effective + status.effective,
            activating: total.activating + status.activating,
            deactivating: total.deactivating + status.deactivating,
        }
    })
}

/// The stake that counts for each vote account in an epoch.
pub fn by_voter(
    delegated: &[Delegated],
    history: &StakeHistory,
    epoch: Epoch,
    math: &StakeMath,
) -> HashMap<Pubkey, u64> {
    let mut stakes: HashMap<Pubkey, u64> = HashMap::new();
    for it in delegated {
        let delegation = &it.stake.delegation;
        let stake = math.status(delegation, epoch, history).effective;
        let total = stakes.entry(delegation.voter_pubkey).or_default();
        *total = total.saturating_add(stake);
    }
    stakes
}
