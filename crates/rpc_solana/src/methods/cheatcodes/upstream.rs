//! The cheat codes of surfpool that concern the upstream of a fork: surfnet_offlineAccount, and those that it does not have.

use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodOutput, MethodResult, MethodSpec};
use ledger::Commitment;
use serde::Deserialize;

use super::super::{account_needs, parse_key};
use super::info::not_served;
use crate::commitment::context;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    gated!("surfnet_offlineAccount", Execution::Light, offline_account),
    gated!("surfnet_streamAccount", Execution::Inline, no_stream),
    gated!("surfnet_streamAccounts", Execution::Inline, no_stream),
    gated!("surfnet_getStreamedAccounts", Execution::Inline, no_stream),
];

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct OfflineConfig {
    include_owned_accounts: Option<bool>,
}

/// Stops fetching an account from the upstream. The state in the ledger does not change.
fn offline_account(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let Some(upstream) = account_needs::upstream(api) else { return no_upstream() };
    let (pubkey, config): (String, Option<OfflineConfig>) = params.parse(1)?;
    let pubkey = parse_key::pubkey(&pubkey)?;
    let with_owned = config.unwrap_or_default().include_owned_accounts.unwrap_or_default();
    upstream.set_offline(pubkey, with_owned).map_err(account_needs::rpc_error)?;
    MethodOutput::json_in(context(&api.reader.view(Commitment::Processed)), &())
}

fn no_stream(api: &SolanaApi, _: Params<'_>) -> MethodResult {
    if account_needs::upstream(api).is_none() {
        return no_upstream();
    }
    not_served(
        "an account that was fetched belongs to this ledger; surfnet_resetAccount has it fetched again",
    )
}

fn no_upstream() -> MethodResult {
    not_served("the ledger takes no accounts from another cluster while it runs (--fork-url)")
}
