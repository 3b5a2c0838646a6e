//! Classification of responses: ok, rejected because of overload, or an error.

use serde_json::Value;

/// How many bytes of a response are searched for `result`.
const PREFIX_BYTES: usize = 96;

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

/// JSON-RPC: a `result` is ok. 429 and 503 are rejections. So are the errors -32429 and -32005,
/// except the -32005 of nodes that are behind.
pub fn json_rpc(status: u16, body: &[u8]) -> Verdict {
    if status == 429 || status == 503 {
        return Verdict::Rejected;
    }
    let beginning = &body[..body.len().min(PREFIX_BYTES)];
    let has = |name: &[u8]| beginning.windows(name.len()).any(|window| window == name);
    let is_batch = beginning.trim_ascii_start().starts_with(b"[");
    if status == 200 && !is_batch && has(br#""result":"#) {
        return Verdict::Ok;
    }
    match serde_json::from_slice::<Value>(body) {
        Ok(Value::Array(responses)) => classify_batch(status, &responses),
        Ok(response) => classify_object(status, &response),
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

/// The class of a batch is that of its worst response.
fn classify_batch(status: u16, responses: &[Value]) -> Verdict {
    let verdicts: Vec<_> =
        responses.iter().map(|response| classify_object(status, response)).collect();
    if verdicts.is_empty() || verdicts.contains(&Verdict::Error) {
        return Verdict::Error;
    }
    if verdicts.contains(&Verdict::Rejected) { Verdict::Rejected } else { Verdict::Ok }
}

fn classify_object(status: u16, response: &Value) -> Verdict {
    match response.get("error") {
        None if status == 200 && response.get("result").is_some() => Verdict::Ok,
        None => Verdict::Error,
        Some(error) => match error["code"].as_i64() {
            Some(-32005) if error["data"]["numSlotsBehind"].is_null() => Verdict::Rejected,
            Some(-32429 | 429) => Verdict::Rejected,
            _ => Verdict::Error,
        },
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
            (200, r#"[{"result":1},{"result":2}]"#, Verdict::Ok),
            (
                200,
                r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":""},"id":1}"#,
                Verdict::Error,
            ),
            (200, r#"{"error":{"code":-32005,"message":"full"},"id":1}"#, Verdict::Rejected),
            (200, r#"{"error":{"code":-32005,"data":{"numSlotsBehind":9}}}"#, Verdict::Error),
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
}
