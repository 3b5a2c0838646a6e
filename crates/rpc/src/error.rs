//! How a request is refused: one error object, with Agave's codes and words.
//!
//! Codes: -32700, -32600 to -32603 as JSON-RPC 2.0 has them; -32001 to -32021 as Agave has them, made
//! from `RpcCustomError`. One code is ours: [`OVERLOADED`].

use serde::{Serialize, Serializer, ser::SerializeStruct};
use serde_json::Value;

/// The CPU pool is full. Agave has no such code, because it has no such bound; -32005 is what its
/// clients already read as "this node cannot serve you now", so that is the number.
pub const OVERLOADED: i64 = -32005;

/// What the client is told instead of a result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// By which programs tell errors apart.
    pub code: i64,
    /// By which people do.
    pub message: String,
    /// Details for programs, in a shape of the code.
    pub data: Option<Value>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The body is not JSON, or not the JSON of any request.
    pub fn parse_error() -> Self {
        Self::new(-32700, "Parse error")
    }

    /// An object that is no request.
    pub fn malformed_request() -> Self {
        Self::new(-32600, "Invalid request")
    }

    /// The request is understood and cannot be served as it is: -32600, as Agave answers limits.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(-32600, message)
    }

    /// `"jsonrpc": "2.0"` is missing.
    pub fn invalid_version() -> Self {
        Self::new(-32600, "Unsupported JSON-RPC protocol version")
    }

    /// There is no such method.
    pub fn method_not_found() -> Self {
        Self::new(-32601, "Method not found")
    }

    /// A parameter cannot be what it is.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    /// Our bug, or a door that is shut: nothing the client did.
    pub fn internal() -> Self {
        Self::new(-32603, "Internal error")
    }

    /// As [`Self::internal`], with words.
    pub fn internal_with(message: impl Into<String>) -> Self {
        Self::new(-32603, message)
    }

    /// The CPU pool cannot take it.
    pub(crate) fn full(full: &pool::PoolFull) -> Self {
        let data = serde_json::json!({
            "class": full.class.name(), "queued": full.tasks, "limit": full.limit,
        });
        Self::new(OVERLOADED, full.to_string()).with_data(data)
    }

    /// A client had its share.
    pub(crate) fn too_many(too_many: &pool::RateLimited) -> Self {
        let retry_after_ms = too_many.retry_after.as_millis() as u64;
        let data = serde_json::json!({ "limit": too_many.limit, "retryAfterMs": retry_after_ms });
        Self::new(OVERLOADED, too_many.to_string()).with_data(data)
    }

    /// A task of the CPU pool ended before it was done and before it said anything.
    pub(crate) fn ended(why: Option<pool::TaskEnd>, class: pool::Class, deadline_ms: u64) -> Self {
        let late = match why {
            Some(pool::TaskEnd::ExpiredWaiting) => "begun",
            Some(pool::TaskEnd::Expired) => "done",
            Some(pool::TaskEnd::ShutDown | pool::TaskEnd::Cancelled) => {
                return Self::internal_with("the node is shutting down");
            }
            Some(pool::TaskEnd::Panicked) | None => return Self::internal(),
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

    /// Whether the client is to come again later: HTTP 429.
    pub fn is_overload(&self) -> bool {
        self.code == OVERLOADED
            && self.data.as_ref().is_some_and(|data| data.get("limit").is_some())
    }

    /// The same error with `data`.
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
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
    use crate::custom_error::RpcCustomError;

    #[track_caller]
    fn check(ours: RpcError, agaves: AgaveError) {
        assert_eq!(
            (ours.code, ours.message, ours.data),
            (agaves.code.code(), agaves.message, agaves.data)
        );
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
            json(RpcCustomError::MinContextSlotNotReached { context_slot: 7 }.into()),
            r#"{"code":-32016,"message":"Minimum context slot has not been reached","data":{"contextSlot":7}}"#
        );
    }
}
