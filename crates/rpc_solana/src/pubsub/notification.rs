//! Notifications as JSON. Shapes and the order of members are Agave's, from its own types.
//!
//! Cost: that of the account's or block's encoding, once for each distinct subscription.
//! Not here: which subscriptions get them (`notifier`).

use chain_solana::{Block, ExecutedTransaction, LedgerEvent, RevertReason, View, Vote};
use ledger::{Address, Slot};
use serde::Serialize;
use solana::{Account, Encoding, Filters, MintInfo, parsed_token};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_account_decoder_client_types::{UiAccount, UiAccountEncoding};
use solana_pubkey::Pubkey;
use solana_rpc_client_types::response::{
    ProcessedSignatureResult, ReceivedSignatureResult, Response, RpcBlockUpdate,
    RpcBlockUpdateError, RpcKeyedAccount, RpcLogsResponse, RpcResponseContext, RpcSignatureResult,
    RpcVote, SlotInfo, SlotTransactionStats, SlotUpdate,
};
use solana_transaction_status::{
    BlockEncodingOptions, ConfirmedBlock, EncodeError, TransactionWithStatusMeta, UiConfirmedBlock,
    UiTransactionEncoding,
};
use subscriptions::SubscriptionId;
use websocket::SharedBytes;

use super::solana_subscriptions::SolanaPubSub;
use super::subscription::{BlockFilter, Subscription};
use crate::stored_transaction::with_meta;

#[derive(Serialize)]
struct Notification<T> {
    jsonrpc: &'static str,
    method: &'static str,
    params: Params<T>,
}

#[derive(Serialize)]
struct Params<T> {
    result: T,
    subscription: u64,
}

/// The text of a notification. `None`, and a log entry, if it cannot be written as JSON.
pub(super) fn text<T: Serialize>(
    pubsub: &SolanaPubSub,
    subscription: &Subscription,
    id: SubscriptionId,
    result: T,
) -> Option<SharedBytes> {
    let notification = Notification {
        jsonrpc: "2.0",
        method: subscription.method(),
        params: Params { result, subscription: id.0 },
    };
    match serde_json::to_string(&notification) {
        Ok(text) => Some(SharedBytes::new(text, pubsub.subscriptions.queue_memory())),
        Err(err) => {
            tracing::error!(%err, ?subscription, "a notification could not be written as JSON");
            None
        }
    }
}

/// A value with the slot at which it is true. Unlike replies over HTTP, without `apiVersion`.
pub(super) fn at<T>(slot: Slot, value: T) -> Response<T> {
    Response { context: RpcResponseContext { slot, api_version: None }, value }
}

/// An account as a block left it; a closed one as an empty account.
pub(super) fn account(
    pubkey: &Pubkey,
    account: Option<&Account>,
    encoding: Encoding,
    view: &View,
) -> UiAccount {
    match account {
        Some(account) => encoding.encode(pubkey, &account.0, |mint| mint_info(view, mint)),
        None => encoding.encode(pubkey, &AccountSharedData::default(), |_| None),
    }
}

/// An account of a program. `None` if the filters leave it out, or if it cannot be parsed as a token account as
/// requested.
pub(super) fn program_account(
    pubkey: &Pubkey,
    account: &Account,
    encoding: Encoding,
    filters: &Filters,
    view: &View,
) -> Option<RpcKeyedAccount> {
    let account = &account.0;
    if !filters.matches(account) {
        return None;
    }
    let mint = |mint: &Pubkey| mint_info(view, mint);
    let is_token = spl_generic_token::is_known_spl_token_id(account.owner());
    let account = if is_token && encoding.form == UiAccountEncoding::JsonParsed {
        parsed_token(pubkey, account, mint)?
    } else {
        encoding.encode(pubkey, account, mint)
    };
    Some(RpcKeyedAccount { pubkey: pubkey.to_string(), account })
}

pub(super) fn mint_info(view: &View, mint: &Pubkey) -> Option<MintInfo> {
    if solana::is_native_mint(mint) {
        return Some(MintInfo::native());
    }
    let record = view.record(&Address::from(mint.to_bytes()))?;
    MintInfo::from_data(record.0.data(), view.meta().unix_timestamp)
}

/// The logs of a transaction; `None` if none were recorded, not even empty ones.
pub(super) fn logs(executed: &ExecutedTransaction) -> Option<RpcLogsResponse> {
    Some(RpcLogsResponse {
        signature: executed.signature().to_string(),
        err: executed.meta.status.clone().err().map(Into::into),
        logs: executed.meta.log_messages.clone()?,
    })
}

/// A signature has reached the requested commitment.
pub(super) fn processed(executed: &ExecutedTransaction) -> Response<RpcSignatureResult> {
    let err = executed.meta.status.clone().err().map(Into::into);
    at(executed.slot, RpcSignatureResult::ProcessedSignature(ProcessedSignatureResult { err }))
}

/// A signature was received.
pub(super) fn received(executed: &ExecutedTransaction) -> Response<RpcSignatureResult> {
    let received = ReceivedSignatureResult::ReceivedSignature;
    at(executed.slot, RpcSignatureResult::ReceivedSignature(received))
}

/// A block, or the error if it cannot be encoded as requested. `None` if no transaction passes the filter.
pub(super) fn block(
    block: &Block,
    filter: BlockFilter,
    encoding: UiTransactionEncoding,
    options: BlockEncodingOptions,
) -> Option<RpcBlockUpdate> {
    let matches = |executed: &&std::sync::Arc<ExecutedTransaction>| match filter {
        BlockFilter::All => true,
        BlockFilter::Mentioning(pubkey) => executed.account_keys.contains(&pubkey),
    };
    let transactions: Vec<_> = block
        .transactions
        .iter()
        .filter(matches)
        .map(|executed| TransactionWithStatusMeta::Complete(with_meta(executed)))
        .collect();
    if transactions.is_empty() && filter != BlockFilter::All {
        return None;
    }
    let slot = block.id.slot;
    let (block, err) = match confirmed(block, transactions).encode_with_options(encoding, options) {
        Ok(block) => (Some(block), None),
        Err(EncodeError::UnsupportedTransactionVersion(version)) => (
            None::<UiConfirmedBlock>,
            Some(RpcBlockUpdateError::UnsupportedTransactionVersion(version)),
        ),
    };
    Some(RpcBlockUpdate { slot, block, err })
}

pub(super) fn confirmed(
    block: &Block,
    transactions: Vec<TransactionWithStatusMeta>,
) -> ConfirmedBlock {
    ConfirmedBlock {
        previous_blockhash: block.previous_blockhash.to_string(),
        blockhash: block.blockhash.to_string(),
        parent_slot: block.parent.slot,
        transactions,
        rewards: block.rewards.clone(),
        num_partitions: block.reward_partitions,
        block_time: Some(block.block_time),
        block_height: Some(block.block_height),
    }
}

/// The `slotSubscribe` notification of a new block.
pub(super) fn slot(slot: Slot, parent: Slot, root: Slot) -> SlotInfo {
    SlotInfo { slot, parent, root }
}

/// The `slotsUpdatesSubscribe` notifications of an event, in order.
pub(super) fn slot_updates(event: &LedgerEvent) -> Vec<SlotUpdate> {
    match event {
        LedgerEvent::BankCreated { block, parent, timestamp_ms, .. } => {
            let slot = block.slot;
            let parent = parent.slot;
            let timestamp = *timestamp_ms;
            vec![SlotUpdate::CreatedBank { slot, parent, timestamp }]
        }
        LedgerEvent::Frozen { block, timestamp_ms, .. } => {
            let slot = block.id.slot;
            let timestamp = *timestamp_ms;
            vec![
                SlotUpdate::Completed { slot, timestamp },
                SlotUpdate::Frozen { slot, timestamp, stats: stats(block) },
            ]
        }
        LedgerEvent::Confirmed { block, timestamp_ms } => {
            let slot = block.id.slot;
            let timestamp = *timestamp_ms;
            vec![SlotUpdate::OptimisticConfirmation { slot, timestamp }]
        }
        LedgerEvent::Rooted { block, timestamp_ms } => {
            vec![SlotUpdate::Root { slot: block.id.slot, timestamp: *timestamp_ms }]
        }
        LedgerEvent::Reverted { block, reason: RevertReason::Dead { error }, timestamp_ms } => {
            let slot = block.id.slot;
            let timestamp = *timestamp_ms;
            let err = error.clone();
            vec![SlotUpdate::Dead { slot, timestamp, err }]
        }
        // Agave reports neither a moved tip nor an abandoned block.
        LedgerEvent::AccountsWritten { .. }
        | LedgerEvent::Executed(_)
        | LedgerEvent::TipMoved { .. }
        | LedgerEvent::BlockFooter { .. }
        | LedgerEvent::Jumped { .. }
        | LedgerEvent::Voted(_)
        | LedgerEvent::Reverted { .. } => Vec::new(),
    }
}

/// Each transaction counts as one entry: nothing here batches them.
fn stats(block: &Block) -> SlotTransactionStats {
    let all = block.transactions.len() as u64;
    let failed =
        block.transactions.iter().filter(|executed| executed.meta.status.is_err()).count() as u64;
    SlotTransactionStats {
        num_transaction_entries: all,
        num_successful_transactions: all - failed,
        num_failed_transactions: failed,
        max_transactions_per_entry: all.min(1),
    }
}

/// A vote.
pub(super) fn vote(vote: &Vote) -> RpcVote {
    RpcVote {
        vote_pubkey: vote.vote_pubkey.to_string(),
        slots: vote.slots.clone(),
        hash: vote.hash.to_string(),
        timestamp: vote.timestamp,
        signature: vote.signature.to_string(),
    }
}
