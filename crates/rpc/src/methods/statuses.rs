//! What became of transactions, by signature.
//!
//! As on Agave, what is older than the status cache is found only by a search. The confirmations of a
//! transaction are the complete blocks above its own: a vote for a block is in the next one.
//!
//! A failed transaction of the open block is not there yet. Clients subscribe to a signature and then ask
//! once for its status; web3.js rejects with whatever error it finds there, and makes a proper one of what
//! the subscription tells. On Agave a transaction takes longer to the block than the client to the
//! question; here it has been executed by then. So the subscription comes first, when the block is complete.

use chain_solana::{ExecutedTransaction, RECENT_BLOCKHASHES_MAX};
use query::CommitmentViews;
use solana_rpc_client_types::config::RpcSignatureStatusConfig;
use solana_rpc_client_types::request::MAX_GET_SIGNATURE_STATUSES_QUERY_ITEMS;
use solana_signature::Signature;
use solana_transaction_status::{TransactionConfirmationStatus, TransactionStatus};

use super::{Class, Method, MethodOutput, MethodResult, parse_key};
use crate::commitment::with_context;
use crate::error::RpcError;
use crate::node::Node;
use crate::params::Params;

pub(super) const METHODS: &[Method] =
    &[Method { name: "getSignatureStatuses", class: Class::Inline, run: statuses }];

fn statuses(node: &Node, params: Params<'_>) -> MethodResult {
    let (texts, config): (Vec<String>, Option<RpcSignatureStatusConfig>) = params.parse(1)?;
    if texts.len() > MAX_GET_SIGNATURE_STATUSES_QUERY_ITEMS {
        return Err(RpcError::invalid_params(format!(
            "Too many inputs provided; max {MAX_GET_SIGNATURE_STATUSES_QUERY_ITEMS}"
        )));
    }
    let signatures: Vec<Signature> =
        texts.iter().map(|text| parse_key::signature(text)).collect::<Result<_, _>>()?;
    let searches = config.is_some_and(|config| config.search_transaction_history);
    let views = node.reader.views();
    let history = node.history.snapshot();
    let oldest_known = views.finalized.block().slot.saturating_sub(RECENT_BLOCKHASHES_MAX as u64);
    let statuses: Vec<Option<TransactionStatus>> = signatures
        .iter()
        .map(|signature| {
            history
                .transaction(signature)
                .filter(|executed| searches || executed.slot >= oldest_known)
                .filter(|executed| executed.slot <= views.processed.block().slot)
                // The next block is opened after subscribers were told of the one before.
                .filter(|executed| {
                    executed.meta.status.is_ok() || executed.slot < views.processed.block().slot
                })
                .map(|executed| status(executed, &views))
        })
        .collect();
    MethodOutput::json(&with_context(&views.processed, statuses))
}

/// How sure a transaction is, at one moment.
fn status(
    executed: &ExecutedTransaction,
    views: &CommitmentViews<solana::Account, chain_solana::BlockInfo>,
) -> TransactionStatus {
    let slot = executed.slot;
    let confirmed = views.confirmed.block().slot;
    let (confirmations, confirmation_status) = if slot <= views.finalized.block().slot {
        (None, TransactionConfirmationStatus::Finalized)
    } else if slot <= confirmed {
        (Some((confirmed - slot) as usize), TransactionConfirmationStatus::Confirmed)
    } else {
        (Some(0), TransactionConfirmationStatus::Processed)
    };
    TransactionStatus {
        slot,
        confirmations,
        status: executed.meta.status.clone(),
        err: executed.meta.status.clone().err(),
        confirmation_status: Some(confirmation_status),
    }
}
