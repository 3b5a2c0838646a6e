//! The record of an execution in history: Agave's `TransactionStatusMeta`.

use solana::TokenBalance;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_message::VersionedMessage;
use solana_pubkey::Pubkey;
use solana_transaction_context::transaction::TransactionReturnData;
use solana_transaction_status::{
    InnerInstruction, InnerInstructions, TransactionStatusMeta, TransactionTokenBalance,
};
use spl_generic_token::is_known_spl_token_id;

use crate::vm::ExecutionOutcome;

/// Returns the status metadata of an executed transaction with this message. `account` returns accounts that it does
/// not name.
pub fn transaction_status_meta(
    outcome: &ExecutionOutcome,
    message: &VersionedMessage,
    account: impl FnMut(&Pubkey) -> Option<AccountSharedData>,
) -> TransactionStatusMeta {
    let tokens = token_balances(outcome, message, account);
    let ran = outcome.is_executed;
    TransactionStatusMeta {
        status: outcome.result.clone(),
        fee: outcome.fee,
        pre_balances: lamports(&outcome.before),
        post_balances: lamports(&outcome.after),
        // A transaction that only paid its fee has `None`, which is not the same as an empty list.
        inner_instructions: ran.then(|| inner_instructions(outcome)),
        log_messages: ran.then(|| outcome.logs.clone()),
        pre_token_balances: Some(tokens.before),
        post_token_balances: Some(tokens.after),
        rewards: Some(Vec::new()),
        loaded_addresses: outcome.loaded_addresses.clone(),
        return_data: return_data(&outcome.return_data),
        compute_units_consumed: Some(outcome.units_consumed),
        cost_units: None,
    }
}

/// Returns the lamports of accounts, in order.
pub fn lamports(accounts: &[AccountSharedData]) -> Vec<u64> {
    accounts.iter().map(ReadableAccount::lamports).collect()
}

/// Returns the return data of the last program, if it returned any.
pub fn return_data(data: &TransactionReturnData) -> Option<TransactionReturnData> {
    (!data.data.is_empty()).then(|| data.clone())
}

/// Returns the inner instructions of each instruction that has some.
pub fn inner_instructions(outcome: &ExecutionOutcome) -> Vec<InnerInstructions> {
    let lists = outcome.inner_instructions.iter().enumerate();
    lists
        .filter(|(_, list)| !list.is_empty())
        .map(|(index, list)| InnerInstructions {
            index: index as u8,
            instructions: list
                .iter()
                .map(|inner| InnerInstruction {
                    instruction: inner.instruction.clone(),
                    stack_height: Some(u32::from(inner.stack_height)),
                })
                .collect(),
        })
        .collect()
}

/// Token balances of a transaction's accounts.
pub struct TokenBalances {
    /// Balances before the transaction.
    pub before: Vec<TransactionTokenBalance>,
    /// Balances after the transaction.
    pub after: Vec<TransactionTokenBalance>,
}

/// Returns the token balances of a transaction's accounts, before and after. `account` returns a mint that the
/// transaction does not name. As in Agave, there are none unless the transaction names a token program, and none of
/// accounts that are token programs or that its instructions call.
pub fn token_balances(
    outcome: &ExecutionOutcome,
    message: &VersionedMessage,
    mut account: impl FnMut(&Pubkey) -> Option<AccountSharedData>,
) -> TokenBalances {
    if !outcome.keys.iter().any(is_known_spl_token_id) {
        return TokenBalances { before: Vec::new(), after: Vec::new() };
    }
    let is_program = |index: usize| {
        let mut instructions = message.instructions().iter();
        outcome.keys.get(index).is_some_and(is_known_spl_token_id)
            || instructions.any(|it| usize::from(it.program_id_index) == index)
    };
    let mut balances = |accounts: &[AccountSharedData]| -> Vec<TransactionTokenBalance> {
        let indexed = accounts.iter().enumerate();
        indexed
            .filter(|(_, holding)| is_known_spl_token_id(holding.owner()))
            .filter(|(index, _)| !is_program(*index))
            .filter_map(|(index, holding)| {
                let mint =
                    |key: &Pubkey| find_named(outcome, key).cloned().or_else(|| account(key));
                let balance = TokenBalance::from_account(holding, mint)?;
                Some(TransactionTokenBalance {
                    account_index: index as u8,
                    mint: balance.mint.to_string(),
                    ui_token_amount: balance.amount,
                    owner: balance.owner.to_string(),
                    program_id: balance.program_id.to_string(),
                })
            })
            .collect()
    };
    TokenBalances { before: balances(&outcome.before), after: balances(&outcome.after) }
}

/// Returns an account that the transaction names, also if the transaction creates it.
fn find_named<'a>(outcome: &'a ExecutionOutcome, key: &Pubkey) -> Option<&'a AccountSharedData> {
    let index = outcome.keys.iter().position(|known| known == key)?;
    let pair = [outcome.after.get(index)?, outcome.before.get(index)?];
    pair.into_iter().find(|account| account.lamports() > 0)
}
