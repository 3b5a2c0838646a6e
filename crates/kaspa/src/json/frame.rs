//! Messages of wRPC in JSON: an envelope with id, method and parameters. It is not JSON-RPC 2.0.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::text::JsonBuffer;
use crate::message::ServerError;
use crate::operation::Operation;

/// Depth of nested arrays and objects up to which kaspad reads a message, the message itself included. It is the limit
/// of serde_json, which does not apply to parameters that stay unparsed.
const DEPTH_MAX: usize = 127;

/// A message that a client sends.
#[derive(Clone, Copy, Debug)]
pub struct JsonRequest<'a> {
    /// The id that the reply repeats. Without one the message gets no reply.
    pub id: Option<u64>,
    /// The operation that the client requests.
    pub operation: Operation,
    /// The parameters of the operation, unparsed.
    pub params: &'a RawValue,
}

/// A node's message: a reply if it has an id, else a notification.
#[derive(Clone, Copy, Debug)]
pub struct JsonServerMessage<'a> {
    /// The id of the request.
    pub id: Option<u64>,
    /// The operation of a notification, or of the request.
    pub operation: Option<Operation>,
    /// The parameters of a reply or a notification.
    pub params: Option<&'a RawValue>,
    /// The error of a reply.
    pub error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RequestEnvelope<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: &'a RawValue,
}

#[derive(Deserialize)]
struct ServerEnvelope<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// The text of an error.
#[derive(Deserialize)]
struct ErrorEnvelope {
    message: String,
}

fn find_operation(name: &str) -> Result<Operation, serde_json::Error> {
    let unknown = || serde::de::Error::custom(format_args!("unknown method {name:?}"));
    Operation::from_name(name).ok_or_else(unknown)
}

/// Whether arrays and objects are nested more deeply than [`DEPTH_MAX`]. The text need not be JSON.
fn is_too_deep(text: &[u8]) -> bool {
    let brackets = text.iter().filter(|byte| matches!(byte, b'[' | b'{')).count();
    if brackets <= DEPTH_MAX {
        return false;
    }
    let mut depth = 0_usize;
    let mut is_in_string = false;
    let mut is_escaped = false;
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_string => is_escaped = true,
            b'"' => is_in_string = !is_in_string,
            b'[' | b'{' if !is_in_string => depth += 1,
            b']' | b'}' if !is_in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            return true;
        }
    }
    false
}

impl<'a> JsonRequest<'a> {
    /// Reads a client's message. kaspad closes the connection after an error.
    pub fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        if is_too_deep(text.as_bytes()) {
            return Err(serde::de::Error::custom(format_args!(
                "more than {DEPTH_MAX} arrays and objects within each other"
            )));
        }
        let RequestEnvelope { id, method, params } = serde_json::from_str(text)?;
        Ok(Self { id, operation: find_operation(&method)?, params })
    }

    /// Encodes the message again with another id, to pass it on.
    pub fn encode_with_id(&self, id: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.params.get().len() + 96);
        put_head(&mut out, id, self.operation);
        out.put_json(r#","params":"#);
        out.put_json(self.params.get());
        out.push(b'}');
        out
    }
}

impl<'a> JsonServerMessage<'a> {
    /// Reads a node's message.
    pub fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        let ServerEnvelope { id, method, params, error } = serde_json::from_str(text)?;
        let operation = method.map(|method| find_operation(&method)).transpose()?;
        Ok(Self { id, operation, params, error })
    }

    /// Returns the parameters of a successful reply, or its error.
    pub fn result(&self) -> Result<Option<&'a RawValue>, ServerError> {
        let Some(error) = self.error else { return Ok(self.params) };
        let parsed = serde_json::from_str::<ErrorEnvelope>(error.get());
        let message = parsed.map_or_else(|_| error.get().to_owned(), |error| error.message);
        Err(ServerError::Text(message))
    }

    /// Encodes a reply again with another id, to pass it on.
    pub fn encode_with_id(&self, id: u64) -> Vec<u8> {
        let content = self.error.or(self.params).map_or("null", RawValue::get);
        let mut out = Vec::with_capacity(content.len() + 96);
        match self.operation {
            Some(operation) => put_head(&mut out, id, operation),
            None => put_id(&mut out, id),
        }
        out.put_json(if self.error.is_some() { r#","error":"# } else { r#","params":"# });
        out.put_json(content);
        out.push(b'}');
        out
    }
}

/// Encodes the reply to a request that failed.
pub fn encode_json_failure(id: u64, operation: Operation, error: &ServerError) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    put_head(&mut out, id, operation);
    out.put_json(r#","error":{"code":0,"message":"#);
    out.put_string(&error.to_string());
    out.put_json(r#","data":null}}"#);
    out
}

/// Encodes a successful reply: `write` appends its parameters.
pub(crate) fn encode_reply(
    id: u64,
    operation: Operation,
    write: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    put_reply_head(&mut out, id, operation);
    write(&mut out);
    out.push(b'}');
    out
}

/// Appends the head of a successful reply, up to its parameters.
pub(crate) fn put_reply_head(out: &mut Vec<u8>, id: u64, operation: Operation) {
    put_head(out, id, operation);
    out.put_json(r#","params":"#);
}

fn put_id(out: &mut Vec<u8>, id: u64) {
    out.put_json(r#"{"id":"#);
    out.put_number(id);
}

fn put_head(out: &mut Vec<u8>, id: u64, operation: Operation) {
    put_id(out, id);
    out.put_json(r#","method":""#);
    out.put_json(operation.name());
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_whole_numbers_of_64_bits() {
        let parse = |id: &str| {
            let text = format!(r#"{{"id":{id},"method":"ping","params":{{}}}}"#);
            JsonRequest::parse(&text).map(|request| request.id).ok()
        };
        assert_eq!(parse("18446744073709551615"), Some(Some(u64::MAX)));
        assert_eq!(parse("9007199254740993"), Some(Some((1 << 53) + 1)));
        assert_eq!(parse("null"), Some(None));
        for id in ["-1", "1.5", "\"1\"", "18446744073709551616", "[]"] {
            assert_eq!(parse(id), None, "{id}");
        }
    }

    #[test]
    fn malformed_messages_are_refused() {
        let messages = [
            r#"{"id":1,"method":"nothing","params":{}}"#,
            r#"{"id":1,"method":"ping"}"#,
            r#"{"id":1,"params":{}}"#,
            r#"{"id":1,"method":7,"params":{}}"#,
            r#"[]"#,
            r#"{"id":1,"method":"ping","params":{}} {}"#,
            "",
        ];
        for message in messages {
            assert!(JsonRequest::parse(message).is_err(), "{message}");
        }
        let without_id = r#"{"method":"ping","params":[1]}"#;
        let request = JsonRequest::parse(without_id).expect("a client's notification");
        assert_eq!(request.id, None);
    }
}
