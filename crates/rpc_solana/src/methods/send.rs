//! sendTransaction and requestAirdrop.
//!
//! Steps: decode, resolve lookup tables, verify signatures, simulate (the preflight), queue for execution. The
//! client gets the signature once the transaction is queued.
//! Differs from Agave: an invalid signature is rejected at once even without preflight (-32003), because no other
//! node could accept it, unless a cheat code exempts the signer. If the queue or the share of the client is full, the
//! response is HTTP 429.

use chain_solana::{AirdropError, SendError, Simulation, SimulationRequest, VerifyError};
use jsonrpc::error::{OVERLOADED, RpcError};
use jsonrpc::metrics::Rejection;
use jsonrpc::params::Params;
use jsonrpc::{Execution, InlineBudget, MethodOutput, MethodResult, MethodSpec};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use solana_commitment_config::CommitmentConfig;
use solana_rpc_client_types::config::{RpcRequestAirdropConfig, RpcSendTransactionConfig};
use solana_rpc_client_types::response::RpcSimulateTransactionResult;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;

use super::{cheatcodes, node_info, parse_key, simulate, transaction_codec, upstream};
use crate::commitment::{view, view_since};
use crate::custom_error::RpcCustomError;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    MethodSpec::new(
        "sendTransaction",
        Execution::ByCost { class_max: cpu_pool::Class::Medium, class: classify_send },
        send_transaction,
    ),
    MethodSpec::new("requestAirdrop", Execution::Light, request_airdrop).dangerous(),
];

/// Classifies sendTransaction. With preflight it runs the VM, like simulateTransaction; otherwise it only verifies
/// signatures.
fn classify_send(
    _: &SolanaApi,
    params: Params<'_>,
    _: &mut InlineBudget,
) -> Option<cpu_pool::Class> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Preflight {
        skip_preflight: bool,
    }
    let parsed = params.parse_fast::<(IgnoredAny, Option<Preflight>)>(1);
    let is_skipped = parsed.and_then(|(_, config)| config).unwrap_or_default().skip_preflight;
    Some(if is_skipped { cpu_pool::Class::Light } else { cpu_pool::Class::Medium })
}

fn send_transaction(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (text, config): (String, Option<RpcSendTransactionConfig>) = params.parse(1)?;
    let config = config.unwrap_or_default();
    let transaction: VersionedTransaction =
        transaction_codec::decode(&text, transaction_codec::binary(config.encoding)?)?;
    let commitment = if config.skip_preflight {
        Some(CommitmentConfig::processed())
    } else {
        config.preflight_commitment.map(|commitment| CommitmentConfig { commitment })
    };
    let view = view_since(api, commitment, config.min_context_slot)?;
    transaction_codec::sanitize(transaction.clone(), &view)?;
    let verified = match cheatcodes::verify(api, params, transaction)? {
        Ok(verified) => verified,
        Err(VerifyError::Sanitize(why)) => return Err(simulate::invalid_transaction(&why)),
        Err(VerifyError::Signature) if config.skip_preflight => {
            return Err(RpcCustomError::TransactionSignatureVerificationFailure.into());
        }
        Err(VerifyError::Signature) => {
            return Err(preflight_error(TransactionError::SignatureFailure, None));
        }
    };
    if !config.skip_preflight {
        node_info::check_health(api)?;
        let request = SimulationRequest {
            transaction: verified.transaction().clone(),
            replace_recent_blockhash: false,
            inner_instructions: false,
        };
        let simulation = simulate::run(api, &view, request)?;
        if let Some(err) = simulation.err.clone() {
            return Err(preflight_error(err, Some(simulation)));
        }
    }
    let retries = config.max_retries.and_then(|retries| u32::try_from(retries).ok());
    let verified = verified.with_retries(retries.unwrap_or(u32::MAX));
    let signature = verified.signature();
    api.transaction_sender
        .send(params.client().into(), verified)
        .map_err(|err| send_error(api, &err))?;
    MethodOutput::json(&signature.to_string())
}

/// Returns -32002 with the result of the preflight, if it ran.
fn preflight_error(err: TransactionError, simulation: Option<Simulation>) -> RpcError {
    let fee = simulation.as_ref().and_then(simulate::fee);
    let (logs, units_consumed, loaded_accounts_data_size, return_data) = simulation
        .map(|it| (it.logs, it.units_consumed, it.loaded_accounts_data_size, it.return_data))
        .unwrap_or_default();
    RpcCustomError::SendTransactionPreflightFailure {
        message: format!("Transaction simulation failed: {err}"),
        result: Box::new(RpcSimulateTransactionResult {
            err: Some(err.into()),
            logs: Some(logs),
            accounts: None,
            units_consumed: Some(units_consumed),
            loaded_accounts_data_size: Some(loaded_accounts_data_size),
            return_data: return_data.map(Into::into),
            inner_instructions: None,
            replacement_blockhash: None,
            fee,
            pre_balances: None,
            post_balances: None,
            pre_token_balances: None,
            post_token_balances: None,
            loaded_addresses: None,
        }),
    }
    .into()
}

pub(super) fn send_error(api: &SolanaApi, err: &SendError) -> RpcError {
    match err {
        SendError::QueueFull { queued, limit, .. } => {
            api.metrics.record_rejection(Rejection::TransactionQueue);
            RpcError::new(OVERLOADED, err.to_string())
                .with_data(json!({ "queued": queued, "limit": limit }))
        }
        SendError::UpstreamBusy { waiting, limit } => RpcError::new(OVERLOADED, err.to_string())
            .with_data(json!({ "queued": waiting, "limit": limit })),
        SendError::NoLeader | SendError::NoUpstream | SendError::Closed => {
            RpcError::internal_with(err.to_string())
        }
    }
}

fn request_airdrop(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    type AirdropParams = (String, u64, Option<RpcRequestAirdropConfig>);
    let (to, lamports, config): AirdropParams = params.parse(2)?;
    let to = parse_key::pubkey(&to)?;
    let config = config.unwrap_or_default();
    let blockhash = match &config.recent_blockhash {
        Some(blockhash) => parse_key::hash(blockhash)?,
        None => view(api, config.commitment).meta().last_blockhash(),
    };
    let airdrop = match &api.faucet {
        Some(faucet) => faucet.airdrop(params.client().into(), to, lamports, blockhash),
        None => match upstream::call(api, "requestAirdrop", params.text()) {
            Some(called) => return called,
            None => Err(AirdropError::NoFaucet),
        },
    };
    match airdrop {
        Ok(signature) => MethodOutput::json(&signature.to_string()),
        Err(AirdropError::Send(err)) => Err(send_error(api, &err)),
        Err(err) => Err(RpcError::internal_with(err.to_string())),
    }
}
