//! From a body to its calls, if the client may make so many.
//!
//! Bounds: `Config::batch_max` calls; the client's share, of which every call is taken, answered or not.
//! Not here: the envelope itself ([`crate::envelope`]).

use super::record::record_call;
use super::response::{JsonRpcResponse, refuse_body};
use crate::envelope::{self, Id, ParsedBody, Request};
use crate::error::{OVERLOADED, RpcError};
use crate::metrics::{ExecutionPath, MethodLabel, Outcome};
use crate::node::Node;
use crate::request_context::RequestContext;

/// Reads a body and takes its calls of the client's share; gives the answer to one that is refused.
pub(super) fn read<'b>(
    node: &Node,
    asker: &RequestContext,
    lane: ExecutionPath,
    body: &'b str,
) -> Result<Request<'b>, Box<JsonRpcResponse>> {
    let limit = node.config.batch_max;
    let refuse = |err: RpcError| Box::new(refuse_body(node, asker, lane, &err));
    let read = envelope::read_bounded(body, limit).map_err(refuse)?;
    let (calls, id) = match &read {
        ParsedBody::Request(Request::Single(call)) => (1, call.id()),
        ParsedBody::Request(Request::Batch(calls)) => (calls.len(), None),
        ParsedBody::TooLong { calls } => (*calls, None),
    };
    if let Err(too_many) = node.admit(asker.client, calls) {
        record_call(node, asker, (MethodLabel::none(), None), lane, Outcome::Refused(OVERLOADED));
        return Err(Box::new(JsonRpcResponse::too_many(&too_many, id.unwrap_or(&Id::Null))));
    }
    match read {
        ParsedBody::Request(request) => Ok(request),
        ParsedBody::TooLong { calls } => {
            let message = format!("a batch of {calls} calls, at most {limit} (rpc.batch_max)");
            Err(refuse(RpcError::invalid_request(message)))
        }
    }
}
