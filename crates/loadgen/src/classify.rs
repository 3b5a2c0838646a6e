//! Classification of responses: ok, rejected because of overload, or an error.

use std::fmt;

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// Class of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The expected response.
    Ok,
    /// The server is overloaded.
    Rejected,
    /// Anything else.
    Error,
}

/// Classifies a response by its status and its body (or the first bytes of the body).
pub type Classifier = fn(u16, &[u8]) -> Verdict;

/// The error of a JSON-RPC response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JsonRpcError<'a> {
    /// Its code, if it is an integer.
    pub code: Option<i64>,
    /// Details that each server defines; null if there are none.
    pub data: &'a Value,
}

impl JsonRpcError<'_> {
    /// Whether its code says that the server is overloaded: -32429, 429, and the -32005 of EIP-1474.
    pub fn is_rejection(&self) -> bool {
        matches!(self.code, Some(-32429 | 429 | -32005))
    }
}

/// JSON-RPC: a `result` is ok. 429 and 503 are rejections, and so are the errors of
/// [`JsonRpcError::is_rejection`].
pub fn json_rpc(status: u16, body: &[u8]) -> Verdict {
    json_rpc_with(status, body, |error| error.is_rejection())
}

/// Classifies responses of servers with other codes: `is_rejection` says which errors are rejections.
pub fn json_rpc_with(
    status: u16,
    body: &[u8],
    is_rejection: impl Fn(&JsonRpcError<'_>) -> bool,
) -> Verdict {
    if status == 429 || status == 503 {
        return Verdict::Rejected;
    }
    // A result may be long, and only its beginning may be in `body`: it is not read.
    if status == 200 && has_result(body) {
        return Verdict::Ok;
    }
    let classify = |response: &Value| match response.get("error") {
        None | Some(Value::Null) if status == 200 && response.get("result").is_some() => {
            Verdict::Ok
        }
        None | Some(Value::Null) => Verdict::Error,
        Some(error) => {
            let error = JsonRpcError { code: error["code"].as_i64(), data: &error["data"] };
            if is_rejection(&error) { Verdict::Rejected } else { Verdict::Error }
        }
    };
    match serde_json::from_slice::<Value>(body) {
        Ok(Value::Array(responses)) => worst(responses.iter().map(classify)),
        Ok(response) => classify(&response),
        Err(_) => Verdict::Error,
    }
}

/// Other HTTP: 2xx is ok.
pub fn status_ok(status: u16, _: &[u8]) -> Verdict {
    match status {
        200..=299 => Verdict::Ok,
        429 | 503 => Verdict::Rejected,
        _ => Verdict::Error,
    }
}

/// A request with `If-None-Match`: only 304 is ok. A response with content is an error.
pub fn not_modified(status: u16, body: &[u8]) -> Verdict {
    match status_ok(status, body) {
        Verdict::Error if status == 304 => Verdict::Ok,
        Verdict::Ok => Verdict::Error,
        verdict => verdict,
    }
}

/// The class of a batch is that of its worst response. A batch without responses is an error.
fn worst(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    verdicts
        .reduce(|worst, next| match (worst, next) {
            (Verdict::Error, _) | (_, Verdict::Error) => Verdict::Error,
            (Verdict::Rejected, _) | (_, Verdict::Rejected) => Verdict::Rejected,
            (Verdict::Ok, Verdict::Ok) => Verdict::Ok,
        })
        .unwrap_or(Verdict::Error)
}

/// Whether a body is an object with a `result` and no `error` before it. Reads no further than that.
fn has_result(body: &[u8]) -> bool {
    let mut has_result = false;
    let mut members = serde_json::Deserializer::from_slice(body);
    // It stops within the object, which the parser reports as an error.
    let _ = members.deserialize_map(UntilOutcome { has_result: &mut has_result });
    has_result
}

/// Reads the members of an object until one of them is `result` or `error`.
struct UntilOutcome<'a> {
    has_result: &'a mut bool,
}

impl<'de> Visitor<'de> for UntilOutcome<'_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a JSON-RPC response")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<&str>()? {
            match name {
                "result" => {
                    *self.has_result = true;
                    return Ok(());
                }
                "error" => return Ok(()),
                _ => members.next_value::<IgnoredAny>()?,
            };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_classified() {
        for (status, body, verdict) in [
            (200, r#"{"jsonrpc":"2.0","result":null,"id":1}"#, Verdict::Ok),
            (200, r#"{"id":1,"jsonrpc":"2.0","result":[1"#, Verdict::Ok),
            (200, r#"{"error":null,"result":1,"id":1}"#, Verdict::Ok),
            (200, r#"[{"result":1},{"result":2}]"#, Verdict::Ok),
            (
                200,
                r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":""},"id":1}"#,
                Verdict::Error,
            ),
            (200, r#"{"error":{"code":-32005,"message":"full"},"id":1}"#, Verdict::Rejected),
            (200, r#"[{"result":1},{"error":{"code":-32429}}]"#, Verdict::Rejected),
            (429, "slow down", Verdict::Rejected),
            (500, r#"{"result":1}"#, Verdict::Error),
            (200, r#"[{"result":1},{"error":{"code":-32601}}]"#, Verdict::Error),
            (200, "ok", Verdict::Error),
            (200, "[]", Verdict::Error),
        ] {
            assert_eq!(json_rpc(status, body.as_bytes()), verdict, "{status} {body}");
        }
        assert_eq!(status_ok(204, b""), Verdict::Ok);
        assert_eq!(status_ok(404, b""), Verdict::Error);
        let conditional = [304, 200, 404, 429].map(|status| not_modified(status, b""));
        use Verdict::{Error, Ok, Rejected};
        assert_eq!(conditional, [Ok, Error, Error, Rejected]);
    }

    #[test]
    fn only_a_result_of_the_response_itself_counts() {
        let within = r#"{"id":{"result":1},"error":{"code":1,"data":{"result":1}}}"#;
        assert_eq!(json_rpc(200, within.as_bytes()), Verdict::Error);
        assert_eq!(json_rpc(200, br#"{"jsonrpc":"\"result\":","id":1}"#), Verdict::Error);
    }

    #[test]
    fn a_server_defines_its_own_rejections() {
        let body = br#"{"error":{"code":7,"data":{"full":true}}}"#;
        assert_eq!(json_rpc(200, body), Verdict::Error);
        let is_full = |error: &JsonRpcError<'_>| error.data["full"] == true;
        assert_eq!(json_rpc_with(200, body, is_full), Verdict::Rejected);
    }
}
