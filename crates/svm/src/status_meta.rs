//! The record of an execution in history: Agave's `TransactionStatusMeta`.

use solana::TokenBalance;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_pubkey::Pubkey;
use solana_transaction_context::transaction::TransactionReturnData;
use solana_transaction_status::{
    InnerInstruction, InnerInstructions, TransactionStatusMeta, TransactionTokenBalance,
};
use spl_generic_token::is_known_spl_token_id;

use crate::vm::ExecutionOutcome;

/// The status metadata of an executed transaction. `account` returns accounts that it does not name.
pub fn transaction_status_meta(
    outcome: &ExecutionOutcome,
    account: impl FnMut(&Pubkey) -> Option<AccountSharedData>,
) -> TransactionStatusMeta {
    let tokens = token_balances(outcome, account);
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

/// Lamports of accounts, in order.
pub fn lamports(accounts: &[AccountSharedData]) -> Vec<u64> {
    accounts.iter().map(ReadableAccount::lamports).collect()
}

/// The return data of the last program, if it returned any.
pub fn return_data(data: &TransactionReturnData) -> Option<TransactionReturnData> {
    (!data.data.is_empty()).then(|| data.clone())
}

/// The inner instructions of each instruction that has some.
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
    /// Before the transaction.
    pub before: Vec<TransactionTokenBalance>,
    /// After it.
    pub after: Vec<TransactionTokenBalance>,
}

/// Token balances of a transaction's accounts, before and after. `account` returns a mint that the transaction does
/// not name.
pub fn token_balances(
    outcome: &ExecutionOutcome,
    mut account: impl FnMut(&Pubkey) -> Option<AccountSharedData>,
) -> TokenBalances {
    let mut balances = |accounts: &[AccountSharedData]| -> Vec<TransactionTokenBalance> {
        let indexed = accounts.iter().enumerate();
        indexed
            .filter(|(_, holding)| is_known_spl_token_id(holding.owner()))
            .filter_map(|(index, holding)| {
                let mint = |key: &Pubkey| named(outcome, key).cloned().or_else(|| account(key));
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

/// An account that the transaction names, also if the transaction creates it.
fn named<'a>(outcome: &'a ExecutionOutcome, key: &Pubkey) -> Option<&'a AccountSharedData> {
    let index = outcome.keys.iter().position(|known| known == key)?;
    let pair = [outcome.after.get(index)?, outcome.before.get(index)?];
    pair.into_iter().find(|account| account.lamports() > 0)
}
