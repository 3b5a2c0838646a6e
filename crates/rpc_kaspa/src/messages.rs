//! Messages and errors in the format of a connection.

use kaspa::{
    Operation, ProtobufReply, ServerError, encode_borsh_failure, encode_borsh_rejection,
    encode_json_failure, encode_protobuf_failure,
};
use websocket::OutgoingMessage;

use crate::message_format::{MessageFormat, ReplyFormat};

/// Returns the message of encoded bytes, or the part of one. JSON is written as ASCII, or was checked.
pub(crate) fn to_message(format: MessageFormat, bytes: Vec<u8>) -> OutgoingMessage {
    match format {
        MessageFormat::Borsh | MessageFormat::Protobuf => OutgoingMessage::Binary(bytes),
        MessageFormat::Json => match String::from_utf8(bytes) {
            Ok(text) => OutgoingMessage::Text(text),
            Err(_) => unreachable!("JSON is written as UTF-8"),
        },
    }
}

/// Encodes the reply to a request if its method failed.
pub(crate) fn encode_failure(
    reply: ReplyFormat,
    id: u64,
    operation: Operation,
    error: &ServerError,
) -> Vec<u8> {
    match reply {
        ReplyFormat::Borsh => encode_borsh_failure(id, operation, error),
        ReplyFormat::Json => encode_json_failure(id, operation, error),
        ReplyFormat::Protobuf { field } => {
            encode_protobuf_failure(ProtobufReply { id, field }, &error.to_string())
        }
    }
}

/// Encodes the reply to a request that is not dispatched: no such method, or parameters of another shape.
pub(crate) fn encode_rejection(
    reply: ReplyFormat,
    id: u64,
    operation: Operation,
    error: &ServerError,
) -> Vec<u8> {
    match reply {
        ReplyFormat::Borsh => encode_borsh_rejection(id, error),
        ReplyFormat::Json | ReplyFormat::Protobuf { .. } => {
            encode_failure(reply, id, operation, error)
        }
    }
}
