//! A transaction's status, at once or as soon as it is as sure as the client wants: a long poll.
//!
//! Whoever waits is woken by the ledger's events ([`crate::waits`]) and looks again.
//! Bounds: [`WAIT_MS_MAX`], and [`crate::waits::WAITERS_MAX`] clients at once: one more gets 429.

use std::time::Duration;

use bytes::Bytes;
use hyper::Response;
use ledger::{Commitment, Slot};
use rpc::ResponseBody;
use rpc::error::RpcError;
use rpc::metrics::Rejection;
use serde::Deserialize;
use solana_signature::Signature;
use tokio::time::Instant;

use crate::composite;
use crate::error::ApiError;
use crate::params::Params;
use crate::response::{self, RequestContext, ResponseContext};
use crate::route::MethodCall;
use crate::status_waiters::StatusWaiters;

/// The longest wait: half a minute, which proxies leave a request.
pub(crate) const WAIT_MS_MAX: u64 = 30_000;

/// A status, or that there is none.
struct StatusSnapshot {
    slot: Slot,
    json: Bytes,
    /// How sure it is; `None` if nothing is known.
    commitment_rank: Option<u8>,
}

/// Answers with the status: as it is once the wait is over, 404 if there still is none.
pub(crate) async fn respond(
    asked: &RequestContext<'_>,
    waits: &StatusWaiters,
    args: &Params,
    plan: MethodCall,
) -> Result<Response<ResponseBody>, ApiError> {
    let wanted = commitment_rank(args.text("commitment").unwrap_or("confirmed"));
    let wait = Duration::from_millis(args.number("waitMs").unwrap_or(0));
    let mut told = fetch_status(asked, &plan).await?;
    let is_enough = |told: &StatusSnapshot| told.commitment_rank.is_some_and(|sure| sure >= wanted);
    if !is_enough(&told) && !wait.is_zero() {
        let signature: Signature = args
            .text("signature")
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| ApiError::invalid("signature is to be a signature in base58"))?;
        let waiting = waits.register(signature).inspect_err(|_| {
            // Its only reason.
            asked.node.metrics.record_rejection(Rejection::Waits);
        })?;
        let until = Instant::now() + wait;
        loop {
            // After it is known that we wait: what comes true from here on wakes us.
            told = fetch_status(asked, &plan).await?;
            if is_enough(&told) || tokio::time::timeout_at(until, waiting.notified()).await.is_err()
            {
                break;
            }
        }
    }
    if told.commitment_rank.is_none() {
        return Err(ApiError::not_found("transaction").at_slot(told.slot, Commitment::Processed));
    }
    let moment =
        ResponseContext { slot: told.slot, commitment: Commitment::Processed, is_immutable: false };
    Ok(response::json_response(asked, told.json.to_vec(), moment))
}

async fn fetch_status(
    asked: &RequestContext<'_>,
    plan: &MethodCall,
) -> Result<StatusSnapshot, ApiError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status<'a> {
        confirmation_status: &'a str,
    }
    let called = asked.call(plan, composite::short_response_options()).await?;
    let slot = called.meta.slot.ok_or_else(RpcError::internal)?;
    let list = composite::collect_body(called).await?;
    let json = list.slice(1..list.len().saturating_sub(1).max(1)); // a list of one
    let status: Option<Status<'_>> =
        serde_json::from_slice(&json).map_err(|_| RpcError::internal())?;
    let sure = status.map(|status| commitment_rank(status.confirmation_status));
    Ok(StatusSnapshot { slot, json, commitment_rank: sure })
}

fn commitment_rank(commitment: &str) -> u8 {
    match commitment {
        "processed" => 0,
        "confirmed" => 1,
        _ => 2,
    }
}
