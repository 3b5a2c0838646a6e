//! Transactions of the proto.

use chain_solana::{ExecutedTransaction, StatusVisibility};
use ledger::Slot;
use solana_hash::Hash;
use solana_message::compiled_instruction::CompiledInstruction;
use solana_message::v0::MessageAddressTableLookup;
use solana_message::{MessageHeader, VersionedMessage, legacy, v0, v1};
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use yellowstone_grpc_proto::geyser::SubscribeUpdateTransactionInfo;
use yellowstone_grpc_proto::solana::storage::confirmed_block as proto;

use crate::convert::error::ConvertError;
use crate::convert::fields::{array, byte, keys, pubkey};
use crate::convert::meta;

/// The transaction of an update. Its time is that of its block, which is not known yet.
pub(crate) fn convert_transaction(
    slot: Slot,
    info: SubscribeUpdateTransactionInfo,
) -> Result<ExecutedTransaction, ConvertError> {
    let index = u32::try_from(info.index);
    let index = index.map_err(|_| ConvertError::Range { field: "index", value: info.index })?;
    let transaction = transaction(info.transaction.ok_or(ConvertError::Missing("transaction"))?)?;
    let meta = meta::status_meta(info.meta.ok_or(ConvertError::Missing("meta"))?)?;
    let loaded = &meta.loaded_addresses;
    let keys = transaction.message.static_account_keys().iter();
    let account_keys = keys.chain(&loaded.writable).chain(&loaded.readonly).copied().collect();
    let is_vote = info.is_vote;
    let visibility = StatusVisibility::default();
    Ok(ExecutedTransaction {
        slot,
        index,
        block_time: 0,
        transaction,
        meta,
        account_keys,
        is_vote,
        visibility,
    })
}

fn transaction(transaction: proto::Transaction) -> Result<VersionedTransaction, ConvertError> {
    let signatures = transaction.signatures.iter();
    let signatures = signatures.map(|bytes| array("signature", bytes).map(Signature::from));
    Ok(VersionedTransaction {
        signatures: signatures.collect::<Result<_, _>>()?,
        message: message(transaction.message.ok_or(ConvertError::Missing("message"))?)?,
    })
}

fn message(message: proto::Message) -> Result<VersionedMessage, ConvertError> {
    let header = header(&message.header.ok_or(ConvertError::Missing("header"))?)?;
    let account_keys = keys("account_keys", &message.account_keys)?;
    let recent_blockhash =
        array("recent_blockhash", &message.recent_blockhash).map(Hash::new_from_array)?;
    let instructions = message.instructions.into_iter().map(instruction);
    let instructions = instructions.collect::<Result<_, _>>()?;
    if let Some(config) = message.config {
        let config = v1::TransactionConfig {
            priority_fee: config.priority_fee,
            compute_unit_limit: config.compute_unit_limit,
            loaded_accounts_data_size_limit: config.loaded_accounts_data_size_limit,
            heap_size: config.heap_size,
        };
        return Ok(VersionedMessage::V1(v1::Message {
            header,
            config,
            lifetime_specifier: recent_blockhash,
            account_keys,
            instructions,
        }));
    }
    if !message.versioned {
        let legacy = legacy::Message { header, account_keys, recent_blockhash, instructions };
        return Ok(VersionedMessage::Legacy(legacy));
    }
    let lookups = message.address_table_lookups.into_iter().map(lookup);
    Ok(VersionedMessage::V0(v0::Message {
        header,
        account_keys,
        recent_blockhash,
        instructions,
        address_table_lookups: lookups.collect::<Result<_, _>>()?,
    }))
}

fn header(header: &proto::MessageHeader) -> Result<MessageHeader, ConvertError> {
    Ok(MessageHeader {
        num_required_signatures: byte("num_required_signatures", header.num_required_signatures)?,
        num_readonly_signed_accounts: byte(
            "num_readonly_signed_accounts",
            header.num_readonly_signed_accounts,
        )?,
        num_readonly_unsigned_accounts: byte(
            "num_readonly_unsigned_accounts",
            header.num_readonly_unsigned_accounts,
        )?,
    })
}

fn instruction(
    instruction: proto::CompiledInstruction,
) -> Result<CompiledInstruction, ConvertError> {
    Ok(CompiledInstruction {
        program_id_index: byte("program_id_index", instruction.program_id_index)?,
        accounts: instruction.accounts,
        data: instruction.data,
    })
}

fn lookup(
    lookup: proto::MessageAddressTableLookup,
) -> Result<MessageAddressTableLookup, ConvertError> {
    Ok(MessageAddressTableLookup {
        account_key: pubkey("account_key", &lookup.account_key)?,
        writable_indexes: lookup.writable_indexes,
        readonly_indexes: lookup.readonly_indexes,
    })
}
