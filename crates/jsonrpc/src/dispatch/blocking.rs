//! Handles a body on the calling thread, for tools and fuzzing.
//!
//! Not here: serving clients. Nothing is bounded, shared, cached or counted.

use super::plan::resolve;
use super::response::encode_result;
use crate::api::{Api, Server};
use crate::envelope::{self, Call, Id, Request};
use crate::planned_call::{CallPlan, DoneCall};
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
    let context = RequestContext::default();
    let done = match resolve(server, &context, call)? {
        CallPlan::Done(done) => done,
        CallPlan::Run(call) => {
            let result = call.run(server, &context);
            let label = call.method.label();
            let commitment = call.requirement.commitment;
            DoneCall { id: call.id, versioned: true, label, commitment, result }
        }
    };
    let encoded = encode_result(None, done.result, &done.id, done.versioned);
    Some(encoded.text.as_bytes().to_vec())
}
