//! Messages of a node: `KaspadResponse` with its prefix.

use super::from_json::{TranslationError, put_error, put_object};
use super::methods::METHODS;
use super::request::ID_FIELD;
use super::wire::ProtobufBuffer;
use crate::json::JsonServerMessage;
use crate::operation::Method;

/// Bytes that gRPC puts before a message: a flag, which is 0 for one that is not compressed, and the length.
pub const PROTOBUF_PREFIX_BYTES: usize = 5;

/// The envelope of a reply: its id and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtobufReply {
    /// The id of the request.
    pub id: u64,
    /// The number of the reply in `KaspadResponse`.
    pub field: u32,
}

/// Returns the number of the reply to a method.
pub(super) fn reply_field(method: Method) -> u32 {
    let request = METHODS.iter().find(|shape| shape.method == method);
    // Every method has a request, which a test shows.
    request.map_or(0, |shape| shape.field + 1)
}

/// Encodes a message. `write` appends the content of the field. A notification has the id 0.
pub(super) fn encode_message(id: u64, field: u32, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(&[0; PROTOBUF_PREFIX_BYTES]);
    put_id(&mut out, id);
    out.put_message(field, write);
    let len = out.len() - PROTOBUF_PREFIX_BYTES;
    put_length(&mut out, len as u64);
    out
}

/// Appends the id of a message.
pub(super) fn put_id(out: &mut Vec<u8>, id: u64) {
    if id > 0 {
        out.put_number(ID_FIELD, id);
    }
}

/// Writes the length into the prefix at the start of a buffer. Messages that are in memory have less than 4 GiB.
pub(super) fn put_length(out: &mut [u8], len: u64) {
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    out[1..PROTOBUF_PREFIX_BYTES].copy_from_slice(&len.to_be_bytes());
}

/// Encodes the reply to a request that failed.
pub fn encode_protobuf_failure(reply: ProtobufReply, text: &str) -> Vec<u8> {
    encode_message(reply.id, reply.field, |out| put_error(out, text))
}

/// Encodes the reply without values to a request that succeeded, such as a subscription.
pub fn encode_protobuf_acknowledgement(reply: ProtobufReply) -> Vec<u8> {
    encode_message(reply.id, reply.field, |_| ())
}

/// Translates a reply of wRPC in JSON, whether the method succeeded or not. `method` is that of the request.
///
/// Cost: some nanoseconds for each byte. Errors: the reply does not have the shape of the method.
pub fn encode_protobuf_reply(
    reply: ProtobufReply,
    method: Method,
    json: &str,
) -> Result<Vec<u8>, TranslationError> {
    let message = JsonServerMessage::parse(json)?;
    let params = match message.result() {
        Ok(params) => params.map_or("{}", |params| params.get()),
        Err(error) => return Ok(encode_protobuf_failure(reply, &error.to_string())),
    };
    let Some(shape) = METHODS.iter().find(|shape| shape.method == method) else {
        let text = format!("{} is not served over gRPC", method.name());
        return Ok(encode_protobuf_failure(reply, &text));
    };
    let mut translated = Ok(());
    let encoded = encode_message(reply.id, reply.field, |out| {
        translated = put_object(out, shape.reply, params);
    });
    translated.map(|()| encoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_a_request() {
        for method in Method::ALL {
            assert!(reply_field(*method) > 1_000, "{}", method.name());
        }
        assert_eq!(METHODS.len(), Method::ALL.len());
    }

    #[test]
    fn a_message_has_its_prefix_and_its_id() {
        let reply = ProtobufReply { id: 300, field: 1_089 };
        let expected = [0, 0, 0, 0, 7, 0xa8, 0x06, 0xac, 0x02, 0x8a, 0x44, 0];
        assert_eq!(encode_protobuf_acknowledgement(reply), expected);
        let failed = encode_protobuf_failure(ProtobufReply { id: 0, field: 1_089 }, "no");
        let expected = [0, 0, 0, 0, 10, 0x8a, 0x44, 7, 0xc2, 0x3e, 4, 0x0a, 2, b'n', b'o'];
        assert_eq!(failed, expected);
    }
}
