//! surfnet_resetAccount and surfnet_resetNetwork: accounts as they were when the node started.

use chain_solana::{ControlCommand, ResetScope};
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodResult, MethodSpec};
use serde::Deserialize;

use super::super::parse_key;
use super::control_result;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    gated!("surfnet_resetAccount", Execution::Light, reset_account),
    gated!("surfnet_resetNetwork", Execution::Light, reset_network),
];

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct ResetConfig {
    include_owned_accounts: Option<bool>,
}

fn reset_account(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (pubkey, config): (String, Option<ResetConfig>) = params.parse(1)?;
    let pubkey = parse_key::pubkey(&pubkey)?;
    let with_owned = config.unwrap_or_default().include_owned_accounts.unwrap_or_default();
    let scope = ResetScope::Account { pubkey, with_owned };
    control_result::null(api, ControlCommand::Reset(scope))
}

/// Also what getSupply reports is the ledger's own again.
fn reset_network(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    *api.cheatcodes.supply.write() = None;
    control_result::null(api, ControlCommand::Reset(ResetScope::All))
}
