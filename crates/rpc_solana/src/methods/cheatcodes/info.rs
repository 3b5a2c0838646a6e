//! surfnet_getSurfnetInfo and surfnet_getLocalSignatures, and the cheat codes of surfpool that this node does not have.

use chain_solana::ExecutedTransaction;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodOutput, MethodResult, MethodSpec};
use ledger::Commitment;
use serde_json::json;
use solana_rpc_client_types::response::RpcLogsResponse;

use crate::commitment::context;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    gated!("surfnet_getSurfnetInfo", Execution::Inline, surfnet_info),
    gated!("surfnet_getLocalSignatures", Execution::Medium, local_signatures),
    gated!("surfnet_registerIdl", Execution::Inline, no_idls),
    gated!("surfnet_getActiveIdl", Execution::Inline, no_idls),
    gated!("surfnet_registerScenario", Execution::Inline, no_scenarios),
    gated!("surfnet_getConfidentialBalance", Execution::Inline, no_confidential),
    gated!("surfnet_deriveConfidentialKeys", Execution::Inline, no_confidential),
];

/// Number of signatures without a limit in the request, as in surfpool.
const SIGNATURES_DEFAULT: usize = 50;
/// Maximum number of signatures in a result.
const SIGNATURES_MAX: usize = 1_000;
/// Maximum number of blocks that are searched for them: some hundred microseconds.
const BLOCKS_MAX: usize = 10_000;

/// Reports no runbooks, because this node has none.
fn surfnet_info(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    let view = api.reader.view(Commitment::Processed);
    MethodOutput::json_in(context(&view), &json!({ "runbookExecutions": [] }))
}

/// Lists the newest transactions except votes, the newest first.
fn local_signatures(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (limit,): (Option<usize>,) = params.parse(0)?;
    let limit = limit.unwrap_or(SIGNATURES_DEFAULT);
    if limit > SIGNATURES_MAX {
        let message = format!("limit {limit}: at most {SIGNATURES_MAX}");
        return Err(RpcError::invalid_params(message));
    }
    let view = api.reader.view(Commitment::Processed);
    let history = api.history.snapshot();
    let blocks = history.blocks(.., Commitment::Processed).rev().take(BLOCKS_MAX);
    let frozen = blocks.flat_map(|block| block.transactions.iter().rev());
    let all = history.open_transactions().rev().chain(frozen);
    let entry = |executed: &ExecutedTransaction| RpcLogsResponse {
        signature: executed.signature().to_string(),
        err: executed.meta.status.clone().err().map(Into::into),
        logs: executed.meta.log_messages.clone().unwrap_or_default(),
    };
    let newest = all.filter(|executed| !executed.is_vote).take(limit);
    let entries: Vec<_> = newest.map(|executed| entry(executed)).collect();
    MethodOutput::json_in(context(&view), &entries)
}

pub(super) fn not_served(why: &str) -> MethodResult {
    Err(RpcError::new(-32601, format!("Hydrant does not serve this cheat code: {why}")))
}

fn no_idls(_: &SolanaApi, _: Params<'_>) -> MethodResult {
    not_served("it stores no IDLs; clients read them from the program's account")
}

fn no_scenarios(_: &SolanaApi, _: Params<'_>) -> MethodResult {
    not_served("it has no scenarios; surfnet_setAccount sets an account at once")
}

fn no_confidential(_: &SolanaApi, _: Params<'_>) -> MethodResult {
    not_served("it decrypts no confidential balances")
}
