//! Routes that several cheap methods answer together, each under its name, all from one view.

use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::Response;
use rpc::error::RpcError;
use rpc::{MethodResponse, ResponseBody, ResponseOptions};

use crate::error::ApiError;
use crate::params::Params;
use crate::response::{self, ETAG_BUFFER_BYTES_MAX, RequestContext, ResponseContext};
use crate::route::MethodCall;

/// Calls each, and joins what they answer: all of it is true of the moment whose slot is told, but for what they
/// read of history, which goes on.
pub(crate) async fn respond(
    asked: &RequestContext<'_>,
    args: &Params,
    plan: MethodCall,
) -> Result<Response<ResponseBody>, ApiError> {
    let MethodCall::Composite(calls) = plan else { return Err(RpcError::internal().into()) };
    let still = Arc::new(asked.node.pinned());
    let asked = &RequestContext { node: &still, ..*asked };
    let commitment = response::requested_commitment(args);
    let moment = ResponseContext { slot: asked.slot(commitment), commitment, is_immutable: false };
    let mut body = Vec::new();
    for (name, method, params) in calls {
        let called =
            asked.call(&MethodCall::Single(method, params), short_response_options()).await?;
        body.push(if body.is_empty() { b'{' } else { b',' });
        // The names are ours and need no escapes.
        body.extend_from_slice(format!("\"{name}\":").as_bytes());
        body.extend_from_slice(&collect_body(called).await?);
    }
    body.push(b'}');
    Ok(response::json_response(asked, body, moment))
}

/// As it is, and all of it: for answers that are short by their nature.
pub(crate) fn short_response_options() -> ResponseOptions {
    ResponseOptions { etag_buffer_bytes_max: ETAG_BUFFER_BYTES_MAX, ..ResponseOptions::default() }
}

/// All bytes of a result that is short.
pub(crate) async fn collect_body(called: MethodResponse) -> Result<bytes::Bytes, ApiError> {
    let collected = called.body.collect().await.map_err(|_| RpcError::internal())?;
    Ok(collected.to_bytes())
}
