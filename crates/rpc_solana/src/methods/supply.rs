//! Supply of lamports, accounts that do not circulate, and the largest accounts.
//!
//! Differs from Agave: results are cached until the block changes; Agave's getLargestAccounts may be up to two hours
//! old.

use std::cmp::Reverse;
use std::collections::HashSet;

use chain_solana::View;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{
    Execution, IncrementalQuery, MethodResult, MethodSpec, OutputBody, VISITS, run_incremental,
};
use ledger::{Address, AddressId, KeyKind};
use query::RankedRecord;
use response_cache::Dependencies;
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

use super::accounts_reader;
use crate::commitment::{context, level, view};
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    MethodSpec::new("getSupply", Execution::Medium, supply).with_cache_dependencies(dependencies),
    MethodSpec::new("getLargestAccounts", Execution::Medium, largest_accounts)
        .with_cache_dependencies(largest_dependencies),
];

fn supply(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (config,): (Option<RpcSupplyConfig>,) = params.parse(0)?;
    let config = config.unwrap_or_default();
    let view = view(api, config.commitment);
    let lists = !config.exclude_non_circulating_accounts_list;
    let replaced = api.cheatcodes.supply.read().clone();
    locked_accounts(api, view, move |view, locked| {
        let total = view.meta().capitalization;
        let non_circulating = locked.iter().map(|(_, lamports)| lamports).sum();
        let listed = locked.iter().filter(|_| lists);
        let mut supply = RpcSupply {
            total,
            circulating: total.saturating_sub(non_circulating),
            non_circulating,
            non_circulating_accounts: listed.map(|(pubkey, _)| pubkey.to_string()).collect(),
        };
        if let Some(replaced) = replaced {
            replaced.apply(&mut supply, lists);
        }
        OutputBody::json(&supply)
    })
}

/// Returns the dependency of the supply: the block. A supply that a cheat code replaces is not cached.
fn dependencies(api: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    if api.cheatcodes.supply.read().is_some() {
        return None;
    }
    let (config,): (Option<RpcSupplyConfig>,) = params.parse(0).ok()?;
    let commitment = level(config.unwrap_or_default().commitment);
    let is_own = |api: &SolanaApi| api.cheatcodes.supply.read().is_none();
    Some(Dependencies::none(commitment, None).with_block_if(true).with_precondition(is_own))
}

/// Returns the dependency of the largest accounts: the block.
fn largest_dependencies(_: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    let (config,): (Option<RpcLargestAccountsConfig>,) = params.parse(0).ok()?;
    let commitment = level(config.unwrap_or_default().commitment);
    Some(Dependencies::none(commitment, None).with_block_if(true))
}

fn largest_accounts(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (config,): (Option<RpcLargestAccountsConfig>,) = params.parse(0)?;
    let config = config.unwrap_or_default();
    let view = view(api, config.commitment);
    match config.filter {
        None => Ok(largest_circulating(&view, &HashSet::new())?.in_context(context(&view))),
        Some(RpcLargestAccountsFilter::NonCirculating) => {
            locked_accounts(api, view, |_, mut locked| {
                locked.retain(|(_, lamports)| *lamports > 0);
                locked.sort_unstable_by_key(|(pubkey, lamports)| Reverse((*lamports, *pubkey)));
                let highest = locked.into_iter().take(NUM_LARGEST_ACCOUNTS);
                balances(highest.map(|(pubkey, lamports)| (lamports, pubkey)))
            })
        }
        Some(RpcLargestAccountsFilter::Circulating) => {
            locked_accounts(api, view, |view, locked| {
                largest_circulating(view, &locked.into_iter().map(|(pubkey, _)| pubkey).collect())
            })
        }
    }
}

/// Finds the largest of all accounts except `locked`.
fn largest_circulating(view: &View, locked: &HashSet<Pubkey>) -> Result<OutputBody, RpcError> {
    let circulates = |address: &Address| {
        locked.is_empty()
            || accounts_reader::pubkey(address).is_some_and(|it| !locked.contains(&it))
    };
    let highest = view.highest(None, NUM_LARGEST_ACCOUNTS, |address, _| circulates(address));
    let entry = |it: &RankedRecord<Account>| Some((it.rank, accounts_reader::pubkey(&it.address)?));
    balances(highest.iter().filter_map(entry))
}

fn balances(highest: impl Iterator<Item = (u64, Pubkey)>) -> Result<OutputBody, RpcError> {
    let largest: Vec<_> = highest
        .map(|(lamports, pubkey)| RpcAccountBalance { address: pubkey.to_string(), lamports })
        .collect();
    OutputBody::json(&largest)
}

/// Passes the accounts that do not circulate, with their lamports, in pubkey order, to `build_value`: the stake
/// accounts whose lockup is in force or whose withdrawer Agave's source names, and the accounts that it names.
///
/// Cost: O(stake accounts with a lockup or such a withdrawer), and a read of each named account. They are few, so no
/// state is needed between requests.
fn locked_accounts(
    api: &SolanaApi,
    view: View,
    build_value: impl FnOnce(&View, Vec<(Pubkey, u64)>) -> Result<OutputBody, RpcError> + Send + 'static,
) -> MethodResult {
    let now = Clock {
        slot: view.block().slot,
        epoch: api.cluster_info.epoch_schedule.get_epoch(view.block().slot),
        unix_timestamp: view.meta().unix_timestamp,
        ..Clock::default()
    };
    let key = (key_kind::LOCKUP, accounts_reader::address(&solana_sdk_ids::stake::id()));
    let context = context(&view);
    let query = LockedAccountsQuery {
        view,
        now,
        key,
        next: Some(AddressId(0)),
        locked: Vec::new(),
        build_value: Some(build_value),
        visits: 0,
    };
    run_incremental(Some(context), query)
}

struct LockedAccountsQuery<T> {
    view: View,
    now: Clock,
    key: (KeyKind, Address),
    next: Option<AddressId>,
    locked: Vec<(Pubkey, u64)>,
    build_value: Option<T>,
    visits: u64,
}

impl<T> IncrementalQuery for LockedAccountsQuery<T>
where
    T: FnOnce(&View, Vec<(Pubkey, u64)>) -> Result<OutputBody, RpcError> + Send,
{
    fn step(&mut self) -> Result<Option<OutputBody>, RpcError> {
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
        locked.extend(solana::non_circulating_accounts().map(|pubkey| {
            let account = view.record(&accounts_reader::address(pubkey));
            (*pubkey, account.map_or(0, |account| account.0.lamports()))
        }));
        locked.sort_unstable();
        locked.dedup();
        let build_value = self.build_value.take().ok_or_else(RpcError::internal)?;
        build_value(&self.view, locked).map(Some)
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
        || solana::is_non_circulating_withdrawer(&meta.authorized.withdrawer)
}
