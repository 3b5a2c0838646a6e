//! The updates of a scripted source about a small chain: each bank moves lamports to a wallet.

use solana_clock::Clock;
use solana_hash::Hash;
use solana_keypair::Keypair;
use solana_message::{Message, MessageHeader, VersionedMessage};
use solana_sdk_ids::sysvar;
use solana_signer::Signer;
use solana_transaction::versioned::VersionedTransaction;
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

/// The fee payer of all transactions except votes.
pub(crate) fn payer() -> Keypair {
    Keypair::new_from_array([42; 32])
}

/// A signed transaction of a slot that names the wallet. The source does not send its balances.
pub(crate) fn transaction(slot: u64, index: u64) -> SubscribeUpdate {
    new_update(&signed_transaction(slot, index), (slot, index))
}

fn signed_transaction(slot: u64, index: u64) -> VersionedTransaction {
    let payer = payer();
    let mut unique = [0; 32];
    unique[..8].copy_from_slice(&slot.to_le_bytes());
    unique[8..16].copy_from_slice(&index.to_le_bytes());
    let header = MessageHeader {
        num_required_signatures: 1,
        num_readonly_signed_accounts: 0,
        num_readonly_unsigned_accounts: 1,
    };
    let message = Message {
        header,
        account_keys: vec![payer.pubkey(), WALLET.into()],
        recent_blockhash: Hash::new_from_array(unique),
        instructions: Vec::new(),
    };
    let message = VersionedMessage::Legacy(message);
    VersionedTransaction::try_new(message, &[&payer]).expect("the payer signs")
}

pub(crate) fn signature(slot: u64, index: u64) -> [u8; 64] {
    signed_transaction(slot, index).signatures[0].into()
}

/// The update about an executed transaction, with this place in its block.
pub(crate) fn new_update(
    transaction: &VersionedTransaction,
    (slot, index): (u64, u64),
) -> SubscribeUpdate {
    let signatures: Vec<Vec<u8>> =
        transaction.signatures.iter().map(|signature| signature.as_ref().to_vec()).collect();
    let header = transaction.message.header();
    let keys = transaction.message.static_account_keys();
    let instructions = transaction.message.instructions().iter();
    let instructions = instructions.map(|instruction| proto::CompiledInstruction {
        program_id_index: instruction.program_id_index.into(),
        accounts: instruction.accounts.clone(),
        data: instruction.data.clone(),
    });
    let content = proto::Message {
        header: Some(proto::MessageHeader {
            num_required_signatures: header.num_required_signatures.into(),
            num_readonly_signed_accounts: header.num_readonly_signed_accounts.into(),
            num_readonly_unsigned_accounts: header.num_readonly_unsigned_accounts.into(),
        }),
        account_keys: keys.iter().map(|key| key.to_bytes().to_vec()).collect(),
        recent_blockhash: transaction.message.recent_blockhash().to_bytes().to_vec(),
        instructions: instructions.collect(),
        ..Default::default()
    };
    let info = SubscribeUpdateTransactionInfo {
        signature: signatures[0].clone(),
        is_vote: false,
        transaction: Some(proto::Transaction { signatures, message: Some(content) }),
        meta: Some(proto::TransactionStatusMeta { fee: 5_000, ..Default::default() }),
        index,
    };
    let transaction = Some(info);
    message(UpdateOneof::Transaction(SubscribeUpdateTransaction { transaction, slot, bank_id: 0 }))
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
