//! Values of parameters for the OpenAPI document: those that every node accepts, and those that one node can serve.
//!
//! Bounds: up to [`BLOCKS_MAX`] blocks are searched for a transaction.

use ledger::Commitment;
use rest::Examples;
use rpc_solana::SolanaServer;
use serde_json::{Value, json};

/// Addresses that exist on every Solana ledger, so that the examples work.
const ADDRESSES: [&str; 2] =
    ["TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "SysvarC1ock11111111111111111111111111111111"];

/// A mint that exists on every Solana ledger: lamports as tokens.
const MINT: &str = "So11111111111111111111111111111111111111112";

/// A transaction that moves nothing. It has no valid signature, so it is decoded and refused.
const TRANSACTION: &str = concat!(
    "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABAAECAQEBAQEBAQEB",
    "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "AAAAAAAAAAAAAA==",
);

/// Finalized blocks that are searched for a transaction, newest first.
const BLOCKS_MAX: usize = 256;

pub(crate) fn addresses() -> Value {
    json!(ADDRESSES)
}

pub(crate) fn program() -> Value {
    ADDRESSES[0].into()
}

pub(crate) fn mint() -> Value {
    MINT.into()
}

pub(crate) fn transaction() -> Value {
    TRANSACTION.into()
}

pub(crate) fn filters() -> Value {
    json!([{ "dataSize": 165 }])
}

/// The slot of a finalized block, and the signature of a transaction in it.
pub(crate) fn collect_examples(server: &SolanaServer) -> Examples {
    let history = server.api.history.snapshot();
    let mut newest = history.blocks(.., Commitment::Finalized).rev().take(BLOCKS_MAX);
    let Some(first) = newest.next() else { return Examples::default() };
    let with_transaction = std::iter::once(first).chain(newest).find_map(|block| {
        let signature = block.transactions.first()?.signature().to_string();
        let slot = Value::from(block.id.slot);
        Some([("slot", slot), ("signature", signature.into())].into_iter().collect())
    });
    with_transaction.unwrap_or_else(|| [("slot", first.id.slot.into())].into_iter().collect())
}

/// Whether the node can still serve all examples, and would find no more of them.
pub(crate) fn are_available(server: &SolanaServer, examples: &Examples) -> bool {
    let slot = examples.get("slot").and_then(Value::as_u64);
    let history = server.api.history.snapshot();
    let is_retained = slot.is_some_and(|slot| history.block(slot, Commitment::Finalized).is_some());
    is_retained && examples.get("signature").is_some()
}
