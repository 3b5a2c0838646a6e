//! The state that a request reads: a commitment, and a minimum slot.

use std::sync::LazyLock;

use chain_solana::View;
use ledger::{Commitment, Slot};
use solana_commitment_config::{CommitmentConfig, CommitmentLevel};
use solana_rpc_client_types::config::RpcContextConfig;
use solana_rpc_client_types::response::{Response, RpcApiVersion, RpcResponseContext};

use crate::custom_error::RpcCustomError;
use crate::error::RpcError;
use crate::node::Node;

/// The commitment of a request. Default: finalized.
pub fn level(commitment: Option<CommitmentConfig>) -> Commitment {
    match commitment.unwrap_or_default().commitment {
        CommitmentLevel::Processed => Commitment::Processed,
        CommitmentLevel::Confirmed => Commitment::Confirmed,
        CommitmentLevel::Finalized => Commitment::Finalized,
    }
}

/// The state at a commitment.
pub fn view(node: &Node, commitment: Option<CommitmentConfig>) -> View {
    node.reader.view(level(commitment))
}

/// The state at a commitment, if it has reached `min_context_slot`; -32016 if not.
pub fn view_since(
    node: &Node,
    commitment: Option<CommitmentConfig>,
    min_context_slot: Option<Slot>,
) -> Result<View, RpcError> {
    let view = view(node, commitment);
    let context_slot = view.block().slot;
    if min_context_slot.is_some_and(|min| context_slot < min) {
        return Err(RpcCustomError::MinContextSlotNotReached { context_slot }.into());
    }
    Ok(view)
}

/// The state that a [`RpcContextConfig`] selects. Default: finalized.
pub fn view_of(node: &Node, config: Option<RpcContextConfig>) -> Result<View, RpcError> {
    let config = config.unwrap_or_default();
    view_since(node, config.commitment, config.min_context_slot)
}

/// The slot at which a result is true, and the API version.
pub fn context(slot: Slot) -> RpcResponseContext {
    static VERSION: LazyLock<RpcApiVersion> = LazyLock::new(RpcApiVersion::default);
    RpcResponseContext { slot, api_version: Some(VERSION.clone()) }
}

/// A value with the context of the state that it was read from.
pub fn with_context<T>(view: &View, value: T) -> Response<T> {
    Response { context: context(view.block().slot), value }
}
