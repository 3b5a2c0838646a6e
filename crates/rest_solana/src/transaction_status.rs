//! A transaction's status, at once or as soon as it reaches the requested commitment: a long poll.
//!
//! The ledger's events wake a waiting request ([`crate::status_waiters`]), which fetches the status again.
//! Bounds: [`WAIT_MS_MAX`], and [`crate::status_waiters::WAITERS_MAX`] clients at once. One more gets 429.

use std::time::Duration;

use bytes::Bytes;
use http_server::ResponseBody;
use hyper::Response;
use jsonrpc::error::RpcError;
use jsonrpc::metrics::Rejection;
use ledger::{Commitment, Slot};
use rest::{
    ApiError, MethodCall, Params, RequestContext, ResponseContext, ShortResult, json_response,
};
use rpc_solana::SolanaApi;
use serde::Deserialize;
use solana_signature::Signature;
use tokio::time::Instant;

use crate::status_waiters::StatusWaiters;

/// The longest wait: half a minute, which proxies allow for a request.
pub(crate) const WAIT_MS_MAX: u64 = 30_000;

/// A status, or that there is none.
struct StatusSnapshot {
    slot: Slot,
    json: Bytes,
    /// Rank of its commitment; `None` if the transaction is unknown.
    commitment_rank: Option<u8>,
}

/// Responds with the status when it reaches the commitment or the wait is over; 404 if there is none then.
pub(crate) async fn respond(
    context: &RequestContext<'_, SolanaApi>,
    waiters: &StatusWaiters,
    params: &Params,
    call: MethodCall,
) -> Result<Response<ResponseBody>, ApiError> {
    let target = params.text("commitment").unwrap_or("confirmed");
    let target_rank = commitment_rank(target);
    let wait = Duration::from_millis(params.number("waitMs").unwrap_or(0));
    let mut status = fetch_status(context, &call).await?;
    let is_reached =
        |status: &StatusSnapshot| status.commitment_rank.is_some_and(|rank| rank >= target_rank);
    if !is_reached(&status) && !wait.is_zero() {
        let signature: Signature = params
            .text("signature")
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| ApiError::invalid("signature must be a signature in base58"))?;
        let waiter = waiters.register(signature).inspect_err(|_| {
            // `WAITERS_MAX` is the only reason for an error.
            context.server.context.metrics.record_rejection(Rejection::Waits);
        })?;
        let deadline = Instant::now() + wait;
        loop {
            // After `register`: every later change of the status wakes this request.
            show_status(context, &signature, target);
            status = fetch_status(context, &call).await?;
            if is_reached(&status)
                || tokio::time::timeout_at(deadline, waiter.wait_for_change()).await.is_err()
            {
                break;
            }
        }
    }
    let slot = status.slot;
    let commitment = Commitment::Processed;
    if status.commitment_rank.is_none() {
        return Err(ApiError::not_found("transaction").at_slot(slot, commitment));
    }
    let response_context = ResponseContext { slot, commitment, is_immutable: false };
    Ok(json_response(context, status.json.to_vec(), response_context))
}

/// Shows the status of a transaction that has reached a commitment, before the request that waits for it is answered.
fn show_status(context: &RequestContext<'_, SolanaApi>, signature: &Signature, commitment: &str) {
    let commitment = match commitment {
        "processed" => Commitment::Processed,
        "confirmed" => Commitment::Confirmed,
        _ => Commitment::Finalized,
    };
    let history = context.server.api.history.snapshot();
    if let Some(executed) = history.transaction(signature, commitment) {
        executed.show_status();
    }
}

async fn fetch_status(
    context: &RequestContext<'_, SolanaApi>,
    call: &MethodCall,
) -> Result<StatusSnapshot, ApiError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status<'a> {
        confirmation_status: &'a str,
    }
    let ShortResult { slot, json: list } = context.call_short(call).await?;
    let slot = slot.ok_or_else(RpcError::internal)?;
    let json = list.slice(1..list.len().saturating_sub(1).max(1)); // a list of one
    let status: Option<Status<'_>> =
        serde_json::from_slice(&json).map_err(|_| RpcError::internal())?;
    let commitment_rank = status.map(|status| commitment_rank(status.confirmation_status));
    Ok(StatusSnapshot { slot, json, commitment_rank })
}

fn commitment_rank(commitment: &str) -> u8 {
    match commitment {
        "processed" => 0,
        "confirmed" => 1,
        _ => 2,
    }
}
