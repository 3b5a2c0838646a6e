//! Results of transactions, and rewards, of the proto.

use std::str::FromStr;

use solana_account_decoder_client_types::token::UiTokenAmount;
use solana_message::compiled_instruction::CompiledInstruction;
use solana_message::v0::LoadedAddresses;
use solana_transaction_context::transaction::TransactionReturnData;
use solana_transaction_error::TransactionError;
use solana_transaction_status::{
    InnerInstruction, InnerInstructions, Reward, RewardType, TransactionStatusMeta,
    TransactionTokenBalance,
};
use yellowstone_grpc_proto::solana::storage::confirmed_block as proto;

use crate::convert::error::ConvertError;
use crate::convert::fields::{byte, keys, pubkey};

/// The results of a transaction.
pub(crate) fn status_meta(
    meta: proto::TransactionStatusMeta,
) -> Result<TransactionStatusMeta, ConvertError> {
    let inner = meta.inner_instructions.into_iter().map(inner_instructions);
    let inner: Vec<_> = inner.collect::<Result<_, _>>()?;
    let return_data = meta.return_data.map(return_data).transpose()?;
    Ok(TransactionStatusMeta {
        status: status(meta.err.as_ref())?,
        fee: meta.fee,
        pre_balances: meta.pre_balances,
        post_balances: meta.post_balances,
        inner_instructions: (!meta.inner_instructions_none).then_some(inner),
        log_messages: (!meta.log_messages_none).then_some(meta.log_messages),
        pre_token_balances: Some(token_balances(meta.pre_token_balances)?),
        post_token_balances: Some(token_balances(meta.post_token_balances)?),
        rewards: Some(meta.rewards.into_iter().map(reward).collect::<Result<_, _>>()?),
        loaded_addresses: LoadedAddresses {
            writable: keys("loaded_writable_addresses", &meta.loaded_writable_addresses)?,
            readonly: keys("loaded_readonly_addresses", &meta.loaded_readonly_addresses)?,
        },
        return_data: return_data.filter(|_| !meta.return_data_none),
        compute_units_consumed: meta.compute_units_consumed,
        cost_units: meta.cost_units,
    })
}

pub(crate) fn reward(reward: proto::Reward) -> Result<Reward, ConvertError> {
    let unknown = || ConvertError::Range {
        field: "reward_type",
        value: u64::from(reward.reward_type as u32),
    };
    let reward_type = match proto::RewardType::try_from(reward.reward_type) {
        // Agave 4.2, whose type this is, has no debit of an admission ticket (SIMD-0357).
        Ok(proto::RewardType::Unspecified | proto::RewardType::VatDebit) => None,
        Ok(proto::RewardType::Fee) => Some(RewardType::Fee),
        Ok(proto::RewardType::Rent) => Some(RewardType::Rent),
        Ok(proto::RewardType::Staking) => Some(RewardType::Staking),
        Ok(proto::RewardType::Voting) => Some(RewardType::Voting),
        Ok(proto::RewardType::DeactivatedStake) => Some(RewardType::DeactivatedStake),
        Err(_) => return Err(unknown()),
    };
    let commission = parse_commission(&reward.commission)?;
    let commission_bps = parse_commission(&reward.commission_bps)?;
    Ok(Reward {
        pubkey: reward.pubkey,
        lamports: reward.lamports,
        post_balance: reward.post_balance,
        reward_type,
        commission,
        commission_bps,
    })
}

/// A commission in percent or in basis points. An empty text is none.
fn parse_commission<T: FromStr>(text: &str) -> Result<Option<T>, ConvertError> {
    let parsed = (!text.is_empty()).then(|| text.parse());
    parsed.transpose().map_err(|_| ConvertError::Commission(text.to_owned()))
}

/// An error is bincode of Agave's type.
fn status(
    err: Option<&proto::TransactionError>,
) -> Result<Result<(), TransactionError>, ConvertError> {
    let Some(err) = err else { return Ok(Ok(())) };
    let err = bincode::deserialize(&err.err);
    err.map(Err).map_err(|err| ConvertError::TransactionError(err.to_string()))
}

fn inner_instructions(list: proto::InnerInstructions) -> Result<InnerInstructions, ConvertError> {
    let instructions = list.instructions.into_iter().map(|inner| {
        Ok(InnerInstruction {
            instruction: CompiledInstruction {
                program_id_index: byte("program_id_index", inner.program_id_index)?,
                accounts: inner.accounts,
                data: inner.data,
            },
            stack_height: inner.stack_height,
        })
    });
    Ok(InnerInstructions {
        index: byte("index of an instruction", list.index)?,
        instructions: instructions.collect::<Result<_, _>>()?,
    })
}

fn token_balances(
    balances: Vec<proto::TokenBalance>,
) -> Result<Vec<TransactionTokenBalance>, ConvertError> {
    balances.into_iter().map(token_balance).collect()
}

fn token_balance(balance: proto::TokenBalance) -> Result<TransactionTokenBalance, ConvertError> {
    let amount = balance.ui_token_amount.unwrap_or_default();
    // The proto has no `None`: Agave has one for an amount that no `f64` shows, and its text is then empty.
    let ui_amount = (!amount.ui_amount_string.is_empty()).then_some(amount.ui_amount);
    Ok(TransactionTokenBalance {
        account_index: byte("account_index", balance.account_index)?,
        mint: balance.mint,
        ui_token_amount: UiTokenAmount {
            ui_amount,
            decimals: byte("decimals", amount.decimals)?,
            amount: amount.amount,
            ui_amount_string: amount.ui_amount_string,
        },
        owner: balance.owner,
        program_id: balance.program_id,
    })
}

fn return_data(data: proto::ReturnData) -> Result<TransactionReturnData, ConvertError> {
    Ok(TransactionReturnData {
        program_id: pubkey("program_id", &data.program_id)?,
        data: data.data,
    })
}
