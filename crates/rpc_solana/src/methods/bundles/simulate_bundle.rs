//! simulateBundle: runs transactions one after another on a view, each after those before it, without effect.
//!
//! The bundle ends at the first transaction that fails: those after it have no result.
//! Bounds: [`TRANSACTIONS_MAX`], one of them in each step; [`WRITTEN_BYTES_MAX`] of accounts that they write, and
//! [`RETURNED_BYTES_MAX`] of accounts that are returned.

use chain_solana::{
    Simulation, SimulationRequest, VerifiedTransaction, VerifyError, View, WrittenAccounts,
};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{IncrementalQuery, MethodResult, OutputBody, run_incremental};
use ledger::{Commitment, Slot};
use serde::{Deserialize, Serialize};
use solana::{Encoding, MintInfo};
use solana_account::ReadableAccount;
use solana_account_decoder_client_types::{UiAccount, UiAccountEncoding};
use solana_commitment_config::CommitmentConfig;
use solana_pubkey::Pubkey;
use solana_rpc_client_types::config::RpcSimulateTransactionAccountsConfig;
use solana_rpc_client_types::response::{RpcBlockhash, RpcSimulateTransactionResult};
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;
use solana_transaction_status::{
    UiLoadedAddresses, UiTransactionEncoding, UiTransactionReturnData, UiTransactionTokenBalance,
};

use super::super::{accounts_reader, parse_key, simulate, transaction_codec};
use super::decode_bundle::decode_bundle;
use crate::commitment::{context, view};
use crate::solana_api::SolanaApi;

/// Maximum number of transactions, as in Jito's validator.
const TRANSACTIONS_MAX: usize = 20;
/// Maximum number of accounts to return for a transaction, before or after it: as many as it can name.
const ACCOUNTS_MAX: usize = 128;
/// Maximum bytes of the accounts that all transactions write.
const WRITTEN_BYTES_MAX: u64 = 128 << 20;
/// Maximum bytes of data of all accounts that are returned.
const RETURNED_BYTES_MAX: u64 = 32 << 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BundleRequest {
    encoded_transactions: Vec<String>,
}

type AccountsConfigs = Vec<Option<RpcSimulateTransactionAccountsConfig>>;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct BundleConfig {
    pre_execution_accounts_configs: Option<AccountsConfigs>,
    post_execution_accounts_configs: Option<AccountsConfigs>,
    transaction_encoding: Option<UiTransactionEncoding>,
    simulation_bank: Option<SimulationBank>,
    skip_sig_verify: bool,
    replace_recent_blockhash: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum SimulationBank {
    Commitment(CommitmentConfig),
    Slot(Slot),
    Tip,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BundleResult {
    summary: Summary,
    transaction_results: Vec<TransactionResult>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Summary {
    Succeeded,
    Failed { error: BundleFailure, tx_signature: String },
}

#[derive(Serialize)]
enum BundleFailure {
    /// The bytes of the signature, and the message.
    TransactionFailure(Vec<u8>, String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TransactionResult {
    err: Option<TransactionError>,
    logs: Option<Vec<String>>,
    pre_execution_accounts: Vec<Option<UiAccount>>,
    post_execution_accounts: Vec<Option<UiAccount>>,
    units_consumed: Option<u64>,
    loaded_accounts_data_size: Option<u32>,
    return_data: Option<UiTransactionReturnData>,
    replacement_blockhash: Option<RpcBlockhash>,
    fee: Option<u64>,
    pre_balances: Option<Vec<u64>>,
    post_balances: Option<Vec<u64>>,
    pre_token_balances: Option<Vec<UiTransactionTokenBalance>>,
    post_token_balances: Option<Vec<UiTransactionTokenBalance>>,
    loaded_addresses: UiLoadedAddresses,
}

pub(super) fn simulate_bundle(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (request, config): (BundleRequest, Option<BundleConfig>) = params.parse(1)?;
    let config = config.unwrap_or_default();
    let encoding = config.transaction_encoding.unwrap_or(UiTransactionEncoding::Base64);
    let encoding = transaction_codec::binary(Some(encoding))?;
    let transactions = decode_bundle(&request.encoded_transactions, encoding, TRANSACTIONS_MAX)?;
    let before = addresses(config.pre_execution_accounts_configs, transactions.len(), "pre")?;
    let after = addresses(config.post_execution_accounts_configs, transactions.len(), "post")?;
    let view = bank(api, config.simulation_bank)?;
    if config.replace_recent_blockhash && !config.skip_sig_verify {
        return Err(RpcError::invalid_params(
            "replaceRecentBlockhash may not be used without skipSigVerify",
        ));
    }
    let steps = transactions.into_iter().zip(before).zip(after);
    let steps = steps.map(|((transaction, before), after)| Step { transaction, before, after });
    let context = context(&view);
    let query = BundleQuery {
        api: api.clone(),
        view,
        steps: steps.collect::<Vec<_>>().into_iter(),
        verifies_signatures: !config.skip_sig_verify,
        replace_recent_blockhash: config.replace_recent_blockhash,
        written: WrittenAccounts::default(),
        returned_bytes: 0,
        results: Vec::new(),
        executed: 0,
    };
    run_incremental(Some(context), query)
}

/// Parses the addresses of the accounts to return for each transaction.
fn addresses(
    configs: Option<AccountsConfigs>,
    transactions: usize,
    when: &str,
) -> Result<Vec<Vec<Pubkey>>, RpcError> {
    let configs = configs.filter(|configs| !configs.is_empty());
    let Some(configs) = configs else { return Ok(vec![Vec::new(); transactions]) };
    if configs.len() != transactions {
        return Err(RpcError::invalid_params(format!(
            "{when}ExecutionAccountsConfigs has {} entries: one for each of the {transactions} transactions",
            configs.len()
        )));
    }
    let parse = |config: Option<RpcSimulateTransactionAccountsConfig>| {
        let Some(config) = config else { return Ok(Vec::new()) };
        if config.encoding.is_some_and(|encoding| encoding != UiAccountEncoding::Base64) {
            return Err(RpcError::invalid_params(format!(
                "Base64 is the only supported encoding for {when}-execution accounts"
            )));
        }
        if config.addresses.len() > ACCOUNTS_MAX {
            let message = format!("Too many accounts provided; max {ACCOUNTS_MAX}");
            return Err(RpcError::invalid_params(message));
        }
        config.addresses.iter().map(|address| parse_key::pubkey(address)).collect()
    };
    configs.into_iter().map(parse).collect()
}

/// Returns the state that a request selects. Default: confirmed, as in Jito.
fn bank(api: &SolanaApi, bank: Option<SimulationBank>) -> Result<View, RpcError> {
    match bank.unwrap_or(SimulationBank::Commitment(CommitmentConfig::confirmed())) {
        SimulationBank::Commitment(commitment) => Ok(view(api, Some(commitment))),
        SimulationBank::Tip => Ok(api.reader.view(Commitment::Processed)),
        SimulationBank::Slot(slot) => {
            let levels = [Commitment::Processed, Commitment::Confirmed, Commitment::Finalized];
            let mut views = levels.into_iter().map(|level| api.reader.view(level));
            let found = views.find(|view| view.block().slot == slot);
            found.ok_or_else(|| {
                let message = format!("bank not found for the provided slot: {slot}");
                RpcError::invalid_params(message)
            })
        }
    }
}

fn check_signatures(transaction: &VersionedTransaction) -> Result<(), RpcError> {
    match VerifiedTransaction::verify(transaction.clone()) {
        Ok(_) => Ok(()),
        Err(VerifyError::Sanitize(why)) => Err(simulate::invalid_transaction(&why)),
        Err(VerifyError::Signature) => {
            let message =
                format!("transaction signature is invalid: {}", TransactionError::SignatureFailure);
            Err(RpcError::invalid_params(message))
        }
    }
}

/// A transaction, and the accounts to return before and after it.
struct Step {
    transaction: VersionedTransaction,
    before: Vec<Pubkey>,
    after: Vec<Pubkey>,
}

struct BundleQuery {
    api: SolanaApi,
    view: View,
    steps: std::vec::IntoIter<Step>,
    verifies_signatures: bool,
    replace_recent_blockhash: bool,
    written: WrittenAccounts,
    returned_bytes: u64,
    results: Vec<TransactionResult>,
    executed: u64,
}

impl IncrementalQuery for BundleQuery {
    fn step(&mut self) -> Result<Option<OutputBody>, RpcError> {
        let Some(step) = self.steps.next() else { return self.finish(Summary::Succeeded) };
        let signature = step.transaction.signatures.first().copied().unwrap_or_default();
        match self.run(step)? {
            None => Ok(None),
            Some(err) => self.finish(Summary::from_error(&signature, &err)),
        }
    }

    fn records_visited(&self) -> u64 {
        self.executed
    }
}

impl Summary {
    fn from_error(signature: &Signature, err: &TransactionError) -> Self {
        let bytes = signature.as_array().to_vec();
        Self::Failed {
            error: BundleFailure::TransactionFailure(bytes, err.to_string()),
            tx_signature: signature.to_string(),
        }
    }
}

impl BundleQuery {
    fn finish(&mut self, summary: Summary) -> Result<Option<OutputBody>, RpcError> {
        let transaction_results = std::mem::take(&mut self.results);
        OutputBody::json(&BundleResult { summary, transaction_results }).map(Some)
    }

    /// Runs a transaction, and returns its error.
    fn run(&mut self, step: Step) -> Result<Option<TransactionError>, RpcError> {
        self.executed += 1;
        let Step { transaction, before, after } = step;
        let sane = transaction_codec::sanitize(transaction.clone(), &self.view)?;
        if self.verifies_signatures {
            check_signatures(&transaction)?;
        }
        let pre_execution_accounts = self.accounts(&before)?;
        let request = SimulationRequest {
            transaction,
            replace_recent_blockhash: self.replace_recent_blockhash,
            inner_instructions: false,
        };
        let simulation = simulate::run_after(&self.api, &self.view, &self.written, request)?;
        let err = simulation.err.clone();
        if err.is_none() {
            self.write(&simulation, |index| sane.message().is_writable(index))?;
        }
        let post_execution_accounts = match err {
            None => self.accounts(&after)?,
            Some(_) => vec![None; after.len()],
        };
        let keys = sane.message().account_keys();
        let RpcSimulateTransactionResult {
            logs,
            units_consumed,
            loaded_accounts_data_size,
            return_data,
            replacement_blockhash,
            fee,
            pre_balances,
            post_balances,
            pre_token_balances,
            post_token_balances,
            ..
        } = simulate::simulation_result(simulation, &keys);
        self.results.push(TransactionResult {
            err: err.clone(),
            logs,
            pre_execution_accounts,
            post_execution_accounts,
            units_consumed,
            loaded_accounts_data_size,
            return_data,
            replacement_blockhash,
            fee,
            pre_balances,
            post_balances,
            pre_token_balances,
            post_token_balances,
            loaded_addresses: UiLoadedAddresses::from(&sane.get_loaded_addresses()),
        });
        Ok(err)
    }

    /// Adds the accounts that a transaction wrote, for those after it.
    fn write(
        &mut self,
        simulation: &Simulation,
        is_writable: impl Fn(usize) -> bool,
    ) -> Result<(), RpcError> {
        let accounts = simulation.post_accounts.iter().enumerate();
        for (_, (key, account)) in accounts.filter(|(index, _)| is_writable(*index)) {
            self.written.insert(*key, account);
        }
        let bytes = self.written.bytes();
        if bytes > WRITTEN_BYTES_MAX {
            let message =
                format!("the bundle writes accounts of {bytes} bytes, at most {WRITTEN_BYTES_MAX}");
            return Err(RpcError::invalid_params(message));
        }
        Ok(())
    }

    /// Encodes accounts after the transactions that have run; null for one that does not exist.
    fn accounts(&mut self, keys: &[Pubkey]) -> Result<Vec<Option<UiAccount>>, RpcError> {
        let encoding = Encoding { form: UiAccountEncoding::Base64, slice: None };
        let mut accounts = Vec::with_capacity(keys.len());
        for key in keys {
            let written = self.written.get(key);
            let account = written.unwrap_or_else(|| accounts_reader::account(&self.view, key));
            self.returned_bytes +=
                account.as_ref().map_or(0, |account| account.0.data().len() as u64);
            if self.returned_bytes > RETURNED_BYTES_MAX {
                let message = format!(
                    "the requested accounts have more than {RETURNED_BYTES_MAX} bytes of data"
                );
                return Err(RpcError::invalid_params(message));
            }
            let mint = |mint: &Pubkey| -> Option<MintInfo> {
                accounts_reader::mint_info(&self.view, mint)
            };
            accounts.push(account.map(|account| encoding.encode(key, &account.0, mint)));
        }
        Ok(accounts)
    }
}
