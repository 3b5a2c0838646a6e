//! Blocks: which there are, and what is in one.
//!
//! In: history, and the slots that the views of one moment have reached. A block is answered from
//! history once its slot is confirmed, as the final one once it is finalized.
//! Bounds: [`MAX_GET_CONFIRMED_BLOCKS_RANGE`] slots a request; of a block, one transaction is encoded at a
//! time.

use std::sync::Arc;

use chain::{Block, Executed, HistorySnapshot};
use ledger::{Commitment, Slot};
use pool::TimeSlice;
use solana_commitment_config::CommitmentConfig;
use solana_rpc_client_types::config::{
    RpcBlockConfig, RpcBlocksConfigWrapper, RpcContextConfig, RpcEncodingConfigWrapper,
};
use solana_rpc_client_types::request::MAX_GET_CONFIRMED_BLOCKS_RANGE;
use solana_transaction::versioned::TransactionVersion;
use solana_transaction_status::{
    BlockEncodingOptions, ConfirmedBlock, EncodeError, TransactionDetails,
    TransactionWithStatusMeta, UiConfirmedBlock, UiTransactionEncoding,
    VersionedTransactionWithStatusMeta,
};

use super::answer::{Frame, write_json, write_number};
use super::{Answer, Class, Method, MethodResult, PIECE_BYTES, Pieces, Progress};
use crate::cached::Reads;
use crate::commitment::{level, view_of};
use crate::custom_error::RpcCustomError;
use crate::error::RpcError;
use crate::node::Node;
use crate::params::Params;
use crate::stamp::Name;

pub(super) const METHODS: &[Method] = &[
    Method { name: "getBlock", class: Class::Medium, run: block },
    Method { name: "getBlockTime", class: Class::Inline, run: block_time },
    Method { name: "getBlocks", class: Class::Medium, run: blocks },
    Method { name: "getBlocksWithLimit", class: Class::Medium, run: blocks_with_limit },
    Method { name: "getFirstAvailableBlock", class: Class::Inline, run: first_available_block },
    Method { name: "minimumLedgerSlot", class: Class::Inline, run: first_available_block },
];

/// The commitment of a method that reads history; -32602 if it is processed.
pub(super) fn at_least_confirmed(
    commitment: Option<CommitmentConfig>,
) -> Result<Commitment, RpcError> {
    match level(commitment) {
        Commitment::Processed => {
            Err(RpcError::invalid_params("Method does not support commitment below `confirmed`"))
        }
        enough => Ok(enough),
    }
}

/// The newest slot whose block a history method may answer.
pub(super) fn confirmed_slot(node: &Node, config: RpcContextConfig) -> Result<Slot, RpcError> {
    at_least_confirmed(config.commitment)?;
    Ok(view_of(node, Some(config))?.block().slot)
}

/// The oldest slot whose block is kept; where the ledger began if it has none yet.
pub(super) fn first_available(node: &Node, history: &HistorySnapshot) -> Slot {
    history.first_slot().unwrap_or(node.cluster.first_slot)
}

/// A transaction as Agave's encoders take it.
pub(super) fn with_meta(executed: &Executed) -> VersionedTransactionWithStatusMeta {
    VersionedTransactionWithStatusMeta {
        transaction: executed.transaction.clone(),
        meta: executed.meta.clone(),
    }
}

fn block(node: &Node, params: Params<'_>) -> MethodResult {
    type Given = (Slot, Option<RpcEncodingConfigWrapper<RpcBlockConfig>>);
    let (slot, config): Given = params.parse(1)?;
    let config = config.map(|config| config.convert_to_current()).unwrap_or_default();
    let commitment = at_least_confirmed(config.commitment)?;
    let history = node.history.snapshot();
    let block = available(node, &history, slot, commitment)?;
    let encoding = config.encoding.unwrap_or(UiTransactionEncoding::Json);
    let encoder = Encoder {
        encoding,
        details: config.transaction_details.unwrap_or_default(),
        show_rewards: config.rewards.unwrap_or(true),
        version_max: config.max_supported_transaction_version,
    };
    encoder.answer(node, block)
}

/// The block of a slot as far as a commitment sees it.
fn available<'a>(
    node: &Node,
    history: &'a HistorySnapshot,
    slot: Slot,
    commitment: Commitment,
) -> Result<&'a Arc<Block>, RpcError> {
    let views = node.reader.views();
    if slot <= views.finalized.block().slot {
        return rooted(node, history, slot, views.finalized.block().slot);
    }
    let is_confirmed = commitment == Commitment::Confirmed && slot <= views.confirmed.block().slot;
    let block = history.block(slot).filter(|_| is_confirmed);
    block.ok_or_else(|| RpcCustomError::BlockNotAvailable { slot }.into())
}

/// A block never changes once it is complete, and its hash says which it is; one that is finalized and
/// still kept is the only one of its slot.
pub(super) fn reads(node: &Node, params: Params<'_>) -> Option<Reads> {
    type Given = (Slot, Option<RpcEncodingConfigWrapper<RpcBlockConfig>>);
    let (slot, config): Given = params.parse(1).ok()?;
    let config = config.map(|config| config.convert_to_current()).unwrap_or_default();
    let commitment = at_least_confirmed(config.commitment).ok()?;
    let is_final = slot <= node.reader.view(Commitment::Finalized).block().slot;
    blockhash(node, slot, commitment)?;
    let reads = Reads::nothing(commitment, None).named(Name { slot, hash: blockhash });
    let is_there = move |node: &Node| blockhash(node, slot, commitment).is_some();
    Some(if is_final { reads.only_if(is_there) } else { reads.not_kept() })
}

fn blockhash(node: &Node, slot: Slot, commitment: Commitment) -> Option<[u8; 32]> {
    let history = node.history.snapshot();
    Some(available(node, &history, slot, commitment).ok()?.blockhash.to_bytes())
}

/// A finalized block; if there is none at `slot`, why.
fn rooted<'a>(
    node: &Node,
    history: &'a HistorySnapshot,
    slot: Slot,
    root: Slot,
) -> Result<&'a Arc<Block>, RpcError> {
    if let Some(block) = history.block(slot) {
        return Ok(block);
    }
    let first_available_block = first_available(node, history);
    if slot < first_available_block {
        return Err(RpcCustomError::BlockCleanedUp { slot, first_available_block }.into());
    }
    if slot >= root {
        return Err(RpcCustomError::BlockNotAvailable { slot }.into());
    }
    Err(RpcCustomError::SlotSkipped { slot }.into())
}

/// How a block is wanted.
struct Encoder {
    encoding: UiTransactionEncoding,
    details: TransactionDetails,
    show_rewards: bool,
    version_max: Option<u8>,
}

impl Encoder {
    /// The block without its transactions, then each of them, one at a time.
    fn answer(self, node: &Node, block: &Arc<Block>) -> MethodResult {
        let is_genesis = block.id.slot == 0;
        let block_time =
            if is_genesis { node.cluster.genesis_unix_timestamp } else { block.block_time };
        let bare = ConfirmedBlock {
            previous_blockhash: block.previous_blockhash.to_string(),
            blockhash: block.blockhash.to_string(),
            parent_slot: block.parent_slot,
            block_time: Some(block_time),
            block_height: Some(block.block_height),
            rewards: block.rewards.clone(),
            num_partitions: block.reward_partitions,
            ..self.of(None)
        };
        let bare = self.encode(bare)?;
        match self.details {
            TransactionDetails::None => return Answer::of(&bare),
            TransactionDetails::Signatures => {}
            // Nothing may fail once the answer has begun.
            TransactionDetails::Full | TransactionDetails::Accounts => {
                block.transactions.iter().try_for_each(|executed| self.check(executed))?;
            }
        }
        let frame = Frame::around_first(&bare)?;
        Ok(Answer::in_pieces(Transactions {
            block: Arc::clone(block),
            encoder: self,
            frame,
            written: 0,
        }))
    }

    /// Agave refuses transactions of versions that a client does not say it knows.
    fn check(&self, executed: &Executed) -> Result<(), RpcError> {
        let TransactionVersion::Number(version) = executed.transaction.version() else {
            return Ok(());
        };
        if self.version_max.is_some_and(|max| version <= max) {
            return Ok(());
        }
        Err(RpcCustomError::from(EncodeError::UnsupportedTransactionVersion(version)).into())
    }

    /// A block of that transaction, or of none.
    fn of(&self, executed: Option<&Executed>) -> ConfirmedBlock {
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

    /// Appends a transaction as the wanted details have it.
    fn write(&self, out: &mut Vec<u8>, executed: &Executed) -> Result<(), RpcError> {
        if self.details == TransactionDetails::Signatures {
            return write_json(out, &executed.signature().to_string());
        }
        // Agave encodes transactions by the block only, where just their accounts are wanted.
        let encoded = self.encode(self.of(Some(executed)))?.transactions.unwrap_or_default();
        encoded.iter().try_for_each(|transaction| write_json(out, transaction))
    }
}

/// A block's transactions on their way.
struct Transactions {
    block: Arc<Block>,
    encoder: Encoder,
    frame: Frame,
    written: usize,
}

impl Pieces for Transactions {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<Progress, RpcError> {
        out.append(&mut self.frame.head);
        while let Some(executed) = self.block.transactions.get(self.written) {
            if self.written > 0 {
                out.push(b',');
            }
            self.encoder.write(out, executed)?;
            self.written += 1;
            if out.len() >= PIECE_BYTES || slice.is_over() {
                return Ok(Progress::More);
            }
        }
        out.append(&mut self.frame.tail);
        Ok(Progress::Done)
    }
}

fn block_time(node: &Node, params: Params<'_>) -> MethodResult {
    let (slot,): (Slot,) = params.parse(1)?;
    if slot == 0 {
        return Answer::of(&Some(node.cluster.genesis_unix_timestamp));
    }
    let views = node.reader.views();
    let history = node.history.snapshot();
    let root = views.finalized.block().slot;
    if slot <= root {
        return Answer::of(&Some(rooted(node, &history, slot, root)?.block_time));
    }
    if slot == views.processed.block().slot {
        return Answer::of(&Some(views.processed.meta().unix_timestamp));
    }
    let block = history.block(slot).ok_or(RpcCustomError::BlockNotAvailable { slot })?;
    Answer::of(&Some(block.block_time))
}

fn blocks(node: &Node, params: Params<'_>) -> MethodResult {
    type Given = (Slot, Option<RpcBlocksConfigWrapper>, Option<RpcContextConfig>);
    let (start, wrapper, config): Given = params.parse(1)?;
    let (end, wrapped) = wrapper.map(|wrapper| wrapper.unzip()).unwrap_or_default();
    let newest = confirmed_slot(node, config.or(wrapped).unwrap_or_default())?;
    let end = end.unwrap_or_else(|| start.saturating_add(MAX_GET_CONFIRMED_BLOCKS_RANGE));
    let end = end.min(newest);
    if end < start {
        return Answer::of(&[(); 0]);
    }
    if end - start > MAX_GET_CONFIRMED_BLOCKS_RANGE {
        let message = format!("Slot range too large; max {MAX_GET_CONFIRMED_BLOCKS_RANGE}");
        return Err(RpcError::invalid_params(message));
    }
    Ok(Slots::answer(node, (start, end), usize::MAX))
}

fn blocks_with_limit(node: &Node, params: Params<'_>) -> MethodResult {
    let (start, limit, config): (Slot, usize, Option<RpcContextConfig>) = params.parse(2)?;
    let config = config.unwrap_or_default();
    at_least_confirmed(config.commitment)?;
    if limit as u64 > MAX_GET_CONFIRMED_BLOCKS_RANGE {
        let message = format!("Limit too large; max {MAX_GET_CONFIRMED_BLOCKS_RANGE}");
        return Err(RpcError::invalid_params(message));
    }
    let newest = confirmed_slot(node, config)?;
    if newest < start {
        return Answer::of(&[(); 0]);
    }
    Ok(Slots::answer(node, (start, newest), limit))
}

/// Slots that have a block, on their way.
struct Slots {
    history: Arc<HistorySnapshot>,
    next: Slot,
    end: Slot,
    /// So many more at most.
    left: usize,
    has_begun: bool,
}

/// Slots written between two looks at the clock.
const SLOTS: usize = 512;

impl Slots {
    fn answer(node: &Node, (next, end): (Slot, Slot), left: usize) -> Answer {
        let history = node.history.snapshot();
        Answer::in_pieces(Self { history, next, end, left, has_begun: false })
    }
}

impl Pieces for Slots {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<Progress, RpcError> {
        loop {
            let many = self.left.min(SLOTS);
            let mut written = 0;
            for block in self.history.blocks(self.next..=self.end).take(many) {
                let slot = block.id.slot;
                out.push(if std::mem::replace(&mut self.has_begun, true) { b',' } else { b'[' });
                write_number(out, slot);
                self.next = slot.saturating_add(1);
                written += 1;
            }
            self.left -= written;
            if written < SLOTS || self.next > self.end {
                out.extend_from_slice(if self.has_begun { b"]" } else { b"[]" });
                return Ok(Progress::Done);
            }
            if out.len() >= PIECE_BYTES || slice.is_over() {
                return Ok(Progress::More);
            }
        }
    }
}

fn first_available_block(node: &Node, params: Params<'_>) -> MethodResult {
    params.none()?;
    Answer::of(&first_available(node, &node.history.snapshot()))
}
