//! Handles a body on the calling thread, for tools and fuzzing.
//!
//! Not here: serving clients. Nothing is bounded, shared, cached or counted.

use super::plan::run_method;
use super::response::encode_response;
use crate::api::{Api, Server};
use crate::envelope::{self, Call, Id, Request};
use crate::error::RpcError;
use crate::request_context::RequestContext;

/// Handles a body on the calling thread, heavy methods included; `None` if there is no response.
///
/// For tools and fuzzing: there is no pool, no deadline and no limit on the calls of a batch.
pub fn handle_blocking<A: Api>(server: &Server<A>, body: &str) -> Option<Vec<u8>> {
    let calls = match envelope::read(body) {
        Err(err) => return Some(envelope::error_response(&err, &Id::Null, true)),
        Ok(Request::Single(call)) => return handle_call_blocking(server, call),
        Ok(Request::Batch(calls)) => calls,
    };
    let responses: Vec<_> =
        calls.into_iter().filter_map(|call| handle_call_blocking(server, call)).collect();
    (!responses.is_empty()).then(|| [&b"["[..], &responses.join(&b',')[..], b"]"].concat())
}

fn handle_call_blocking<A: Api>(server: &Server<A>, call: Call<'_>) -> Option<Vec<u8>> {
    match call {
        Call::Notification => None,
        Call::Invalid { id, versioned, err } => {
            Some(envelope::error_response(&err, &id, versioned))
        }
        Call::Method { id, method, params } => {
            let result = server.find_method(&method).ok_or_else(RpcError::method_not_found);
            let result = result
                .and_then(|method| run_method(server, method, &RequestContext::default(), params));
            Some(encode_response(result, &id).text.as_bytes().to_vec())
        }
    }
}
