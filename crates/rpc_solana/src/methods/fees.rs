//! The fee of a message, and recent prioritization fees.
//!
//! Bounds: [`BLOCKS_MAX`] blocks with transactions other than votes, from the last [`BLOCKS_SCANNED_MAX`] blocks.
//! Agave has the same number of blocks, but of any age.

use std::collections::{HashMap, HashSet};

use chain_solana::{Block, ExecutedTransaction};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodOutput, MethodResult, MethodSpec};
use ledger::Commitment;
use solana_feature_set::FeatureSet;
use solana_fee::FeeFeatures;
use solana_message::{SanitizedMessage, SanitizedVersionedMessage, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_rpc_client_types::config::RpcContextConfig;
use solana_rpc_client_types::response::RpcPrioritizationFee;
use solana_runtime_transaction::runtime_transaction::RuntimeTransaction;
use solana_runtime_transaction::transaction_meta::{TransactionConfiguration, TransactionMeta};
use solana_sdk_ids::compute_budget;
use solana_transaction::sanitized::{MAX_TX_ACCOUNT_LOCKS, MessageHash};
use solana_transaction::versioned::sanitized::SanitizedVersionedTransaction;
use solana_transaction_status::TransactionBinaryEncoding;

use super::{accounts_reader, parse_key, transaction_codec};
use crate::commitment::{context, view_for_config};
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    MethodSpec::new("getFeeForMessage", Execution::Inline, fee_for_message),
    MethodSpec::new("getRecentPrioritizationFees", Execution::Medium, recent_prioritization_fees),
];

/// Maximum number of blocks in a result: one minute of 400 ms slots if none is skipped.
const BLOCKS_MAX: usize = 150;
/// Maximum number of scanned blocks: ten minutes of 400 ms slots.
const BLOCKS_SCANNED_MAX: usize = 1_500;

fn fee_for_message(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (text, config): (String, Option<RpcContextConfig>) = params.parse(1)?;
    let message: VersionedMessage =
        transaction_codec::decode(&text, TransactionBinaryEncoding::Base64)?;
    let view = view_for_config(api, config)?;
    let invalid =
        |err: String| RpcError::invalid_params(format!("invalid transaction message: {err}"));
    let message =
        SanitizedVersionedMessage::try_from(message).map_err(|err| invalid(err.to_string()))?;
    let tables = transaction_codec::LookupTables(&view);
    let message = SanitizedMessage::try_new(message, tables, &transaction_codec::RESERVED.active)
        .map_err(|err| invalid(err.to_string()))?;
    let is_known = view.meta().blockhashes.age(message.recent_blockhash()).is_some()
        || names_its_nonce(&message, &view);
    let lamports_per_signature = api.cluster_info.lamports_per_signature;
    let features = api.cluster.features();
    let fee = is_known.then(|| fee(&message, lamports_per_signature, &features)).flatten();
    MethodOutput::json_in(context(&view), &fee)
}

/// Whether the message's blockhash is the durable nonce that it advances.
fn names_its_nonce(message: &SanitizedMessage, view: &chain_solana::View) -> bool {
    let account = message.get_durable_nonce().and_then(|key| accounts_reader::account(view, key));
    account.is_some_and(|account| {
        solana_nonce_account::verify_nonce_account(&account.0, message.recent_blockhash()).is_some()
    })
}

/// Returns the fee for the signatures, including those that precompiles check, and for the requested priority.
fn fee(
    message: &SanitizedMessage,
    lamports_per_signature: u64,
    features: &FeatureSet,
) -> Option<u64> {
    let config = TransactionConfiguration::try_from_sanitized_message(message, features);
    let priority = config.ok()?.priority_fee_lamports;
    let features = FeeFeatures::from(features);
    Some(solana_fee::calculate_fee(message, lamports_per_signature, priority, features))
}

fn recent_prioritization_fees(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (texts,): (Option<Vec<String>>,) = params.parse(0)?;
    let texts = texts.unwrap_or_default();
    if texts.len() > MAX_TX_ACCOUNT_LOCKS {
        let message = format!("Too many inputs provided; max {MAX_TX_ACCOUNT_LOCKS}");
        return Err(RpcError::invalid_params(message));
    }
    let accounts: HashSet<Pubkey> = parse_key::pubkeys(&texts)?.into_iter().collect();
    let history = api.history.snapshot();
    let newest_first = history.blocks(.., Commitment::Confirmed).rev().take(BLOCKS_SCANNED_MAX);
    let features = api.cluster.features();
    let fees = newest_first.filter_map(|block| block_fee(block, &accounts, &features));
    let mut fees: Vec<RpcPrioritizationFee> = fees.take(BLOCKS_MAX).collect();
    fees.reverse();
    MethodOutput::json(&fees)
}

/// Returns the lowest price of a transaction in a block. If all transactions that write to one of `accounts` paid more,
/// returns the lowest price of these. `None` for a block of votes only.
fn block_fee(
    block: &Block,
    accounts: &HashSet<Pubkey>,
    features: &FeatureSet,
) -> Option<RpcPrioritizationFee> {
    let mut floor: Option<u64> = None;
    let mut lowest_by_account: HashMap<&Pubkey, u64> = HashMap::new();
    for executed in block.transactions.iter().filter(|executed| !executed.is_vote) {
        let written: Vec<&Pubkey> = select_written(executed, accounts).collect();
        if floor == Some(0) && written.is_empty() {
            continue;
        }
        let Some(price) = price(executed, features) else { continue };
        floor = Some(floor.map_or(price, |floor| floor.min(price)));
        for pubkey in written {
            let lowest = lowest_by_account.entry(pubkey).or_insert(price);
            *lowest = price.min(*lowest);
        }
    }
    let highest = lowest_by_account.into_values().max().unwrap_or(0);
    Some(RpcPrioritizationFee { slot: block.id.slot, prioritization_fee: floor?.max(highest) })
}

/// Returns the price in microlamports per compute unit; `None` if the transaction requests no compute units.
pub(super) fn price(executed: &ExecutedTransaction, features: &FeatureSet) -> Option<u64> {
    let message = &executed.transaction.message;
    let is_v1 = matches!(message, VersionedMessage::V1(_));
    if !is_v1 && !message.static_account_keys().contains(&compute_budget::ID) {
        return Some(0);
    }
    let transaction = executed.transaction.clone();
    let transaction = SanitizedVersionedTransaction::try_from(transaction).ok()?;
    // The hash is not used here, so none is computed.
    let hash = MessageHash::Precomputed(Default::default());
    let transaction = RuntimeTransaction::<SanitizedVersionedTransaction>::try_from(
        transaction,
        hash,
        Some(executed.is_vote),
    );
    let config = transaction.ok()?.transaction_configuration(features).ok()?;
    (config.compute_unit_limit > 0).then(|| config.compute_unit_price_in_microlamports())
}

/// Selects those of `accounts` that a transaction may write to.
pub(super) fn select_written<'a>(
    executed: &'a ExecutedTransaction,
    accounts: &'a HashSet<Pubkey>,
) -> impl Iterator<Item = &'a Pubkey> {
    let message = &executed.transaction.message;
    let static_len = message.static_account_keys().len();
    let loaded_end = static_len + executed.meta.loaded_addresses.writable.len();
    let is_writable = move |index: usize, pubkey: &Pubkey| {
        let reserved = &transaction_codec::RESERVED.active;
        if index < static_len {
            return message.is_maybe_writable_with_reserved_addresses(index, Some(reserved));
        }
        index < loaded_end && !reserved.contains(pubkey)
    };
    let keys = if accounts.is_empty() { &[][..] } else { &executed.account_keys[..] };
    let named = keys.iter().enumerate().filter(|(_, pubkey)| accounts.contains(*pubkey));
    named.filter(move |(index, pubkey)| is_writable(*index, pubkey)).map(|(_, pubkey)| pubkey)
}
