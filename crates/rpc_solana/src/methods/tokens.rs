//! Token accounts and mints, of both token programs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use chain_solana::View;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{
    Execution, IncrementalQuery, InlineBudget, MethodOutput, MethodResult, MethodSpec, OutputBody,
    VISITS, run_incremental,
};
use ledger::{Address, AddressId, KeyKind};
use query::{IndexCoverage, RankedRecord};
use response_cache::Dependencies;
use solana::{Account, Encoding, MintInfo, key_kind};
use solana_account::ReadableAccount;
use solana_account_decoder_client_types::UiAccountEncoding;
use solana_commitment_config::CommitmentConfig;
use solana_pubkey::Pubkey;
use solana_rpc_client_types::config::{RpcAccountInfoConfig, RpcTokenAccountsFilter};
use solana_rpc_client_types::request::NUM_LARGEST_ACCOUNTS;
use solana_rpc_client_types::response::RpcTokenAccountBalance;
use spl_generic_token::is_known_spl_token_id;

use super::account_list::{self, ListFormat, ListQuery};
use super::cost::{CostEstimate, inline_bytes};
use super::index_selection::token_keys;
use super::{accounts_reader, parse_key};
use crate::commitment::{context, level, view, view_since};
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    MethodSpec::new("getTokenAccountBalance", Execution::Inline, account_balance),
    MethodSpec::new("getTokenSupply", Execution::Inline, supply)
        .with_revalidation_dependencies(supply_dependencies),
    MethodSpec::new(
        "getTokenLargestAccounts",
        Execution::ByCost { class_max: cpu_pool::Class::Heavy, class: classify_largest },
        largest_accounts,
    )
    .with_cache_dependencies(largest_dependencies),
    MethodSpec::new(
        "getTokenAccountsByOwner",
        Execution::ByCost { class_max: cpu_pool::Class::Heavy, class: classify_by_owner },
        by_owner,
    )
    .with_cache_dependencies(owner_dependencies),
    MethodSpec::new(
        "getTokenAccountsByDelegate",
        Execution::ByCost { class_max: cpu_pool::Class::Heavy, class: classify_by_delegate },
        by_delegate,
    )
    .with_cache_dependencies(delegate_dependencies),
];

type AccountsParams = (String, RpcTokenAccountsFilter, Option<RpcAccountInfoConfig>);

fn account_balance(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (pubkey, commitment): (String, Option<CommitmentConfig>) = params.parse(1)?;
    let pubkey = parse_key::pubkey(&pubkey)?;
    let view = view(api, commitment);
    let account = accounts_reader::account(&view, &pubkey).ok_or_else(no_account)?;
    let (mint, amount) = solana::holding(&account.0)
        .ok_or_else(|| RpcError::invalid_params("Invalid param: not a Token account"))?;
    let (_, mint_info) = accounts_reader::require_mint(&view, &mint)?;
    MethodOutput::json_in(context(&view), &mint_info.amount(amount))
}

fn supply(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (mint, commitment): (String, Option<CommitmentConfig>) = params.parse(1)?;
    let mint = parse_key::pubkey(&mint)?;
    let view = view(api, commitment);
    let account = accounts_reader::account(&view, &mint).ok_or_else(no_account)?;
    if !is_known_spl_token_id(account.0.owner()) {
        return Err(not_a_mint());
    }
    let data = account.0.data();
    let mint_info = MintInfo::from_data(data, view.meta().unix_timestamp);
    let (Some(mint_info), Some(supply)) = (mint_info, solana::supply(data)) else {
        return Err(RpcError::invalid_params("Invalid param: mint could not be unpacked"));
    };
    MethodOutput::json_in(context(&view), &mint_info.amount(supply))
}

fn largest_accounts(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (mint, commitment): (String, Option<CommitmentConfig>) = params.parse(1)?;
    let mint = parse_key::pubkey(&mint)?;
    let view = view(api, commitment);
    let (program, mint_info) = accounts_reader::require_mint(&view, &mint)?;
    if !is_known_spl_token_id(&program) {
        return Err(not_a_mint());
    }
    let keys = token_keys(&view, (key_kind::MINT, mint), None, program)?;
    let key = accounts_reader::address(&mint);
    if view.index_coverage(key_kind::MINT, &key) == IndexCoverage::Covered {
        let holders =
            view.highest(Some((key_kind::MINT, &key)), NUM_LARGEST_ACCOUNTS, |_, account| {
                *account.0.owner() == program
            });
        let entry =
            |it: &RankedRecord<Account>| Some((it.rank, accounts_reader::pubkey(&it.address)?));
        let largest = largest_holders(&mint_info, holders.iter().filter_map(entry))?;
        return Ok(largest.in_context(context(&view)));
    }
    let context = context(&view);
    let query = LargestHoldersQuery {
        view,
        keys,
        program,
        mint_info,
        next: Some(AddressId(0)),
        largest: BinaryHeap::new(),
        visits: 0,
    };
    run_incremental(Some(context), query)
}

fn largest_holders(
    mint_info: &MintInfo,
    holders: impl Iterator<Item = (u64, Pubkey)>,
) -> Result<OutputBody, RpcError> {
    let largest: Vec<_> = holders
        .map(|(amount, address)| RpcTokenAccountBalance {
            address: address.to_string(),
            amount: mint_info.amount(amount),
        })
        .collect();
    OutputBody::json(&largest)
}

/// Classifies by the number of accounts to scan if no index covers the mint.
fn classify_largest(
    api: &SolanaApi,
    params: Params<'_>,
    _: &mut InlineBudget,
) -> Option<cpu_pool::Class> {
    let estimate = || {
        let (mint, commitment): (String, Option<CommitmentConfig>) = params.parse(1).ok()?;
        let mint = parse_key::pubkey(&mint).ok()?;
        let view = view(api, commitment);
        if view.index_coverage(key_kind::MINT, &accounts_reader::address(&mint))
            == IndexCoverage::Covered
        {
            return None;
        }
        let (program, _) = accounts_reader::require_mint(&view, &mint).ok()?;
        let keys = token_keys(&view, (key_kind::MINT, mint), None, program).ok()?;
        Some(CostEstimate { accounts: view.records_by_keys_len(&keys), bytes: 0 })
    };
    Some(estimate().unwrap_or_default().class())
}

/// Finds the largest holders of a mint that no index covers. The largest is first; of equal ones, the higher address is
/// first.
struct LargestHoldersQuery {
    view: View,
    keys: Vec<(KeyKind, Address)>,
    program: Pubkey,
    mint_info: MintInfo,
    next: Option<AddressId>,
    largest: BinaryHeap<Reverse<(u64, Pubkey)>>,
    visits: u64,
}

impl IncrementalQuery for LargestHoldersQuery {
    fn step(&mut self) -> Result<Option<OutputBody>, RpcError> {
        let Self { view, keys, program, next, largest, visits, .. } = self;
        if let Some(first) = next.take() {
            *next = view.scan(keys, first, VISITS, |id, account| {
                *visits += 1;
                let account = account();
                let address = view.address(id).as_ref().and_then(accounts_reader::pubkey);
                let Some(address) = address.filter(|_| account.0.owner() == program) else {
                    return;
                };
                let amount = solana::holding(&account.0).map_or(0, |(_, amount)| amount);
                largest.push(Reverse((amount, address)));
                if largest.len() > NUM_LARGEST_ACCOUNTS {
                    largest.pop();
                }
            });
        }
        if next.is_some() {
            return Ok(None);
        }
        let holders =
            std::mem::take(largest).into_sorted_vec().into_iter().map(|Reverse(entry)| entry);
        largest_holders(&self.mint_info, holders).map(Some)
    }

    fn records_visited(&self) -> u64 {
        self.visits
    }
}

fn by_owner(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    by_key(api, params, key_kind::OWNER)
}

fn by_delegate(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    by_key(api, params, key_kind::DELEGATE)
}

fn by_key(api: &SolanaApi, params: Params<'_>, kind: KeyKind) -> MethodResult {
    let (key, filter, config): AccountsParams = params.parse(2)?;
    let key = parse_key::pubkey(&key)?;
    let selection = TokenSelection::from_filter(filter)?;
    let config = config.unwrap_or_default();
    let view = view_since(api, config.commitment, config.min_context_slot)?;
    let program = selection.find_program(&view)?;
    let keys = token_keys(&view, (kind, key), selection.mint, program)?;
    let filter = Box::new(move |account: &Account| *account.0.owner() == program);
    let query = ListQuery { keys, filter: Some(filter), sorted: true };
    let encoding = Encoding {
        form: config.encoding.unwrap_or(UiAccountEncoding::Binary),
        slice: config.data_slice,
    };
    let format = ListFormat { encoding, is_token_list: true };
    account_list::stream_matching(Some(context(&view)), &view, query, format)
}

/// The token accounts that a request selects: those of a program, of a mint, or of both.
#[derive(Clone, Copy)]
pub(super) struct TokenSelection {
    pub(super) program: Option<Pubkey>,
    pub(super) mint: Option<Pubkey>,
}

impl TokenSelection {
    /// Reads the program or the mint that a filter names.
    pub(super) fn from_filter(filter: RpcTokenAccountsFilter) -> Result<Self, RpcError> {
        Ok(match filter {
            RpcTokenAccountsFilter::Mint(mint) => {
                Self { program: None, mint: Some(parse_key::pubkey(&mint)?) }
            }
            RpcTokenAccountsFilter::ProgramId(program) => {
                Self { program: Some(parse_key::pubkey(&program)?), mint: None }
            }
        })
    }

    /// Finds the token program: that of the mint, or the selected one.
    pub(super) fn find_program(self, view: &View) -> Result<Pubkey, RpcError> {
        if let Some(mint) = &self.mint {
            let (program, _) = accounts_reader::require_mint(view, mint)?;
            return is_known_spl_token_id(&program).then_some(program).ok_or_else(not_a_mint);
        }
        self.program
            .filter(is_known_spl_token_id)
            .ok_or_else(|| RpcError::invalid_params("Invalid param: unrecognized Token program id"))
    }
}

fn classify_by_owner(
    api: &SolanaApi,
    params: Params<'_>,
    budget: &mut InlineBudget,
) -> Option<cpu_pool::Class> {
    classify_by_key(api, params, key_kind::OWNER, budget)
}

fn classify_by_delegate(
    api: &SolanaApi,
    params: Params<'_>,
    budget: &mut InlineBudget,
) -> Option<cpu_pool::Class> {
    classify_by_key(api, params, key_kind::DELEGATE, budget)
}

/// Classifies by the number of accounts to scan and their bytes: the token accounts of `key`, those of the program, or
/// all accounts, depending on the indices.
fn classify_by_key(
    api: &SolanaApi,
    params: Params<'_>,
    kind: KeyKind,
    budget: &mut InlineBudget,
) -> Option<cpu_pool::Class> {
    let (key, filter, config): AccountsParams = params.parse(2).ok()?;
    let key = parse_key::pubkey(&key).ok()?;
    let selection = TokenSelection::from_filter(filter).ok()?;
    let config = config.unwrap_or_default();
    let view = api.reader.view(level(config.commitment));
    let program = selection.find_program(&view).ok()?;
    let keys = token_keys(&view, (kind, key), selection.mint, program).ok()?;
    let form = config.encoding.unwrap_or(UiAccountEncoding::Binary);
    // A parsed account is parsed completely.
    let slice = config.data_slice.filter(|_| form != UiAccountEncoding::JsonParsed);
    let estimate = CostEstimate::from_keys(&view, &keys, Encoding { form, slice });
    let exceeds_budget = estimate.accounts > api.config.inline_accounts_max
        || (estimate.accounts > 0 && !budget.try_spend(inline_bytes(estimate.bytes, form)));
    exceeds_budget.then(|| estimate.class())
}

fn owner_dependencies(api: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    dependencies(api, params, key_kind::OWNER)
}

fn delegate_dependencies(api: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    dependencies(api, params, key_kind::DELEGATE)
}

/// Returns the dependencies of a result: the accounts with this key, and the mint, which determines the program.
fn dependencies(api: &SolanaApi, params: Params<'_>, kind: KeyKind) -> Option<Dependencies> {
    let (key, filter, config): AccountsParams = params.parse(2).ok()?;
    let key = parse_key::pubkey(&key).ok()?;
    let selection = TokenSelection::from_filter(filter).ok()?;
    let config = config.unwrap_or_default();
    let commitment = level(config.commitment);
    let view = api.reader.view(commitment);
    let program = selection.find_program(&view).ok()?;
    token_keys(&view, (kind, key), selection.mint, program).ok()?;
    let is_parsed = config.encoding == Some(UiAccountEncoding::JsonParsed);
    let dependencies = Dependencies::none(commitment, config.min_context_slot);
    let dependencies =
        dependencies.with_key((kind, accounts_reader::address(&key))).with_block_if(is_parsed);
    dependencies.with_records(selection.mint.iter().map(accounts_reader::address))
}

/// Returns the dependencies of a token's supply: the mint, and for some mints the time.
fn supply_dependencies(api: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    let (mint, commitment): (String, Option<CommitmentConfig>) = params.parse(1).ok()?;
    let mint = parse_key::pubkey(&mint).ok()?;
    let commitment = level(commitment);
    let (program, _) = accounts_reader::require_mint(&api.reader.view(commitment), &mint).ok()?;
    let dependencies = Dependencies::none(commitment, None);
    let has_time = program != spl_token_interface::id();
    dependencies.with_block_if(has_time).with_records([accounts_reader::address(&mint)])
}

/// Returns the dependencies of the largest holders: the mint and its accounts, and for some mints the time, because it
/// changes how their amounts are shown.
fn largest_dependencies(api: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    let (mint, commitment): (String, Option<CommitmentConfig>) = params.parse(1).ok()?;
    let mint = parse_key::pubkey(&mint).ok()?;
    let commitment = level(commitment);
    let (program, _) = accounts_reader::require_mint(&api.reader.view(commitment), &mint).ok()?;
    let key = (key_kind::MINT, accounts_reader::address(&mint));
    let dependencies = Dependencies::none(commitment, None).with_key(key);
    dependencies.with_block_if(program != spl_token_interface::id()).with_records([key.1])
}

fn no_account() -> RpcError {
    RpcError::invalid_params("Invalid param: could not find account")
}

fn not_a_mint() -> RpcError {
    RpcError::invalid_params("Invalid param: not a Token mint")
}
