//! Statuses of transactions, by signature.
//!
//! As in Agave, a transaction older than the status cache is found only with `searchTransactionHistory`. The
//! confirmations of a transaction are the number of complete blocks above its own: a vote for a block is in the
//! next one.
//!
//! A failed transaction of the open block has no status yet. Clients subscribe to a signature and then request
//! its status once. web3.js rejects with the raw error of that status, but makes a proper error of the notification.
//! In Agave the request arrives before the transaction is executed; here it arrives after it. So the status waits
//! until the block is complete: the notification is sent first. For the same reason it is a processed one until the
//! notifications of its confirmed block are sent.

use chain_solana::{ExecutedTransaction, HistorySnapshot, RECENT_BLOCKHASHES_MAX};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodOutput, MethodResult, MethodSpec};
use ledger::{Commitment, Slot};
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
    let processed = api.reader.view(Commitment::Processed);
    let reached = processed.block().slot;
    let history = api.history.snapshot();
    let root = history.newest_slot(Commitment::Finalized);
    let oldest_known = root.saturating_sub(RECENT_BLOCKHASHES_MAX as u64);
    let statuses: Vec<Option<TransactionStatus>> = signatures
        .iter()
        .map(|signature| {
            history
                .transaction(signature, Commitment::Processed)
                .filter(|executed| searches || executed.slot >= oldest_known)
                .filter(|executed| executed.slot <= reached)
                // The next block is opened after the subscribers of this block are notified.
                .filter(|executed| executed.meta.status.is_ok() || executed.slot < reached)
                .map(|executed| status(api, &history, executed))
                .or_else(|| older_status(api, signature, oldest_known))
        })
        .collect();
    MethodOutput::json_in(context(&processed), &statuses)
}

/// The status of a transaction that was executed before the history begins, as long as Agave would know it.
fn older_status(
    api: &SolanaApi,
    signature: &Signature,
    oldest_known: Slot,
) -> Option<TransactionStatus> {
    let (slot, status) = api.older_statuses.as_ref()?.find(signature)?;
    let err = status.clone().err();
    (slot >= oldest_known).then_some(TransactionStatus {
        slot,
        confirmations: None,
        status,
        err,
        confirmation_status: Some(TransactionConfirmationStatus::Finalized),
    })
}

/// The status of a transaction on the chain of the processed block.
fn status(
    api: &SolanaApi,
    history: &HistorySnapshot,
    executed: &ExecutedTransaction,
) -> TransactionStatus {
    let slot = executed.slot;
    let commitment = match history.commitment(slot) {
        Commitment::Confirmed if executed.meta.status.is_err() && !api.notified.contains(slot) => {
            Commitment::Processed
        }
        commitment => commitment,
    };
    let (confirmations, confirmation_status) = match commitment {
        Commitment::Finalized => (None, TransactionConfirmationStatus::Finalized),
        Commitment::Confirmed => {
            let above = history.newest_slot(Commitment::Confirmed) - slot;
            (Some(above as usize), TransactionConfirmationStatus::Confirmed)
        }
        Commitment::Processed => (Some(0), TransactionConfirmationStatus::Processed),
    };
    TransactionStatus {
        slot,
        confirmations,
        status: executed.meta.status.clone(),
        err: executed.meta.status.clone().err(),
        confirmation_status: Some(confirmation_status),
    }
}
