//! The frames of a node: replies, failures, rejections and notifications, in either encoding.

use kaspa::{Event, Operation, ServerError};

use super::value::{Structure, Value, put_bytes};

/// The encoding of a connection's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Borsh, in binary messages.
    Borsh,
    /// JSON, in text messages.
    Json,
}

/// A message to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Binary(Vec<u8>),
    Text(String),
}

/// Codes of errors in Borsh.
const NOT_FOUND_CODE: u8 = 3;
/// The code of a malformed payload, which kaspad names after the response.
const BAD_PAYLOAD_CODE: u8 = 9;
const TEXT_CODE: u8 = 13;

impl Encoding {
    /// Encodes a successful reply.
    pub(crate) fn reply(self, id: u64, operation: Operation, structure: &Structure) -> Frame {
        match self {
            Self::Borsh => {
                let mut out = borsh_head(id, 0, Some(operation));
                out.push(1);
                Value::Structure(structure.clone()).put_borsh(&mut out);
                Frame::Binary(out)
            }
            Self::Json => {
                let mut out = json_head(id, operation);
                out.push_str(",\"params\":");
                structure.put_json(&mut out);
                out.push('}');
                Frame::Text(out)
            }
        }
    }

    /// Encodes the reply to a request if its method failed.
    pub(crate) fn failure(self, id: u64, operation: Operation, text: &str) -> Frame {
        match self {
            Self::Borsh => {
                let mut out = borsh_head(id, 0, Some(operation));
                out.extend([0, TEXT_CODE]);
                put_bytes(&mut out, text.as_bytes());
                Frame::Binary(out)
            }
            Self::Json => json_error(id, operation, text),
        }
    }

    /// Encodes the reply to a request that is not dispatched: the operation is not a method, or the payload is
    /// malformed.
    pub(crate) fn rejection(self, id: u64, operation: Operation, error: &ServerError) -> Frame {
        let code = match error {
            ServerError::NotFound => NOT_FOUND_CODE,
            _ => BAD_PAYLOAD_CODE,
        };
        match self {
            Self::Borsh => {
                let mut out = borsh_head(id, 1, None);
                out.push(code);
                Frame::Binary(out)
            }
            Self::Json => json_error(id, operation, &error.to_string()),
        }
    }

    /// Encodes a notification.
    pub(crate) fn notification(self, event: Event, content: &Structure) -> Frame {
        match self {
            Self::Borsh => {
                let mut inner = 1_u16.to_le_bytes().to_vec();
                inner.extend(u16::from(event.variant()).to_le_bytes());
                Value::Structure(content.clone()).put_borsh(&mut inner);
                let mut out = vec![0, 0xff, 1, event.code()];
                put_bytes(&mut out, &inner);
                Frame::Binary(out)
            }
            Self::Json => {
                let mut out = format!(
                    "{{\"method\":\"{}\",\"params\":{{\"{}\":",
                    event.name(),
                    event.scope_name()
                );
                content.put_json(&mut out);
                out.push_str("}}");
                Frame::Text(out)
            }
        }
    }
}

fn borsh_head(id: u64, kind: u8, operation: Option<Operation>) -> Vec<u8> {
    let mut out = vec![1];
    out.extend(id.to_le_bytes());
    out.push(kind);
    match operation {
        Some(operation) => out.extend([1, operation.code()]),
        None => out.push(0),
    }
    out
}

fn json_head(id: u64, operation: Operation) -> String {
    format!("{{\"id\":{id},\"method\":\"{}\"", operation.name())
}

fn json_error(id: u64, operation: Operation, text: &str) -> Frame {
    let mut out = json_head(id, operation);
    let text = serde_json::json!(text);
    out.push_str(&format!(",\"error\":{{\"code\":0,\"message\":{text},\"data\":null}}}}"));
    Frame::Text(out)
}
