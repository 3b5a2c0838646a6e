//! Supply of lamports, locked stake accounts, and the largest accounts.
//!
//! Differs from Agave: the accounts that its source lists as non-circulating on mainnet do not count here,
//! because this ledger is not mainnet. Results are cached until the block changes; Agave's getLargestAccounts
//! may be up to two hours old.

use std::cmp::Reverse;
use std::collections::HashSet;

use chain_solana::View;
use ledger::{Address, AddressId, KeyKind};
use query::RankedRecord;
use solana::{Account, key_kind};
use solana_account::ReadableAccount;
use solana_clock::Clock;
use solana_pubkey::Pubkey;
use solana_rpc_client_types::config::{
    RpcLargestAccountsConfig, RpcLargestAccountsFilter, RpcSupplyConfig,
};
use solana_rpc_client_types::request::NUM_LARGEST_ACCOUNTS;
use solana_rpc_client_types::response::{RpcAccountBalance, RpcSupply};
use solana_stake_interface::state::StakeStateV2;

use super::incremental::{IncrementalQuery, VISITS, run_incremental};
use super::{Class, Method, MethodOutput, MethodResult, accounts_reader};
use crate::commitment::{level, view, with_context};
use crate::dependencies::Dependencies;
use crate::error::RpcError;
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
    let lists = !config.exclude_non_circulating_accounts_list;
    locked_accounts(node, view, move |view, locked| {
        let total = view.meta().capitalization;
        let non_circulating = locked.iter().map(|(_, lamports)| lamports).sum();
        let listed = locked.iter().filter(|_| lists);
        let supply = RpcSupply {
            total,
            circulating: total.saturating_sub(non_circulating),
            non_circulating,
            non_circulating_accounts: listed.map(|(pubkey, _)| pubkey.to_string()).collect(),
        };
        MethodOutput::json(&with_context(view, supply))
    })
}

/// What the supply depends on: the block.
pub(super) fn dependencies(params: Params<'_>) -> Option<Dependencies> {
    let (config,): (Option<RpcSupplyConfig>,) = params.parse(0).ok()?;
    let commitment = level(config.unwrap_or_default().commitment);
    Some(Dependencies::none(commitment, None).with_block_if(true))
}

/// The same for the largest accounts.
pub(super) fn largest_dependencies(params: Params<'_>) -> Option<Dependencies> {
    let (config,): (Option<RpcLargestAccountsConfig>,) = params.parse(0).ok()?;
    let commitment = level(config.unwrap_or_default().commitment);
    Some(Dependencies::none(commitment, None).with_block_if(true))
}

fn largest_accounts(node: &Node, params: Params<'_>) -> MethodResult {
    let (config,): (Option<RpcLargestAccountsConfig>,) = params.parse(0)?;
    let config = config.unwrap_or_default();
    let view = view(node, config.commitment);
    match config.filter {
        None => circulating(&view, &HashSet::new()),
        Some(RpcLargestAccountsFilter::NonCirculating) => {
            locked_accounts(node, view, |view, mut locked| {
                locked.sort_unstable_by_key(|(pubkey, lamports)| Reverse((*lamports, *pubkey)));
                let highest = locked.into_iter().take(NUM_LARGEST_ACCOUNTS);
                balances(view, highest.map(|(pubkey, lamports)| (lamports, pubkey)))
            })
        }
        Some(RpcLargestAccountsFilter::Circulating) => {
            locked_accounts(node, view, |view, locked| {
                circulating(view, &locked.into_iter().map(|(pubkey, _)| pubkey).collect())
            })
        }
    }
}

/// The largest of all accounts except `locked`.
fn circulating(view: &View, locked: &HashSet<Pubkey>) -> MethodResult {
    let circulates = |address: &Address| {
        locked.is_empty()
            || accounts_reader::pubkey(address).is_some_and(|it| !locked.contains(&it))
    };
    let highest = view.highest(None, NUM_LARGEST_ACCOUNTS, |address, _| circulates(address));
    let entry = |it: &RankedRecord<Account>| Some((it.rank, accounts_reader::pubkey(&it.address)?));
    balances(view, highest.iter().filter_map(entry))
}

fn balances(view: &View, highest: impl Iterator<Item = (u64, Pubkey)>) -> MethodResult {
    let largest: Vec<_> = highest
        .map(|(lamports, pubkey)| RpcAccountBalance { address: pubkey.to_string(), lamports })
        .collect();
    MethodOutput::json(&with_context(view, largest))
}

/// The result that `build_result` makes of the stake accounts whose lockup is in force, with their lamports, in
/// pubkey order.
///
/// Cost: O(stake accounts with a lockup). They are few, so no state is needed between requests.
fn locked_accounts(
    node: &Node,
    view: View,
    build_result: impl FnOnce(&View, Vec<(Pubkey, u64)>) -> MethodResult + Send + 'static,
) -> MethodResult {
    let now = Clock {
        slot: view.block().slot,
        epoch: node.cluster.epoch_schedule.get_epoch(view.block().slot),
        unix_timestamp: view.meta().unix_timestamp,
        ..Clock::default()
    };
    let key = (key_kind::LOCKUP, accounts_reader::address(&solana_sdk_ids::stake::id()));
    let (next, build_result) = (Some(AddressId(0)), Some(build_result));
    run_incremental(LockedAccountsQuery {
        view,
        now,
        key,
        next,
        locked: Vec::new(),
        build_result,
        visits: 0,
    })
}

/// Finds the locked stake accounts.
struct LockedAccountsQuery<T> {
    view: View,
    now: Clock,
    key: (KeyKind, Address),
    next: Option<AddressId>,
    locked: Vec<(Pubkey, u64)>,
    build_result: Option<T>,
    visits: u64,
}

impl<T> IncrementalQuery for LockedAccountsQuery<T>
where
    T: FnOnce(&View, Vec<(Pubkey, u64)>) -> MethodResult + Send,
{
    fn step(&mut self) -> Result<Option<MethodOutput>, RpcError> {
        let Self { view, now, key, next, locked, visits, .. } = self;
        if let Some(first) = next.take() {
            *next = view.scan(&[*key], first, VISITS, |id, account| {
                *visits += 1;
                let account = account();
                let pubkey = || accounts_reader::pubkey(&view.address(id)?);
                if is_locked(account.0.data(), now)
                    && let Some(pubkey) = pubkey()
                {
                    locked.push((pubkey, account.0.lamports()));
                }
            });
        }
        if next.is_some() {
            return Ok(None);
        }
        let mut locked = std::mem::take(locked);
        locked.sort_unstable();
        let build_result = self.build_result.take().ok_or_else(RpcError::internal)?;
        build_result(&self.view, locked).map(Some)
    }

    fn records_visited(&self) -> u64 {
        self.visits
    }
}

fn is_locked(data: &[u8], now: &Clock) -> bool {
    let Ok(StakeStateV2::Initialized(meta) | StakeStateV2::Stake(meta, ..)) =
        bincode::deserialize(data)
    else {
        return false;
    };
    meta.lockup.is_in_force(now, None)
}
