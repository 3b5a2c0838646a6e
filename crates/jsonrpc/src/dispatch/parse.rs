//! From a body to its calls, if the client may make that many.
//!
//! Bounds: `Config::batch_max` calls; the client's rate limit, against which every call counts, whether it gets
//! a response or not.
//! Not here: the envelope itself ([`crate::envelope`]).

use super::record::record_call;
use super::response::{JsonRpcResponse, refuse_body};
use crate::envelope::{self, Id, ParsedBody, Request};
use crate::error::{OVERLOADED, RpcError};
use crate::metrics::{ExecutionPath, MethodLabel, Outcome};
use crate::request_context::RequestContext;
use crate::server_context::ServerContext;

/// Parses a body and counts its calls against the client's rate limit; `Err` is the response to a refused body.
pub(super) fn read<'b>(
    server: &ServerContext,
    context: &RequestContext,
    path: ExecutionPath,
    body: &'b str,
) -> Result<Request<'b>, Box<JsonRpcResponse>> {
    let limit = server.config.batch_max;
    let refuse = |err: RpcError| Box::new(refuse_body(server, context, path, &err));
    let parsed = envelope::read_bounded(body, limit).map_err(refuse)?;
    let (calls, id) = match &parsed {
        ParsedBody::Request(Request::Single(call)) => (1, call.id()),
        ParsedBody::Request(Request::Batch(calls)) => (calls.len(), None),
        ParsedBody::TooLong { calls } => (*calls, None),
    };
    if let Err(too_many) = server.admit(context.client, calls) {
        record_call(
            server,
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
