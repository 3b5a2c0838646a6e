//! A transaction's status, at once or as soon as it is as sure as the client wants: a long poll.
//!
//! Bounds: [`WAIT_MS_MAX`]; each waiting client costs one look into history every [`LOOK`], and its connection.

use std::time::Duration;

use hyper::Response;
use ledger::Commitment;
use rpc::Content;
use rpc::error::RpcError;
use serde::Deserialize;

use crate::answer::{self, Asked, Held, JSON, Moment, WHOLE_BYTES_MAX};
use crate::error::Problem;
use crate::input::Args;
use crate::route::Plan;

/// The longest wait: half a minute, which proxies leave a request.
pub(crate) const WAIT_MS_MAX: u64 = 30_000;

/// How often it is looked: an eighth of a slot of 400 ms.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    confirmation_status: &'a str,
}

/// Answers with the status: as it is once the wait is over, 404 if there still is none.
pub(crate) async fn answer(
    asked: &Asked<'_>,
    args: &Args,
    plan: Plan,
) -> Result<Response<Content>, Problem> {
    let wanted = args.text("commitment").unwrap_or("confirmed");
    let mut left = Duration::from_millis(args.number("waitMs").unwrap_or(0));
    loop {
        let mut parts = asked.call(&plan).await?;
        let slot = answer::strip_context(&mut parts)?;
        let list = Held::take(&mut parts, WHOLE_BYTES_MAX).await?.join();
        let status = list.slice(1..list.len().saturating_sub(1).max(1)); // a list of one
        let told: Option<Status<'_>> =
            serde_json::from_slice(&status).map_err(|_| RpcError::internal())?;
        let is_enough = told.as_ref().is_some_and(|told| sure(told) >= rank(wanted));
        if is_enough || left.is_zero() {
            if told.is_none() {
                return Err(Problem::not_found("transaction"));
            }
            let moment = Moment { slot, commitment: Commitment::Processed, is_fixed: false };
            return Ok(answer::whole(asked, status.clone(), moment, JSON));
        }
        let nap = LOOK.min(left);
        tokio::time::sleep(nap).await;
        left -= nap;
    }
}

fn sure(status: &Status<'_>) -> u8 {
    rank(status.confirmation_status)
}

fn rank(commitment: &str) -> u8 {
    match commitment {
        "processed" => 0,
        "confirmed" => 1,
        _ => 2,
    }
}
