//! Errors of JSON-RPC: one error object, with the codes and messages of Agave.
//!
//! Codes: -32700, -32600 to -32603 as in JSON-RPC 2.0; -32001 to -32021 as in Agave, from `RpcCustomError`. One
//! code has a meaning of ours: [`OVERLOADED`], and one has data of ours: [`MIN_SLOT_NOT_REACHED`]. Ours are
//! [`FOREIGN_PAGE`] for web pages, and [`UNAUTHORIZED`] and [`FORBIDDEN`] for API keys.

use std::time::Duration;

use http_server::{ClientRefusal, PageAccess};
use hyper::StatusCode;
use serde::{Serialize, Serializer, ser::SerializeStruct};
use serde_json::Value;
use websocket::CallRefused;

use crate::slot_headers::{StateSlot, commitment_name};

/// Overload, such as a full CPU pool. Agave has no such code, because it has no such limit. Its clients read
/// -32005 as "this node cannot serve you now".
pub const OVERLOADED: i64 = -32005;

/// The state of a call is of an older slot than the client requires. Data: the slot of the state, as in Agave; for the
/// header `hydrant-min-slot`, which Agave does not have, also the required slot and the time that the call waited.
pub const MIN_SLOT_NOT_REACHED: i64 = -32016;

/// A web page of another origin may not call the method. Ours: Agave serves every page.
pub const FOREIGN_PAGE: i64 = -32043;

/// No API key, or one that is not valid: HTTP 401. Providers use this code.
pub const UNAUTHORIZED: i64 = -32401;

/// An API key that may not be used by this origin or from this address: HTTP 403.
pub const FORBIDDEN: i64 = -32403;

/// Seconds after which a client that met a full queue should retry: by then a second of work is done.
pub(crate) const RETRY_AFTER_S: u64 = 1;

/// The error object that replaces a result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// The code, for programs.
    pub code: i64,
    /// The message, for people.
    pub message: String,
    /// Details for programs; their shape depends on the code.
    pub data: Option<Value>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The body is not JSON, or not the JSON of a request.
    pub fn parse_error() -> Self {
        Self::new(-32700, "Parse error")
    }

    /// The object is not a request.
    pub fn malformed_request() -> Self {
        Self::new(-32600, "Invalid request")
    }

    /// The request is valid, but cannot be served: -32600, which Agave uses for limits.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(-32600, message)
    }

    /// `"jsonrpc": "2.0"` is missing.
    pub fn invalid_version() -> Self {
        Self::new(-32600, "Unsupported JSON-RPC protocol version")
    }

    /// The method does not exist.
    pub fn method_not_found() -> Self {
        Self::new(-32601, "Method not found")
    }

    /// A parameter is not valid.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    /// Our bug, or an interface that is closed: not the fault of the client.
    pub fn internal() -> Self {
        Self::new(-32603, "Internal error")
    }

    /// As [`Self::internal`], with a message.
    pub fn internal_with(message: impl Into<String>) -> Self {
        Self::new(-32603, message)
    }

    /// A request with this access may not call the method.
    pub fn foreign_page(method: &str, access: PageAccess) -> Self {
        let reason = match access {
            PageAccess::ForeignHost => {
                "its Host is not an address, localhost or a name of this node (--allow-host)"
            }
            PageAccess::ForeignOrigin | PageAccess::Full => {
                "it comes from a web page of another origin (--allow-origin)"
            }
        };
        Self::new(FOREIGN_PAGE, format!("this request may not call {method}: {reason}"))
    }

    /// The node has no state that it may serve yet: Agave's error of an unhealthy node that is not known to be behind.
    pub(crate) fn unhealthy() -> Self {
        let data = serde_json::json!({ "numSlotsBehind": null });
        Self::new(OVERLOADED, "Node is unhealthy").with_data(data)
    }

    /// The state of a call has not reached the slot of `hydrant-min-slot` within the time limit of a wait.
    pub(crate) fn min_slot_not_reached(
        state: StateSlot,
        min_slot: ledger::Slot,
        time_limit: Duration,
    ) -> Self {
        let StateSlot { slot, commitment } = state;
        let commitment = commitment_name(commitment);
        let wait_ms = time_limit.as_millis() as u64;
        let message = format!(
            "Minimum context slot has not been reached: the {commitment} state is of slot {slot}, \
             hydrant-min-slot is {min_slot}, and a call waits {wait_ms} ms (rpc.min_slot_wait_ms)"
        );
        let data = serde_json::json!({
            "contextSlot": slot, "minSlot": min_slot, "minSlotWaitMs": wait_ms,
        });
        Self::new(MIN_SLOT_NOT_REACHED, message).with_data(data)
    }

    pub(crate) fn full(full: &cpu_pool::PoolFull) -> Self {
        let data = serde_json::json!({
            "class": full.class.name(), "queued": full.tasks, "limit": full.limit,
        });
        Self::new(OVERLOADED, full.to_string()).with_data(data)
    }

    /// The client reached its rate limit.
    pub fn too_many(too_many: &clients::RateLimited) -> Self {
        let retry_after_ms = too_many.retry_after.as_millis() as u64;
        let data = serde_json::json!({ "limit": too_many.limit, "retryAfterMs": retry_after_ms });
        Self::new(OVERLOADED, too_many.to_string()).with_data(data)
    }

    /// The client may not call the method.
    pub fn method_denied(method: &str) -> Self {
        let message = format!(
            "the method {method} is not available to this client (tiers.allow, tiers.deny)"
        );
        Self::new(-32601, message).with_data(serde_json::json!({ "denied": true }))
    }

    /// Whether the client may not call the method: HTTP 403, where the status says the result.
    pub fn is_denied(&self) -> bool {
        self.code == -32601 && self.data.as_ref().is_some_and(|data| data.get("denied").is_some())
    }

    /// The client has no valid API key, may not use it here, or exceeded a limit before its request was read.
    pub(crate) fn refused_client(refusal: &ClientRefusal) -> Self {
        let message = refusal.message.clone();
        match refusal.status {
            StatusCode::UNAUTHORIZED => Self::new(UNAUTHORIZED, message),
            StatusCode::FORBIDDEN => Self::new(FORBIDDEN, message),
            _ => {
                let retry_after_ms = refusal.retry_after_s.unwrap_or(1) * 1_000;
                let data = serde_json::json!({ "limit": "client", "retryAfterMs": retry_after_ms });
                Self::new(OVERLOADED, message).with_data(data)
            }
        }
    }

    /// A task of the CPU pool ended without a result.
    pub(crate) fn ended(
        why: Option<cpu_pool::TaskEnd>,
        class: cpu_pool::Class,
        deadline_ms: u64,
    ) -> Self {
        let late = match why {
            Some(cpu_pool::TaskEnd::ExpiredWaiting) => "begun",
            Some(cpu_pool::TaskEnd::Expired) => "done",
            Some(cpu_pool::TaskEnd::ShutDown | cpu_pool::TaskEnd::Cancelled) => {
                return Self::internal_with("the node is shutting down");
            }
            Some(cpu_pool::TaskEnd::Panicked) | None => return Self::internal(),
        };
        let class = class.name();
        let message = format!(
            "too busy: it was not {late} after {deadline_ms} ms, the deadline of {class} requests \
             (pool.{class}.deadline_ms)"
        );
        let data = serde_json::json!({
            "limit": "deadline_ms", "class": class, "deadlineMs": deadline_ms,
        });
        Self::new(OVERLOADED, message).with_data(data)
    }

    /// The response to a request of a class did not start in time.
    pub(crate) fn late_response(class: cpu_pool::Class, timeout_ms: u64) -> Self {
        let class = class.name();
        let message = format!(
            "too busy: the response to a {class} request had not begun after {timeout_ms} ms \
             (rpc.first_byte_timeout_ms)"
        );
        let data = serde_json::json!({
            "limit": "first_byte_timeout_ms", "class": class, "deadlineMs": timeout_ms,
        });
        Self::new(OVERLOADED, message).with_data(data)
    }

    /// Whether the client should retry later: HTTP 429.
    pub fn is_overload(&self) -> bool {
        self.code == OVERLOADED
            && self.data.as_ref().is_some_and(|data| data.get("limit").is_some())
    }

    /// Seconds after which the client should retry, if the node is overloaded or the client reached a limit.
    pub fn retry_after_s(&self) -> Option<u64> {
        let ms = self.data.as_ref().and_then(|data| data.get("retryAfterMs")?.as_u64());
        self.is_overload().then(|| ms.map_or(RETRY_AFTER_S, |ms| ms / 1_000 + 1))
    }

    /// Adds `data` to the error.
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }
}

impl From<CallRefused> for RpcError {
    fn from(refused: CallRefused) -> Self {
        match refused {
            CallRefused::RateLimited(limited) => Self::too_many(&limited),
            CallRefused::MethodDenied { method } => Self::method_denied(&method),
        }
    }
}

impl Serialize for RpcError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = 2 + usize::from(self.data.is_some());
        let mut object = serializer.serialize_struct("RpcError", fields)?;
        object.serialize_field("code", &self.code)?;
        object.serialize_field("message", &self.message)?;
        if let Some(data) = &self.data {
            object.serialize_field("data", data)?;
        }
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use jsonrpc_core::Error as AgaveError;

    use super::*;

    #[track_caller]
    fn check(ours: RpcError, agaves: AgaveError) {
        assert_eq!(
            (ours.code, ours.message, ours.data),
            (agaves.code.code(), agaves.message, agaves.data)
        );
    }

    #[test]
    fn only_a_refusal_because_of_load_says_when_to_retry() {
        let overloaded = |data| RpcError::new(OVERLOADED, "too busy").with_data(data);
        let limit = serde_json::json!({ "limit": "client", "retryAfterMs": 1_999 });
        assert_eq!(overloaded(limit).retry_after_s(), Some(2));
        let full = serde_json::json!({ "class": "light", "limit": 4 });
        assert_eq!(overloaded(full).retry_after_s(), Some(RETRY_AFTER_S));
        let unhealthy = serde_json::json!({ "numSlotsBehind": 4 });
        assert_eq!(overloaded(unhealthy).retry_after_s(), None);
        assert_eq!(RpcError::internal().retry_after_s(), None);
    }

    #[test]
    fn words_and_codes_are_agaves() {
        check(RpcError::parse_error(), AgaveError::parse_error());
        check(RpcError::malformed_request(), AgaveError::invalid_request());
        check(RpcError::invalid_version(), AgaveError::invalid_version());
        check(RpcError::method_not_found(), AgaveError::method_not_found());
        check(RpcError::internal(), AgaveError::internal_error());
    }

    #[test]
    fn an_error_is_an_object_with_data_only_if_it_has_some() {
        let json = |err: RpcError| serde_json::to_string(&err).unwrap_or_default();
        assert_eq!(json(RpcError::parse_error()), r#"{"code":-32700,"message":"Parse error"}"#);
        assert_eq!(
            json(RpcError::new(-32016, "no").with_data(serde_json::json!({ "contextSlot": 7 }))),
            r#"{"code":-32016,"message":"no","data":{"contextSlot":7}}"#
        );
    }
}
