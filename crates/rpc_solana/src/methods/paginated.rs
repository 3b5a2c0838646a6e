//! Paginated lists: getProgramAccountsV2, getTokenAccountsByOwnerV2, getTokenAccountsByMint.
//!
//! Agave has none of these methods. Their shapes are those that providers of Solana RPC agree on: `limit`,
//! `paginationKey` and `changedSinceSlot` in addition to the parameters of the method without V2. The
//! `paginationKey` of the last page is null. A page may be shorter than its limit.
//! Bounds: 10,000 accounts and 32 MiB of their data per page, and 100,000 accounts scanned for it.
//! Guarantees of a page under concurrent writes: `query::Page`.

use std::sync::Arc;

use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{
    Execution, IncrementalQuery, MethodResult, MethodSpec, OutputBody, VISITS, run_incremental,
};
use ledger::{Address, KeyKind, Slot};
use query::{Cursor, PageLimits, PageSearch, StaleCursor};
use response_cache::Dependencies;
use serde::{Deserialize, Serialize};
use solana::{Encoding, key_kind};
use solana_account::ReadableAccount;
use solana_account_decoder_client_types::{UiAccountEncoding, UiDataSliceConfig};
use solana_commitment_config::{CommitmentConfig, CommitmentLevel};
use solana_pubkey::Pubkey;
use solana_rpc_client_types::config::RpcTokenAccountsFilter;
use solana_rpc_client_types::filter::RpcFilterType;
use spl_generic_token::is_known_spl_token_id;

use super::account_list::{self, AccountFilter, ListFormat};
use super::index_selection::{program_keys, token_keys};
use super::programs::parse_filters;
use super::tokens::TokenSelection;
use super::{accounts_reader, parse_key};
use crate::commitment::{context, level, view_since};
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    MethodSpec::new("getProgramAccountsV2", Execution::Medium, program_accounts)
        .with_cache_dependencies(program_dependencies),
    MethodSpec::new("getTokenAccountsByOwnerV2", Execution::Medium, by_owner)
        .with_cache_dependencies(owner_dependencies),
    MethodSpec::new("getTokenAccountsByMint", Execution::Medium, by_mint)
        .with_cache_dependencies(mint_dependencies),
];

/// Default number of accounts on a page.
const LIMIT_DEFAULT: usize = 1_000;
/// Maximum number of accounts on a page, as with other providers.
const LIMIT_MAX: usize = 10_000;
/// Maximum bytes of account data on a page, before encoding.
const PAGE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Maximum number of accounts scanned for a page: some ten milliseconds.
const VISITS_MAX: usize = 100_000;

type KeyedAccount = (Pubkey, Arc<solana::Account>);

/// The config object of a paginated method. A member of another name is an error, since it would change nothing.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PageConfig {
    limit: Option<usize>,
    pagination_key: Option<String>,
    changed_since_slot: Option<Slot>,
    with_context: Option<bool>,
    /// Only for getProgramAccountsV2: the filters.
    filters: Option<Vec<RpcFilterType>>,
    /// Only for getTokenAccountsByMint: the token program.
    program_id: Option<String>,
    encoding: Option<UiAccountEncoding>,
    data_slice: Option<UiDataSliceConfig>,
    commitment: Option<CommitmentLevel>,
    min_context_slot: Option<Slot>,
}

impl PageConfig {
    fn commitment(&self) -> Option<CommitmentConfig> {
        self.commitment.map(|commitment| CommitmentConfig { commitment })
    }

    /// Refuses the members that only another method has. `method` is the called one.
    fn check(&self, method: &str) -> Result<(), RpcError> {
        let others = [
            ("filters", "getProgramAccountsV2", self.filters.is_some()),
            ("programId", "getTokenAccountsByMint", self.program_id.is_some()),
        ];
        match others.into_iter().find(|(_, owner, is_set)| *is_set && *owner != method) {
            None => Ok(()),
            Some((name, owner, _)) => {
                let message = format!("Invalid param: only {owner} has {name}");
                Err(RpcError::invalid_params(message))
            }
        }
    }
}

/// A page of accounts, as most methods return it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccountsPage<T> {
    /// The key of the next page. It precedes the accounts, so that a client that parses a stream has it first.
    pagination_key: Option<String>,
    accounts: T,
}

/// A page of token accounts without context.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ValuePage<T> {
    value: T,
    pagination_key: Option<String>,
}

fn program_accounts(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (program, config): (String, Option<PageConfig>) = params.parse(1)?;
    let program = parse_key::pubkey(&program)?;
    let mut config = config.unwrap_or_default();
    config.check("getProgramAccountsV2")?;
    let filters = parse_filters(config.filters.take())?;
    let view = view_since(api, config.commitment(), config.min_context_slot)?;
    let keys = program_keys(&view, &program, &filters)?;
    let is_token_list = is_known_spl_token_id(&program);
    let filter: AccountFilter =
        Box::new(move |account| *account.0.owner() == program && filters.matches(&account.0));
    let with_context = config.with_context.unwrap_or_default();
    let selection = PageSelection { view, keys, filter, is_token_list, with_context };
    page(selection, &config, move |view, found, format, pagination_key| {
        let page = AccountsPage { pagination_key, accounts: [(); 0] };
        account_list::stream_listed(view, found, format, &page)
    })
}

fn by_owner(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    type OwnerParams = (String, RpcTokenAccountsFilter, Option<PageConfig>);
    let (owner, filter, config): OwnerParams = params.parse(2)?;
    let owner = parse_key::pubkey(&owner)?;
    let selection = TokenSelection::from_filter(filter)?;
    let config = config.unwrap_or_default();
    config.check("getTokenAccountsByOwnerV2")?;
    tokens(api, &config, (key_kind::OWNER, owner), selection)
}

fn by_mint(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (mint, config): (String, Option<PageConfig>) = params.parse(1)?;
    let mint = parse_key::pubkey(&mint)?;
    let config = config.unwrap_or_default();
    config.check("getTokenAccountsByMint")?;
    let program = config.program_id.as_deref().map(parse_key::pubkey).transpose()?;
    let selection = TokenSelection { program, mint: Some(mint) };
    tokens(api, &config, (key_kind::MINT, mint), selection)
}

/// Returns a page of the selected token accounts, found by `first`. It is empty if the selected mint belongs to another
/// program than the selected one.
fn tokens(
    api: &SolanaApi,
    config: &PageConfig,
    first: (KeyKind, Pubkey),
    selection: TokenSelection,
) -> MethodResult {
    let view = view_since(api, config.commitment(), config.min_context_slot)?;
    let program = selection.find_program(&view)?;
    let is_found = selection.program.is_none_or(|selected| selected == program);
    let mint = selection.mint.filter(|_| first.0 != key_kind::MINT);
    let keys = token_keys(&view, first, mint, program)?;
    let filter: AccountFilter = Box::new(move |account| is_found && *account.0.owner() == program);
    let with_context = config.with_context.unwrap_or_default();
    let selection = PageSelection { view, keys, filter, is_token_list: true, with_context };
    page(selection, config, move |view, found, format, pagination_key| {
        if with_context {
            let page = AccountsPage { accounts: [(); 0], pagination_key };
            account_list::stream_listed(view, found, format, &page)
        } else {
            account_list::stream_listed(
                view,
                found,
                format,
                &ValuePage { value: [(); 0], pagination_key },
            )
        }
    })
}

/// Returns the dependencies of a page of a program's accounts: of the keys that find the accounts, the one with the
/// fewest accounts.
fn program_dependencies(api: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    let (program, config): (String, Option<PageConfig>) = params.parse(1).ok()?;
    let program = parse_key::pubkey(&program).ok()?;
    let mut config = config.unwrap_or_default();
    let filters = parse_filters(config.filters.take()).ok()?;
    let view = api.reader.view(level(config.commitment()));
    let keys = program_keys(&view, &program, &filters).ok()?;
    dependencies(&view, &config, &keys, is_known_spl_token_id(&program))
}

/// Returns the dependencies of a page of an owner's token accounts.
fn owner_dependencies(api: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    type OwnerParams = (String, RpcTokenAccountsFilter, Option<PageConfig>);
    let (owner, filter, config): OwnerParams = params.parse(2).ok()?;
    let owner = parse_key::pubkey(&owner).ok()?;
    token_dependencies(
        api,
        &config.unwrap_or_default(),
        (key_kind::OWNER, owner),
        TokenSelection::from_filter(filter).ok()?,
    )
}

/// Returns the dependencies of a page of a mint's token accounts.
fn mint_dependencies(api: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    let (mint, config): (String, Option<PageConfig>) = params.parse(1).ok()?;
    let mint = parse_key::pubkey(&mint).ok()?;
    let config = config.unwrap_or_default();
    let selection = TokenSelection { program: None, mint: Some(mint) };
    token_dependencies(api, &config, (key_kind::MINT, mint), selection)
}

/// Returns the dependencies of a page of token accounts. They include the mint, which determines the program.
fn token_dependencies(
    api: &SolanaApi,
    config: &PageConfig,
    first: (KeyKind, Pubkey),
    selection: TokenSelection,
) -> Option<Dependencies> {
    let view = api.reader.view(level(config.commitment()));
    let program = selection.find_program(&view).ok()?;
    let other_mint = selection.mint.filter(|_| first.0 != key_kind::MINT);
    let keys = token_keys(&view, first, other_mint, program).ok()?;
    dependencies(&view, config, &keys, true)?
        .with_records(selection.mint.iter().map(accounts_reader::address))
}

/// Returns the dependencies of a page. `None` if it may end because too many accounts were scanned: the accounts that
/// were scanned and are not on the page may change.
fn dependencies(
    view: &chain_solana::View,
    config: &PageConfig,
    keys: &[(KeyKind, Address)],
    is_token_list: bool,
) -> Option<Dependencies> {
    let narrowest = *keys.iter().min_by_key(|(kind, key)| view.records_by_key_len(*kind, key))?;
    let is_whole =
        |view: &chain_solana::View, keys: &[_]| view.records_by_keys_len(keys) <= VISITS_MAX;
    if !is_whole(view, keys) {
        return None;
    }
    let dependencies = Dependencies::none(level(config.commitment()), config.min_context_slot);
    let is_parsed = config.encoding == Some(UiAccountEncoding::JsonParsed);
    let commitment = dependencies.commitment;
    let keys: Box<[_]> = Box::from(keys);
    let dependencies = dependencies
        .with_precondition(move |api: &SolanaApi| is_whole(&api.reader.view(commitment), &keys));
    Some(dependencies.with_key(narrowest).with_block_if(is_parsed && is_token_list))
}

/// The accounts from which a page is taken, and the form of the page.
struct PageSelection {
    view: chain_solana::View,
    keys: Vec<(KeyKind, Address)>,
    filter: AccountFilter,
    is_token_list: bool,
    with_context: bool,
}

/// Finds a page, and passes its accounts and the key of the next page to `write`.
fn page(
    selection: PageSelection,
    config: &PageConfig,
    write: impl FnOnce(
        &chain_solana::View,
        Vec<KeyedAccount>,
        ListFormat,
        Option<String>,
    ) -> Result<OutputBody, RpcError>
    + Send
    + 'static,
) -> MethodResult {
    let PageSelection { view, keys, filter, is_token_list, with_context } = selection;
    let encoding = Encoding {
        form: config.encoding.unwrap_or(UiAccountEncoding::Base64),
        slice: config.data_slice,
    };
    let limits = PageLimits {
        after: config.pagination_key.as_deref().map(parse_cursor).transpose()?,
        changed_since: config.changed_since_slot,
        records_max: limit(config.limit)?,
        weight_max: PAGE_BYTES_MAX,
        visits_max: VISITS_MAX,
    };
    let page = Some(view.start_page(limits).map_err(stale_cursor)?);
    let context = with_context.then(|| context(&view));
    let query = PageQuery {
        view,
        keys,
        page,
        filter,
        format: ListFormat { encoding, is_token_list },
        write: Some(write),
        visits: 0,
    };
    run_incremental(context, query)
}

struct PageQuery<W> {
    view: chain_solana::View,
    keys: Vec<(KeyKind, Address)>,
    page: Option<PageSearch<solana::Account>>,
    filter: AccountFilter,
    format: ListFormat,
    write: Option<W>,
    visits: u64,
}

impl<W> IncrementalQuery for PageQuery<W>
where
    W: FnOnce(
            &chain_solana::View,
            Vec<KeyedAccount>,
            ListFormat,
            Option<String>,
        ) -> Result<OutputBody, RpcError>
        + Send,
{
    fn step(&mut self) -> Result<Option<OutputBody>, RpcError> {
        let Some(mut page) = self.page.take() else { return Err(RpcError::internal()) };
        let filter = &self.filter;
        let encoding = self.format.encoding;
        let weigh =
            |account: &solana::Account| filter(account).then(|| encoding.encoded_len(&account.0));
        let has_more = self.view.continue_page(&mut page, &self.keys, VISITS, weigh);
        self.visits = page.visits() as u64;
        if has_more {
            self.page = Some(page);
            return Ok(None);
        }
        let page = page.into_page();
        let accounts = page.records.into_iter();
        let accounts =
            accounts.filter_map(|(address, it)| Some((accounts_reader::pubkey(&address)?, it)));
        let next = page.next.map(|cursor| bs58::encode(cursor.to_bytes()).into_string());
        let write = self.write.take().ok_or_else(RpcError::internal)?;
        write(&self.view, accounts.collect(), self.format, next).map(Some)
    }

    fn records_visited(&self) -> u64 {
        self.visits
    }
}

fn limit(requested: Option<usize>) -> Result<usize, RpcError> {
    let limit = requested.unwrap_or(LIMIT_DEFAULT);
    if (1..=LIMIT_MAX).contains(&limit) {
        return Ok(limit);
    }
    let message = format!("Invalid param: limit {limit} is not from 1 to {LIMIT_MAX}");
    Err(RpcError::invalid_params(message))
}

fn parse_cursor(text: &str) -> Result<Cursor, RpcError> {
    let mut bytes = [0; Cursor::BYTES];
    match bs58::decode(text).onto(&mut bytes) {
        Ok(Cursor::BYTES) => Ok(Cursor::from_bytes(bytes)),
        _ => Err(RpcError::invalid_params("Invalid param: paginationKey is not one of ours")),
    }
}

fn stale_cursor(err: StaleCursor) -> RpcError {
    RpcError::invalid_params(format!("Invalid param: paginationKey: {err}"))
}
