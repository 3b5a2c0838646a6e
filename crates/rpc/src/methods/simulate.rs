//! simulateTransaction: runs a transaction on a view, keeps nothing, tells everything.

use std::collections::HashMap;

use chain_solana::{
    Simulation, SimulationError, SimulationRequest, VerifiedTransaction, VerifyError, View,
};
use solana::{Encoding, MintInfo};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_account_decoder_client_types::{UiAccount, UiAccountEncoding};
use solana_message::AccountKeys;
use solana_pubkey::Pubkey;
use solana_rpc_client_types::config::{
    RpcSimulateTransactionAccountsConfig, RpcSimulateTransactionConfig,
};
use solana_rpc_client_types::response::{RpcBlockhash, RpcSimulateTransactionResult};
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;
use solana_transaction_status::{UiLoadedAddresses, parse_ui_inner_instructions};

use super::{
    Class, Method, MethodOutput, MethodResult, accounts_reader, parse_key, transaction_codec,
};
use crate::commitment::{view_since, with_context};
use crate::error::RpcError;
use crate::node::Node;
use crate::params::Params;

pub(super) const METHODS: &[Method] =
    &[Method { name: "simulateTransaction", class: Class::Medium, run: simulate_transaction }];

/// -32602 for a transaction that contradicts itself.
pub(super) fn unsound(why: &str) -> RpcError {
    RpcError::invalid_params(format!("invalid transaction: {why}"))
}

/// What the transaction would pay; `None` if it would not even be charged.
pub(super) fn fee(simulation: &Simulation) -> Option<u64> {
    (simulation.err.is_none() || simulation.fee > 0).then_some(simulation.fee)
}

fn simulate_transaction(node: &Node, params: Params<'_>) -> MethodResult {
    let (text, config): (String, Option<RpcSimulateTransactionConfig>) = params.parse(1)?;
    let config = config.unwrap_or_default();
    let transaction: VersionedTransaction =
        transaction_codec::decode(&text, transaction_codec::binary(config.encoding)?)?;
    let view = view_since(node, config.commitment, config.min_context_slot)?;
    if config.replace_recent_blockhash && config.sig_verify {
        return Err(RpcError::invalid_params(
            "sigVerify may not be used with replaceRecentBlockhash",
        ));
    }
    let sane = transaction_codec::sanitize(transaction.clone(), &view)?;
    let keys = sane.message().account_keys();
    let wanted = config.accounts.as_ref();
    let encoding = wanted.map(|wanted| accounts_encoding(wanted, keys.len())).transpose()?;

    let done = if config.sig_verify && is_wrongly_signed(transaction.clone())? {
        None
    } else {
        let request = SimulationRequest {
            transaction,
            replace_recent_blockhash: config.replace_recent_blockhash,
            inner_instructions: config.inner_instructions,
        };
        Some(run(node, &view, request)?)
    };
    let mut accounts = None;
    if let (Some(wanted), Some(encoding)) = (wanted, encoding) {
        let ran_well = done.as_ref().filter(|done| done.err.is_none());
        accounts = Some(match ran_well {
            Some(done) => after(wanted, encoding, done, &view)?,
            None => vec![None; wanted.addresses.len()],
        });
    }
    let mut result = done.map_or_else(wrongly_signed, |done| simulation_result(done, &keys));
    result.accounts = accounts;
    result.loaded_addresses = Some(UiLoadedAddresses::from(&sane.get_loaded_addresses()));
    MethodOutput::json(&with_context(&view, result))
}

/// Runs a transaction on a view. What is refused before it runs is told as Agave tells it: it has
/// loaded nothing and would pay nothing.
pub(super) fn run(
    node: &Node,
    view: &View,
    request: SimulationRequest,
) -> Result<Simulation, RpcError> {
    let mut done = node.transaction_service.simulate(view, request).map_err(|err| match err {
        SimulationError::Sanitize(why) => unsound(&why),
        SimulationError::Panicked => RpcError::internal_with(err.to_string()),
    })?;
    use TransactionError::{AlreadyProcessed, BlockhashNotFound};
    if matches!(done.err, Some(AlreadyProcessed | BlockhashNotFound)) {
        done.fee = 0;
    }
    if fee(&done).is_none() {
        done.loaded_accounts_data_size = 0;
    }
    Ok(done)
}

fn is_wrongly_signed(transaction: VersionedTransaction) -> Result<bool, RpcError> {
    match VerifiedTransaction::verify(transaction) {
        Ok(_) => Ok(false),
        Err(VerifyError::Signature) => Ok(true),
        Err(VerifyError::Sanitize(why)) => Err(unsound(&why)),
    }
}

/// The encoding in which accounts are wanted, if they can be had.
fn accounts_encoding(
    wanted: &RpcSimulateTransactionAccountsConfig,
    keys_len: usize,
) -> Result<Encoding, RpcError> {
    let form = wanted.encoding.unwrap_or(UiAccountEncoding::Base64);
    if matches!(form, UiAccountEncoding::Binary | UiAccountEncoding::Base58) {
        return Err(RpcError::invalid_params("base58 encoding not supported"));
    }
    if wanted.addresses.len() > keys_len {
        let message = format!("Too many accounts provided; max {keys_len}");
        return Err(RpcError::invalid_params(message));
    }
    Ok(Encoding { form, slice: None })
}

/// The wanted accounts as they would be: the transaction's own, or else the view's.
fn after(
    wanted: &RpcSimulateTransactionAccountsConfig,
    encoding: Encoding,
    done: &Simulation,
    view: &View,
) -> Result<Vec<Option<UiAccount>>, RpcError> {
    let changed: HashMap<Pubkey, &AccountSharedData> =
        done.post_accounts.iter().map(|(pubkey, account)| (*pubkey, account)).collect();
    let account = |pubkey: &Pubkey| match changed.get(pubkey) {
        Some(account) => Some((*account).clone()),
        None => accounts_reader::account(view, pubkey).map(|record| record.0.clone()),
    };
    let encode = |address: &String| {
        let pubkey = parse_key::pubkey(address)?;
        let mint = |key: &Pubkey| {
            if solana::is_native_mint(key) {
                return Some(MintInfo::native());
            }
            MintInfo::from_data(account(key)?.data(), view.meta().unix_timestamp)
        };
        Ok(account(&pubkey).map(|account| encoding.encode(&pubkey, &account, mint)))
    };
    wanted.addresses.iter().map(encode).collect()
}

/// What is told of a transaction that ran.
fn simulation_result(done: Simulation, keys: &AccountKeys<'_>) -> RpcSimulateTransactionResult {
    let fee = fee(&done);
    let inner_instructions = done.inner_instructions.map(|lists| {
        lists.into_iter().map(|list| parse_ui_inner_instructions(list, keys)).collect()
    });
    let replacement_blockhash =
        done.replacement_blockhash.map(|(blockhash, last_valid_block_height)| RpcBlockhash {
            blockhash: blockhash.to_string(),
            last_valid_block_height,
        });
    RpcSimulateTransactionResult {
        err: done.err.map(Into::into),
        logs: Some(done.logs),
        accounts: None,
        units_consumed: Some(done.units_consumed),
        loaded_accounts_data_size: Some(done.loaded_accounts_data_size),
        return_data: done.return_data.map(Into::into),
        inner_instructions,
        replacement_blockhash,
        fee,
        pre_balances: Some(done.pre_balances),
        post_balances: Some(done.post_balances),
        pre_token_balances: Some(done.pre_token_balances.into_iter().map(Into::into).collect()),
        post_token_balances: Some(done.post_token_balances.into_iter().map(Into::into).collect()),
        loaded_addresses: None,
    }
}

/// What is told of a transaction whose signatures are wrong: nothing ran.
fn wrongly_signed() -> RpcSimulateTransactionResult {
    RpcSimulateTransactionResult {
        err: Some(TransactionError::SignatureFailure.into()),
        logs: Some(Vec::new()),
        accounts: None,
        units_consumed: Some(0),
        loaded_accounts_data_size: Some(0),
        return_data: None,
        inner_instructions: None,
        replacement_blockhash: None,
        fee: None,
        pre_balances: None,
        post_balances: None,
        pre_token_balances: None,
        post_token_balances: None,
        loaded_addresses: None,
    }
}
