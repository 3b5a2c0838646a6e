//! Statuses of transactions, by signature.
//!
//! As in Agave, a transaction older than the status cache is found only with `searchTransactionHistory`. The
//! confirmations of a transaction are the number of complete blocks above its own: a vote for a block is in the
//! next one.
//!
//! A failed transaction of the open block has no status yet. Clients subscribe to a signature and then request
//! its status once. web3.js rejects with the raw error of that status, but makes a proper error of the notification.
//! In Agave the request arrives before the transaction is executed; here it arrives after it. So the status waits
//! until the block is complete: the notification is sent first.

use chain_solana::{ExecutedTransaction, RECENT_BLOCKHASHES_MAX, is_rooted};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodOutput, MethodResult, MethodSpec};
use query::CommitmentViews;
use solana_rpc_client_types::config::RpcSignatureStatusConfig;
use solana_rpc_client_types::request::MAX_GET_SIGNATURE_STATUSES_QUERY_ITEMS;
use solana_signature::Signature;
use solana_transaction_status::{TransactionConfirmationStatus, TransactionStatus};

use super::parse_key;
use crate::commitment::context;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] =
    &[MethodSpec::new("getSignatureStatuses", Execution::Inline, statuses)];

fn statuses(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (texts, config): (Vec<String>, Option<RpcSignatureStatusConfig>) = params.parse(1)?;
    if texts.len() > MAX_GET_SIGNATURE_STATUSES_QUERY_ITEMS {
        return Err(RpcError::invalid_params(format!(
            "Too many inputs provided; max {MAX_GET_SIGNATURE_STATUSES_QUERY_ITEMS}"
        )));
    }
    let signatures: Vec<Signature> =
        texts.iter().map(|text| parse_key::signature(text)).collect::<Result<_, _>>()?;
    let searches = config.is_some_and(|config| config.search_transaction_history);
    let views = api.reader.views();
    let history = api.history.snapshot();
    let oldest_known = views.finalized.block().slot.saturating_sub(RECENT_BLOCKHASHES_MAX as u64);
    let statuses: Vec<Option<TransactionStatus>> = signatures
        .iter()
        .map(|signature| {
            history
                .transaction(signature)
                .filter(|executed| searches || executed.slot >= oldest_known)
                .filter(|executed| executed.slot <= views.processed.block().slot)
                // The next block is opened after the subscribers of this block are notified.
                .filter(|executed| {
                    executed.meta.status.is_ok() || executed.slot < views.processed.block().slot
                })
                .map(|executed| status(executed, &views))
        })
        .collect();
    MethodOutput::json_in(context(&views.processed), &statuses)
}

/// The status of a transaction, in one version of the views.
fn status(
    executed: &ExecutedTransaction,
    views: &CommitmentViews<solana::Account, chain_solana::BlockInfo>,
) -> TransactionStatus {
    let slot = executed.slot;
    let confirmed = views.confirmed.block().slot;
    let (confirmations, confirmation_status) = if is_rooted(slot, views.finalized.block().slot) {
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
