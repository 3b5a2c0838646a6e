//! Transactions of the history, by signature and by address.
//!
//! Bounds: [`MAX_GET_CONFIRMED_SIGNATURES_FOR_ADDRESS2_LIMIT`] signatures per result.

use std::ops::Range;
use std::sync::Arc;

use chain_solana::{ExecutedTransaction, HistorySnapshot, TransactionPosition};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodOutput, MethodResult, MethodSpec, RawValue};
use ledger::{Address, Commitment, Slot};
use response_cache::Dependencies;
use solana_pubkey::Pubkey;
use solana_rpc_client_types::config::{
    RpcContextConfig, RpcEncodingConfigWrapper, RpcSignaturesForAddressConfig, RpcTransactionConfig,
};
use solana_rpc_client_types::request::MAX_GET_CONFIRMED_SIGNATURES_FOR_ADDRESS2_LIMIT;
use solana_rpc_client_types::response::RpcConfirmedTransactionStatusWithSignature;
use solana_signature::Signature;
use solana_transaction_status::{
    EncodedConfirmedTransactionWithStatusMeta, TransactionConfirmationStatus,
    UiTransactionEncoding, extract_and_fmt_memos,
};

use super::encode_transaction::{check_version, encode};
use super::{blocks, parse_key};
use crate::commitment::level;
use crate::custom_error::RpcCustomError;
use crate::solana_api::SolanaApi;
use crate::stored_transaction::with_meta;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    MethodSpec::new("getTransaction", Execution::Light, transaction)
        .with_cache_dependencies(dependencies)
        .with_revalidation_dependencies(transaction_dependency),
    MethodSpec::new("getSignaturesForAddress", Execution::Medium, signatures_for_address)
        .with_revalidation_dependencies(page_dependency),
];

fn transaction(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    type TransactionParams = (String, Option<RpcEncodingConfigWrapper<RpcTransactionConfig>>);
    let (signature, config): TransactionParams = params.parse(1)?;
    let signature = parse_key::signature(&signature)?;
    let config = config.map(|config| config.convert_to_current()).unwrap_or_default();
    let commitment = blocks::at_least_confirmed(config.commitment)?;
    let history = api.history.snapshot();
    let Some(executed) = history.transaction(&signature, commitment) else {
        return MethodOutput::json(&None::<EncodedConfirmedTransactionWithStatusMeta>);
    };
    executed.show_status();
    if params.wants_raw() {
        return raw_transaction(executed, config.max_supported_transaction_version);
    }
    let encoding = config.encoding.unwrap_or(UiTransactionEncoding::Json);
    MethodOutput::json(&encode(executed, encoding, config.max_supported_transaction_version)?)
}

/// Returns a transaction as it was sent. Its version is checked as Agave checks that of an encoded one.
fn raw_transaction(executed: &ExecutedTransaction, version_max: Option<u8>) -> MethodResult {
    check_version(executed, version_max)?;
    let bytes = wincode::serialize(&executed.transaction).map_err(|_| RpcError::internal())?;
    let value = RawValue { slot: executed.slot, fields: Vec::new(), bytes: bytes.into() };
    Ok(MethodOutput::raw(value))
}

/// Returns the dependencies of a result. A finalized transaction never changes while it is retained, unless a local
/// ledger reverts its block: then everything at finalized counts as changed, including an account that no transaction
/// writes.
fn dependencies(api: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    type TransactionParams = (String, Option<RpcEncodingConfigWrapper<RpcTransactionConfig>>);
    let (signature, _): TransactionParams = params.parse(1).ok()?;
    let signature = parse_key::signature(&signature).ok()?;
    let is_final = move |api: &SolanaApi| {
        api.history.snapshot().transaction(&signature, Commitment::Finalized).is_some()
    };
    if !is_final(api) {
        return None;
    }
    let unwritten = Address::from(solana_sdk_ids::system_program::ID.to_bytes());
    let dependencies = Dependencies::none(Commitment::Finalized, None).with_records([unwritten])?;
    Some(dependencies.with_precondition(is_final))
}

/// Returns the dependency of a result that a client has: the block, by its hash.
fn transaction_dependency(_: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    type TransactionParams = (String, Option<RpcEncodingConfigWrapper<RpcTransactionConfig>>);
    let (signature, config): TransactionParams = params.parse(1).ok()?;
    let signature = parse_key::signature(&signature).ok()?;
    let config = config.map(|config| config.convert_to_current()).unwrap_or_default();
    let commitment = blocks::at_least_confirmed(config.commitment).ok()?;
    let hash = move |api: &SolanaApi| {
        let history = api.history.snapshot();
        let executed = history.transaction(&signature, commitment)?;
        Some(history.block(executed.slot, commitment)?.blockhash.to_bytes())
    };
    Some(Dependencies::none(commitment, None).immutable(hash))
}

fn signatures_for_address(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let query = SignatureQuery::parse(params)?;
    let (history, newest) = query.history(api)?;
    let positions = query.positions(&history, newest)?;
    let found: Vec<RpcConfirmedTransactionStatusWithSignature> = history
        .signatures_for_address(&query.address)
        .map(|entries| {
            let page = entries.focus().narrow(positions).into_iter().rev();
            page.filter_map(|entry| history.transaction_at(*entry))
                .map(|executed| signature_status(&history, executed))
                .collect()
        })
        .unwrap_or_default();
    MethodOutput::json(&found)
}

/// Returns the dependencies of a page of signatures that a client has: its ends, the block of the newest one, which
/// identifies all blocks before it, and their commitment.
fn page_dependency(_: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    let query = SignatureQuery::parse(params).ok()?;
    let commitment = level(query.context.commitment);
    let dependencies = Dependencies::none(commitment, query.context.min_context_slot);
    Some(dependencies.immutable(move |api| query.hash(api)))
}

/// A page of the signatures of an address.
struct SignatureQuery {
    address: Pubkey,
    before: Option<Signature>,
    until: Option<Signature>,
    limit: usize,
    context: RpcContextConfig,
}

impl SignatureQuery {
    fn parse(params: Params<'_>) -> Result<Self, RpcError> {
        let (address, config): (String, Option<RpcSignaturesForAddressConfig>) = params.parse(1)?;
        let config = config.unwrap_or_default();
        let address = parse_key::pubkey(&address)?;
        let before = config.before.as_deref().map(parse_key::signature).transpose()?;
        let until = config.until.as_deref().map(parse_key::signature).transpose()?;
        let limit = config.limit.unwrap_or(MAX_GET_CONFIRMED_SIGNATURES_FOR_ADDRESS2_LIMIT);
        if limit == 0 || limit > MAX_GET_CONFIRMED_SIGNATURES_FOR_ADDRESS2_LIMIT {
            return Err(RpcError::invalid_params(format!(
                "Invalid limit; max {MAX_GET_CONFIRMED_SIGNATURES_FOR_ADDRESS2_LIMIT}"
            )));
        }
        let context = RpcContextConfig {
            commitment: config.commitment,
            min_context_slot: config.min_context_slot,
        };
        Ok(Self { address, before, until, limit, context })
    }

    /// Returns the history, and the newest slot that the page may include.
    fn history(&self, api: &SolanaApi) -> Result<(Arc<HistorySnapshot>, Slot), RpcError> {
        let (history, _, newest) = blocks::confirmed_history(api, self.context)?;
        Ok((history, newest))
    }

    /// Returns the indices of the page in the list of the address.
    fn positions(&self, history: &HistorySnapshot, newest: Slot) -> Result<Range<usize>, RpcError> {
        let find = |signature: &Signature| find_position(history, signature, newest);
        let before = self.before.as_ref().map(find).transpose()?;
        let until = self.until.as_ref().map(find).transpose()?;
        let end = TransactionPosition { slot: newest.saturating_add(1), index: 0 };
        let end = before.unwrap_or(end);
        let Some(entries) = history.signatures_for_address(&self.address) else { return Ok(0..0) };
        let count = entries.binary_search(&end).unwrap_or_else(|insert_at| insert_at);
        // The entries newer than `until`.
        let first = until.map_or(0, |until| match entries.binary_search(&until) {
            Ok(at) => at + 1,
            Err(insert_at) => insert_at,
        });
        Ok(first.max(count.saturating_sub(self.limit)).min(count)..count)
    }

    /// Returns a hash of the page's dependencies. `None` without a page.
    fn hash(&self, api: &SolanaApi) -> Option<[u8; 32]> {
        let (history, newest) = self.history(api).ok()?;
        let positions = self.positions(&history, newest).ok()?;
        let mut hasher = blake3::Hasher::new();
        let entries = history.signatures_for_address(&self.address);
        let entries = entries.filter(|_| !positions.is_empty());
        let ends = entries.and_then(|entries| {
            Some((*entries.get(positions.start)?, *entries.get(positions.end - 1)?))
        });
        if let Some((oldest, newest)) = ends {
            let block = history.block(newest.slot, Commitment::Processed)?;
            hasher.update(block.blockhash.as_ref());
            let tips = [Commitment::Confirmed, Commitment::Finalized];
            let [confirmed, root] = tips.map(|tip| history.newest_slot(tip).min(newest.slot));
            for number in [oldest.slot, newest.slot, confirmed, root, positions.len() as u64] {
                hasher.update(&number.to_le_bytes());
            }
            hasher.update(&oldest.index.to_le_bytes()).update(&newest.index.to_le_bytes());
        }
        Some(*hasher.finalize().as_bytes())
    }
}

/// Finds the position of a transaction that bounds a list; -32020 if it is unknown at this commitment.
pub(super) fn find_position(
    history: &HistorySnapshot,
    signature: &Signature,
    newest: Slot,
) -> Result<TransactionPosition, RpcError> {
    let executed = history.transaction(signature, Commitment::Processed);
    let executed = executed.filter(|executed| executed.slot <= newest);
    let position = |executed: &Arc<ExecutedTransaction>| TransactionPosition {
        slot: executed.slot,
        index: executed.index,
    };
    executed.map(position).ok_or_else(|| {
        RpcCustomError::FilterTransactionNotFound { signature: signature.to_string() }.into()
    })
}

/// Returns the entry of a transaction in a list of signatures.
pub(super) fn signature_status(
    history: &HistorySnapshot,
    executed: &ExecutedTransaction,
) -> RpcConfirmedTransactionStatusWithSignature {
    executed.show_status();
    let confirmation_status = match history.commitment(executed.slot) {
        Commitment::Finalized => TransactionConfirmationStatus::Finalized,
        Commitment::Confirmed | Commitment::Processed => TransactionConfirmationStatus::Confirmed,
    };
    RpcConfirmedTransactionStatusWithSignature {
        signature: executed.signature().to_string(),
        slot: executed.slot,
        err: executed.meta.status.clone().err().map(Into::into),
        memo: memo(executed),
        block_time: Some(executed.block_time),
        confirmation_status: Some(confirmation_status),
        transaction_index: Some(executed.index),
    }
}

/// Returns the memos of a transaction as Agave writes them: `[length] text`, joined by `; `.
fn memo(executed: &ExecutedTransaction) -> Option<String> {
    use spl_memo_interface::{v1, v3, v4};
    let is_memo = |key: &_| v1::check_id(key) || v3::check_id(key) || v4::check_id(key);
    // Agave's function needs its own copy, so a copy is made only if there is a memo.
    let has_memo = executed.account_keys.iter().any(is_memo);
    has_memo.then(|| extract_and_fmt_memos(&with_meta(executed))).flatten()
}
