//! surfnet_resetAccount and surfnet_resetNetwork: accounts as they were when the node started.
//!
//! In the fork of another cluster an account that came from there is removed, and fetched again when it is needed.
//! Bounds: [`OWNED_MAX`] fetched accounts of one owner.

use std::sync::Arc;

use chain_solana::{ControlCommand, ResetScope};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodResult, MethodSpec};
use ledger::Commitment;
use serde::Deserialize;
use solana::key_kind;
use solana_account::AccountSharedData;
use solana_loader_v3_interface::get_program_data_address;
use solana_pubkey::Pubkey;

use super::super::{accounts_reader, parse_key};
use super::control_result;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    gated!("surfnet_resetAccount", Execution::Medium, reset_account),
    gated!("surfnet_resetNetwork", Execution::Light, reset_network),
];

/// Maximum number of fetched accounts of one owner that one call resets: some milliseconds.
const OWNED_MAX: usize = 10_000;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct ResetConfig {
    include_owned_accounts: Option<bool>,
}

fn reset_account(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (pubkey, config): (String, Option<ResetConfig>) = params.parse(1)?;
    let pubkey = parse_key::pubkey(&pubkey)?;
    let with_owned = config.unwrap_or_default().include_owned_accounts.unwrap_or_default();
    let reset = ControlCommand::Reset(ResetScope::Account { pubkey, with_owned });
    let Some(upstream) = &api.account_upstream else {
        return control_result::null(api, params.client(), reset);
    };
    let with_data = [get_program_data_address(&pubkey), pubkey];
    let owned = if with_owned { list_owned(api, &pubkey)? } else { Vec::new() };
    let fetched: Vec<Pubkey> =
        with_data.into_iter().chain(owned).filter(|key| upstream.is_upstreams(key)).collect();
    let command = if upstream.is_upstreams(&pubkey) {
        let removed = |key: &Pubkey| (*key, AccountSharedData::default());
        let edit: Vec<_> = fetched.iter().map(removed).collect();
        ControlCommand::Edit(Box::new(|_| Ok(edit)))
    } else {
        reset
    };
    let upstream = Arc::clone(upstream);
    let forget = move || fetched.iter().for_each(|key| upstream.forget(key));
    control_result::null_then(api, params.client(), command, forget)
}

/// Lists the accounts that an account owns.
fn list_owned(api: &SolanaApi, owner: &Pubkey) -> Result<Vec<Pubkey>, RpcError> {
    let view = api.reader.view(Commitment::Processed);
    let owned = view.records_by_key(key_kind::PROGRAM, &accounts_reader::address(owner));
    let owned = owned.take(OWNED_MAX + 1).filter_map(|(key, _)| accounts_reader::pubkey(&key));
    let owned: Vec<_> = owned.collect();
    if owned.len() > OWNED_MAX {
        let message = format!("{owner} owns more than {OWNED_MAX} accounts: reset them one by one");
        return Err(RpcError::invalid_request(message));
    }
    Ok(owned)
}

/// Resets all accounts, and the values that getSupply reports.
fn reset_network(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    *api.cheatcodes.supply.write() = None;
    let reset = ControlCommand::Reset(ResetScope::All);
    let Some(upstream) = &api.account_upstream else {
        return control_result::null(api, params.client(), reset);
    };
    let upstream = Arc::clone(upstream);
    control_result::null_then(api, params.client(), reset, move || upstream.forget_all())
}
