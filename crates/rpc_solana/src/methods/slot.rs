//! Slot, block height, transaction count and blockhash of a view.

use std::str::FromStr;

use chain_solana::{BlockInfo, View};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodOutput, MethodResult, MethodSpec};
use ledger::Slot;
use response_cache::Dependencies;
use solana_hash::Hash;
use solana_rpc_client_types::response::RpcBlockhash;

use crate::commitment::{context, level, view_for_config};
use crate::fast_config;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    MethodSpec::new("getSlot", Execution::Inline, slot)
        .with_revalidation_dependencies(block_dependency),
    MethodSpec::new("getBlockHeight", Execution::Inline, block_height),
    MethodSpec::new("getTransactionCount", Execution::Inline, transaction_count),
    MethodSpec::new("getLatestBlockhash", Execution::Inline, latest_blockhash)
        .with_revalidation_dependencies(block_dependency),
    MethodSpec::new("isBlockhashValid", Execution::Inline, is_blockhash_valid),
];

/// Returns the dependency of a result about the newest block at a commitment.
pub(super) fn block_dependency(_: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    let config = fast_config::context(params).ok()?.unwrap_or_default();
    let commitment = level(config.commitment);
    Some(Dependencies::none(commitment, config.min_context_slot).with_block_if(true))
}

fn slot(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let config = fast_config::context(params)?;
    let min_slot = config.as_ref().and_then(|config| config.min_context_slot).unwrap_or(0);
    let view = view_for_config(api, config)?;
    MethodOutput::json(&newest_recent_slot(api, &view).max(min_slot))
}

/// Returns the newest slot that the next transaction finds in its recent slots. A ledger without a clock has an open
/// block that waits for that transaction: its own slot is not recent in it, so `createLookupTable` would refuse the
/// slot.
fn newest_recent_slot(api: &SolanaApi, view: &View) -> Slot {
    let BlockInfo { block, parent, complete, .. } = **view.meta();
    let waits = api.cluster_info.slot_ms == 0 && !complete && parent.slot + 1 == block.slot;
    if waits { parent.slot } else { block.slot }
}

fn block_height(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let config = fast_config::context(params)?;
    MethodOutput::json(&view_for_config(api, config)?.meta().block_height)
}

fn transaction_count(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let config = fast_config::context(params)?;
    MethodOutput::json(&view_for_config(api, config)?.meta().transaction_count)
}

fn latest_blockhash(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let config = fast_config::context(params)?;
    let view = view_for_config(api, config)?;
    let blockhash = view.meta().last_blockhash();
    let last_valid_block_height = view.meta().last_valid_block_height(&blockhash);
    let value = RpcBlockhash {
        blockhash: blockhash.to_string(),
        // The newest hash has age 0, so it has a last valid height.
        last_valid_block_height: last_valid_block_height.ok_or_else(RpcError::internal)?,
    };
    MethodOutput::json_in(context(&view), &value)
}

fn is_blockhash_valid(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (text, config) = fast_config::key_and_context(params)?;
    // Agave writes this error without "Invalid param".
    let blockhash =
        Hash::from_str(&text).map_err(|err| RpcError::invalid_params(format!("{err:?}")))?;
    let view = view_for_config(api, config)?;
    let is_valid = view.meta().blockhashes.is_valid(&blockhash);
    MethodOutput::json_in(context(&view), &is_valid)
}
