//! Messages of a stream: accounts, transactions and blocks of a source, as frames of gRPC.
//!
//! Shape: a transaction has the lists of a swap on mainnet, or those of a vote; their content is filler. It is signed by a
//! fee payer of its own, because a follower checks signatures. It has no balances, which would contradict the accounts.

use bytes::{BufMut, BytesMut};
use prost::Message;
use solana::{Account, Entry};
use solana_account::ReadableAccount;
use solana_hash::Hash;
use solana_keypair::Keypair;
use solana_message::compiled_instruction::CompiledInstruction;
use solana_message::{MessageHeader, VersionedMessage, legacy, v0};
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    SlotStatus, SubscribeUpdate, SubscribeUpdateAccount, SubscribeUpdateAccountInfo,
    SubscribeUpdateBlockMeta, SubscribeUpdateEntry, SubscribeUpdateSlot,
    SubscribeUpdateTransaction, SubscribeUpdateTransactionInfo,
};
use yellowstone_grpc_proto::solana::storage::confirmed_block as proto;

/// Bytes of a frame's head: a flag and the length.
pub(super) const HEAD_BYTES: usize = 5;

/// Accounts that pay fees.
const FEE_PAYERS: u64 = 1_000;

/// Appends an update as a frame.
pub(super) fn put(frames: &mut BytesMut, update: UpdateOneof) {
    let filters = vec!["follow".to_owned()];
    let message = SubscribeUpdate { filters, update_oneof: Some(update), created_at: None };
    frames.put_u8(0);
    frames.put_u32(u32::try_from(message.encoded_len()).unwrap_or(u32::MAX));
    message.encode_raw(frames);
}

pub(super) fn status(slot: u64, status: SlotStatus) -> UpdateOneof {
    let parent = Some(slot - 1);
    let status = status.into();
    UpdateOneof::Slot(SubscribeUpdateSlot {
        slot,
        parent,
        status,
        bank_id: Some(slot),
        dead_error: None,
    })
}

/// An account after a write, by the transaction with this index if there is one.
pub(super) fn account(
    slot: u64,
    pubkey: &Pubkey,
    account: Option<&Account>,
    write_version: u64,
    by: Option<u64>,
) -> UpdateOneof {
    let state = account.map(|account| &account.0);
    let owner = state.map_or_else(Pubkey::default, |state| *state.owner());
    let info = SubscribeUpdateAccountInfo {
        pubkey: pubkey.to_bytes().to_vec(),
        lamports: state.map_or(0, ReadableAccount::lamports),
        owner: owner.to_bytes().to_vec(),
        executable: state.is_some_and(ReadableAccount::executable),
        rent_epoch: state.map_or(0, ReadableAccount::rent_epoch),
        data: state.map(|state| state.data().to_vec()).unwrap_or_default().into(),
        write_version,
        txn_signature: by.map(|index| signature(slot, index)),
    };
    UpdateOneof::Account(SubscribeUpdateAccount {
        account: Some(info),
        slot,
        is_startup: false,
        bank_id: Some(slot),
    })
}

/// One of the fee payers, who sign one transaction of a slot after the other.
fn fee_payer(index: u64) -> Keypair {
    let mut seed = [4; 32];
    seed[..8].copy_from_slice(&(index % FEE_PAYERS).to_le_bytes());
    Keypair::new_from_array(seed)
}

/// The signature at an account write: filler, which a follower passes on.
fn signature(slot: u64, index: u64) -> Vec<u8> {
    let mut bytes = vec![9; 64];
    bytes[..8].copy_from_slice(&slot.to_le_bytes());
    bytes[8..16].copy_from_slice(&index.to_le_bytes());
    bytes
}

struct Lists {
    instructions: usize,
    data_bytes: usize,
    inner: usize,
    log_lines: usize,
    token_balances: u32,
}

pub(super) fn vote(slot: u64, index: u64, keys: &[Pubkey]) -> UpdateOneof {
    let lists =
        Lists { instructions: 1, data_bytes: 148, inner: 0, log_lines: 2, token_balances: 0 };
    transaction(slot, index, keys, true, &lists)
}

/// A swap: instructions that call others.
pub(super) fn swap(slot: u64, index: u64, keys: &[Pubkey]) -> UpdateOneof {
    let lists =
        Lists { instructions: 4, data_bytes: 24, inner: 6, log_lines: 24, token_balances: 4 };
    transaction(slot, index, keys, false, &lists)
}

fn transaction(
    slot: u64,
    index: u64,
    keys: &[Pubkey],
    is_vote: bool,
    lists: &Lists,
) -> UpdateOneof {
    let payer = fee_payer(index);
    let all: Vec<Pubkey> = std::iter::once(payer.pubkey()).chain(keys.iter().copied()).collect();
    let own: Vec<Vec<u8>> = all.iter().map(|key| key.to_bytes().to_vec()).collect();
    let program = own.len() as u32 - 1;
    let accounts: Vec<u8> = (0..own.len() as u8).collect();
    let data = vec![3; lists.data_bytes];
    let instruction = proto::CompiledInstruction {
        program_id_index: program,
        accounts: accounts.clone(),
        data: data.clone(),
    };
    let inner = proto::InnerInstruction {
        program_id_index: program,
        accounts,
        data,
        stack_height: Some(2),
    };
    let inner = proto::InnerInstructions { index: 0, instructions: vec![inner; lists.inner] };
    let balances: Vec<proto::TokenBalance> =
        (0..lists.token_balances).map(|n| token_balance(n, &keys[0])).collect();
    let line = "Program TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA invoke [2]".to_owned();
    let mut blockhash = [8; 32];
    blockhash[..8].copy_from_slice(&slot.to_le_bytes());
    blockhash[8..16].copy_from_slice(&index.to_le_bytes());
    let header = MessageHeader { num_required_signatures: 1, ..MessageHeader::default() };
    let compiled = CompiledInstruction {
        program_id_index: program as u8,
        accounts: instruction.accounts.clone(),
        data: instruction.data.clone(),
    };
    let instructions = vec![compiled; lists.instructions];
    let recent_blockhash = Hash::new_from_array(blockhash);
    let signed = match is_vote {
        true => VersionedMessage::Legacy(legacy::Message {
            header,
            account_keys: all,
            recent_blockhash,
            instructions,
        }),
        false => VersionedMessage::V0(v0::Message {
            header,
            account_keys: all,
            recent_blockhash,
            instructions,
            address_table_lookups: Vec::new(),
        }),
    };
    let signature = payer.sign_message(&signed.serialize()).as_ref().to_vec();
    let message = proto::Message {
        header: Some(proto::MessageHeader { num_required_signatures: 1, ..Default::default() }),
        recent_blockhash: blockhash.to_vec(),
        instructions: vec![instruction; lists.instructions],
        account_keys: own,
        versioned: !is_vote,
        ..Default::default()
    };
    let meta = proto::TransactionStatusMeta {
        fee: 5_000,
        inner_instructions: if lists.inner > 0 { vec![inner] } else { Vec::new() },
        log_messages: vec![line; lists.log_lines],
        pre_token_balances: balances.clone(),
        post_token_balances: balances,
        return_data_none: true,
        compute_units_consumed: Some(60_000),
        cost_units: Some(70_000),
        ..Default::default()
    };
    let signatures = vec![signature.clone()];
    let info = SubscribeUpdateTransactionInfo {
        signature,
        is_vote,
        transaction: Some(proto::Transaction { signatures, message: Some(message) }),
        meta: Some(meta),
        index,
    };
    UpdateOneof::Transaction(SubscribeUpdateTransaction {
        transaction: Some(info),
        slot,
        bank_id: slot,
    })
}

fn token_balance(account_index: u32, owner: &Pubkey) -> proto::TokenBalance {
    proto::TokenBalance {
        account_index,
        mint: owner.to_string(),
        ui_token_amount: Some(proto::UiTokenAmount {
            ui_amount: 1.5,
            decimals: 6,
            amount: "1500000".to_owned(),
            ui_amount_string: "1.5".to_owned(),
        }),
        owner: owner.to_string(),
        program_id: spl_token_interface::ID.to_string(),
    }
}

/// An entry of a block, and the transactions before it.
pub(super) fn entry(slot: u64, index: u64, entry: &Entry) -> UpdateOneof {
    UpdateOneof::Entry(SubscribeUpdateEntry {
        slot,
        index,
        num_hashes: entry.num_hashes,
        hash: entry.hash.to_bytes().to_vec(),
        executed_transaction_count: entry.transaction_count,
        starting_transaction_index: entry.starting_transaction_index,
        bank_id: slot,
    })
}

pub(super) fn block_meta(
    slot: u64,
    hashes: [&Hash; 2],
    transactions: u64,
    entries: u64,
) -> UpdateOneof {
    let [parent, own] = hashes;
    UpdateOneof::BlockMeta(SubscribeUpdateBlockMeta {
        slot,
        blockhash: own.to_string(),
        block_time: Some(proto::UnixTimestamp { timestamp: 1_700_000_000 + slot as i64 }),
        block_height: Some(proto::BlockHeight { block_height: slot }),
        parent_slot: slot - 1,
        parent_blockhash: parent.to_string(),
        executed_transaction_count: transactions,
        entries_count: entries,
        bank_id: slot,
        ..Default::default()
    })
}
