//! Parses the usual form of a request in one pass.
//!
//! In: the text of a body. Out: the same call that [`crate::envelope::read`] returns, or `None`, and then the
//! body is parsed there: batches, escapes, fractions, exponents, and all errors.
//! Invariant: both parsers return the same for any body that is parsed here.

use std::borrow::Cow;

use crate::json_scanner::JsonScanner;
use crate::params::Params;
use crate::request::{Call, Id};

/// The one call of a plain body.
pub(crate) fn parse_call(body: &str) -> Option<Call<'_>> {
    let mut scanner = JsonScanner::new(body);
    let mut is_versioned = false;
    let mut id = None;
    let mut method = None;
    let mut params = None;
    scanner.object(|scanner, name| {
        match name {
            "jsonrpc" if !is_versioned => {
                is_versioned = true;
                (scanner.string()? == "2.0").then_some(())?;
            }
            "id" if id.is_none() => id = Some(read_id(scanner)?),
            "method" if method.is_none() => method = Some(scanner.string()?),
            "params" if params.is_none() => {
                matches!(scanner.peek()?, b'[' | b'{').then_some(())?;
                params = Some(scanner.value()?);
            }
            _ => return None,
        }
        Some(())
    })?;
    scanner.end()?;
    is_versioned.then_some(())?;
    Some(Call::Method { id: id?, method: Cow::Borrowed(method?), params: Params::new(params) })
}

fn read_id(scanner: &mut JsonScanner<'_>) -> Option<Id> {
    match scanner.peek()? {
        b'"' => Some(Id::Text(scanner.string()?.to_owned())),
        b'n' => scanner.null().map(|()| Id::Null),
        _ => Some(Id::Number(scanner.number()?)),
    }
}

#[cfg(test)]
mod tests {
    use crate::envelope::{Request, read_slowly};

    use super::*;

    /// The fast parser must return the same as the other; returns whether it parsed the body.
    fn check(body: &str) -> bool {
        let Some(fast) = parse_call(body) else { return false };
        match read_slowly(body) {
            Ok(Request::Single(slow)) => {
                assert_eq!(format!("{fast:?}"), format!("{slow:?}"), "{body}");
            }
            other => panic!("{body}: {other:?}"),
        }
        true
    }

    #[test]
    fn usual_requests_are_parsed_in_one_pass() {
        for body in [
            r#"{"jsonrpc":"2.0","id":1,"method":"getSlot"}"#,
            r#"{"id":18446744073709551,"jsonrpc":"2.0","method":"getSlot","params":[]}"#,
            r#" { "method" : "a", "params" : [ "x" , { "encoding" : "base64", "n":[1,true,null] } ] , "id":"é", "jsonrpc":"2.0" } "#,
            r#"{"jsonrpc":"2.0","id":null,"method":"m","params":{"a":[],"b":{}}}"#,
        ] {
            assert!(check(body), "{body}");
        }
        for body in [
            "",
            "[]",
            r#"[{"jsonrpc":"2.0","id":1,"method":"getSlot"}]"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"getSlot"}"#,
            r#"{"jsonrpc":"1.0","jsonrpc":"2.0","id":1,"method":"getSlot"}"#,
            r#"{"jsonrpc":"2.0","method":"getSlot"}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"getSlot"}"#,
            r#"{"jsonrpc":"2.0","id":01,"method":"getSlot"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"getSlot","params":[01]}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"getSlot","params":[1.5]}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"getSlot","params":["\u0041"]}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"getSlot","params":[1,]}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"getSlot","params":null}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"getSlot","params":[nullx]}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"getSlot","more":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"getSlot"} x"#,
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"get\nSlot\"}",
        ] {
            assert!(!check(body), "{body}");
        }
    }

    #[test]
    fn both_parsers_agree_on_changed_bodies() {
        let body =
            r#"{"jsonrpc":"2.0","id":12,"method":"m","params":["ab",{"c":[1,{}],"d":true}]}"#;
        let others = br#"{}[]",:0129.-+eEtfn\ua "#;
        let mut random = fastrand::Rng::with_seed(7);
        let mut fast_count = 0;
        for _ in 0..200_000 {
            let mut changed = body.as_bytes().to_vec();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..changed.len());
                let byte = others[random.usize(..others.len())];
                match random.u8(..3) {
                    0 => changed[at] = byte,
                    1 => changed.insert(at, byte),
                    _ => drop(changed.remove(at)),
                }
            }
            let changed = String::from_utf8(changed).expect("ASCII");
            fast_count += usize::from(check(&changed));
        }
        assert!(fast_count > 5_000, "{fast_count}");
    }
}
