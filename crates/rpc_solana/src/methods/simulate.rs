//! simulateTransaction: runs a transaction on a view, without effect, and returns its effects.

use std::collections::HashMap;

use chain_solana::{
    Simulation, SimulationError, SimulationRequest, VerifiedTransaction, VerifyError, View,
    WrittenAccounts,
};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodOutput, MethodResult, MethodSpec};
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

use super::{accounts_reader, parse_key, transaction_codec};
use crate::commitment::{context, view_since};
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] =
    &[MethodSpec::new("simulateTransaction", Execution::Medium, simulate_transaction)];

/// Returns -32602 for a transaction that contradicts itself.
pub(super) fn invalid_transaction(why: &str) -> RpcError {
    RpcError::invalid_params(format!("invalid transaction: {why}"))
}

/// Returns the fee that the transaction would pay; `None` if it would not be charged.
pub(super) fn fee(simulation: &Simulation) -> Option<u64> {
    (simulation.err.is_none() || simulation.fee > 0).then_some(simulation.fee)
}

fn simulate_transaction(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (text, config): (String, Option<RpcSimulateTransactionConfig>) = params.parse(1)?;
    let config = config.unwrap_or_default();
    let transaction: VersionedTransaction =
        transaction_codec::decode(&text, transaction_codec::binary(config.encoding)?)?;
    let view = view_since(api, config.commitment, config.min_context_slot)?;
    if config.replace_recent_blockhash && config.sig_verify {
        return Err(RpcError::invalid_params(
            "sigVerify may not be used with replaceRecentBlockhash",
        ));
    }
    let sane = transaction_codec::sanitize(transaction.clone(), &view)?;
    let keys = sane.message().account_keys();
    let accounts_config = config.accounts.as_ref();
    let encoding =
        accounts_config.map(|config| accounts_encoding(config, keys.len())).transpose()?;

    let simulation = if config.sig_verify && has_invalid_signature(transaction.clone())? {
        None
    } else {
        let request = SimulationRequest {
            transaction,
            replace_recent_blockhash: config.replace_recent_blockhash,
            inner_instructions: config.inner_instructions,
        };
        Some(run(api, &view, request)?)
    };
    let mut accounts = None;
    if let (Some(accounts_config), Some(encoding)) = (accounts_config, encoding) {
        let succeeded = simulation.as_ref().filter(|simulation| simulation.err.is_none());
        accounts = Some(match succeeded {
            Some(simulation) => accounts_after(accounts_config, encoding, simulation, &view)?,
            None => vec![None; accounts_config.addresses.len()],
        });
    }
    let mut result = simulation
        .map_or_else(invalid_signature_result, |simulation| simulation_result(simulation, &keys));
    result.accounts = accounts;
    result.loaded_addresses = Some(UiLoadedAddresses::from(&sane.get_loaded_addresses()));
    MethodOutput::json_in(context(&view), &result)
}

/// Runs a transaction on a view. As in Agave, a transaction that is refused before it runs has loaded no data and would
/// pay no fee.
pub(super) fn run(
    api: &SolanaApi,
    view: &View,
    request: SimulationRequest,
) -> Result<Simulation, RpcError> {
    run_after(api, view, &WrittenAccounts::default(), request)
}

/// Runs a transaction like [`run`], after other transactions that wrote `written`.
pub(super) fn run_after(
    api: &SolanaApi,
    view: &View,
    written: &WrittenAccounts,
    request: SimulationRequest,
) -> Result<Simulation, RpcError> {
    let simulated = api.simulator.simulate_after(view, written, request);
    let mut simulation = simulated.map_err(|err| match err {
        SimulationError::Sanitize(why) => invalid_transaction(&why),
        SimulationError::Panicked => RpcError::internal_with(err.to_string()),
    })?;
    use TransactionError::{AlreadyProcessed, BlockhashNotFound};
    if matches!(simulation.err, Some(AlreadyProcessed | BlockhashNotFound)) {
        simulation.fee = 0;
    }
    if fee(&simulation).is_none() {
        simulation.loaded_accounts_data_size = 0;
    }
    Ok(simulation)
}

fn has_invalid_signature(transaction: VersionedTransaction) -> Result<bool, RpcError> {
    match VerifiedTransaction::verify(transaction) {
        Ok(_) => Ok(false),
        Err(VerifyError::Signature) => Ok(true),
        Err(VerifyError::Sanitize(why)) => Err(invalid_transaction(&why)),
    }
}

/// Returns the requested encoding of accounts, if it is supported.
fn accounts_encoding(
    config: &RpcSimulateTransactionAccountsConfig,
    keys_len: usize,
) -> Result<Encoding, RpcError> {
    let form = config.encoding.unwrap_or(UiAccountEncoding::Base64);
    if matches!(form, UiAccountEncoding::Binary | UiAccountEncoding::Base58) {
        return Err(RpcError::invalid_params("base58 encoding not supported"));
    }
    if config.addresses.len() > keys_len {
        let message = format!("Too many accounts provided; max {keys_len}");
        return Err(RpcError::invalid_params(message));
    }
    Ok(Encoding { form, slice: None })
}

/// Encodes the requested accounts after the transaction: those of the transaction, and otherwise those of the view.
fn accounts_after(
    config: &RpcSimulateTransactionAccountsConfig,
    encoding: Encoding,
    simulation: &Simulation,
    view: &View,
) -> Result<Vec<Option<UiAccount>>, RpcError> {
    let changed: HashMap<Pubkey, &AccountSharedData> =
        simulation.post_accounts.iter().map(|(pubkey, account)| (*pubkey, account)).collect();
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
    config.addresses.iter().map(encode).collect()
}

/// Returns the result for a transaction that ran.
pub(super) fn simulation_result(
    simulation: Simulation,
    keys: &AccountKeys<'_>,
) -> RpcSimulateTransactionResult {
    let fee = fee(&simulation);
    let inner_instructions = simulation.inner_instructions.map(|lists| {
        lists.into_iter().map(|list| parse_ui_inner_instructions(list, keys)).collect()
    });
    let replacement_blockhash =
        simulation.replacement_blockhash.map(|(blockhash, last_valid_block_height)| RpcBlockhash {
            blockhash: blockhash.to_string(),
            last_valid_block_height,
        });
    RpcSimulateTransactionResult {
        err: simulation.err.map(Into::into),
        logs: Some(simulation.logs),
        accounts: None,
        units_consumed: Some(simulation.units_consumed),
        loaded_accounts_data_size: Some(simulation.loaded_accounts_data_size),
        return_data: simulation.return_data.map(Into::into),
        inner_instructions,
        replacement_blockhash,
        fee,
        pre_balances: Some(simulation.pre_balances),
        post_balances: Some(simulation.post_balances),
        pre_token_balances: Some(
            simulation.pre_token_balances.into_iter().map(Into::into).collect(),
        ),
        post_token_balances: Some(
            simulation.post_token_balances.into_iter().map(Into::into).collect(),
        ),
        loaded_addresses: None,
    }
}

/// Returns the result for a transaction with an invalid signature, which did not run.
fn invalid_signature_result() -> RpcSimulateTransactionResult {
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
