//! Routes that several cheap methods answer together, each under its name.

use hyper::Response;
use rpc::Content;
use rpc::error::RpcError;

use crate::answer::{self, Asked, Held, JSON, Moment, WHOLE_BYTES_MAX};
use crate::error::Problem;
use crate::input::Args;
use crate::route::Plan;

/// Calls each, and joins what they answer. The slot is that of the state before the first call.
pub(crate) async fn answer(
    asked: &Asked<'_>,
    args: &Args,
    plan: Plan,
) -> Result<Response<Content>, Problem> {
    let Plan::Several(calls) = plan else { return Err(RpcError::internal().into()) };
    let commitment = answer::level(args);
    let moment = Moment { slot: asked.slot(commitment), commitment, is_fixed: false };
    let mut body = Vec::new();
    for (name, method, params) in calls {
        let mut parts = asked.call(&Plan::Call(method, params)).await?;
        if parts.beginning().starts_with(br#"{"context":"#) {
            answer::strip_context(&mut parts)?;
        }
        let json = Held::take(&mut parts, WHOLE_BYTES_MAX).await?.join();
        body.push(if body.is_empty() { b'{' } else { b',' });
        // The names are ours and need no escapes.
        body.extend_from_slice(format!("\"{name}\":").as_bytes());
        body.extend_from_slice(&json);
    }
    body.push(b'}');
    Ok(answer::whole(asked, body.into(), moment, JSON))
}
