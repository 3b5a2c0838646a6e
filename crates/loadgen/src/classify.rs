//! What an answer is: what was asked for, a refusal because there is too much to do, or an error.

use serde_json::Value;

/// How far into an answer its first member is looked for.
const PREFIX_BYTES: usize = 96;

/// What an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What was asked for.
    Ok,
    /// The server says that it has too much to do.
    Rejected,
    /// Anything else.
    Error,
}

/// Says what an answer is, from its status and its body (or the body's beginning).
pub type Classifier = fn(u16, &[u8]) -> Verdict;

/// Of JSON-RPC: right is a `result`. 429 is a rejection, 503 too, and so is an error that says
/// so: -32005, but for those of nodes that are behind, and -32429.
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
        Ok(Value::Array(answers)) => classify_batch(status, &answers),
        Ok(answer) => classify_object(status, &answer),
        Err(_) => Verdict::Error,
    }
}

/// Of anything else over HTTP: right is 2xx.
pub fn status_ok(status: u16, _: &[u8]) -> Verdict {
    match status {
        200..=299 => Verdict::Ok,
        429 | 503 => Verdict::Rejected,
        _ => Verdict::Error,
    }
}

/// Of a request with `If-None-Match`: right is that there is nothing new, 304. The thing itself is not.
pub fn not_modified(status: u16, body: &[u8]) -> Verdict {
    match status_ok(status, body) {
        Verdict::Error if status == 304 => Verdict::Ok,
        Verdict::Ok => Verdict::Error,
        verdict => verdict,
    }
}

/// A batch is what the worst of its answers is.
fn classify_batch(status: u16, answers: &[Value]) -> Verdict {
    let verdicts: Vec<_> = answers.iter().map(|answer| classify_object(status, answer)).collect();
    if verdicts.is_empty() || verdicts.contains(&Verdict::Error) {
        return Verdict::Error;
    }
    if verdicts.contains(&Verdict::Rejected) { Verdict::Rejected } else { Verdict::Ok }
}

fn classify_object(status: u16, answer: &Value) -> Verdict {
    match answer.get("error") {
        None if status == 200 && answer.get("result").is_some() => Verdict::Ok,
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
