//! JSON-RPC over WebSocket: from a message to the calls of the API, and to the reply.
//!
//! In: the text of a message. Out: the reply. A panic in a call fails this call only (-32603).
//! Cost: that of the calls; a message is at most `Config::message_bytes_max` bytes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use subscriptions::{SubscribeError, SubscriptionId};

use super::json_rpc_protocol::{PubSubServer, Session, record_call};
use super::subscription_api::SubscriptionApi;
use super::subscription_types::SubscriptionTypes;
use crate::envelope::{self, Call, Id, Request};
use crate::error::RpcError;
use crate::method_output::{MethodOutput, MethodResult};
use crate::params::Params;

/// The response to a message; `None` if it needs none.
pub fn handle_message<A: SubscriptionApi>(
    pubsub: &PubSubServer<A>,
    session: &Session<A>,
    message: &str,
) -> Option<Vec<u8>> {
    let received_at = pubsub.pool.now();
    let read = envelope::read(message);
    let (calls, id, only_unsubscribes) = match &read {
        Err(_) => (1, None, false),
        Ok(Request::Single(call)) => (1, call.id(), is_unsubscribe_call::<A>(call)),
        Ok(Request::Batch(calls)) => {
            (calls.len(), None, calls.iter().all(is_unsubscribe_call::<A>))
        }
    };
    if only_unsubscribes {
        session.count_calls(calls);
    } else if let Err(refused) = session.admit(calls) {
        let err = RpcError::from(refused);
        record_call(pubsub, None, received_at, Err(&err));
        return Some(envelope::error_response(&err, id.unwrap_or(&Id::Null), true));
    }
    match read {
        Err(err) => {
            record_call(pubsub, None, received_at, Err(&err));
            Some(envelope::error_response(&err, &Id::Null, true))
        }
        Ok(Request::Single(call)) => handle_call(pubsub, session, received_at, call),
        Ok(Request::Batch(calls)) => {
            let mut text = Vec::new();
            for call in calls {
                let Some(reply) = handle_call(pubsub, session, received_at, call) else { continue };
                text.push(if text.is_empty() { b'[' } else { b',' });
                text.extend_from_slice(&reply);
            }
            if text.is_empty() {
                return None;
            }
            text.push(b']');
            Some(text)
        }
    }
}

/// Whether a call ends a subscription. No rate limit refuses it.
fn is_unsubscribe_call<A: SubscriptionApi>(call: &Call<'_>) -> bool {
    matches!(call, Call::Method { method, .. } if A::is_unsubscribe(method))
}

fn handle_call<A: SubscriptionApi>(
    pubsub: &PubSubServer<A>,
    session: &Session<A>,
    received_at: Duration,
    call: Call<'_>,
) -> Option<Vec<u8>> {
    let (id, method, params) = match call {
        Call::Notification => return None,
        Call::Invalid { id, versioned, err } => {
            record_call(pubsub, None, received_at, Err(&err));
            return Some(envelope::error_response(&err, &id, versioned));
        }
        Call::Method { id, method, params } => (id, method, params),
    };
    let result = admit_call::<A>(session, &method).and_then(|()| {
        let result =
            catch_unwind(AssertUnwindSafe(|| A::run_call(pubsub, session, &method, params)));
        result.unwrap_or_else(|_| {
            tracing::error!(%method, "a method panicked; its request got -32603");
            Err(RpcError::internal())
        })
    });
    record_call(pubsub, Some(&method), received_at, result.as_ref());
    let reply = result.and_then(|output| output.into_response(&id));
    Some(match reply {
        Ok(text) => text.as_bytes().to_vec(),
        Err(err) => envelope::error_response(&err, &id, true),
    })
}

/// Charges a call that subscribes to the limits of the client's API key.
fn admit_call<A: SubscriptionApi>(session: &Session<A>, method: &str) -> Result<(), RpcError> {
    if A::is_unsubscribe(method) {
        return Ok(());
    }
    session.admit_method(method)?;
    session.admit_subscription()?;
    Ok(())
}

/// The error of a subscription that is refused.
pub fn subscribe_error(err: &SubscribeError) -> RpcError {
    match err {
        SubscribeError::Unknown => RpcError::invalid_params(err.to_string()),
        _ => RpcError::internal_with(format!("Internal Error: Subscription refused. {err}")),
    }
}

/// Any `...Unsubscribe` method ends a subscription of any kind, as on Agave.
pub fn unsubscribe<A: SubscriptionTypes>(session: &Session<A>, params: Params<'_>) -> MethodResult {
    let (id,): (u64,) = params.parse(1)?;
    if !session.unsubscribe(SubscriptionId(id)) {
        return Err(subscribe_error(&SubscribeError::Unknown));
    }
    MethodOutput::json(&true)
}
