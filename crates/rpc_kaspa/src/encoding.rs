//! The encoding of a connection's messages.

use kaspa::{
    Operation, ServerError, encode_borsh_failure, encode_borsh_rejection, encode_json_failure,
};
use websocket::OutgoingMessage;

/// The encoding of a connection's messages. Each port has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Borsh, in binary messages.
    #[default]
    Borsh,
    /// JSON, in text messages.
    Json,
}

impl Encoding {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Borsh, Self::Json];

    /// Returns the message of encoded bytes, or the part of one. Those in JSON are written as ASCII here, or were
    /// checked.
    pub(crate) fn to_message(self, bytes: Vec<u8>) -> OutgoingMessage {
        match self {
            Self::Borsh => OutgoingMessage::Binary(bytes),
            Self::Json => match String::from_utf8(bytes) {
                Ok(text) => OutgoingMessage::Text(text),
                Err(_) => unreachable!("JSON is written as UTF-8"),
            },
        }
    }

    /// Encodes the reply to a request whose method failed.
    pub(crate) fn encode_failure(
        self,
        id: u64,
        operation: Operation,
        error: &ServerError,
    ) -> Vec<u8> {
        match self {
            Self::Borsh => encode_borsh_failure(id, operation, error),
            Self::Json => encode_json_failure(id, operation, error),
        }
    }

    /// Encodes the reply to a request that is not dispatched: no such method, or parameters of another shape.
    pub(crate) fn encode_rejection(
        self,
        id: u64,
        operation: Operation,
        error: &ServerError,
    ) -> Vec<u8> {
        match self {
            Self::Borsh => encode_borsh_rejection(id, error),
            Self::Json => encode_json_failure(id, operation, error),
        }
    }
}
