//! Routes that combine the results of several cheap methods, each under its name, all from one view.

use http_server::ResponseBody;
use hyper::Response;
use jsonrpc::Api;
use jsonrpc::error::RpcError;

use crate::error::ApiError;
use crate::params::Params;
use crate::request_context::RequestContext;
use crate::response::{ResponseContext, json_response, requested_commitment};
use crate::route::MethodCall;

/// Calls each method and joins the results. All of them are true at the slot in the response's headers, except what
/// they read from history, which advances.
pub(crate) async fn respond<A: Api>(
    context: &RequestContext<'_, A>,
    params: &Params,
    call: MethodCall,
) -> Result<Response<ResponseBody>, ApiError> {
    let MethodCall::Composite(calls) = call else { return Err(RpcError::internal().into()) };
    let pinned = context.pinned_server();
    let context = &context.with_server(&pinned);
    let commitment = requested_commitment(params);
    let response_context = ResponseContext::for_state(context.slot(commitment), commitment);
    let mut body = Vec::new();
    for (name, method, params) in calls {
        let result = context.call_short(&MethodCall::Single(method, params)).await?;
        body.push(if body.is_empty() { b'{' } else { b',' });
        // The names are ours and need no escaping.
        body.extend_from_slice(format!("\"{name}\":").as_bytes());
        body.extend_from_slice(&result.json);
    }
    body.push(b'}');
    Ok(json_response(context, body, response_context))
}
