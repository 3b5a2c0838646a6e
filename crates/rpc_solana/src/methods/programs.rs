//! Accounts by the program that owns them.

use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, InlineBudget, MethodResult, MethodSpec};
use response_cache::Dependencies;
use solana::{Encoding, Filters};
use solana_account_decoder_client_types::UiAccountEncoding;
use solana_rpc_client_types::config::{RpcAccountInfoConfig, RpcProgramAccountsConfig};
use solana_rpc_client_types::filter::RpcFilterType;
use spl_generic_token::is_known_spl_token_id;

use super::account_list::{self, AccountFilter, ListFormat, ListQuery};
use super::cost::{self, CostEstimate};
use super::index_selection::{invalid_filter, program_keys};
use super::parse_key;
use crate::commitment::{context, level, view, view_since};
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[MethodSpec::new(
    "getProgramAccounts",
    Execution::ByCost { class_max: cpu_pool::Class::Heavy, class: by_candidates },
    program_accounts,
)
.with_cache_dependencies(dependencies)];

/// Classifies by the number of accounts to scan and their bytes. Never inline, because each account may be large.
fn by_candidates(
    api: &SolanaApi,
    params: Params<'_>,
    _: &mut InlineBudget,
) -> Option<cpu_pool::Class> {
    let estimate = || {
        type ProgramParams = (String, Option<RpcProgramAccountsConfig>);
        let (program, config): ProgramParams = params.parse(1).ok()?;
        let program = parse_key::pubkey(&program).ok()?;
        let config = config.unwrap_or_default();
        let filters = parse_filters(config.filters).ok()?;
        let view = view(api, config.account_config.commitment);
        let keys = program_keys(&view, &program, &filters).ok()?;
        Some(CostEstimate::from_keys(&view, &keys, encoding(&config.account_config)))
    };
    Some(estimate().unwrap_or_default().class())
}

/// Returns the dependencies of a result: of the keys that find its accounts, the one with the fewest accounts.
fn dependencies(api: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    let (program, config): (String, Option<RpcProgramAccountsConfig>) = params.parse(1).ok()?;
    let program = parse_key::pubkey(&program).ok()?;
    let config = config.unwrap_or_default();
    let filters = parse_filters(config.filters).ok()?;
    let account_config = config.account_config;
    let commitment = level(account_config.commitment);
    let view = api.reader.view(commitment);
    let keys = program_keys(&view, &program, &filters).ok()?;
    let is_token_program = is_known_spl_token_id(&program);
    let is_parsed = account_config.encoding == Some(UiAccountEncoding::JsonParsed);
    // Filters may omit accounts, and so may the parsing of token accounts.
    let has_all_accounts = filters.is_empty() && !(is_parsed && is_token_program);
    let bytes_min =
        if has_all_accounts { cost::bytes_min(&view, &keys, encoding(&account_config)) } else { 0 };
    let key = keys.into_iter().min_by_key(|(kind, key)| view.records_by_key_len(*kind, key))?;
    let dependencies =
        Dependencies::none(commitment, account_config.min_context_slot).with_key(key);
    Some(dependencies.min_bytes(bytes_min).with_block_if(is_parsed && is_token_program))
}

fn program_accounts(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (program, config): (String, Option<RpcProgramAccountsConfig>) = params.parse(1)?;
    let program = parse_key::pubkey(&program)?;
    let config = config.unwrap_or_default();
    let filters = parse_filters(config.filters)?;
    let account_config = config.account_config;
    let view = view_since(api, account_config.commitment, account_config.min_context_slot)?;
    let keys = program_keys(&view, &program, &filters)?;
    let query = ListQuery {
        keys,
        // The program is one of the keys.
        filter: (!filters.is_empty())
            .then(|| -> AccountFilter { Box::new(move |account| filters.matches(&account.0)) }),
        sorted: config.sort_results.unwrap_or(true),
    };
    let encoding = encoding(&account_config);
    let format = ListFormat { encoding, is_token_list: is_known_spl_token_id(&program) };
    let context = config.with_context.unwrap_or_default().then(|| context(&view));
    account_list::stream_matching(context, &view, query, format)
}

fn encoding(config: &RpcAccountInfoConfig) -> Encoding {
    let form = config.encoding.unwrap_or(UiAccountEncoding::Binary);
    Encoding { form, slice: config.data_slice }
}

/// Parses the filters of a request.
pub(super) fn parse_filters(filters: Option<Vec<RpcFilterType>>) -> Result<Filters, RpcError> {
    Filters::new(filters.unwrap_or_default()).map_err(invalid_filter)
}
