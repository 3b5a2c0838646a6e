//! Translates the objects of kaspad's replies and notifications from JSON to protobuf.
//!
//! Shape: each object is split into the texts of its fields, which are not copied. A field that has no number in
//! protobuf is left out.
//! Cost: each text is scanned once for each object around it, some five times.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::shape::{FieldShape, Kind, Shape};
use super::wire::ProtobufBuffer;
use crate::hex::{self, HexError};

/// JSON that does not have the shape of its method.
#[derive(Debug, thiserror::Error)]
pub enum TranslationError {
    /// It is not JSON, or a field has another type.
    #[error("the upstream node sent another shape in JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A field with hexadecimal digits has other characters.
    #[error("the upstream node sent other characters than hexadecimal digits: {0}")]
    Hex(#[from] HexError),
    /// A word has no form in protobuf.
    #[error("the upstream node sent {0:?}, which gRPC has no form for")]
    UnknownWord(String),
    /// The reply is an error with this text.
    #[error("{0}")]
    Failed(String),
}

/// The fields of an object, as texts in JSON.
type Object<'a> = BTreeMap<&'a str, &'a RawValue>;

/// An address of a node, as kaspad writes it in JSON.
#[derive(Deserialize)]
struct PeerAddress {
    ip: IpAddr,
    port: u16,
}

/// The outcome of submitBlock, as kaspad writes it in JSON.
#[derive(Deserialize)]
#[serde(tag = "type", content = "reason", rename_all = "lowercase")]
enum BlockReport {
    Success,
    Reject(BlockRejection),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum BlockRejection {
    BlockInvalid,
    IsInIBD,
    RouteIsFull,
}

const NULL: &str = "null";
/// The field of an error, in each reply.
pub(super) const ERROR_FIELD: u32 = 1_000;
/// The field of the text of an error.
const ERROR_TEXT_FIELD: u32 = 1;

/// Appends the fields of an object.
pub(super) fn put_object(
    out: &mut Vec<u8>,
    shape: &Shape,
    json: &str,
) -> Result<(), TranslationError> {
    let object: Object<'_> = serde_json::from_str(json)?;
    for field in shape.0 {
        let value = object.get(field.key).map(|value| value.get());
        if let Some(value) = value.filter(|value| *value != NULL) {
            put_field(out, field, value)?;
        }
    }
    Ok(())
}

/// Appends an error with this text as the field [`ERROR_FIELD`].
pub(super) fn put_error(out: &mut Vec<u8>, text: &str) {
    out.put_message(ERROR_FIELD, |out| out.put_bytes(ERROR_TEXT_FIELD, text.as_bytes()));
}

fn put_field(out: &mut Vec<u8>, field: &FieldShape, json: &str) -> Result<(), TranslationError> {
    let start = out.len();
    let is_default = put_value(out, field.number, field.kind, json)?;
    if is_default && !field.is_optional {
        // A field that is missing has this value.
        out.truncate(start);
    }
    Ok(())
}

/// Appends a value as a field. Returns whether it is the default of its type.
fn put_value(
    out: &mut Vec<u8>,
    number: u32,
    kind: Kind,
    json: &str,
) -> Result<bool, TranslationError> {
    match kind {
        Kind::Flag => {
            let value: bool = serde_json::from_str(json)?;
            out.put_flag(number, value);
            Ok(!value)
        }
        Kind::Number => {
            let value: u64 = serde_json::from_str(json)?;
            out.put_number(number, value);
            Ok(value == 0)
        }
        Kind::Signed => {
            let value: i64 = serde_json::from_str(json)?;
            out.put_number(number, value.cast_unsigned());
            Ok(value == 0)
        }
        Kind::Double => {
            let value: f64 = serde_json::from_str(json)?;
            out.put_double(number, value);
            Ok(value.to_bits() == 0)
        }
        Kind::Float => {
            let value: f32 = serde_json::from_str(json)?;
            out.put_float(number, value);
            Ok(value.to_bits() == 0)
        }
        Kind::Text | Kind::NullableText => Ok(put_text(out, number, &read_text(json)?)),
        Kind::Words(words) => {
            let text = read_text(json)?;
            let word = words.iter().find(|(key, _)| *key == text);
            let (_, word) = word.ok_or_else(|| unknown_word(&text))?;
            Ok(put_text(out, number, word))
        }
        Kind::Enumeration(values) => {
            let text = read_text(json)?;
            let value = values.iter().find(|(key, _)| *key == text);
            let (_, value) = *value.ok_or_else(|| unknown_word(&text))?;
            out.put_number(number, value);
            Ok(value == 0)
        }
        Kind::NetworkName => Ok(put_text(out, number, &format!("kaspa-{}", read_text(json)?))),
        Kind::BlueWork => {
            let text = read_text(json)?;
            let digits = text.trim_start_matches('0');
            Ok(put_text(out, number, if digits.is_empty() { "0" } else { digits }))
        }
        Kind::DigitsAsBytes => {
            let bytes = hex::decode(&read_text(json)?)?;
            out.put_bytes(number, &bytes);
            Ok(bytes.is_empty())
        }
        Kind::Bytes => {
            let bytes: Vec<u8> = serde_json::from_str(json)?;
            out.put_bytes(number, &bytes);
            Ok(bytes.is_empty())
        }
        Kind::BytesAsText => {
            let bytes: Vec<u8> = serde_json::from_str(json)?;
            Ok(put_text(out, number, &String::from_utf8_lossy(&bytes)))
        }
        Kind::BytesAsDigits => {
            let bytes: Vec<u8> = serde_json::from_str(json)?;
            Ok(put_text(out, number, &hex::encode_hex(&bytes)))
        }
        Kind::List(element) => {
            let elements: Vec<&RawValue> = serde_json::from_str(json)?;
            for value in &elements {
                put_value(out, number, *element, value.get())?;
            }
            Ok(elements.is_empty())
        }
        Kind::Numbers => {
            let values: Vec<u64> = serde_json::from_str(json)?;
            out.put_message(number, |out| values.iter().for_each(|value| out.put_varint(*value)));
            Ok(values.is_empty())
        }
        Kind::Inline(shape) => put_object(out, shape, json).map(|()| false),
        Kind::Object(_) | Kind::Script | Kind::Wrapped(_) | Kind::LevelRun | Kind::KnownAddress => {
            let mut written = Ok(());
            out.put_message(number, |out| written = put_content(out, kind, json));
            written.map(|()| false)
        }
        Kind::PeerAddress => Ok(put_text(out, number, &read_peer_address(json)?)),
        Kind::BlockReport => put_block_report(out, json).map(|()| false),
    }
}

/// Appends the content of a message.
fn put_content(out: &mut Vec<u8>, kind: Kind, json: &str) -> Result<(), TranslationError> {
    match kind {
        Kind::Object(shape) => put_object(out, shape, json),
        Kind::Wrapped(inner) => put_value(out, 1, *inner, json).map(drop),
        Kind::Script => {
            let text = read_text(json)?;
            let (version, program) = text.split_at_checked(4).unwrap_or((&*text, ""));
            let [high, low] = hex::decode_array(version)?;
            match u16::from_be_bytes([high, low]) {
                0 => {}
                version => out.put_number(1, u64::from(version)),
            }
            put_text(out, 2, program);
            Ok(())
        }
        Kind::LevelRun => {
            let (level, parents): (u64, &RawValue) = serde_json::from_str(json)?;
            put_value(out, 1, Kind::List(&Kind::Text), parents.get())?;
            out.put_number(2, level);
            Ok(())
        }
        Kind::KnownAddress => {
            put_text(out, 1, &read_peer_address(json)?);
            Ok(())
        }
        // Only the kinds above are messages.
        _ => Ok(()),
    }
}

/// Appends a text. Returns whether it is empty.
fn put_text(out: &mut Vec<u8>, number: u32, text: &str) -> bool {
    out.put_bytes(number, text.as_bytes());
    text.is_empty()
}

/// Reads a text, without a copy if it has no escapes.
fn read_text(json: &str) -> Result<Cow<'_, str>, TranslationError> {
    let inner = json.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    match inner {
        Some(text) if !text.contains('\\') => Ok(Cow::Borrowed(text)),
        _ => Ok(Cow::Owned(serde_json::from_str(json)?)),
    }
}

/// Reads the address of a node, or an IP address alone.
fn read_peer_address(json: &str) -> Result<String, TranslationError> {
    if json.starts_with('{') {
        let PeerAddress { ip, port } = serde_json::from_str(json)?;
        return Ok(SocketAddr::new(ip, port).to_string());
    }
    let ip: IpAddr = serde_json::from_str(json)?;
    Ok(ip.to_string())
}

/// Appends the outcome of submitBlock, as kaspad does: a rejection has an error too.
fn put_block_report(out: &mut Vec<u8>, json: &str) -> Result<(), TranslationError> {
    let rejection = match serde_json::from_str(json)? {
        BlockReport::Success => return Ok(()),
        BlockReport::Reject(rejection) => rejection,
    };
    // A full route has no number in protobuf.
    let (reason, text) = match rejection {
        BlockRejection::BlockInvalid => (1, "block is invalid"),
        BlockRejection::IsInIBD => (2, "node is not synced"),
        BlockRejection::RouteIsFull => (0, "route is full"),
    };
    if reason > 0 {
        out.put_number(1, reason);
    }
    put_error(out, &format!("Block was not submitted: {text}"));
    Ok(())
}

fn unknown_word(text: &str) -> TranslationError {
    TranslationError::UnknownWord(text.to_owned())
}
