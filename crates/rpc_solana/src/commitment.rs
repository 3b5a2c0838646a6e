//! The state that a request reads: a commitment, and a minimum slot.

use std::sync::LazyLock;

use chain_solana::View;
use jsonrpc::error::RpcError;
use ledger::{Commitment, Slot};
use response_cache::{ContextFrame, ResultContext};
use solana_commitment_config::{CommitmentConfig, CommitmentLevel};
use solana_rpc_client_types::config::RpcContextConfig;
use solana_rpc_client_types::response::{Response, RpcApiVersion, RpcResponseContext};

use crate::custom_error::RpcCustomError;
use crate::solana_api::SolanaApi;

/// Returns the commitment of a request. Default: finalized.
pub fn level(commitment: Option<CommitmentConfig>) -> Commitment {
    match commitment.unwrap_or_default().commitment {
        CommitmentLevel::Processed => Commitment::Processed,
        CommitmentLevel::Confirmed => Commitment::Confirmed,
        CommitmentLevel::Finalized => Commitment::Finalized,
    }
}

/// Returns the state at a commitment. Default: finalized.
pub fn view(api: &SolanaApi, commitment: Option<CommitmentConfig>) -> View {
    api.reader.view(level(commitment))
}

/// Returns the state at a commitment if it has reached `min_context_slot`; -32016 otherwise.
pub fn view_since(
    api: &SolanaApi,
    commitment: Option<CommitmentConfig>,
    min_context_slot: Option<Slot>,
) -> Result<View, RpcError> {
    let view = view(api, commitment);
    let context_slot = view.block().slot;
    if min_context_slot.is_some_and(|min| context_slot < min) {
        return Err(RpcCustomError::MinContextSlotNotReached { context_slot }.into());
    }
    Ok(view)
}

/// Returns the state that a [`RpcContextConfig`] selects. Default: finalized.
pub fn view_for_config(
    api: &SolanaApi,
    config: Option<RpcContextConfig>,
) -> Result<View, RpcError> {
    let config = config.unwrap_or_default();
    view_since(api, config.commitment, config.min_context_slot)
}

/// Returns the context of a value that was read from `view`.
pub fn context(view: &View) -> ResultContext {
    context_at(view.block().slot)
}

/// Returns the context of a result that is true at a slot.
pub(crate) fn context_at(slot: Slot) -> ResultContext {
    CONTEXT_FRAME.at(slot)
}

/// Agave's context, with the API version. It is cut from a serialized response, so Agave's types determine its shape.
static CONTEXT_FRAME: LazyLock<ContextFrame> = LazyLock::new(|| {
    const SLOT: u64 = u64::MAX; // a number that occurs nowhere else in a context
    let context = RpcResponseContext { slot: SLOT, api_version: Some(RpcApiVersion::default()) };
    let text = serde_json::to_string(&Response { context, value: () }).expect("a context is JSON");
    let (before_slot, rest) = text.split_once(&SLOT.to_string()).expect("a context has its slot");
    let after_slot = rest.strip_suffix("null}").expect("the value is last");
    ContextFrame::new(before_slot, after_slot)
});
