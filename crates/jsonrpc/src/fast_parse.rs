//! Parses the usual form of a request in one pass.
//!
//! In: the text of a body. Out: the same call that [`crate::envelope::read`] returns, or `None`, and then the
//! body is parsed there: batches, escapes, fractions, exponents, and all errors.
//! Invariant: both parsers return the same for any body that is parsed here.

use std::borrow::Cow;

use crate::params::Params;
use crate::request::{Call, Id};

/// Nesting of arrays and objects; a deeper request is parsed in `envelope`.
const NESTING_MAX: usize = 16;

/// A number with more digits may not fit a `u64`.
const DIGITS_MAX: usize = 19;

/// The one call of a plain body.
pub(crate) fn parse_call(body: &str) -> Option<Call<'_>> {
    let mut reader = Reader { body, at: 0 };
    let (mut is_versioned, mut id, mut method, mut params) = (false, None, None, None);
    reader.skip_space();
    reader.expect(b'{')?;
    loop {
        reader.skip_space();
        let name = reader.string()?;
        reader.skip_space();
        reader.expect(b':')?;
        reader.skip_space();
        match name {
            "jsonrpc" if !is_versioned => is_versioned = reader.string()? == "2.0",
            "id" if id.is_none() => id = Some(reader.id()?),
            "method" if method.is_none() => method = Some(reader.string()?),
            "params" if params.is_none() => {
                let from = reader.at;
                matches!(reader.peek()?, b'[' | b'{').then_some(())?;
                reader.value(0)?;
                params = Some(body.get(from..reader.at)?);
            }
            _ => return None,
        }
        reader.skip_space();
        match reader.next()? {
            b',' => {}
            b'}' => break,
            _ => return None,
        }
    }
    reader.skip_space();
    if reader.at < body.len() || !is_versioned {
        return None;
    }
    Some(Call::Method { id: id?, method: Cow::Borrowed(method?), params: Params::new(params) })
}

struct Reader<'a> {
    body: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.body.as_bytes().get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// A string without escapes.
    fn string(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let rest = self.body.as_bytes().get(self.at..)?;
        let len = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
        let text = self.body.get(self.at..self.at + len)?;
        self.at += len;
        self.expect(b'"')?;
        Some(text)
    }

    /// A whole number from 0 that certainly fits a `u64`.
    fn digits(&mut self) -> Option<&'a str> {
        let rest = self.body.as_bytes().get(self.at..)?;
        let len = rest.iter().position(|byte| !byte.is_ascii_digit())?;
        if len == 0 || len > DIGITS_MAX || (len > 1 && rest[0] == b'0') {
            return None;
        }
        let text = self.body.get(self.at..self.at + len)?;
        self.at += len;
        Some(text)
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.body.get(self.at..)?.starts_with(word).then_some(())?;
        self.at += word.len();
        Some(())
    }

    fn id(&mut self) -> Option<Id> {
        match self.peek()? {
            b'"' => Some(Id::Text(self.string()?.to_owned())),
            b'n' => self.word("null").map(|()| Id::Null),
            _ => Some(Id::Number(self.digits()?.parse().ok()?)),
        }
    }

    /// Skips a value. The caller must check what follows a number or a word.
    fn value(&mut self, depth: usize) -> Option<()> {
        match self.peek()? {
            b'"' => self.string().map(drop),
            b'0'..=b'9' => self.digits().map(drop),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            b'[' => self.members(b']', depth, |reader| reader.value(depth + 1)),
            b'{' => self.members(b'}', depth, |reader| {
                reader.string()?;
                reader.skip_space();
                reader.expect(b':')?;
                reader.skip_space();
                reader.value(depth + 1)
            }),
            _ => None,
        }
    }

    fn members(
        &mut self,
        end: u8,
        depth: usize,
        member: impl Fn(&mut Self) -> Option<()>,
    ) -> Option<()> {
        self.at += 1; // the opening bracket
        if depth >= NESTING_MAX {
            return None;
        }
        self.skip_space();
        if self.peek()? == end {
            self.at += 1;
            return Some(());
        }
        loop {
            member(self)?;
            self.skip_space();
            match self.next()? {
                b',' => self.skip_space(),
                byte if byte == end => return Some(()),
                _ => return None,
            }
        }
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
