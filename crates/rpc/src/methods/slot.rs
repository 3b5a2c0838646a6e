//! Slot, block height, transaction count and blockhash of a view.

use std::str::FromStr;

use solana_hash::Hash;
use solana_rpc_client_types::response::RpcBlockhash;

use super::output::write_json;
use super::{Class, Method, MethodOutput, MethodResult};
use crate::commitment::{view_of, with_context};
use crate::error::RpcError;
use crate::fast_config;
use crate::node::Node;
use crate::params::Params;

pub(super) const METHODS: &[Method] = &[
    Method { name: "getSlot", class: Class::Inline, run: slot },
    Method { name: "getBlockHeight", class: Class::Inline, run: block_height },
    Method { name: "getTransactionCount", class: Class::Inline, run: transaction_count },
    Method { name: "getLatestBlockhash", class: Class::Inline, run: latest_blockhash },
    Method { name: "isBlockhashValid", class: Class::Inline, run: is_blockhash_valid },
];

fn slot(node: &Node, params: Params<'_>) -> MethodResult {
    let config = fast_config::context(params)?;
    MethodOutput::json(&view_of(node, config)?.block().slot)
}

fn block_height(node: &Node, params: Params<'_>) -> MethodResult {
    let config = fast_config::context(params)?;
    MethodOutput::json(&view_of(node, config)?.meta().block_height)
}

fn transaction_count(node: &Node, params: Params<'_>) -> MethodResult {
    let config = fast_config::context(params)?;
    MethodOutput::json(&view_of(node, config)?.meta().transaction_count)
}

fn latest_blockhash(node: &Node, params: Params<'_>) -> MethodResult {
    let config = fast_config::context(params)?;
    let view = view_of(node, config)?;
    let blockhash = view.meta().last_blockhash();
    let last_valid_block_height = view.meta().last_valid_block_height(&blockhash);
    let value = RpcBlockhash {
        blockhash: blockhash.to_string(),
        // The newest hash has age 0, so it has a last valid height.
        last_valid_block_height: last_valid_block_height.ok_or_else(RpcError::internal)?,
    };
    MethodOutput::with_context(&view, |out| write_json(out, &value))
}

fn is_blockhash_valid(node: &Node, params: Params<'_>) -> MethodResult {
    let (text, config) = fast_config::key_and_context(params)?;
    // Agave writes this error without "Invalid param".
    let blockhash =
        Hash::from_str(&text).map_err(|err| RpcError::invalid_params(format!("{err:?}")))?;
    let view = view_of(node, config)?;
    let is_valid = view.meta().blockhashes.is_valid(&blockhash);
    MethodOutput::json(&with_context(&view, is_valid))
}
