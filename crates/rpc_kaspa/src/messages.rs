//! Messages and errors in the encoding of a connection.

use kaspa::{
    Encoding, Operation, ServerError, encode_borsh_failure, encode_borsh_rejection,
    encode_json_failure,
};
use websocket::OutgoingMessage;

/// Returns the message of encoded bytes, or the part of one. JSON is written as ASCII, or was checked.
pub(crate) fn to_message(encoding: Encoding, bytes: Vec<u8>) -> OutgoingMessage {
    match encoding {
        Encoding::Borsh => OutgoingMessage::Binary(bytes),
        Encoding::Json => match String::from_utf8(bytes) {
            Ok(text) => OutgoingMessage::Text(text),
            Err(_) => unreachable!("JSON is written as UTF-8"),
        },
    }
}

/// Encodes the reply to a request if its method failed.
pub(crate) fn encode_failure(
    encoding: Encoding,
    id: u64,
    operation: Operation,
    error: &ServerError,
) -> Vec<u8> {
    match encoding {
        Encoding::Borsh => encode_borsh_failure(id, operation, error),
        Encoding::Json => encode_json_failure(id, operation, error),
    }
}

/// Encodes the reply to a request that is not dispatched: no such method, or parameters of another shape.
pub(crate) fn encode_rejection(
    encoding: Encoding,
    id: u64,
    operation: Operation,
    error: &ServerError,
) -> Vec<u8> {
    match encoding {
        Encoding::Borsh => encode_borsh_rejection(id, error),
        Encoding::Json => encode_json_failure(id, operation, error),
    }
}
