//! From a body to its calls, if the client may make that many.
//!
//! Bounds: `Config::batch_max` calls; the client's rate limit, against which every call counts, whether it gets
//! a response or not.
//! Not here: the envelope itself ([`crate::envelope`]).

use super::admission::admit;
use super::record::record_call;
use super::response::{JsonRpcResponse, refuse_body};
use crate::api::{Api, Server};
use crate::envelope::{self, Id, ParsedBody, Request};
use crate::error::{OVERLOADED, RpcError};
use crate::metrics::{ExecutionPath, MethodLabel, Outcome};
use crate::request_context::RequestContext;

/// Parses a body and counts its calls against the client's rate limit; `Err` is the response to a refused body.
pub(super) fn read<'b, A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    path: ExecutionPath,
    body: &'b str,
) -> Result<Request<'b>, Box<JsonRpcResponse>> {
    let limit = server.context.config.batch_max;
    let refuse = |err: RpcError| Box::new(refuse_body(&server.context, context, path, &err));
    let mut parsed = envelope::read_bounded(body, limit).map_err(refuse)?;
    let calls = match &parsed {
        ParsedBody::Request(Request::Single(_)) => 1,
        ParsedBody::Request(Request::Batch(calls)) => calls.len(),
        ParsedBody::TooLong { calls } => *calls,
    };
    if let Err(too_many) = admit(server, context.client, &mut parsed, calls) {
        let id = match &parsed {
            ParsedBody::Request(Request::Single(call)) => call.id(),
            ParsedBody::Request(Request::Batch(_)) | ParsedBody::TooLong { .. } => None,
        };
        record_call(
            &server.context,
            context,
            (MethodLabel::none(), None),
            path,
            Outcome::Refused(OVERLOADED),
        );
        return Err(Box::new(JsonRpcResponse::too_many(&too_many, id.unwrap_or(&Id::Null))));
    }
    match parsed {
        ParsedBody::Request(request) => Ok(request),
        ParsedBody::TooLong { calls } => {
            let message = format!("a batch of {calls} calls, at most {limit} (rpc.batch_max)");
            Err(refuse(RpcError::invalid_request(message)))
        }
    }
}
