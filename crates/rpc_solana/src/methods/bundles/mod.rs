//! Bundles, by the names and shapes of Jito: sendBundle, getBundleStatuses, getInflightBundleStatuses, getTipAccounts
//! and simulateBundle.
//!
//! Differs from Jito: there is no auction. A bundle needs no tip, and shares the queue with the transactions of the
//! node. getInflightBundleStatuses has the reason for which a bundle failed.
//! Bounds: [`chain_solana::BUNDLE_TRANSACTIONS_MAX`], [`IDS_MAX`]; those of the queue and of `crate::bundles`.
//! Not here: execution (`localnet`). A followed chain takes no bundles: -32601.

mod decode_bundle;
mod simulate_bundle;

use std::collections::HashSet;

use chain_solana::{BUNDLE_TRANSACTIONS_MAX, VerifiedTransaction, VerifyError};
use jsonrpc::error::{OVERLOADED, RpcError};
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodOutput, MethodResult, MethodSpec};
use ledger::Commitment;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_status::UiTransactionEncoding;

use self::decode_bundle::decode_bundle;
use super::{cheatcodes, send, simulate, transaction_codec};
use crate::bundles::{BundleId, BundleStatus, FoundBundle, SendBundleError};
use crate::commitment::context;
use crate::custom_error::RpcCustomError;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    MethodSpec::new("sendBundle", Execution::Medium, send_bundle),
    MethodSpec::new("getBundleStatuses", Execution::Inline, bundle_statuses),
    MethodSpec::new("getInflightBundleStatuses", Execution::Inline, inflight_bundle_statuses),
    MethodSpec::new("getTipAccounts", Execution::Inline, list_tip_accounts),
    MethodSpec::new("simulateBundle", Execution::Medium, simulate_bundle::simulate_bundle),
];

/// Maximum number of ids of a call, as in Jito.
const IDS_MAX: usize = 5;

/// The accounts of Jito's tip program on mainnet.
const TIP_ACCOUNTS: [&str; 8] = [
    "96gYZGLnJYVFmbjzopPSU6QiEV5fGqZNyN9nmNhvrZU5",
    "HFqU5x63VTqvQss8hp11i4wVV8bD44PvwucfZ2bU7gRe",
    "Cw8CFyM9FkoMi7K7Crf6HNQqf4uEMzpKw6QNghXLvLkY",
    "ADaUMid9yfUytqMBgopwjb2DTLSokTSzL1zt6iGPaS49",
    "DfXygSm4jCyNCybVYYK6DwvWqjKee8pbDmJGcLWNDXjh",
    "ADuUkR4vqLUMWXxW9gh6D6L8pMSawimctcNZ5pGwDcEt",
    "DttWaMuVvTiduZRnguLF7jNxTgiMBZ1hyAumKUiL2KRL",
    "3AVi9Tg9Uo68tJfuvoKvqKNWKkC5wPdSSdeBnizKZ6jT",
];

/// Returns the accounts that getTipAccounts lists.
pub fn tip_accounts() -> impl Iterator<Item = Pubkey> {
    TIP_ACCOUNTS.iter().filter_map(|text| text.parse().ok())
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct SendConfig {
    encoding: Option<UiTransactionEncoding>,
    /// A flag that [`cheatcodes::verify`] reads.
    #[serde(rename = "skipSigVerify")]
    _skip_sig_verify: Option<IgnoredAny>,
}

/// Returns -32601 if the ledger takes no bundles.
fn check_served(api: &SolanaApi) -> Result<(), RpcError> {
    if api.bundles.is_served() {
        return Ok(());
    }
    let message = "Method not found: only a local ledger has it (hydrant dev)".to_owned();
    Err(RpcError { message, ..RpcError::method_not_found() })
}

fn send_bundle(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    check_served(api)?;
    let (texts, config): (Vec<String>, Option<SendConfig>) = params.parse(1)?;
    let encoding = transaction_codec::binary(config.unwrap_or_default().encoding)?;
    let transactions = decode_bundle(&texts, encoding, BUNDLE_TRANSACTIONS_MAX)?;
    let view = api.reader.view(Commitment::Processed);
    let verify = |transaction: VersionedTransaction| {
        transaction_codec::sanitize(transaction.clone(), &view)?;
        match cheatcodes::verify(api, params, transaction)? {
            Ok(verified) => Ok(verified),
            Err(VerifyError::Sanitize(why)) => Err(simulate::invalid_transaction(&why)),
            Err(VerifyError::Signature) => {
                Err(RpcCustomError::TransactionSignatureVerificationFailure.into())
            }
        }
    };
    let verified: Vec<VerifiedTransaction> =
        transactions.into_iter().map(verify).collect::<Result<_, RpcError>>()?;
    // Another transaction may have the same signature if it was not checked.
    let signatures: HashSet<Signature> =
        verified.iter().map(VerifiedTransaction::signature).collect();
    if signatures.len() < verified.len() {
        return Err(RpcError::invalid_params("duplicate transactions"));
    }
    let sent = api.bundles.send(params.client(), verified, &api.history.snapshot());
    let id = sent.map_err(|err| match err {
        SendBundleError::BeingSent => RpcError::new(OVERLOADED, err.to_string()),
        SendBundleError::Send(err) => send::send_error(api, &err),
    })?;
    MethodOutput::json(&id.to_string())
}

fn parse_ids(params: Params<'_>) -> Result<Vec<String>, RpcError> {
    let (ids,): (Vec<String>,) = params.parse(1)?;
    if ids.len() > IDS_MAX {
        let message = format!("{} bundle ids: at most {IDS_MAX}", ids.len());
        return Err(RpcError::invalid_params(message));
    }
    Ok(ids)
}

/// Finds the retained bundles with these ids.
fn find(api: &SolanaApi, ids: &[String]) -> Vec<Option<FoundBundle>> {
    ids.iter().map(|id| BundleId::parse(id).and_then(|id| api.bundles.find(&id))).collect()
}

fn bundle_statuses(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    check_served(api)?;
    let ids = parse_ids(params)?;
    let found = find(api, &ids);
    let processed = api.reader.view(Commitment::Processed);
    let history = api.history.snapshot();
    let status = |(id, found): (&String, &Option<FoundBundle>)| {
        let found = found.as_ref()?;
        let BundleStatus::Landed { slot } = found.status(&history) else { return None };
        let confirmation = match history.commitment(slot) {
            Commitment::Processed => "processed",
            Commitment::Confirmed => "confirmed",
            Commitment::Finalized => "finalized",
        };
        let signatures: Vec<String> = found.signatures.iter().map(Signature::to_string).collect();
        Some(json!({
            "bundle_id": id,
            "transactions": signatures,
            "slot": slot,
            "confirmation_status": confirmation,
            "err": { "Ok": null },
        }))
    };
    let statuses: Vec<Option<Value>> = ids.iter().zip(&found).map(status).collect();
    MethodOutput::json_in(context(&processed), &statuses)
}

fn inflight_bundle_statuses(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    check_served(api)?;
    let ids = parse_ids(params)?;
    let found = find(api, &ids);
    let processed = api.reader.view(Commitment::Processed);
    let history = api.history.snapshot();
    let status = |(id, found): (&String, &Option<FoundBundle>)| {
        let status = found.as_ref().map(|found| found.status(&history));
        let (name, slot) = match &status {
            None => ("Invalid", None),
            Some(BundleStatus::Pending) => ("Pending", None),
            Some(BundleStatus::Failed { .. }) => ("Failed", None),
            Some(BundleStatus::Landed { slot }) => ("Landed", Some(slot)),
        };
        let mut value = json!({ "bundle_id": id, "status": name, "landed_slot": slot });
        if let Some(BundleStatus::Failed { reason }) = status {
            value["err"] = reason.into();
        }
        value
    };
    let statuses: Vec<Value> = ids.iter().zip(&found).map(status).collect();
    MethodOutput::json_in(context(&processed), &statuses)
}

fn list_tip_accounts(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    check_served(api)?;
    params.none()?;
    MethodOutput::json(&TIP_ACCOUNTS)
}
