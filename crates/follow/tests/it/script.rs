//! The updates of a scripted source about a small chain: each bank moves lamports to a wallet.

use solana_clock::Clock;
use solana_hash::Hash;
use solana_sdk_ids::sysvar;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    SlotStatus, SubscribeUpdate, SubscribeUpdateAccount, SubscribeUpdateAccountInfo,
    SubscribeUpdateBlockMeta, SubscribeUpdateSlot, SubscribeUpdateTransaction,
    SubscribeUpdateTransactionInfo,
};
use yellowstone_grpc_proto::solana::storage::confirmed_block as proto;

use crate::snapshot::{BLOCKHASH, SLOT, WALLET};

#[derive(Clone, Copy)]
pub(crate) struct Bank {
    pub(crate) slot: u64,
    pub(crate) parent: u64,
    /// Lamports of the wallet after it.
    pub(crate) lamports: u64,
    /// Distinguishes banks of one slot.
    pub(crate) version: u8,
}

pub(crate) fn blockhash(slot: u64, version: u8) -> Hash {
    if slot == SLOT {
        return Hash::new_from_array(BLOCKHASH);
    }
    let mut bytes = [version; 32];
    bytes[..8].copy_from_slice(&slot.to_le_bytes());
    Hash::new_from_array(bytes)
}

pub(crate) fn message(update: UpdateOneof) -> SubscribeUpdate {
    let filters = vec!["follow".to_owned()];
    SubscribeUpdate { filters, update_oneof: Some(update), created_at: None }
}

pub(crate) fn status(slot: u64, status: SlotStatus) -> SubscribeUpdate {
    let status = status.into();
    message(UpdateOneof::Slot(SubscribeUpdateSlot { slot, status, ..Default::default() }))
}

pub(crate) fn account(
    slot: u64,
    pubkey: [u8; 32],
    lamports: u64,
    data: Vec<u8>,
) -> SubscribeUpdate {
    let owner = if data.is_empty() { [0; 32] } else { sysvar::ID.to_bytes() };
    let info = SubscribeUpdateAccountInfo {
        pubkey: pubkey.to_vec(),
        lamports,
        owner: owner.to_vec(),
        rent_epoch: u64::MAX,
        data: data.into(),
        write_version: slot,
        ..Default::default()
    };
    let account = Some(info);
    message(UpdateOneof::Account(SubscribeUpdateAccount { account, slot, ..Default::default() }))
}

/// A signed transfer with nothing in it but its signature.
pub(crate) fn transaction(slot: u64, index: u64) -> SubscribeUpdate {
    let signature = signature(slot, index).to_vec();
    let message_of = proto::Message {
        header: Some(proto::MessageHeader { num_required_signatures: 1, ..Default::default() }),
        account_keys: vec![WALLET.to_vec()],
        recent_blockhash: BLOCKHASH.to_vec(),
        ..Default::default()
    };
    let info = SubscribeUpdateTransactionInfo {
        signature: signature.clone(),
        is_vote: false,
        transaction: Some(proto::Transaction {
            signatures: vec![signature],
            message: Some(message_of),
        }),
        meta: Some(proto::TransactionStatusMeta {
            fee: 5_000,
            pre_balances: vec![1],
            post_balances: vec![1],
            ..Default::default()
        }),
        index,
    };
    let transaction = Some(info);
    message(UpdateOneof::Transaction(SubscribeUpdateTransaction { transaction, slot, bank_id: 0 }))
}

pub(crate) fn signature(slot: u64, index: u64) -> [u8; 64] {
    let mut bytes = [9; 64];
    bytes[..8].copy_from_slice(&slot.to_le_bytes());
    bytes[8..16].copy_from_slice(&index.to_le_bytes());
    bytes
}

impl Bank {
    pub(crate) fn new(slot: u64, parent: u64, lamports: u64) -> Self {
        Self { slot, parent, lamports, version: 0 }
    }

    /// Everything of the bank up to its meta.
    pub(crate) fn content(&self) -> Vec<SubscribeUpdate> {
        let slot = self.slot;
        let clock = Clock { slot, unix_timestamp: 1_700_000_000 + slot as i64, ..Clock::default() };
        let clock = bincode::serialize(&clock).expect("a clock");
        let meta = SubscribeUpdateBlockMeta {
            slot,
            blockhash: blockhash(slot, self.version).to_string(),
            block_time: Some(proto::UnixTimestamp { timestamp: 1_700_000_000 + slot as i64 }),
            block_height: Some(proto::BlockHeight { block_height: slot }),
            parent_slot: self.parent,
            parent_blockhash: blockhash(self.parent, 0).to_string(),
            executed_transaction_count: 1,
            ..Default::default()
        };
        vec![
            status(slot, SlotStatus::SlotCreatedBank),
            account(slot, sysvar::clock::ID.to_bytes(), 1, clock),
            account(slot, sysvar::slot_hashes::ID.to_bytes(), 1, vec![1]),
            account(slot, sysvar::recent_blockhashes::ID.to_bytes(), 1, vec![1]),
            account(slot, WALLET, self.lamports, Vec::new()),
            transaction(slot, 0),
            account(slot, sysvar::slot_history::ID.to_bytes(), 1, vec![1]),
            message(UpdateOneof::BlockMeta(meta)),
        ]
    }

    pub(crate) fn frozen(&self) -> Vec<SubscribeUpdate> {
        let mut all = self.content();
        all.push(status(self.slot, SlotStatus::SlotProcessed));
        all
    }
}

/// Frozen and confirmed banks, each on the one before.
pub(crate) fn chain(slots: std::ops::RangeInclusive<u64>) -> Vec<SubscribeUpdate> {
    let bank = |slot: u64| {
        let mut all = Bank::new(slot, slot - 1, slot * 10).frozen();
        all.push(status(slot, SlotStatus::SlotConfirmed));
        all
    };
    slots.flat_map(bank).collect()
}
