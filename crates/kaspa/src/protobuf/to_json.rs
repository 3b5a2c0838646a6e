//! Translates the parameters of requests from protobuf to JSON.
//!
//! Shape: each field of an object is looked up in the bytes of its message, so fields may come in any order. Of one that
//! occurs twice the last one counts.
//! Cost: the bytes of a message, once for each field of its object.
//! Bounds: the JSON of a list has at most [`GROWTH_MAX`] times the bytes of the message around it, and
//! [`SPARSE_BYTES_MAX`] more. An element without fields has two bytes, and some hundred in JSON.

use std::net::{IpAddr, SocketAddr};

use super::shape::{FieldShape, Kind, Shape};
use super::wire::{Fields, ProtobufError, Value, read_varint};
use crate::hex;
use crate::json::JsonBuffer;

const NULL: &str = "null";
/// The growth of a list by its translation. Transactions, blocks and addresses grow less than threefold.
const GROWTH_MAX: usize = 8;
/// Bytes that the JSON of a list may have in any case: a short list of transactions without content.
const SPARSE_BYTES_MAX: usize = 4 << 10;

/// Appends the object that a message has the fields of.
pub(super) fn put_object(
    out: &mut Vec<u8>,
    shape: &Shape,
    message: &[u8],
) -> Result<(), ProtobufError> {
    out.push(b'{');
    for (at, field) in shape.0.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.push(b'"');
        out.put_json(field.key);
        out.put_json("\":");
        put_field(out, field, message)?;
    }
    out.push(b'}');
    Ok(())
}

fn put_field(out: &mut Vec<u8>, field: &FieldShape, message: &[u8]) -> Result<(), ProtobufError> {
    match field.kind {
        Kind::List(element) => put_list(out, field.number, *element, message),
        Kind::Numbers => put_numbers(out, field.number, message),
        kind => match find_last(message, field.number)? {
            Some(value) => put_value(out, field.number, kind, value),
            None if field.is_optional => {
                out.put_json(NULL);
                Ok(())
            }
            None => put_default(out, field.number, kind),
        },
    }
}

/// Returns the last field with a number.
pub(super) fn find_last(message: &[u8], number: u32) -> Result<Option<Value<'_>>, ProtobufError> {
    let mut last = None;
    for field in Fields::new(message) {
        let field = field?;
        if field.number == number {
            last = Some(field.value);
        }
    }
    Ok(last)
}

fn put_list(
    out: &mut Vec<u8>,
    number: u32,
    element: Kind,
    message: &[u8],
) -> Result<(), ProtobufError> {
    let bytes_max = message.len().saturating_mul(GROWTH_MAX).saturating_add(SPARSE_BYTES_MAX);
    let start = out.len();
    out.push(b'[');
    let mut is_first = true;
    for field in Fields::new(message) {
        let field = field?;
        if field.number == number {
            if !is_first {
                out.push(b',');
            }
            is_first = false;
            put_value(out, number, element, field.value)?;
            if out.len() - start > bytes_max {
                return Err(ProtobufError::SparseList { number });
            }
        }
    }
    out.push(b']');
    Ok(())
}

/// Appends a list of numbers, which may be packed or not.
fn put_numbers(out: &mut Vec<u8>, number: u32, message: &[u8]) -> Result<(), ProtobufError> {
    let mut numbers = Vec::new();
    for field in Fields::new(message) {
        match field? {
            field if field.number != number => {}
            field => match field.value {
                Value::Varint(value) => numbers.push(value),
                Value::Bytes(mut packed) => {
                    while !packed.is_empty() {
                        let (value, rest) = read_varint(packed)?;
                        numbers.push(value);
                        packed = rest;
                    }
                }
                Value::Fixed32(_) | Value::Fixed64(_) => {
                    return Err(ProtobufError::WrongType { number });
                }
            },
        }
    }
    out.put_list(&numbers, |out, value| out.put_number(*value));
    Ok(())
}

/// Appends the value of a field that is missing.
fn put_default(out: &mut Vec<u8>, number: u32, kind: Kind) -> Result<(), ProtobufError> {
    match kind {
        // kaspad refuses a request without it.
        Kind::Object(_) | Kind::Script => {
            out.put_json(NULL);
            Ok(())
        }
        Kind::Flag | Kind::Number | Kind::Signed | Kind::Enumeration(_) => {
            put_value(out, number, kind, Value::Varint(0))
        }
        Kind::Double => put_value(out, number, kind, Value::Fixed64(0)),
        Kind::Float => put_value(out, number, kind, Value::Fixed32(0)),
        _ => put_value(out, number, kind, Value::Bytes(&[])),
    }
}

fn put_value(
    out: &mut Vec<u8>,
    number: u32,
    kind: Kind,
    value: Value<'_>,
) -> Result<(), ProtobufError> {
    match (kind, value) {
        (Kind::Flag, Value::Varint(value)) => out.put_flag(value != 0),
        (Kind::Number, Value::Varint(value)) => out.put_number(value),
        // The signed numbers of requests are times.
        (Kind::Signed, Value::Varint(value)) => {
            out.put_json(&value.cast_signed().to_string());
        }
        (Kind::Double, Value::Fixed64(bits)) => put_float(out, f64::from_bits(bits)),
        (Kind::Float, Value::Fixed32(bits)) => put_float(out, f64::from(f32::from_bits(bits))),
        (Kind::Enumeration(values), Value::Varint(value)) => {
            let word = values.iter().find(|(_, number)| *number == value);
            // kaspad refuses a word that it does not know.
            out.put_string(word.map_or("", |(word, _)| word));
        }
        (Kind::Bytes, Value::Bytes(bytes)) => put_byte_list(out, bytes),
        (Kind::BytesAsText, Value::Bytes(bytes)) => {
            put_byte_list(out, read_text(number, bytes)?.as_bytes());
        }
        (Kind::DigitsAsBytes, Value::Bytes(bytes)) => out.put_string(&hex::encode_hex(bytes)),
        (Kind::Object(shape), Value::Bytes(bytes)) => return put_object(out, shape, bytes),
        (Kind::Wrapped(inner), Value::Bytes(bytes)) => return put_wrapped(out, *inner, bytes),
        (Kind::Script, Value::Bytes(bytes)) => return put_script(out, bytes),
        (Kind::PeerAddress, Value::Bytes(bytes)) => {
            put_peer_address(out, read_text(number, bytes)?);
        }
        (Kind::NullableText, Value::Bytes([])) => out.put_json(NULL),
        (Kind::Text | Kind::NullableText | Kind::BlueWork, Value::Bytes(bytes)) => {
            out.put_string(read_text(number, bytes)?);
        }
        // Another wire type, or a kind that no request has.
        _ => return Err(ProtobufError::WrongType { number }),
    }
    Ok(())
}

fn read_text(number: u32, bytes: &[u8]) -> Result<&str, ProtobufError> {
    std::str::from_utf8(bytes).map_err(|_| ProtobufError::NotUtf8 { number })
}

fn put_float(out: &mut Vec<u8>, value: f64) {
    // A number that is not finite becomes null.
    out.put_json(&serde_json::Value::from(value).to_string());
}

fn put_byte_list(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_list(bytes, |out, byte| out.put_number(u64::from(*byte)));
}

fn put_wrapped(out: &mut Vec<u8>, inner: Kind, message: &[u8]) -> Result<(), ProtobufError> {
    match (inner, find_last(message, 1)?) {
        (Kind::List(element), _) => put_list(out, 1, *element, message),
        (_, Some(value)) => put_value(out, 1, inner, value),
        (_, None) => {
            out.put_json(NULL);
            Ok(())
        }
    }
}

/// Appends a script: four digits of its version, then its program.
fn put_script(out: &mut Vec<u8>, message: &[u8]) -> Result<(), ProtobufError> {
    let version = match find_last(message, 1)? {
        None => 0,
        Some(Value::Varint(version)) if version <= u64::from(u16::MAX) => version,
        Some(_) => return Err(ProtobufError::WrongType { number: 1 }),
    };
    let program = match find_last(message, 2)? {
        None => "",
        Some(Value::Bytes(bytes)) => read_text(2, bytes)?,
        Some(_) => return Err(ProtobufError::WrongType { number: 2 }),
    };
    out.put_string(&format!("{version:04x}{program}"));
    Ok(())
}

/// Appends the address of a node. kaspad refuses null.
fn put_peer_address(out: &mut Vec<u8>, text: &str) {
    let parts = match text.parse::<SocketAddr>() {
        Ok(address) => Some((address.ip(), Some(address.port()))),
        Err(_) => text.parse::<IpAddr>().ok().map(|ip| (ip, None)),
    };
    let json = parts.map(|(ip, port)| serde_json::json!({ "ip": ip, "port": port }));
    out.put_json(&json.map_or_else(|| NULL.to_owned(), |json| json.to_string()));
}
