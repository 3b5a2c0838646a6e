//! JSON-RPC 2.0 requests and responses, as `jsonrpc-core` 18 reads and writes them, because Agave's clients
//! rely on it.
//!
//! In: the text of a body. Out: [`Request`], whose parameters are still text of the same body.
//! Rules of Agave that the standard does not suggest, all of them implemented here:
//! - an unknown member, a duplicate member and a wrong `jsonrpc` make the object "Invalid request" with its own
//!   id;
//! - without `jsonrpc` the error is "Unsupported JSON-RPC protocol version", in a response without `jsonrpc`;
//! - an id that is not a string, a whole number from 0 or null makes the whole body a parse error;
//! - an element of a batch that is not an object does so, too. An empty batch gets an empty response;
//! - a call without an id is a notification: it is not run, and gets no response.

use std::borrow::Cow;
use std::fmt;

use bytes::{Buf, Bytes};
use response_cache::ResultContext;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::RpcError;
use crate::fast_parse;
use crate::params::{NESTING_MAX, Params};
pub use crate::request::{Call, Id};

/// A parsed body.
#[derive(Debug)]
pub enum Request<'a> {
    /// One call.
    Single(Call<'a>),
    /// Calls that are answered together, in order.
    Batch(Vec<Call<'a>>),
}

/// A body that was parsed up to a limit of calls.
#[derive(Debug)]
pub(crate) enum ParsedBody<'a> {
    /// The whole body.
    Request(Request<'a>),
    /// A batch of `calls` calls, which is over the limit. Calls past the limit were only checked to be objects.
    TooLong { calls: usize },
}

/// Parses a body. The error is the -32700 to respond with.
pub fn read(body: &str) -> Result<Request<'_>, RpcError> {
    fast_parse::parse_call(body).map_or_else(|| read_slowly(body), |call| Ok(Request::Single(call)))
}

/// As [`read`], but a batch may have at most `calls_max` calls.
pub(crate) fn read_bounded(body: &str, calls_max: usize) -> Result<ParsedBody<'_>, RpcError> {
    match fast_parse::parse_call(body) {
        Some(call) => Ok(ParsedBody::Request(Request::Single(call))),
        None => read_slowly_bounded(body, calls_max),
    }
}

/// As [`read`], without the fast path for plain bodies.
pub(crate) fn read_slowly(body: &str) -> Result<Request<'_>, RpcError> {
    match read_slowly_bounded(body, usize::MAX)? {
        ParsedBody::Request(request) => Ok(request),
        ParsedBody::TooLong { .. } => Err(RpcError::internal()), // no batch is longer
    }
}

fn read_slowly_bounded(body: &str, calls_max: usize) -> Result<ParsedBody<'_>, RpcError> {
    let readable = match Prescan::scan(body) {
        Prescan::Plain => true,
        Prescan::Doubtful => serde_json::from_str::<Value>(body).is_ok(),
        Prescan::TooDeep => false,
    };
    if !readable {
        return Err(RpcError::parse_error());
    }
    let is_batch = body.trim_ascii_start().starts_with('[');
    let read = if is_batch {
        let mut reader = serde_json::Deserializer::from_str(body);
        let batch = Batch { calls_max }.deserialize(&mut reader);
        batch.and_then(|batch| reader.end().map(|()| batch))
    } else {
        serde_json::from_str(body).map(|call| ParsedBody::Request(Request::Single(call)))
    };
    read.map_err(|_| RpcError::parse_error())
}

/// Reads an array of calls.
struct Batch {
    calls_max: usize,
}

impl<'de> DeserializeSeed<'de> for Batch {
    type Value = ParsedBody<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Batch {
    type Value = ParsedBody<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of requests")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut calls = Vec::new();
        while calls.len() < self.calls_max {
            match array.next_element()? {
                Some(call) => calls.push(call),
                None => return Ok(ParsedBody::Request(Request::Batch(calls))),
            }
        }
        let mut calls_len = calls.len();
        while array.next_element::<IgnoredObject>()?.is_some() {
            calls_len += 1;
        }
        Ok(if calls_len == calls.len() {
            ParsedBody::Request(Request::Batch(calls))
        } else {
            ParsedBody::TooLong { calls: calls_len }
        })
    }
}

/// An object whose content is ignored.
struct IgnoredObject;

impl<'de> Deserialize<'de> for IgnoredObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = IgnoredObject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a request object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<IgnoredObject, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(IgnoredObject)
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// The text of a response, without a newline.
#[derive(Clone, Debug)]
pub struct ResponseText {
    bytes: Vec<u8>,
    /// Offset at which the response starts.
    start: usize,
}

impl ResponseText {
    /// The response from `start` on.
    pub(crate) fn new(bytes: Vec<u8>, start: usize) -> Self {
        Self { bytes, start }
    }

    /// The response.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The response and a newline, without a copy.
    pub(crate) fn into_line(mut self) -> Bytes {
        self.bytes.push(b'\n');
        self.into_bytes()
    }

    /// The response, without a copy.
    pub(crate) fn into_bytes(self) -> Bytes {
        let mut bytes = Bytes::from(self.bytes);
        bytes.advance(self.start);
        bytes
    }
}

impl From<Vec<u8>> for ResponseText {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(bytes, 0)
    }
}

/// Passes what precedes a value to `read`, in parts: the envelope, and the context of the value.
pub(crate) fn with_parts_before_value<T>(
    context: Option<ResultContext>,
    read: impl FnOnce([&[u8]; 4]) -> T,
) -> T {
    const ENVELOPE: &[u8] = br#"{"jsonrpc":"2.0","result":"#;
    match context {
        None => read([ENVELOPE, &[], &[], &[]]),
        Some(context) => context.with_parts_before(|[before_slot, slot, after_slot]| {
            read([ENVELOPE, before_slot, slot, after_slot])
        }),
    }
}

/// Appends what precedes a value.
pub(crate) fn write_before_value(out: &mut Vec<u8>, context: Option<ResultContext>) {
    with_parts_before_value(context, |parts| {
        parts.iter().for_each(|part| out.extend_from_slice(part));
    });
}

/// Appends what follows a value, without a newline.
pub(crate) fn write_after_value(out: &mut Vec<u8>, context: Option<ResultContext>, id: &Id) {
    if let Some(context) = context {
        context.write_after(out);
    }
    out.extend_from_slice(br#","id":"#);
    id.write(out);
    out.push(b'}');
}

/// The error response, without a newline.
pub fn error_response(err: &RpcError, id: &Id, versioned: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    bytes.extend_from_slice(if versioned {
        br#"{"jsonrpc":"2.0","error":"#
    } else {
        br#"{"error":"#
    });
    // An error object is always JSON, and a Vec always takes it.
    let _ = serde_json::to_writer(&mut bytes, err);
    bytes.extend_from_slice(br#","id":"#);
    id.write(&mut bytes);
    bytes.push(b'}');
    bytes
}

/// The result of a first scan of a body. Agave parses the whole body at once, and refuses it if any part is
/// invalid. Here parameters are skipped at first, so the scan finds what skipping would miss.
#[derive(Debug, PartialEq, Eq)]
enum Prescan {
    /// Skipping finds every error that parsing would find.
    Plain,
    /// The body has `\u` escapes or numbers with exponents. They are rare, and only parsing shows whether they
    /// are valid.
    Doubtful,
    /// It is nested deeper than `serde_json` allows.
    TooDeep,
}

impl Prescan {
    fn scan(body: &str) -> Self {
        let mut depth = 0usize;
        let mut doubtful = false;
        let mut in_string = false;
        let mut escaped = false;
        let mut after_digit = false;
        for byte in body.bytes() {
            match byte {
                _ if escaped => {
                    escaped = false;
                    doubtful |= byte == b'u';
                }
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                _ if in_string => {}
                b'[' | b'{' => {
                    depth += 1;
                    if depth > NESTING_MAX {
                        return Self::TooDeep;
                    }
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                b'e' | b'E' => doubtful |= after_digit,
                _ => {}
            }
            after_digit = byte.is_ascii_digit();
        }
        if doubtful { Self::Doubtful } else { Self::Plain }
    }
}

/// The members of a call's object, not parsed yet.
#[derive(Default)]
struct RawMembers<'a> {
    jsonrpc: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    /// Has an unknown or a duplicate member.
    strange: bool,
}

impl<'de> Deserialize<'de> for Call<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = RawMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a request object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = RawMembers::default();
                while let Some(name) = map.next_key::<Name>()? {
                    let member = match name {
                        Name::Jsonrpc => &mut members.jsonrpc,
                        Name::Method => &mut members.method,
                        Name::Params => &mut members.params,
                        Name::Id if members.id.is_some() => {
                            return Err(serde::de::Error::duplicate_field("id"));
                        }
                        Name::Id => &mut members.id,
                        Name::Other => {
                            map.next_value::<IgnoredAny>()?;
                            members.strange = true;
                            continue;
                        }
                    };
                    let twice = member.replace(map.next_value()?).is_some();
                    members.strange |= twice;
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Object)?.into_call().map_err(serde::de::Error::custom)
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Name {
    Jsonrpc,
    Method,
    Params,
    Id,
    #[serde(other)]
    Other,
}

impl<'a> RawMembers<'a> {
    fn into_call(self) -> Result<Call<'a>, &'static str> {
        let id = self.id.map(read_id).transpose()?;
        let invalid = |id: Option<Id>| Call::Invalid {
            id: id.unwrap_or(Id::Null),
            versioned: true,
            err: RpcError::malformed_request(),
        };
        let version: Option<Cow<'_, str>> = match self.jsonrpc.map(|raw| read_text(raw.get())) {
            None | Some(Ok(None)) => None,
            Some(Ok(version)) => version,
            Some(Err(_)) => return Ok(invalid(id)),
        };
        if self.strange || version.as_ref().is_some_and(|version| version != "2.0") {
            return Ok(invalid(id));
        }
        let Some(Ok(Some(method))) = self.method.map(|raw| read_text(raw.get())) else {
            return Ok(invalid(id));
        };
        let params = self.params.map(RawValue::get);
        if params.is_some_and(|text| !text.starts_with(['[', '{', 'n'])) {
            return Ok(invalid(id));
        }
        Ok(match id {
            None => Call::Notification,
            Some(id) if version.is_none() => {
                Call::Invalid { id, versioned: false, err: RpcError::invalid_version() }
            }
            Some(id) => Call::Method { id, method, params: Params::new(params) },
        })
    }
}

/// A string, borrowed if it has no escapes; `None` for `null`.
fn read_text(raw: &str) -> serde_json::Result<Option<Cow<'_, str>>> {
    match serde_json::from_str::<Option<&str>>(raw) {
        Ok(text) => Ok(text.map(Cow::Borrowed)),
        Err(_) => Ok(serde_json::from_str::<Option<String>>(raw)?.map(Cow::Owned)),
    }
}

fn read_id(raw: &RawValue) -> Result<Id, &'static str> {
    let text = raw.get();
    if text == "null" {
        return Ok(Id::Null);
    }
    if let Ok(number) = serde_json::from_str::<u64>(text) {
        return Ok(Id::Number(number));
    }
    serde_json::from_str(text)
        .map(Id::Text)
        .map_err(|_| "an id of a type that JSON-RPC does not allow")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_batch_is_parsed_only_up_to_the_limit() {
        let batch = |calls: &[&str]| format!("[{}]", calls.join(", "));
        let slot = r#"{"jsonrpc":"2.0","id":1,"method":"getSlot","params":[{"a":[1]}]}"#;
        let read = |body: &str| match read_bounded(body, 3) {
            Ok(ParsedBody::Request(Request::Batch(calls))) => (calls.len(), "read"),
            Ok(ParsedBody::Request(Request::Single(_))) => (1, "single"),
            Ok(ParsedBody::TooLong { calls }) => (calls, "too long"),
            Err(err) => (0, if err == RpcError::parse_error() { "parse error" } else { "other" }),
        };
        assert_eq!(read(slot), (1, "single"));
        assert_eq!(read("[]"), (0, "read"));
        assert_eq!(read(&batch(&[slot; 3])), (3, "read"));
        assert_eq!(read(&batch(&[slot; 4])), (4, "too long"));
        assert_eq!(read(&batch(&[slot, slot, slot, "{}", slot])), (5, "too long"));
        for wrong in ["1", "[]", "null", r#"{"a":}"#, "{", "{} {}"] {
            assert_eq!(read(&batch(&[slot, slot, slot, wrong])), (0, "parse error"), "{wrong}");
        }
        assert_eq!(read(&format!("{}]", batch(&[slot; 4]))), (0, "parse error"));
    }
}
