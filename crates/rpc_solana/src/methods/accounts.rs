//! Accounts by pubkey: balance, data, several at once, minimum balances.

use std::sync::Arc;

use chain_solana::{View, read_rent};
use cpu_pool::TimeSlice;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{
    Execution, InlineBudget, ListTemplate, MethodOutput, MethodResult, MethodSpec, StreamState,
    StreamedResult, write_number,
};
use response_cache::{Dependencies, RESULT_CHUNK_BYTES};
use solana::{Account, AccountEncoder, Encoding, LONG_BYTES_MIN};
use solana_account::ReadableAccount;
use solana_account_decoder_client_types::UiAccountEncoding;
use solana_commitment_config::CommitmentConfig;
use solana_feature_set::upgrade_bpf_stake_program_to_v5 as stake_program_v5;
use solana_pubkey::Pubkey;
use solana_rpc_client_types::config::{RpcAccountInfoConfig, RpcContextConfig};

use super::cost::{CostEstimate, inline_bytes};
use super::{accounts_reader, parse_key};
use crate::commitment::{context, level, view, view_for_config, view_since};
use crate::fast_config;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    MethodSpec::new("getBalance", Execution::Inline, balance),
    MethodSpec::new("getAccountInfo", Execution::TryInline(small_account_info), account_info)
        .with_cache_dependencies(account_dependencies),
    MethodSpec::new(
        "getMultipleAccounts",
        Execution::TryInline(small_multiple_accounts),
        multiple_accounts,
    )
    .with_cache_dependencies(multiple_accounts_dependencies),
    MethodSpec::new("getMinimumBalanceForRentExemption", Execution::Inline, minimum_balance),
    MethodSpec::new("getStakeMinimumDelegation", Execution::Inline, minimum_delegation),
];

/// Maximum length of an account's data: 10 MiB.
const DATA_BYTES_MAX: usize = 10 * 1024 * 1024;

/// Minimum stake once version 5 of the stake program is active: 1 SOL.
const DELEGATION_LAMPORTS_MIN: u64 = 1_000_000_000;

fn balance(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (pubkey, config) = fast_config::key_and_context(params)?;
    let pubkey = parse_key::pubkey(&pubkey)?;
    let view = view_for_config(api, config)?;
    let lamports = accounts_reader::lamports(&view, &pubkey).unwrap_or(0);
    MethodOutput::written_in(context(&view), |out| {
        write_number(out, lamports);
        Ok(())
    })
}

/// The parameters of a call for accounts. `K` is one pubkey, or several.
struct AccountsQuery<K> {
    view: View,
    keys: K,
    encoding: Encoding,
}

fn account_info(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let query = parse_account_query(api, params)?;
    let account = accounts_reader::account(&query.view, &query.keys);
    if params.wants_raw() {
        return raw_account(&query, account);
    }
    let is_long = |account: &Account| query.encoding.encoded_len(&account.0) >= LONG_BYTES_MIN;
    if !account.as_deref().is_some_and(is_long) {
        return single_account(&query, account.as_deref());
    }
    let query =
        AccountsQuery { view: query.view, keys: vec![query.keys], encoding: query.encoding };
    Ok(MultipleAccounts::start(query, ListTemplate::element()))
}

/// Returns getAccountInfo's result inline, for an account that takes at most some ten microseconds to encode.
fn small_account_info(
    api: &SolanaApi,
    params: Params<'_>,
    budget: &mut InlineBudget,
) -> Result<MethodResult, cpu_pool::Class> {
    let query = match parse_account_query(api, params) {
        Ok(query) => query,
        Err(err) => return Ok(Err(err)),
    };
    let account = accounts_reader::account(&query.view, &query.keys);
    if budget.try_spend(cost_bytes(account.as_deref(), query.encoding)) {
        if params.wants_raw() {
            return Ok(raw_account(&query, account));
        }
        return Ok(single_account(&query, account.as_deref()));
    }
    Err(CostEstimate::from_accounts(account.as_deref(), query.encoding).class())
}

fn parse_account_query(
    api: &SolanaApi,
    params: Params<'_>,
) -> Result<AccountsQuery<Pubkey>, RpcError> {
    let (pubkey, config) = fast_config::key_and_account_config(params)?;
    let keys = parse_key::pubkey(&pubkey)?;
    let config = config.unwrap_or_default();
    let mut encoding = encoding(&config, UiAccountEncoding::Binary);
    if params.wants_raw() {
        // Raw data costs no more than base64.
        encoding.form = UiAccountEncoding::Base64;
    }
    let view = view_since(api, config.commitment, config.min_context_slot)?;
    Ok(AccountsQuery { view, keys, encoding })
}

/// Returns the dependencies of getAccountInfo's result.
fn account_dependencies(_: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    let (pubkey, config) = fast_config::key_and_account_config(params).ok()?;
    dependencies([pubkey], config)
}

/// Returns the dependencies of getMultipleAccounts' result.
fn multiple_accounts_dependencies(_: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    let (pubkeys, config) = fast_config::keys_and_account_config(params).ok()?;
    dependencies(pubkeys, config)
}

fn dependencies(
    pubkeys: impl IntoIterator<Item: AsRef<str>>,
    config: Option<RpcAccountInfoConfig>,
) -> Option<Dependencies> {
    let config = config.unwrap_or_default();
    let keys = pubkeys
        .into_iter()
        .map(|pubkey| Some(accounts_reader::address(&parse_key::pubkey(pubkey.as_ref()).ok()?)));
    let dependencies = Dependencies::none(level(config.commitment), config.min_context_slot);
    let is_parsed = config.encoding == Some(UiAccountEncoding::JsonParsed);
    Some(
        dependencies
            .with_block_if(is_parsed)
            .with_records_or_block(keys.collect::<Option<Vec<_>>>()?),
    )
}

fn single_account(query: &AccountsQuery<Pubkey>, account: Option<&Account>) -> MethodResult {
    let AccountsQuery { view, keys, encoding } = query;
    MethodOutput::written_in(context(view), |out| {
        accounts_reader::write_account(out, view, keys, account, *encoding)
    })
}

/// Returns the data of an account without an encoding, or `null`.
fn raw_account(query: &AccountsQuery<Pubkey>, account: Option<Arc<Account>>) -> MethodResult {
    match account {
        Some(account) => Ok(accounts_reader::raw_account(&query.view, account, query.encoding)),
        None => single_account(query, None),
    }
}

fn multiple_accounts(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let query = parse_accounts_query(api, params)?;
    Ok(MultipleAccounts::start(query, ListTemplate::at_last_list(&[(); 0])?))
}

/// Returns getMultipleAccounts' result inline, for accounts that take at most some ten microseconds to encode.
fn small_multiple_accounts(
    api: &SolanaApi,
    params: Params<'_>,
    budget: &mut InlineBudget,
) -> Result<MethodResult, cpu_pool::Class> {
    let query = match parse_accounts_query(api, params) {
        Ok(query) => query,
        Err(err) => return Ok(Err(err)),
    };
    let AccountsQuery { view, keys, encoding } = &query;
    let mut cost = Some(0_u64);
    let mut accounts = Vec::with_capacity(keys.len());
    for key in keys {
        let account = accounts_reader::account(view, key);
        cost = cost.and_then(|cost| cost.checked_add(cost_bytes(account.as_deref(), *encoding)?));
        accounts.push(account);
    }
    if !budget.try_spend(cost) {
        return Err(CostEstimate::from_accounts(
            accounts.iter().flatten().map(|it| &**it),
            *encoding,
        )
        .class());
    }
    Ok(MethodOutput::written_in(context(view), |out| {
        out.push(b'[');
        for (index, (key, account)) in keys.iter().zip(&accounts).enumerate() {
            if index > 0 {
                out.push(b',');
            }
            accounts_reader::write_account(out, view, key, account.as_deref(), *encoding)?;
        }
        out.push(b']');
        Ok(())
    }))
}

fn parse_accounts_query(
    api: &SolanaApi,
    params: Params<'_>,
) -> Result<AccountsQuery<Vec<Pubkey>>, RpcError> {
    let (pubkeys, config) = fast_config::keys_and_account_config(params)?;
    let limit = api.config.multiple_accounts_max;
    if pubkeys.len() > limit {
        let message = format!("Too many inputs provided; max {limit}");
        return Err(RpcError::invalid_params(message));
    }
    let keys = parse_key::pubkeys(&pubkeys)?;
    let config = config.unwrap_or_default();
    let encoding = encoding(&config, UiAccountEncoding::Base64);
    let view = view_since(api, config.commitment, config.min_context_slot)?;
    Ok(AccountsQuery { view, keys, encoding })
}

/// The state of getMultipleAccounts. One step checks or writes one account, or writes one chunk of a long account. All
/// accounts are checked before the first is written.
struct MultipleAccounts {
    query: AccountsQuery<Vec<Pubkey>>,
    template: ListTemplate,
    checked: usize,
    written: usize,
    /// The long account that is being written, if any.
    long: Option<(AccountEncoder, Arc<Account>)>,
}

impl MultipleAccounts {
    fn start(query: AccountsQuery<Vec<Pubkey>>, template: ListTemplate) -> MethodOutput {
        let context = context(&query.view);
        let stream = Self { query, template, checked: 0, written: 0, long: None };
        MethodOutput::streamed(Some(context), stream)
    }

    fn step(&mut self, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        if let Some((mut encoder, account)) = self.long.take() {
            if accounts_reader::write_next_chunk(&mut encoder, &account, out)? == StreamState::More
            {
                self.long = Some((encoder, account));
            }
            return Ok(StreamState::More);
        }
        let AccountsQuery { view, keys, encoding } = &self.query;
        if let Some(key) = keys.get(self.checked) {
            self.checked += 1;
            if let Some(account) = accounts_reader::account(view, key) {
                accounts_reader::check_encoding(&account, *encoding)?;
            }
            return Ok(StreamState::More);
        }
        out.append(&mut self.template.head);
        let Some(key) = keys.get(self.written) else {
            out.append(&mut self.template.tail);
            return Ok(StreamState::Done);
        };
        if self.written > 0 {
            out.push(b',');
        }
        self.written += 1;
        let account = accounts_reader::account(view, key);
        let encoder =
            accounts_reader::start_account(out, view, key, account.as_deref(), *encoding)?;
        self.long = encoder.zip(account);
        Ok(StreamState::More)
    }
}

impl StreamedResult for MultipleAccounts {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        while self.step(out)? == StreamState::More {
            if out.len() >= RESULT_CHUNK_BYTES || slice.is_over() {
                return Ok(StreamState::More);
            }
        }
        Ok(StreamState::Done)
    }

    fn records_visited(&self) -> u64 {
        self.written as u64
    }
}

fn minimum_balance(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (data_bytes, commitment): (usize, Option<CommitmentConfig>) = params.parse(1)?;
    if data_bytes > DATA_BYTES_MAX {
        return Err(RpcError::malformed_request());
    }
    let rent = read_rent(&view(api, commitment));
    MethodOutput::json(&rent.minimum_balance(data_bytes).max(1))
}

fn minimum_delegation(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (config,): (Option<RpcContextConfig>,) = params.parse(0)?;
    let view = view_for_config(api, config)?;
    let lamports =
        if is_active(&view, &stake_program_v5::ID) { DELEGATION_LAMPORTS_MIN } else { 1 };
    MethodOutput::json_in(context(&view), &lamports)
}

/// Whether a feature is active: its account contains the slot of its activation.
fn is_active(view: &View, feature: &Pubkey) -> bool {
    accounts_reader::account(view, feature).is_some_and(|account| {
        *account.0.owner() == solana_sdk_ids::feature::id() && account.0.data().first() == Some(&1)
    })
}

fn encoding(config: &RpcAccountInfoConfig, default: UiAccountEncoding) -> Encoding {
    Encoding { form: config.encoding.unwrap_or(default), slice: config.data_slice }
}

/// Returns the cost of encoding an account ([`inline_bytes`]).
fn cost_bytes(account: Option<&Account>, encoding: Encoding) -> Option<u64> {
    let Some(account) = account else { return Some(0) };
    // A parsed account is parsed completely, even if only a slice is requested.
    let bytes = match encoding.form {
        UiAccountEncoding::JsonParsed => account.0.data().len(),
        _ => encoding.encoded_len(&account.0),
    };
    inline_bytes(bytes as u64, encoding.form)
}
