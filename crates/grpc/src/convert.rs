//! From Solana's types to the messages of the proto.

use chain_solana::{AccountUpdate, ExecutedTransaction};
use ledger::Slot;
use solana::Entry;
use solana_account::ReadableAccount;
use solana_message::compiled_instruction::CompiledInstruction;
use solana_message::v0::MessageAddressTableLookup;
use solana_message::{MessageHeader, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;
use solana_transaction_status::{
    InnerInstructions, Reward, RewardType, TransactionStatusMeta, TransactionTokenBalance,
};
use yellowstone_grpc_proto::geyser::{
    SubscribeUpdateAccountInfo, SubscribeUpdateEntry, SubscribeUpdateTransactionInfo,
};
use yellowstone_grpc_proto::solana::storage::confirmed_block as proto;

use crate::data_slices::DataSlices;

/// An account after a write, with the requested part of its data.
pub(crate) fn account(update: &AccountUpdate, slices: &DataSlices) -> SubscribeUpdateAccountInfo {
    let account = &update.account.0;
    SubscribeUpdateAccountInfo {
        pubkey: update.pubkey.to_bytes().into(),
        lamports: account.lamports(),
        owner: account.owner().to_bytes().into(),
        executable: account.executable(),
        rent_epoch: account.rent_epoch(),
        data: slices.cut(account.data()),
        write_version: update.write_version,
        txn_signature: update.signature.map(|signature| bytes(signature.as_ref())),
    }
}

/// A transaction with its results.
pub(crate) fn transaction_info(executed: &ExecutedTransaction) -> SubscribeUpdateTransactionInfo {
    SubscribeUpdateTransactionInfo {
        signature: bytes(executed.signature().as_ref()),
        is_vote: executed.is_vote,
        transaction: Some(transaction(&executed.transaction)),
        meta: Some(meta(&executed.meta)),
        index: u64::from(executed.index),
    }
}

pub(crate) fn entry(slot: Slot, bank_id: u64, index: u64, entry: &Entry) -> SubscribeUpdateEntry {
    let Entry { num_hashes, hash, transaction_count, starting_transaction_index } = *entry;
    SubscribeUpdateEntry {
        slot,
        index,
        num_hashes,
        hash: bytes(hash.as_ref()),
        executed_transaction_count: transaction_count,
        starting_transaction_index,
        bank_id,
    }
}

pub(crate) fn rewards(rewards: &[Reward], partitions: Option<u64>) -> proto::Rewards {
    proto::Rewards {
        rewards: rewards.iter().map(reward).collect(),
        num_partitions: partitions.map(|num_partitions| proto::NumPartitions { num_partitions }),
    }
}

/// Why a transaction failed, as bincode of Agave's type.
pub(crate) fn transaction_error(
    status: &Result<(), TransactionError>,
) -> Option<proto::TransactionError> {
    let err = status.as_ref().err()?;
    // Writing to memory fails for no value of this type.
    Some(proto::TransactionError { err: bincode::serialize(err).unwrap_or_default() })
}

fn transaction(transaction: &VersionedTransaction) -> proto::Transaction {
    proto::Transaction {
        signatures: transaction.signatures.iter().map(|it| bytes(it.as_ref())).collect(),
        message: Some(message(&transaction.message)),
    }
}

fn message(message: &VersionedMessage) -> proto::Message {
    proto::Message {
        header: Some(header(message.header())),
        account_keys: keys(message.static_account_keys()),
        recent_blockhash: message.recent_blockhash().to_bytes().into(),
        instructions: message.instructions().iter().map(instruction).collect(),
        versioned: !matches!(message, VersionedMessage::Legacy(_)),
        address_table_lookups: message
            .address_table_lookups()
            .unwrap_or_default()
            .iter()
            .map(lookup)
            .collect(),
        config: match message {
            VersionedMessage::Legacy(_) | VersionedMessage::V0(_) => None,
            VersionedMessage::V1(message) => Some(proto::TransactionConfig {
                priority_fee: message.config.priority_fee,
                compute_unit_limit: message.config.compute_unit_limit,
                loaded_accounts_data_size_limit: message.config.loaded_accounts_data_size_limit,
                heap_size: message.config.heap_size,
            }),
        },
    }
}

fn header(header: &MessageHeader) -> proto::MessageHeader {
    proto::MessageHeader {
        num_required_signatures: header.num_required_signatures.into(),
        num_readonly_signed_accounts: header.num_readonly_signed_accounts.into(),
        num_readonly_unsigned_accounts: header.num_readonly_unsigned_accounts.into(),
    }
}

fn instruction(instruction: &CompiledInstruction) -> proto::CompiledInstruction {
    proto::CompiledInstruction {
        program_id_index: instruction.program_id_index.into(),
        accounts: bytes(&instruction.accounts),
        data: bytes(&instruction.data),
    }
}

fn lookup(lookup: &MessageAddressTableLookup) -> proto::MessageAddressTableLookup {
    proto::MessageAddressTableLookup {
        account_key: lookup.account_key.to_bytes().into(),
        writable_indexes: bytes(&lookup.writable_indexes),
        readonly_indexes: bytes(&lookup.readonly_indexes),
    }
}

fn meta(meta: &TransactionStatusMeta) -> proto::TransactionStatusMeta {
    let balances = |all: &Option<Vec<TransactionTokenBalance>>| {
        all.iter().flatten().map(token_balance).collect()
    };
    proto::TransactionStatusMeta {
        err: transaction_error(&meta.status),
        fee: meta.fee,
        pre_balances: meta.pre_balances.clone(),
        post_balances: meta.post_balances.clone(),
        inner_instructions: meta.inner_instructions.iter().flatten().map(inner).collect(),
        inner_instructions_none: meta.inner_instructions.is_none(),
        log_messages: meta.log_messages.clone().unwrap_or_default(),
        log_messages_none: meta.log_messages.is_none(),
        pre_token_balances: balances(&meta.pre_token_balances),
        post_token_balances: balances(&meta.post_token_balances),
        rewards: meta.rewards.iter().flatten().map(reward).collect(),
        loaded_writable_addresses: keys(&meta.loaded_addresses.writable),
        loaded_readonly_addresses: keys(&meta.loaded_addresses.readonly),
        return_data: meta.return_data.as_ref().map(|returned| proto::ReturnData {
            program_id: returned.program_id.to_bytes().into(),
            data: bytes(&returned.data),
        }),
        return_data_none: meta.return_data.is_none(),
        compute_units_consumed: meta.compute_units_consumed,
        cost_units: meta.cost_units,
    }
}

fn inner(list: &InnerInstructions) -> proto::InnerInstructions {
    let instructions = list.instructions.iter().map(|inner| proto::InnerInstruction {
        program_id_index: inner.instruction.program_id_index.into(),
        accounts: bytes(&inner.instruction.accounts),
        data: bytes(&inner.instruction.data),
        stack_height: inner.stack_height,
    });
    proto::InnerInstructions { index: list.index.into(), instructions: instructions.collect() }
}

fn token_balance(balance: &TransactionTokenBalance) -> proto::TokenBalance {
    let amount = &balance.ui_token_amount;
    proto::TokenBalance {
        account_index: balance.account_index.into(),
        mint: balance.mint.clone(),
        ui_token_amount: Some(proto::UiTokenAmount {
            ui_amount: amount.ui_amount.unwrap_or_default(),
            decimals: amount.decimals.into(),
            amount: amount.amount.clone(),
            ui_amount_string: amount.ui_amount_string.clone(),
        }),
        owner: balance.owner.clone(),
        program_id: balance.program_id.clone(),
    }
}

fn reward(reward: &Reward) -> proto::Reward {
    let reward_type = match reward.reward_type {
        None => proto::RewardType::Unspecified,
        Some(RewardType::Fee) => proto::RewardType::Fee,
        Some(RewardType::Rent) => proto::RewardType::Rent,
        Some(RewardType::Staking) => proto::RewardType::Staking,
        Some(RewardType::Voting) => proto::RewardType::Voting,
        Some(RewardType::DeactivatedStake) => proto::RewardType::DeactivatedStake,
    };
    proto::Reward {
        pubkey: reward.pubkey.clone(),
        lamports: reward.lamports,
        post_balance: reward.post_balance,
        reward_type: reward_type.into(),
        commission: reward.commission.map(|percent| percent.to_string()).unwrap_or_default(),
        commission_bps: reward.commission_bps.map(|bps| bps.to_string()).unwrap_or_default(),
    }
}

fn keys(keys: &[Pubkey]) -> Vec<Vec<u8>> {
    keys.iter().map(|key| key.to_bytes().into()).collect()
}

fn bytes(bytes: &[u8]) -> Vec<u8> {
    bytes.to_vec()
}
