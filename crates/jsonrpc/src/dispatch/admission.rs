//! Charges the calls of a body to its client, and refuses those that its tier does not allow.
//!
//! Shape: a call that is not allowed becomes an invalid one, so that it gets its own error also in a batch.
//! Cost: without API keys one check of the client's rate; with them the names of all calls are looked up.

use api_keys::Charge;
use pool::{Class as PoolClass, ClientId, RateLimited};

use crate::api::{Api, Server};
use crate::envelope::{Call, Id, ParsedBody, Request};
use crate::error::RpcError;

/// Charges a body of `calls` calls; an error if they exceed a limit of the client.
pub(super) fn admit<A: Api>(
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
