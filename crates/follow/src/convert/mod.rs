//! From the messages of the proto to Solana's types and to updates of the feed.
//!
//! Bounds: a message has the size that the decoder allowed. Every list in it is shorter than the message.
//! Invariant: a message that does not parse is an error that names the field; nothing is guessed.

mod error;
mod fields;
mod meta;
mod transaction;

use std::sync::Arc;

use chain_solana::{BlockFooter, ExecutedTransaction};
use feed::{BlockMeta, SlotStatus, UpdateKind};
use http_client::shorten_message;
use ledger::Slot;
use solana::{Account, Entry};
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_signature::Signature;
use solana_transaction_status::Reward;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    SlotStatus as ProtoStatus, SubscribeUpdateAccount, SubscribeUpdateBlockMeta,
    SubscribeUpdateEntry, SubscribeUpdateSlot, SubscribeUpdateTransaction,
};

use crate::convert::fields::{array, hash, pubkey};
use crate::footers::Footers;

pub use error::ConvertError;

/// Bytes of an update besides its lists.
const UPDATE_BYTES: usize = 128;

/// An update without its source.
pub(crate) struct Converted {
    pub(crate) slot: Slot,
    pub(crate) bank_id: Option<u64>,
    pub(crate) kind: UpdateKind<WrittenAccount, Arc<ExecutedTransaction>, BlockFacts>,
}

impl Converted {
    /// The entries of a block are not requested.
    pub(crate) fn expect_no_entries(&mut self) {
        if let UpdateKind::BlockMeta(meta) = &mut self.kind {
            meta.entries_count = 0;
        }
    }

    /// A bank's metadata takes its footer, if that came before.
    pub(crate) fn add_footer(&mut self, footers: &mut Footers) {
        if let UpdateKind::BlockMeta(meta) = &mut self.kind {
            meta.meta.footer = footers.take_footer(self.slot, self.bank_id);
        }
    }

    /// Estimated bytes in memory, of a message of `message_bytes`. Short lists need more than their encoding.
    pub(crate) fn memory_bytes(&self, message_bytes: usize) -> usize {
        match &self.kind {
            UpdateKind::Account { .. } | UpdateKind::Entry { .. } | UpdateKind::Status(_) => {
                message_bytes + UPDATE_BYTES
            }
            UpdateKind::Transaction { transaction, .. } => {
                message_bytes.max(usize::try_from(transaction.bytes()).unwrap_or(usize::MAX))
            }
            UpdateKind::BlockMeta(meta) => {
                let rewards = meta.meta.rewards.len() * size_of::<Reward>();
                let footer = meta.meta.footer.as_ref().map_or(0, |footer| footer.bytes());
                message_bytes + rewards + footer + UPDATE_BYTES
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct WrittenAccount {
    pub(crate) account: Account,
    /// The transaction that wrote the account; `None` if the bank itself did.
    pub(crate) signature: Option<Signature>,
}

/// The properties of a block that the feed does not need.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockFacts {
    pub(crate) block_height: Option<u64>,
    pub(crate) block_time: Option<i64>,
    pub(crate) rewards: Vec<Reward>,
    pub(crate) reward_partitions: Option<u64>,
    /// The leader's statement, if the source sent it before the block's meta.
    pub(crate) footer: Option<Arc<BlockFooter>>,
}

/// Converts the update in a message. Returns `None` for messages without use here: shreds, pings. Footers are not
/// updates of the feed (`footers`).
pub(crate) fn update(message: UpdateOneof) -> Result<Option<Converted>, ConvertError> {
    match message {
        UpdateOneof::Account(account) => account_update(account),
        UpdateOneof::Transaction(transaction) => transaction_update(transaction).map(Some),
        UpdateOneof::Entry(entry) => entry_update(entry).map(Some),
        UpdateOneof::BlockMeta(meta) => block_meta(meta).map(Some),
        UpdateOneof::Slot(slot) => slot_status(slot),
        _ => Ok(None),
    }
}

/// A source without bank ids sends 0 or nothing.
fn bank_id(id: Option<u64>) -> Option<u64> {
    id.filter(|id| *id != 0)
}

fn account_update(update: SubscribeUpdateAccount) -> Result<Option<Converted>, ConvertError> {
    // Accounts of a validator's start belong to no bank.
    if update.is_startup {
        return Ok(None);
    }
    let info = update.account.ok_or(ConvertError::Missing("account"))?;
    let account = AccountSharedData::from(solana_account::Account {
        lamports: info.lamports,
        data: info.data.into(),
        owner: pubkey("owner", &info.owner)?,
        executable: info.executable,
        rent_epoch: info.rent_epoch,
    });
    let pubkey = pubkey("pubkey", &info.pubkey)?;
    let signature = info.txn_signature.map(|bytes| array("txn_signature", &bytes)).transpose()?;
    let signature = signature.map(Signature::from);
    let write_version = info.write_version;
    let account = WrittenAccount { account: Account(account), signature };
    let kind = UpdateKind::Account { pubkey, write_version, account };
    Ok(Some(Converted { slot: update.slot, bank_id: bank_id(update.bank_id), kind }))
}

fn transaction_update(update: SubscribeUpdateTransaction) -> Result<Converted, ConvertError> {
    let info = update.transaction.ok_or(ConvertError::Missing("transaction"))?;
    let index = info.index;
    let transaction = Arc::new(transaction::convert_transaction(update.slot, info)?);
    let kind = UpdateKind::Transaction { index, transaction };
    Ok(Converted { slot: update.slot, bank_id: bank_id(Some(update.bank_id)), kind })
}

fn entry_update(update: SubscribeUpdateEntry) -> Result<Converted, ConvertError> {
    let entry = Entry {
        num_hashes: update.num_hashes,
        hash: Hash::new_from_array(array("hash of an entry", &update.hash)?),
        transaction_count: update.executed_transaction_count,
        starting_transaction_index: update.starting_transaction_index,
    };
    let kind = UpdateKind::Entry { index: update.index, entry };
    Ok(Converted { slot: update.slot, bank_id: bank_id(Some(update.bank_id)), kind })
}

fn block_meta(update: SubscribeUpdateBlockMeta) -> Result<Converted, ConvertError> {
    let rewards = update.rewards.unwrap_or_default();
    let meta = BlockFacts {
        block_height: update.block_height.map(|height| height.block_height),
        block_time: update.block_time.map(|time| time.timestamp),
        reward_partitions: rewards.num_partitions.map(|partitions| partitions.num_partitions),
        rewards: rewards.rewards.into_iter().map(meta::reward).collect::<Result<_, _>>()?,
        footer: None,
    };
    let kind = UpdateKind::BlockMeta(BlockMeta {
        parent_slot: update.parent_slot,
        parent_blockhash: hash("parent_blockhash", &update.parent_blockhash)?,
        blockhash: hash("blockhash", &update.blockhash)?,
        executed_transaction_count: update.executed_transaction_count,
        entries_count: update.entries_count,
        meta,
    });
    Ok(Converted { slot: update.slot, bank_id: bank_id(Some(update.bank_id)), kind })
}

fn slot_status(update: SubscribeUpdateSlot) -> Result<Option<Converted>, ConvertError> {
    // A status that is newer than this proto says nothing here.
    let Ok(status) = ProtoStatus::try_from(update.status) else { return Ok(None) };
    let status = match status {
        ProtoStatus::SlotProcessed => SlotStatus::Processed,
        ProtoStatus::SlotConfirmed => SlotStatus::Confirmed,
        ProtoStatus::SlotFinalized => SlotStatus::Finalized,
        ProtoStatus::SlotCreatedBank => SlotStatus::CreatedBank,
        ProtoStatus::SlotDead => {
            let error = update.dead_error.as_deref().unwrap_or_default();
            SlotStatus::Dead { error: shorten_message(error) }
        }
        // They belong to no bank.
        ProtoStatus::SlotFirstShredReceived | ProtoStatus::SlotCompleted => return Ok(None),
    };
    let slot = update.slot;
    let bank_id = bank_id(update.bank_id);
    Ok(Some(Converted { slot, bank_id, kind: UpdateKind::Status(status) }))
}
