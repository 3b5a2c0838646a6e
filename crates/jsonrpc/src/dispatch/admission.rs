//! From a body to its calls, if the client may make them: parses the body, and charges its calls to the client.
//!
//! Shape: a call that the client's tier does not allow becomes an invalid one, so that it gets its own error also in a
//! batch.
//! Bounds: `Config::batch_max` calls; the limits of the client, against which every call counts, whether it gets a
//! response or not.
//! Cost: without API keys one check of the client's rate; with them the names of all calls are looked up.
//! Not here: the envelope itself ([`crate::envelope`]).

use api_keys::Charge;
use clients::{ClientId, RateLimited};
use cpu_pool::Class as PoolClass;

use crate::api::{Api, Server};
use crate::envelope::{self, Call, Id, ParsedBody, Request};
use crate::error::RpcError;

/// Why a body is refused as a whole.
pub(super) struct RefusedBody {
    /// Id of the one response that the body gets.
    pub(super) id: Id,
    pub(super) err: RpcError,
}

impl From<RpcError> for RefusedBody {
    fn from(err: RpcError) -> Self {
        Self { id: Id::Null, err }
    }
}

/// Parses a body, and charges its calls to the client.
pub(super) fn parse_body<'b, A: Api>(
    server: &Server<A>,
    client: ClientId,
    body: &'b str,
) -> Result<Request<'b>, RefusedBody> {
    let limit = server.context.config.batch_max;
    let mut parsed = envelope::read_bounded(body, limit)?;
    let calls = match &parsed {
        ParsedBody::Request(Request::Single(_)) => 1,
        ParsedBody::Request(Request::Batch(calls)) => calls.len(),
        ParsedBody::TooLong { calls } => *calls,
    };
    if let Err(too_many) = admit_body(server, client, &mut parsed, calls) {
        let id = match &parsed {
            ParsedBody::Request(Request::Single(call)) => call.id().cloned(),
            ParsedBody::Request(Request::Batch(_)) | ParsedBody::TooLong { .. } => None,
        };
        let err = RpcError::too_many(&too_many);
        return Err(RefusedBody { id: id.unwrap_or(Id::Null), err });
    }
    match parsed {
        ParsedBody::Request(request) => Ok(request),
        ParsedBody::TooLong { calls } => {
            let message = format!("a batch of {calls} calls, at most {limit} (rpc.batch_max)");
            Err(RpcError::invalid_request(message).into())
        }
    }
}

/// Charges a body of `calls` calls; an error if they exceed a limit of the client.
fn admit_body<A: Api>(
    server: &Server<A>,
    client: ClientId,
    parsed: &mut ParsedBody<'_>,
    calls: usize,
) -> Result<(), RateLimited> {
    let clients = &server.context.clients;
    let Some(keys) = clients.api_keys() else { return server.context.admit(client, calls) };
    let parsed: &mut [Call<'_>] = match parsed {
        ParsedBody::Request(Request::Single(call)) => std::slice::from_mut(call),
        ParsedBody::Request(Request::Batch(calls)) => calls,
        ParsedBody::TooLong { .. } => &mut [],
    };
    let mut charge = Charge::requests(u32::try_from(calls).unwrap_or(u32::MAX));
    for call in &mut *parsed {
        let Call::Method { id, method, .. } = call else { continue };
        if keys.denies(client.caller(), method) {
            let err = RpcError::method_denied(method);
            let id = std::mem::replace(id, Id::Null);
            *call = Call::Invalid { id, versioned: true, err };
            continue;
        }
        charge.classes[class_of(server, method).index()] += 1;
    }
    let methods = parsed.iter().filter_map(|call| match call {
        Call::Method { method, .. } => Some(&**method),
        Call::Notification | Call::Invalid { .. } => None,
    });
    clients.admit_calls(client, charge, methods, server.context.pool.now())
}

/// Checks and charges a call of a request that was charged before.
pub(crate) fn admit_method<A: Api>(
    server: &Server<A>,
    client: ClientId,
    method: &str,
) -> Result<(), RpcError> {
    let clients = &server.context.clients;
    let Some(keys) = clients.api_keys() else { return Ok(()) };
    if keys.denies(client.caller(), method) {
        return Err(RpcError::method_denied(method));
    }
    let charge = Charge::call(class_of(server, method).index());
    let now = server.context.pool.now();
    let admitted = clients.admit_calls(client, charge, std::iter::once(method), now);
    admitted.map_err(|too_many| RpcError::too_many(&too_many))
}

/// The class that a call counts for. A method that does not exist is light.
fn class_of<A: Api>(server: &Server<A>, method: &str) -> PoolClass {
    server.find_method(method).map_or(PoolClass::Light, |method| method.charged_class())
}
