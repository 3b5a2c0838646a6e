//! hydrant_mine, hydrant_snapshot, hydrant_revert and hydrant_reorg: the forks of a local ledger, on request.
//!
//! Shape: a call is queued for the ledger's writer, and waits in the pool without occupying a thread. The response is
//! sent when readers see the result.
//! Bounds: those of [`chain_solana::ForkControl`].
//! Not here: the changes of the ledger (`localnet`). A followed chain has no such methods: -32601.

mod pending_call;

use std::sync::Arc;

use chain_solana::{
    ForkControl, ForkTransactions, REORG_TRANSACTIONS_MAX, Reorganization, VerifiedTransaction,
    VerifyError,
};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodOutput, MethodResult, MethodSpec};
use serde::Deserialize;
use serde_json::{Value, json};
use solana::JsonU64;
use solana_transaction_status::TransactionBinaryEncoding;

use self::pending_call::PendingCall;
use super::super::{simulate, transaction_codec};
use crate::custom_error::RpcCustomError;
use crate::solana_api::SolanaApi;

/// The methods that control forks. All of them change the ledger without a transaction.
pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    gated!("hydrant_mine", Execution::Light, mine),
    gated!("hydrant_snapshot", Execution::Light, snapshot),
    gated!("hydrant_revert", Execution::Light, revert),
    gated!("hydrant_reorg", Execution::Medium, reorg),
];

/// The parameter of hydrant_reorg.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReorgParams {
    depth: JsonU64,
    #[serde(default)]
    transactions: NewTransactions,
}

#[derive(Default, Deserialize)]
#[serde(untagged)]
enum NewTransactions {
    #[default]
    Default,
    Named(Choice),
    /// Each transaction in base64, in their order.
    Listed(Vec<String>),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Choice {
    Keep,
    Drop,
}

fn control(api: &SolanaApi) -> Result<&Arc<dyn ForkControl>, RpcError> {
    api.fork_control.as_ref().ok_or_else(|| RpcError {
        message: "Method not found: only a local ledger has it (hydrant dev)".to_owned(),
        ..RpcError::method_not_found()
    })
}

fn mine(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let control = control(api)?;
    let (blocks,): (Option<JsonU64>,) = params.parse(0)?;
    let call = control.mine(params.client(), blocks.map_or(1, u64::from));
    Ok(MethodOutput::streamed(None, PendingCall::new(call, |slot| json!(slot))))
}

fn snapshot(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let control = control(api)?;
    params.none()?;
    let call = control.snapshot(params.client());
    Ok(MethodOutput::streamed(None, PendingCall::new(call, |id| json!(id))))
}

fn revert(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let control = control(api)?;
    let (JsonU64(snapshot),): (JsonU64,) = params.parse(1)?;
    let call = control.revert(params.client(), snapshot);
    Ok(MethodOutput::streamed(None, PendingCall::new(call, |()| json!(true))))
}

fn reorg(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let control = control(api)?;
    let (ReorgParams { depth: JsonU64(depth), transactions },): (ReorgParams,) = params.parse(1)?;
    let transactions = match transactions {
        NewTransactions::Default | NewTransactions::Named(Choice::Keep) => {
            ForkTransactions::Reexecute
        }
        NewTransactions::Named(Choice::Drop) => ForkTransactions::Drop,
        NewTransactions::Listed(texts) => ForkTransactions::Replace(decode_verified(&texts)?),
    };
    let call = control.reorg(params.client(), depth, transactions);
    Ok(MethodOutput::streamed(None, PendingCall::new(call, reorganization)))
}

/// Decodes transactions and verifies their signatures.
fn decode_verified(texts: &[String]) -> Result<Vec<VerifiedTransaction>, RpcError> {
    if texts.len() > REORG_TRANSACTIONS_MAX {
        let count = texts.len();
        return Err(RpcError::invalid_params(format!(
            "transactions has {count} entries: at most {REORG_TRANSACTIONS_MAX}"
        )));
    }
    let decode = |text: &String| {
        let transaction = transaction_codec::decode(text, TransactionBinaryEncoding::Base64)?;
        VerifiedTransaction::verify(transaction).map_err(|err| match err {
            VerifyError::Sanitize(why) => simulate::invalid_transaction(&why),
            VerifyError::Signature => {
                RpcCustomError::TransactionSignatureVerificationFailure.into()
            }
        })
    };
    texts.iter().map(decode).collect()
}

fn reorganization(outcome: Reorganization) -> Value {
    let Reorganization { reverted, entered, executed, dropped, reasons } = outcome;
    let reason = |(signature, err): (solana_signature::Signature, _)| json!({ "signature": signature.to_string(), "err": err });
    json!({
        "left": reverted,
        "entered": entered,
        "executed": executed,
        "dropped": dropped,
        "errors": reasons.into_iter().map(reason).collect::<Vec<_>>(),
    })
}
