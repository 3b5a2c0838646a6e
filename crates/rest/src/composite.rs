//! Routes that combine the results of several cheap methods, each under its name, all from one view.

use std::sync::Arc;

use http_body_util::BodyExt;
use http_server::ResponseBody;
use hyper::Response;
use jsonrpc::error::RpcError;
use jsonrpc::{MethodResponse, ResponseOptions};

use crate::error::ApiError;
use crate::params::Params;
use crate::response::{self, ETAG_BUFFER_BYTES_MAX, RequestContext, ResponseContext};
use crate::route::MethodCall;

/// Calls each method and joins the results. All of them are true at the slot in the response's headers, except what
/// they read from history, which advances.
pub(crate) async fn respond(
    context: &RequestContext<'_>,
    params: &Params,
    call: MethodCall,
) -> Result<Response<ResponseBody>, ApiError> {
    let MethodCall::Composite(calls) = call else { return Err(RpcError::internal().into()) };
    let pinned = Arc::new(context.server.pinned());
    let context = &RequestContext { server: &pinned, ..*context };
    let commitment = response::requested_commitment(params);
    let response_context =
        ResponseContext { slot: context.slot(commitment), commitment, is_immutable: false };
    let mut body = Vec::new();
    for (name, method, params) in calls {
        let result =
            context.call(&MethodCall::Single(method, params), short_response_options()).await?;
        body.push(if body.is_empty() { b'{' } else { b',' });
        // The names are ours and need no escaping.
        body.extend_from_slice(format!("\"{name}\":").as_bytes());
        body.extend_from_slice(&collect_body(result).await?);
    }
    body.push(b'}');
    Ok(response::json_response(context, body, response_context))
}

/// Uncompressed and buffered as a whole: for results that are always short.
pub(crate) fn short_response_options() -> ResponseOptions {
    ResponseOptions { etag_buffer_bytes_max: ETAG_BUFFER_BYTES_MAX, ..ResponseOptions::default() }
}

/// All bytes of a short result.
pub(crate) async fn collect_body(result: MethodResponse) -> Result<bytes::Bytes, ApiError> {
    let collected = result.body.collect().await.map_err(|_| RpcError::internal())?;
    Ok(collected.to_bytes())
}
