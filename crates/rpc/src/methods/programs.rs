//! Accounts by the program that owns them.

use solana::{Encoding, FilterError, Filters};
use solana_account::ReadableAccount;
use solana_account_decoder_client_types::UiAccountEncoding;
use solana_rpc_client_types::config::RpcProgramAccountsConfig;
use spl_generic_token::is_known_spl_token_id;

use super::indexed::program_keys;
use super::read::List;
use super::{Answer, Class, Method, MethodResult, text};
use crate::commitment::{view_since, with_context};
use crate::error::RpcError;
use crate::node::Node;
use crate::params::Params;

pub(super) const METHODS: &[Method] =
    &[Method { name: "getProgramAccounts", class: Class::Heavy, run: program_accounts }];

fn program_accounts(node: &Node, params: Params<'_>) -> MethodResult {
    let (program, config): (String, Option<RpcProgramAccountsConfig>) = params.parse(1)?;
    let program = text::pubkey(&program)?;
    let config = config.unwrap_or_default();
    let filters = Filters::new(config.filters.unwrap_or_default())?;
    let account_config = config.account_config;
    let view = view_since(node, account_config.commitment, account_config.min_context_slot)?;
    let keys = program_keys(&view, &program, &filters)?;
    let sorted = config.sort_results.unwrap_or(true);
    let list = List::find(&view, &keys, sorted, |account| {
        *account.0.owner() == program && filters.allow(&account.0)
    });
    let encoding = Encoding {
        form: account_config.encoding.unwrap_or(UiAccountEncoding::Binary),
        slice: account_config.data_slice,
    };
    let list = list.encoded(encoding, is_known_spl_token_id(&program))?;
    if config.with_context.unwrap_or_default() {
        Answer::of(&with_context(&view, list))
    } else {
        Answer::of(&list)
    }
}

impl From<FilterError> for RpcError {
    fn from(err: FilterError) -> Self {
        Self::invalid_params(err.to_string())
    }
}
