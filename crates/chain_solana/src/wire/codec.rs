//! The bytes of accounts and of blocks with their transactions, on disk and in a log.
//!
//! The formats are our own, so that no release of another crate changes the data on disk: a transaction in its wire
//! form, a transaction error in Agave's stored form (bincode of `TransactionError`), the rest field by field. A field
//! that a new release adds fails the build here, where its encoding must be decided.
//! Not here: header and checksum of a value on disk ([`store::RowCodec`]), and the records of a log (`wire`).

use std::sync::Arc;

use ledger::{BlockId, Slot};
use solana::{Account, VerificationLevel};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_account_decoder_client_types::token::UiTokenAmount;
use solana_hash::Hash;
use solana_message::compiled_instruction::CompiledInstruction;
use solana_message::v0::LoadedAddresses;
use solana_pubkey::Pubkey;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_context::transaction::TransactionReturnData;
use solana_transaction_status::{
    InnerInstruction, InnerInstructions, Reward, RewardType, TransactionStatusMeta,
    TransactionTokenBalance,
};
use store::{ByteReader, ByteWriter, DecodeError};

use crate::{BankHashComponents, Block, ExecutedTransaction, StatusVisibility};

/// Encodes an account and the slot of the block that wrote it.
pub fn write_account(slot: Slot, account: &Account) -> Vec<u8> {
    let mut out = ByteWriter::default();
    out.u64(slot);
    append_account(account, &mut out);
    out.0
}

/// Decodes an account and the slot of the block that wrote it. Fails if the bytes are invalid.
pub fn read_account(body: &[u8]) -> Result<(Slot, Account), DecodeError> {
    let mut from = ByteReader::new(body);
    let slot = from.u64("slot")?;
    let account = read_account_fields(&mut from)?;
    from.end().map(|()| (slot, account))
}

/// Appends the fields of an account: 53 bytes and its data.
pub fn append_account(account: &Account, out: &mut ByteWriter) {
    let account = &account.0;
    out.u64(account.lamports());
    out.key(account.owner().as_array());
    out.u8(u8::from(account.executable()));
    out.u64(account.rent_epoch());
    out.bytes(account.data());
}

/// Reads what [`append_account`] wrote.
pub fn read_account_fields(from: &mut ByteReader<'_>) -> Result<Account, DecodeError> {
    let account = solana_account::Account {
        lamports: from.u64("lamports")?,
        owner: pubkey(from, "owner")?,
        executable: from.bool("executable flag")?,
        rent_epoch: from.u64("rent epoch")?,
        data: from.bytes("data")?.to_vec(),
    };
    Ok(Account(AccountSharedData::from(account)))
}

/// Writes a level of proof as one byte; `None` if nothing is verified.
pub fn write_level(out: &mut ByteWriter, level: Option<VerificationLevel>) {
    out.u8(match level {
        None => 0,
        Some(VerificationLevel::Computed) => 1,
        Some(VerificationLevel::Sequence) => 2,
        Some(VerificationLevel::Agreed) => 3,
        Some(VerificationLevel::Voted) => 4,
    });
}

/// Reads what [`write_level`] wrote.
pub fn read_level(from: &mut ByteReader<'_>) -> Result<Option<VerificationLevel>, DecodeError> {
    let what = "level of proof";
    match from.u8(what)? {
        0 => Ok(None),
        1 => Ok(Some(VerificationLevel::Computed)),
        2 => Ok(Some(VerificationLevel::Sequence)),
        3 => Ok(Some(VerificationLevel::Agreed)),
        4 => Ok(Some(VerificationLevel::Voted)),
        _ => Err(DecodeError { what }),
    }
}

/// Encodes a block with its transactions, without its account writes.
pub fn write_block(block: &Block) -> Vec<u8> {
    let mut out = ByteWriter::default();
    out.u64(block.id.slot);
    out.u64(block.id.version);
    out.u64(block.parent.slot);
    out.u64(block.block_height);
    out.key(block.blockhash.as_bytes());
    out.key(block.previous_blockhash.as_bytes());
    out.key(block.bank_hash.as_bytes());
    out.i64(block.block_time);
    out.u64(block.transaction_count);
    out.list(&block.transactions, |out, executed| write_executed(executed, out));
    out.list(&block.rewards, write_reward);
    out.option(block.reward_partitions, ByteWriter::u64);
    // The last blockhash is the block's own.
    let BankHashComponents { parent_hash, signature_count, last_blockhash: _, lt_checksum } =
        &block.hash_components;
    out.key(parent_hash.as_bytes());
    out.u64(*signature_count);
    out.key(lt_checksum.as_bytes());
    out.0
}

/// Decodes a block. Fails if the bytes are invalid.
pub fn read_block(body: &[u8]) -> Result<Block, DecodeError> {
    let mut from = ByteReader::new(body);
    let id = BlockId { slot: from.u64("slot")?, version: from.u64("version")? };
    let mut block = Block {
        id,
        // A localnet numbers its blocks: the version is the parent's plus one, and 0 in the first block. A reader that
        // has the parent replaces the version by the parent's own.
        parent: BlockId { slot: from.u64("parent slot")?, version: id.version.saturating_sub(1) },
        block_height: from.u64("height")?,
        blockhash: hash(&mut from, "blockhash")?,
        previous_blockhash: hash(&mut from, "previous blockhash")?,
        bank_hash: hash(&mut from, "bank hash")?,
        hash_components: BankHashComponents::default(),
        block_time: from.i64("time")?,
        transaction_count: from.u64("transaction count")?,
        transactions: from
            .list("transactions", |from| read_executed(id.slot, from).map(Arc::new))?,
        rewards: Vec::new(),
        reward_partitions: None,
        entries: Vec::new(),
        writes: Vec::new(),
    };
    // Older blocks were written without rewards.
    if !from.is_empty() {
        block.rewards = from.list("block rewards", read_reward)?;
        block.reward_partitions =
            from.option("reward partitions", |from| from.u64("reward partitions"))?;
    }
    // Still older blocks were written without the components of a bank hash.
    if !from.is_empty() {
        block.hash_components = BankHashComponents {
            parent_hash: hash(&mut from, "parent's bank hash")?,
            signature_count: from.u64("signature count")?,
            last_blockhash: block.blockhash,
            lt_checksum: hash(&mut from, "accounts checksum")?,
        };
    }
    from.end().map(|()| block)
}

/// Writes a transaction. The account keys are not written: they are the message's static keys and the loaded ones.
pub(super) fn write_executed(executed: &ExecutedTransaction, out: &mut ByteWriter) {
    let ExecutedTransaction {
        slot: _,
        index,
        block_time,
        transaction,
        meta,
        account_keys,
        is_vote,
        visibility: _,
    } = executed;
    debug_assert_eq!(*account_keys, list_keys(transaction, &meta.loaded_addresses));
    out.u32(*index);
    out.i64(*block_time);
    out.u8(u8::from(*is_vote));
    // Only a message that is longer than its length fields allow has no wire form. Such a message cannot be received.
    let wire = wincode::serialize(transaction).expect("an executed transaction has a wire form");
    out.bytes(&wire);
    write_meta(meta, out);
}

/// Reads a transaction of the block in `slot`.
pub(super) fn read_executed(
    slot: Slot,
    from: &mut ByteReader<'_>,
) -> Result<ExecutedTransaction, DecodeError> {
    let index = from.u32("transaction index")?;
    let block_time = from.i64("transaction time")?;
    let is_vote = from.bool("vote flag")?;
    let transaction: VersionedTransaction = wincode::deserialize_exact(from.bytes("transaction")?)
        .map_err(|_| DecodeError { what: "transaction" })?;
    let meta = read_meta(from)?;
    let account_keys = list_keys(&transaction, &meta.loaded_addresses);
    let visibility = StatusVisibility::default();
    Ok(ExecutedTransaction {
        slot,
        index,
        block_time,
        transaction,
        meta,
        account_keys,
        is_vote,
        visibility,
    })
}

fn list_keys(transaction: &VersionedTransaction, loaded: &LoadedAddresses) -> Vec<Pubkey> {
    let own = transaction.message.static_account_keys();
    [own, &loaded.writable, &loaded.readonly].concat()
}

fn write_meta(meta: &TransactionStatusMeta, out: &mut ByteWriter) {
    let TransactionStatusMeta {
        status,
        fee,
        pre_balances,
        post_balances,
        inner_instructions,
        log_messages,
        pre_token_balances,
        post_token_balances,
        rewards,
        loaded_addresses,
        return_data,
        compute_units_consumed,
        cost_units,
    } = meta;
    out.option(status.as_ref().err(), |out, err| {
        // Numbers and short strings are written to memory, which cannot fail.
        out.bytes(&bincode::serialize(err).expect("a transaction error is plain data"));
    });
    out.u64(*fee);
    out.list(pre_balances, |out, lamports| out.u64(*lamports));
    out.list(post_balances, |out, lamports| out.u64(*lamports));
    out.option(inner_instructions.as_deref(), |out, lists| out.list(lists, write_inner));
    out.option(log_messages.as_deref(), |out, lines| out.list(lines, |out, line| out.str(line)));
    out.option(pre_token_balances.as_deref(), |out, list| out.list(list, write_token_balance));
    out.option(post_token_balances.as_deref(), |out, list| out.list(list, write_token_balance));
    out.option(rewards.as_deref(), |out, list| out.list(list, write_reward));
    out.list(&loaded_addresses.writable, |out, pubkey| out.key(pubkey.as_array()));
    out.list(&loaded_addresses.readonly, |out, pubkey| out.key(pubkey.as_array()));
    out.option(return_data.as_ref(), |out, returned| {
        out.key(returned.program_id.as_array());
        out.bytes(&returned.data);
    });
    out.option(*compute_units_consumed, ByteWriter::u64);
    out.option(*cost_units, ByteWriter::u64);
}

fn read_meta(from: &mut ByteReader<'_>) -> Result<TransactionStatusMeta, DecodeError> {
    let err = from.option("status", |from| {
        bincode::deserialize(from.bytes("error")?).map_err(|_| DecodeError { what: "error" })
    })?;
    Ok(TransactionStatusMeta {
        status: err.map_or(Ok(()), Err),
        fee: from.u64("fee")?,
        pre_balances: from.list("balances", |from| from.u64("balance"))?,
        post_balances: from.list("balances", |from| from.u64("balance"))?,
        inner_instructions: from
            .option("inner instructions", |from| from.list("inner instructions", read_inner))?,
        log_messages: from.option("logs", |from| from.list("logs", |from| from.str("log line")))?,
        pre_token_balances: from
            .option("token balances", |from| from.list("token balances", read_token_balance))?,
        post_token_balances: from
            .option("token balances", |from| from.list("token balances", read_token_balance))?,
        rewards: from.option("rewards", |from| from.list("rewards", read_reward))?,
        loaded_addresses: LoadedAddresses {
            writable: from.list("loaded addresses", |from| pubkey(from, "loaded address"))?,
            readonly: from.list("loaded addresses", |from| pubkey(from, "loaded address"))?,
        },
        return_data: from.option("return data", |from| {
            let program_id = pubkey(from, "returning program")?;
            Ok(TransactionReturnData { program_id, data: from.bytes("return data")?.to_vec() })
        })?,
        compute_units_consumed: from.option("compute units", |from| from.u64("compute units"))?,
        cost_units: from.option("cost units", |from| from.u64("cost units"))?,
    })
}

fn write_inner(out: &mut ByteWriter, list: &InnerInstructions) {
    let InnerInstructions { index, instructions } = list;
    out.u8(*index);
    out.list(instructions, |out, InnerInstruction { instruction, stack_height }| {
        let CompiledInstruction { program_id_index, accounts, data } = instruction;
        out.u8(*program_id_index);
        out.bytes(accounts);
        out.bytes(data);
        out.option(*stack_height, ByteWriter::u32);
    });
}

fn read_inner(from: &mut ByteReader<'_>) -> Result<InnerInstructions, DecodeError> {
    let index = from.u8("inner instructions")?;
    let instructions = from.list("inner instructions", |from| {
        let instruction = CompiledInstruction {
            program_id_index: from.u8("inner program")?,
            accounts: from.bytes("inner accounts")?.to_vec(),
            data: from.bytes("inner data")?.to_vec(),
        };
        let stack_height = from.option("stack height", |from| from.u32("stack height"))?;
        Ok(InnerInstruction { instruction, stack_height })
    })?;
    Ok(InnerInstructions { index, instructions })
}

fn write_token_balance(out: &mut ByteWriter, balance: &TransactionTokenBalance) {
    let TransactionTokenBalance { account_index, mint, ui_token_amount, owner, program_id } =
        balance;
    let UiTokenAmount { ui_amount, decimals, amount, ui_amount_string } = ui_token_amount;
    out.u8(*account_index);
    out.str(mint);
    out.option(*ui_amount, |out, amount| out.u64(amount.to_bits()));
    out.u8(*decimals);
    out.str(amount);
    out.str(ui_amount_string);
    out.str(owner);
    out.str(program_id);
}

fn read_token_balance(from: &mut ByteReader<'_>) -> Result<TransactionTokenBalance, DecodeError> {
    Ok(TransactionTokenBalance {
        account_index: from.u8("token account")?,
        mint: from.str("mint")?,
        ui_token_amount: UiTokenAmount {
            ui_amount: from
                .option("token amount", |from| from.u64("token amount").map(f64::from_bits))?,
            decimals: from.u8("decimals")?,
            amount: from.str("token amount")?,
            ui_amount_string: from.str("token amount")?,
        },
        owner: from.str("token owner")?,
        program_id: from.str("token program")?,
    })
}

pub(super) fn write_reward(out: &mut ByteWriter, reward: &Reward) {
    let Reward { pubkey, lamports, post_balance, reward_type, commission, commission_bps } = reward;
    out.str(pubkey);
    out.i64(*lamports);
    out.u64(*post_balance);
    out.option(*reward_type, |out, kind| {
        out.u8(match kind {
            RewardType::Fee => 0,
            RewardType::Rent => 1,
            RewardType::Staking => 2,
            RewardType::Voting => 3,
            RewardType::DeactivatedStake => 4,
        });
    });
    out.option(*commission, ByteWriter::u8);
    out.option(*commission_bps, ByteWriter::u16);
}

pub(super) fn read_reward(from: &mut ByteReader<'_>) -> Result<Reward, DecodeError> {
    Ok(Reward {
        pubkey: from.str("rewarded account")?,
        lamports: from.i64("reward")?,
        post_balance: from.u64("rewarded balance")?,
        reward_type: from.option("kind of reward", |from| match from.u8("kind of reward")? {
            0 => Ok(RewardType::Fee),
            1 => Ok(RewardType::Rent),
            2 => Ok(RewardType::Staking),
            3 => Ok(RewardType::Voting),
            4 => Ok(RewardType::DeactivatedStake),
            _ => Err(DecodeError { what: "kind of reward" }),
        })?,
        commission: from.option("commission", |from| from.u8("commission"))?,
        commission_bps: from.option("commission", |from| from.u16("commission"))?,
    })
}

pub(super) fn pubkey(from: &mut ByteReader<'_>, what: &'static str) -> Result<Pubkey, DecodeError> {
    from.key(what).map(Pubkey::new_from_array)
}

pub(super) fn hash(from: &mut ByteReader<'_>, what: &'static str) -> Result<Hash, DecodeError> {
    from.key(what).map(Hash::new_from_array)
}
