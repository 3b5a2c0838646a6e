//! A transaction's status, at once or as soon as it is as sure as the client wants: a long poll.
//!
//! Whoever waits is woken by the ledger's events ([`crate::waits`]) and looks again.
//! Bounds: [`WAIT_MS_MAX`], and [`crate::waits::WAITING_MAX`] clients at once: one more gets 429.

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

use crate::answer::{self, Asked, Moment};
use crate::error::Problem;
use crate::input::Args;
use crate::route::Plan;
use crate::several;
use crate::waits::Waits;

/// The longest wait: half a minute, which proxies leave a request.
pub(crate) const WAIT_MS_MAX: u64 = 30_000;

/// A status, or that there is none.
struct Told {
    slot: Slot,
    json: Bytes,
    /// How sure it is; `None` if nothing is known.
    sure: Option<u8>,
}

/// Answers with the status: as it is once the wait is over, 404 if there still is none.
pub(crate) async fn answer(
    asked: &Asked<'_>,
    waits: &Waits,
    args: &Args,
    plan: Plan,
) -> Result<Response<ResponseBody>, Problem> {
    let wanted = rank(args.text("commitment").unwrap_or("confirmed"));
    let wait = Duration::from_millis(args.number("waitMs").unwrap_or(0));
    let mut told = look(asked, &plan).await?;
    let is_enough = |told: &Told| told.sure.is_some_and(|sure| sure >= wanted);
    if !is_enough(&told) && !wait.is_zero() {
        let signature: Signature = args
            .text("signature")
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Problem::invalid("signature is to be a signature in base58"))?;
        let waiting = waits.wait_for(signature).inspect_err(|_| {
            // Its only reason.
            asked.node.metrics.record_rejection(Rejection::Waits);
        })?;
        let until = Instant::now() + wait;
        loop {
            // After it is known that we wait: what comes true from here on wakes us.
            told = look(asked, &plan).await?;
            if is_enough(&told) || tokio::time::timeout_at(until, waiting.woken()).await.is_err() {
                break;
            }
        }
    }
    if told.sure.is_none() {
        return Err(Problem::not_found("transaction").at(told.slot, Commitment::Processed));
    }
    let moment = Moment { slot: told.slot, commitment: Commitment::Processed, is_fixed: false };
    Ok(answer::whole(asked, told.json.to_vec(), moment))
}

async fn look(asked: &Asked<'_>, plan: &Plan) -> Result<Told, Problem> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status<'a> {
        confirmation_status: &'a str,
    }
    let called = asked.call(plan, several::plain()).await?;
    let slot = called.meta.slot.ok_or_else(RpcError::internal)?;
    let list = several::bytes(called).await?;
    let json = list.slice(1..list.len().saturating_sub(1).max(1)); // a list of one
    let status: Option<Status<'_>> =
        serde_json::from_slice(&json).map_err(|_| RpcError::internal())?;
    let sure = status.map(|status| rank(status.confirmation_status));
    Ok(Told { slot, json, sure })
}

fn rank(commitment: &str) -> u8 {
    match commitment {
        "processed" => 0,
        "confirmed" => 1,
        _ => 2,
    }
}
