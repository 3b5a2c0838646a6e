//! All lamports: how many there are, how many are locked up, and who has the most.
//!
//! Where we differ from Agave: accounts that its source names as non-circulating on mainnet do not
//! count here, because this ledger is none; and answers are kept for as long as the block is the same,
//! where Agave answers getLargestAccounts from a state of up to two hours ago.

use std::cmp::Reverse;
use std::collections::HashSet;

use chain::View;
use ledger::Address;
use query::Ranked;
use solana::{Account, facet};
use solana_account::ReadableAccount;
use solana_clock::Clock;
use solana_pubkey::Pubkey;
use solana_rpc_client_types::config::{
    RpcLargestAccountsConfig, RpcLargestAccountsFilter, RpcSupplyConfig,
};
use solana_rpc_client_types::request::NUM_LARGEST_ACCOUNTS;
use solana_rpc_client_types::response::{RpcAccountBalance, RpcSupply};
use solana_stake_interface::state::StakeStateV2;

use super::{Answer, Class, Method, MethodResult, read};
use crate::cached::Reads;
use crate::commitment::{level, view, with_context};
use crate::node::Node;
use crate::params::Params;

pub(super) const METHODS: &[Method] = &[
    Method { name: "getSupply", class: Class::Medium, run: supply },
    Method { name: "getLargestAccounts", class: Class::Medium, run: largest_accounts },
];

fn supply(node: &Node, params: Params<'_>) -> MethodResult {
    let (config,): (Option<RpcSupplyConfig>,) = params.parse(0)?;
    let config = config.unwrap_or_default();
    let view = view(node, config.commitment);
    let locked = locked(node, &view);
    let total = view.meta().capitalization;
    let non_circulating = locked.iter().map(|(_, lamports)| lamports).sum();
    let non_circulating_accounts = if config.exclude_non_circulating_accounts_list {
        Vec::new()
    } else {
        locked.iter().map(|(pubkey, _)| pubkey.to_string()).collect()
    };
    let supply = RpcSupply {
        total,
        circulating: total.saturating_sub(non_circulating),
        non_circulating,
        non_circulating_accounts,
    };
    Answer::of(&with_context(&view, supply))
}

/// What the supply is read from: all of the block.
pub(super) fn reads(params: Params<'_>) -> Option<Reads> {
    let (config,): (Option<RpcSupplyConfig>,) = params.parse(0).ok()?;
    let commitment = level(config.unwrap_or_default().commitment);
    Some(Reads::nothing(commitment, None).block_if(true))
}

/// The same for the largest accounts.
pub(super) fn reads_of_largest(params: Params<'_>) -> Option<Reads> {
    let (config,): (Option<RpcLargestAccountsConfig>,) = params.parse(0).ok()?;
    let commitment = level(config.unwrap_or_default().commitment);
    Some(Reads::nothing(commitment, None).block_if(true))
}

fn largest_accounts(node: &Node, params: Params<'_>) -> MethodResult {
    let (config,): (Option<RpcLargestAccountsConfig>,) = params.parse(0)?;
    let config = config.unwrap_or_default();
    let view = view(node, config.commitment);
    let highest: Vec<(u64, Pubkey)> = match config.filter {
        Some(RpcLargestAccountsFilter::NonCirculating) => {
            let mut locked = locked(node, &view);
            locked.sort_unstable_by_key(|(pubkey, lamports)| Reverse((*lamports, *pubkey)));
            let highest = locked.into_iter().take(NUM_LARGEST_ACCOUNTS);
            highest.map(|(pubkey, lamports)| (lamports, pubkey)).collect()
        }
        filter => {
            let locked: HashSet<Pubkey> = match filter {
                None => HashSet::new(),
                Some(_) => locked(node, &view).into_iter().map(|(pubkey, _)| pubkey).collect(),
            };
            let circulates = |address: &Address| {
                locked.is_empty() || read::pubkey(address).is_some_and(|it| !locked.contains(&it))
            };
            let highest =
                view.highest(None, NUM_LARGEST_ACCOUNTS, |address, _| circulates(address));
            let entry = |it: &Ranked<Account>| Some((it.rank, read::pubkey(&it.address)?));
            highest.iter().filter_map(entry).collect()
        }
    };
    let largest: Vec<_> = highest
        .into_iter()
        .map(|(lamports, pubkey)| RpcAccountBalance { address: pubkey.to_string(), lamports })
        .collect();
    Answer::of(&with_context(&view, largest))
}

/// Stake accounts whose lockup is in force, with what is in them, in the order of pubkeys.
///
/// Cost: O(stake accounts that have a lockup): few of all, so that nothing need be kept between
/// requests.
fn locked(node: &Node, view: &View) -> Vec<(Pubkey, u64)> {
    let now = Clock {
        slot: view.block().slot,
        epoch: node.cluster.epoch_schedule.get_epoch(view.block().slot),
        unix_timestamp: view.meta().unix_timestamp,
        ..Clock::default()
    };
    let program = read::address(&solana_sdk_ids::stake::id());
    let mut locked: Vec<_> = view
        .keyed(facet::LOCKUP, &program)
        .filter(|(_, account)| is_locked(account.0.data(), &now))
        .filter_map(|(address, account)| Some((read::pubkey(&address)?, account.0.lamports())))
        .collect();
    locked.sort_unstable();
    locked
}

fn is_locked(data: &[u8], now: &Clock) -> bool {
    let Ok(StakeStateV2::Initialized(meta) | StakeStateV2::Stake(meta, ..)) =
        bincode::deserialize(data)
    else {
        return false;
    };
    meta.lockup.is_in_force(now, None)
}
