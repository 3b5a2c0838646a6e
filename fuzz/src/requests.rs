//! Bodies: envelope, parameters, every method on a small node, every subscription's parameters.

use jsonrpc::envelope::{self, Call, Id, Request};
use jsonrpc::handle_blocking;
use jsonrpc_core::types as theirs;
use rpc_solana::fuzzing;
use serde_json::Value;

use crate::node::NODE;

/// The largest body, as the server's own default.
const BODY_BYTES_MAX: usize = 50 * 1024;

/// Checks one body.
pub fn request(bytes: &[u8]) {
    let Ok(body) = std::str::from_utf8(bytes) else { return };
    if body.len() > BODY_BYTES_MAX {
        return;
    }
    let read = envelope::read(body);
    compare(body, &read);
    if let Ok(request) = read {
        let calls = match request {
            Request::Single(call) => vec![call],
            Request::Batch(calls) => calls,
        };
        for call in calls {
            if let Call::Method { method, params, .. } = call {
                // Any result is fine; a panic is not.
                let _ = fuzzing::subscription(&method, params);
            }
        }
    }
    if let Some(reply) = handle_blocking(&NODE, body) {
        check_reply(&reply);
    }
}

/// The node must accept what `jsonrpc-core` accepts, and reject what it rejects.
fn compare(body: &str, ours: &Result<Request<'_>, jsonrpc::error::RpcError>) {
    let theirs = serde_json::from_str::<theirs::Request>(body);
    if has_array_as_call(body) {
        return;
    }
    match (ours, theirs) {
        (Err(_), Err(_)) => {}
        (Ok(Request::Single(ours)), Ok(theirs::Request::Single(theirs))) => {
            compare_call(ours, &theirs);
        }
        (Ok(Request::Batch(ours)), Ok(theirs::Request::Batch(theirs))) => {
            assert_eq!(ours.len(), theirs.len());
            ours.iter().zip(&theirs).for_each(|(ours, theirs)| compare_call(ours, theirs));
        }
        (ours, theirs) => panic!("ours {ours:?}\ntheirs {theirs:?}"),
    }
}

/// `["2.0","getSlot",[],1]` is a call to `jsonrpc-core`. No client sends it, and the node rejects it.
fn has_array_as_call(body: &str) -> bool {
    match serde_json::from_str(body) {
        Ok(Value::Array(calls)) => {
            calls.iter().any(Value::is_array) || !calls.iter().all(Value::is_object)
        }
        _ => false,
    }
}

fn compare_call(ours: &Call<'_>, theirs: &theirs::Call) {
    let same = match (ours, theirs) {
        (Call::Notification, theirs::Call::Notification(_)) => true,
        (Call::Method { id, method, .. }, theirs::Call::MethodCall(call)) => {
            same_id(id, &call.id) && *method == call.method && call.jsonrpc.is_some()
        }
        (Call::Invalid { id, versioned: false, .. }, theirs::Call::MethodCall(call)) => {
            same_id(id, &call.id) && call.jsonrpc.is_none()
        }
        (Call::Invalid { id, versioned: true, .. }, theirs::Call::Invalid { id: theirs }) => {
            same_id(id, theirs)
        }
        _ => false,
    };
    assert!(same, "ours {ours:?}\ntheirs {theirs:?}");
}

fn same_id(ours: &Id, theirs: &theirs::Id) -> bool {
    match (ours, theirs) {
        (Id::Null, theirs::Id::Null) => true,
        (Id::Number(ours), theirs::Id::Num(theirs)) => ours == theirs,
        (Id::Text(ours), theirs::Id::Str(theirs)) => ours == theirs,
        _ => false,
    }
}

/// A response is JSON: an object with an id and either a result or an error, or a list of those.
fn check_reply(reply: &[u8]) {
    let reply: Value = serde_json::from_slice(reply).expect("a response is JSON");
    let replies = match &reply {
        Value::Array(replies) => replies.as_slice(),
        reply => std::slice::from_ref(reply),
    };
    assert!(!replies.is_empty());
    for reply in replies {
        assert!(reply.get("id").is_some(), "{reply}");
        let has = |name| reply.get(name).is_some();
        assert!(has("result") != has("error"), "{reply}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_and_what_is_made_from_them_pass() {
        crate::for_each_input("requests", request);
    }
}
