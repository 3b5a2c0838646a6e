//! Routes that several cheap methods answer together, each under its name, all from one view.

use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::Response;
use rpc::error::RpcError;
use rpc::{MethodResponse, ResponseBody, ResponseOptions};

use crate::answer::{self, Asked, HOLD_BYTES_MAX, Moment};
use crate::error::Problem;
use crate::input::Args;
use crate::route::Plan;

/// Calls each, and joins what they answer: all of it is true of the moment whose slot is told, but for what they
/// read of history, which goes on.
pub(crate) async fn answer(
    asked: &Asked<'_>,
    args: &Args,
    plan: Plan,
) -> Result<Response<ResponseBody>, Problem> {
    let Plan::Several(calls) = plan else { return Err(RpcError::internal().into()) };
    let still = Arc::new(asked.node.pinned());
    let asked = &Asked { node: &still, ..*asked };
    let commitment = answer::level(args);
    let moment = Moment { slot: asked.slot(commitment), commitment, is_fixed: false };
    let mut body = Vec::new();
    for (name, method, params) in calls {
        let called = asked.call(&Plan::Call(method, params), plain()).await?;
        body.push(if body.is_empty() { b'{' } else { b',' });
        // The names are ours and need no escapes.
        body.extend_from_slice(format!("\"{name}\":").as_bytes());
        body.extend_from_slice(&bytes(called).await?);
    }
    body.push(b'}');
    Ok(answer::whole(asked, body, moment))
}

/// As it is, and all of it: for answers that are short by their nature.
pub(crate) fn plain() -> ResponseOptions {
    ResponseOptions { etag_buffer_bytes_max: HOLD_BYTES_MAX, ..ResponseOptions::default() }
}

/// All bytes of a result that is short.
pub(crate) async fn bytes(called: MethodResponse) -> Result<bytes::Bytes, Problem> {
    let collected = called.body.collect().await.map_err(|_| RpcError::internal())?;
    Ok(collected.to_bytes())
}
