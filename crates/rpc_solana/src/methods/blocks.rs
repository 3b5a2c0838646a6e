//! Blocks: the contents of a block, its time, and the first available block.
//!
//! In: the history. Each block is of the chain of the commitment, and is returned once it is confirmed.
//! Bounds: one transaction of a block is encoded at a time.
//! Not here: lists of slots with a block (`slot_list`).

use std::sync::Arc;

use chain_solana::{Block, ExecutedTransaction, HistorySnapshot};
use cpu_pool::TimeSlice;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{
    Execution, ListTemplate, MethodOutput, MethodResult, MethodSpec, StreamState, StreamedResult,
    write_json,
};
use ledger::{Commitment, Slot};
use response_cache::{Dependencies, RESULT_CHUNK_BYTES};
use solana_commitment_config::CommitmentConfig;
use solana_rpc_client_types::config::{RpcBlockConfig, RpcContextConfig, RpcEncodingConfigWrapper};
use solana_transaction_status::{
    BlockEncodingOptions, ConfirmedBlock, TransactionDetails, TransactionWithStatusMeta,
    UiConfirmedBlock, UiTransactionEncoding,
};

use super::encode_transaction::check_version;
use crate::commitment::{level, view_for_config};
use crate::custom_error::RpcCustomError;
use crate::solana_api::SolanaApi;
use crate::stored_transaction::with_meta;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    MethodSpec::new("getBlock", Execution::Medium, block).with_cache_dependencies(dependencies),
    MethodSpec::new("getBlockTime", Execution::Inline, block_time),
    MethodSpec::new("getFirstAvailableBlock", Execution::Inline, first_available_block)
        .with_revalidation_dependencies(first_available_dependency),
    MethodSpec::new("minimumLedgerSlot", Execution::Inline, first_available_block),
];

/// Returns the commitment of a method that reads history; -32602 if it is processed.
pub(super) fn at_least_confirmed(
    commitment: Option<CommitmentConfig>,
) -> Result<Commitment, RpcError> {
    match level(commitment) {
        Commitment::Processed => {
            Err(RpcError::invalid_params("Method does not support commitment below `confirmed`"))
        }
        commitment => Ok(commitment),
    }
}

/// Returns the history that a method reads, its commitment, and the newest slot whose block it may return.
pub(super) fn confirmed_history(
    api: &SolanaApi,
    config: RpcContextConfig,
) -> Result<(Arc<HistorySnapshot>, Commitment, Slot), RpcError> {
    let commitment = at_least_confirmed(config.commitment)?;
    let reached = view_for_config(api, Some(config))?.block().slot;
    let history = api.history.snapshot();
    let newest = reached.min(history.newest_slot(commitment));
    Ok((history, commitment, newest))
}

/// Returns the oldest slot with a retained block, or the first slot of the ledger if it has no block yet.
pub(super) fn first_available(api: &SolanaApi, history: &HistorySnapshot) -> Slot {
    history.first_slot().unwrap_or(api.cluster_info.first_slot)
}

fn block(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    type BlockParams = (Slot, Option<RpcEncodingConfigWrapper<RpcBlockConfig>>);
    let (slot, config): BlockParams = params.parse(1)?;
    let config = config.map(|config| config.convert_to_current()).unwrap_or_default();
    let commitment = at_least_confirmed(config.commitment)?;
    let history = api.history.snapshot();
    let block = find_available(api, &history, slot, commitment)?;
    block.show_statuses();
    let encoding = config.encoding.unwrap_or(UiTransactionEncoding::Json);
    let encoder = BlockEncoder {
        encoding,
        details: config.transaction_details.unwrap_or_default(),
        show_rewards: config.rewards.unwrap_or(true),
        version_max: config.max_supported_transaction_version,
    };
    encoder.into_result(api, block)
}

/// Finds the block of a slot, if it has reached the commitment.
fn find_available<'a>(
    api: &SolanaApi,
    history: &'a HistorySnapshot,
    slot: Slot,
    commitment: Commitment,
) -> Result<&'a Arc<Block>, RpcError> {
    if history.commitment(slot) == Commitment::Finalized {
        return find_rooted(api, history, slot);
    }
    let block = history.block(slot, commitment);
    block.ok_or_else(|| RpcCustomError::BlockNotAvailable { slot }.into())
}

/// Returns the dependencies of getBlock's result. A complete block never changes, and its hash identifies it. A
/// finalized block that is retained is the only one of its slot.
fn dependencies(api: &SolanaApi, params: Params<'_>) -> Option<Dependencies> {
    type BlockParams = (Slot, Option<RpcEncodingConfigWrapper<RpcBlockConfig>>);
    let (slot, config): BlockParams = params.parse(1).ok()?;
    let config = config.map(|config| config.convert_to_current()).unwrap_or_default();
    let commitment = at_least_confirmed(config.commitment).ok()?;
    let is_final = api.history.snapshot().commitment(slot) == Commitment::Finalized;
    blockhash(api, slot, commitment)?;
    let dependencies =
        Dependencies::none(commitment, None).immutable(move |api| blockhash(api, slot, commitment));
    let is_there = move |api: &SolanaApi| blockhash(api, slot, commitment).is_some();
    Some(if is_final {
        dependencies.with_precondition(is_there)
    } else {
        dependencies.not_cacheable()
    })
}

fn blockhash(api: &SolanaApi, slot: Slot, commitment: Commitment) -> Option<[u8; 32]> {
    let history = api.history.snapshot();
    Some(find_available(api, &history, slot, commitment).ok()?.blockhash.to_bytes())
}

/// Finds a finalized block. The error is the reason why there is none at `slot`.
fn find_rooted<'a>(
    api: &SolanaApi,
    history: &'a HistorySnapshot,
    slot: Slot,
) -> Result<&'a Arc<Block>, RpcError> {
    if let Some(block) = history.block(slot, Commitment::Finalized) {
        return Ok(block);
    }
    let first_available_block = first_available(api, history);
    if slot < first_available_block {
        return Err(RpcCustomError::BlockCleanedUp { slot, first_available_block }.into());
    }
    if slot >= history.newest_slot(Commitment::Finalized) {
        return Err(RpcCustomError::BlockNotAvailable { slot }.into());
    }
    Err(RpcCustomError::SlotSkipped { slot }.into())
}

struct BlockEncoder {
    encoding: UiTransactionEncoding,
    details: TransactionDetails,
    show_rewards: bool,
    version_max: Option<u8>,
}

impl BlockEncoder {
    /// Encodes the block without its transactions, and streams them one at a time.
    fn into_result(self, api: &SolanaApi, block: &Arc<Block>) -> MethodResult {
        let is_genesis = block.id.slot == 0;
        let block_time =
            if is_genesis { api.cluster_info.genesis_unix_timestamp } else { block.block_time };
        let without_transactions = ConfirmedBlock {
            previous_blockhash: block.previous_blockhash.to_string(),
            blockhash: block.blockhash.to_string(),
            parent_slot: block.parent.slot,
            block_time: Some(block_time),
            block_height: Some(block.block_height),
            rewards: block.rewards.clone(),
            num_partitions: block.reward_partitions,
            ..self.partial_block(None)
        };
        let without_transactions = self.encode(without_transactions)?;
        match self.details {
            TransactionDetails::None => return MethodOutput::json(&without_transactions),
            TransactionDetails::Signatures => {}
            // Errors are impossible after the first byte is sent, so all transactions are checked first.
            TransactionDetails::Full | TransactionDetails::Accounts => {
                let mut all = block.transactions.iter();
                all.try_for_each(|executed| check_version(executed, self.version_max))?;
            }
        }
        let template = ListTemplate::at_first_list(&without_transactions)?;
        Ok(MethodOutput::streamed(
            None,
            TransactionStream { block: Arc::clone(block), encoder: self, template, written: 0 },
        ))
    }

    /// Encodes a block with this transaction only, or with none.
    fn partial_block(&self, executed: Option<&ExecutedTransaction>) -> ConfirmedBlock {
        let transactions =
            executed.map(|executed| TransactionWithStatusMeta::Complete(with_meta(executed)));
        ConfirmedBlock {
            previous_blockhash: String::new(),
            blockhash: String::new(),
            parent_slot: 0,
            transactions: transactions.into_iter().collect(),
            rewards: Vec::new(),
            num_partitions: None,
            block_time: None,
            block_height: None,
        }
    }

    fn encode(&self, block: ConfirmedBlock) -> Result<UiConfirmedBlock, RpcError> {
        let options = BlockEncodingOptions {
            transaction_details: self.details,
            show_rewards: self.show_rewards,
            max_supported_transaction_version: self.version_max,
        };
        let encoded = block.encode_with_options(self.encoding, options);
        Ok(encoded.map_err(RpcCustomError::from)?)
    }

    /// Appends a transaction with the requested details.
    fn write(&self, out: &mut Vec<u8>, executed: &ExecutedTransaction) -> Result<(), RpcError> {
        if self.details == TransactionDetails::Signatures {
            return write_json(out, &executed.signature().to_string());
        }
        // Agave can encode only the accounts of a transaction as part of a block.
        let encoded =
            self.encode(self.partial_block(Some(executed)))?.transactions.unwrap_or_default();
        encoded.iter().try_for_each(|transaction| write_json(out, transaction))
    }
}

struct TransactionStream {
    block: Arc<Block>,
    encoder: BlockEncoder,
    template: ListTemplate,
    written: usize,
}

impl StreamedResult for TransactionStream {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        out.append(&mut self.template.head);
        while let Some(executed) = self.block.transactions.get(self.written) {
            if self.written > 0 {
                out.push(b',');
            }
            self.encoder.write(out, executed)?;
            self.written += 1;
            if out.len() >= RESULT_CHUNK_BYTES || slice.is_over() {
                return Ok(StreamState::More);
            }
        }
        out.append(&mut self.template.tail);
        Ok(StreamState::Done)
    }
}

fn block_time(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (slot,): (Slot,) = params.parse(1)?;
    if slot == 0 {
        return MethodOutput::json(&Some(api.cluster_info.genesis_unix_timestamp));
    }
    let processed = api.reader.view(Commitment::Processed);
    let history = api.history.snapshot();
    if history.commitment(slot) == Commitment::Finalized {
        return MethodOutput::json(&Some(find_rooted(api, &history, slot)?.block_time));
    }
    if slot == processed.block().slot {
        return MethodOutput::json(&Some(processed.meta().unix_timestamp));
    }
    let block = history.block(slot, Commitment::Processed);
    let block = block.ok_or(RpcCustomError::BlockNotAvailable { slot })?;
    MethodOutput::json(&Some(block.block_time))
}

/// Returns the dependency of the first available block: the block itself.
fn first_available_dependency(api: &SolanaApi, _: Params<'_>) -> Option<Dependencies> {
    let first = |api: &SolanaApi| first_available(api, &api.history.snapshot());
    let seen = first(api);
    let is_same = move |api: &SolanaApi| first(api) == seen;
    Some(Dependencies::none(Commitment::Finalized, None).with_precondition(is_same))
}

fn first_available_block(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    MethodOutput::json(&first_available(api, &api.history.snapshot()))
}
