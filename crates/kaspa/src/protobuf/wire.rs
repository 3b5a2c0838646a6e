//! The wire format of protobuf: numbered fields, appended to a buffer and read from bytes.
//!
//! Bounds: a length that is read is backed by bytes, and nothing is allocated by it.

use crate::address::KaspaAddress;
use crate::hash::Hash;

/// Bytes that are not a message of protobuf, or not a request of kaspad.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// The bytes end within a field.
    #[error("the message ends within a field")]
    Truncated,
    /// A number has more than 64 bits.
    #[error("a number has more than 64 bits")]
    LongNumber,
    /// A field has a number or a wire type that protobuf does not have.
    #[error("a field has an invalid tag")]
    InvalidTag,
    /// A field has another wire type than its kind.
    #[error("the field {number} has another type")]
    WrongType {
        /// The number of the field.
        number: u32,
    },
    /// A text is not UTF-8.
    #[error("the field {number} is not UTF-8")]
    NotUtf8 {
        /// The number of the field.
        number: u32,
    },
    /// The elements of a list have so few bytes that their JSON would be many times as long.
    #[error("the elements of the field {number} are almost empty")]
    SparseList {
        /// The number of the field.
        number: u32,
    },
    /// The message has no request, or one that is not known.
    #[error("the message has no known request")]
    NoRequest,
}

/// The wire types that are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    Fixed32 = 5,
}

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Field<'a> {
    pub(super) number: u32,
    pub(super) value: Value<'a>,
}

/// The value of a field, as its wire type has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// Reads the fields of a message, in the order of its bytes. It ends after an error.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn read(&mut self) -> Result<Field<'a>, ProtobufError> {
        let tag = self.read_varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| ProtobufError::InvalidTag)?;
        let value = match tag & 7 {
            0 => Value::Varint(self.read_varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.read_array()?)),
            2 => {
                let len = usize::try_from(self.read_varint()?);
                let len = len.map_err(|_| ProtobufError::Truncated)?;
                let (bytes, rest) =
                    self.rest.split_at_checked(len).ok_or(ProtobufError::Truncated)?;
                self.rest = rest;
                Value::Bytes(bytes)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.read_array()?)),
            _ => return Err(ProtobufError::InvalidTag),
        };
        if number == 0 {
            return Err(ProtobufError::InvalidTag);
        }
        Ok(Field { number, value })
    }

    fn read_varint(&mut self) -> Result<u64, ProtobufError> {
        let (value, rest) = read_varint(self.rest)?;
        self.rest = rest;
        Ok(value)
    }

    fn read_array<const N: usize>(&mut self) -> Result<[u8; N], ProtobufError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(*array)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Reads a number, and returns the bytes after it.
pub(super) fn read_varint(bytes: &[u8]) -> Result<(u64, &[u8]), ProtobufError> {
    let mut value = 0_u64;
    let mut shift = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let bits = u64::from(byte & 0x7f);
        if shift > 63 || (shift == 63 && bits > 1) {
            return Err(ProtobufError::LongNumber);
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok((value, &bytes[at + 1..]));
        }
        shift += 7;
    }
    Err(ProtobufError::Truncated)
}

/// Returns the bytes of a number.
pub(super) fn varint_bytes(value: u64) -> usize {
    let bits = u64::BITS - value.leading_zeros();
    bits.div_ceil(7).max(1) as usize
}

/// Appends the fields of a message. Each method appends a field, whether or not it has the default value.
pub(super) trait ProtobufBuffer {
    fn put_varint(&mut self, value: u64);
    fn put_number(&mut self, field: u32, value: u64);
    fn put_flag(&mut self, field: u32, value: bool);
    fn put_double(&mut self, field: u32, value: f64);
    fn put_float(&mut self, field: u32, value: f32);
    fn put_bytes(&mut self, field: u32, value: &[u8]);
    fn put_hash(&mut self, field: u32, hash: &Hash);
    fn put_address(&mut self, field: u32, address: &KaspaAddress);
    /// Appends the tag of a field with bytes, and their length. The bytes follow.
    fn put_bytes_head(&mut self, field: u32, len: u64);
    /// Appends a message, or a text, that `write` appends. Cost: it is moved once, for its length.
    fn put_message(&mut self, field: u32, write: impl FnOnce(&mut Self));
}

/// Returns the tag of a field.
fn tag(field: u32, wire_type: WireType) -> u64 {
    u64::from(field) << 3 | wire_type as u64
}

impl ProtobufBuffer for Vec<u8> {
    fn put_varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }

    fn put_number(&mut self, field: u32, value: u64) {
        self.put_varint(tag(field, WireType::Varint));
        self.put_varint(value);
    }

    fn put_flag(&mut self, field: u32, value: bool) {
        self.put_number(field, u64::from(value));
    }

    fn put_double(&mut self, field: u32, value: f64) {
        self.put_varint(tag(field, WireType::Fixed64));
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_float(&mut self, field: u32, value: f32) {
        self.put_varint(tag(field, WireType::Fixed32));
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_bytes(&mut self, field: u32, value: &[u8]) {
        self.put_bytes_head(field, value.len() as u64);
        self.extend_from_slice(value);
    }

    fn put_hash(&mut self, field: u32, hash: &Hash) {
        self.put_bytes_head(field, 2 * hash.0.len() as u64);
        hash.encode_hex_into(self);
    }

    fn put_address(&mut self, field: u32, address: &KaspaAddress) {
        self.put_message(field, |out| address.encode_into(out));
    }

    fn put_bytes_head(&mut self, field: u32, len: u64) {
        self.put_varint(tag(field, WireType::Bytes));
        self.put_varint(len);
    }

    fn put_message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.put_varint(tag(field, WireType::Bytes));
        let start = self.len();
        write(self);
        let len = (self.len() - start) as u64;
        let mut encoded = Self::with_capacity(varint_bytes(len));
        encoded.put_varint(len);
        self.splice(start..start, encoded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_are_written() {
        let mut out = Vec::new();
        out.put_number(1, 0);
        out.put_number(101, u64::MAX);
        out.put_flag(2, true);
        out.put_double(3, 1.5);
        out.put_float(4, -2.5);
        out.put_bytes(1_001, b"abc");
        out.put_message(5, |out| out.put_bytes(6, &[7; 200]));
        let fields: Result<Vec<Field<'_>>, _> = Fields::new(&out).collect();
        let fields = fields.expect("fields");
        let values: Vec<(u32, Value<'_>)> =
            fields.iter().map(|field| (field.number, field.value)).collect();
        assert_eq!(values[0], (1, Value::Varint(0)));
        assert_eq!(values[1], (101, Value::Varint(u64::MAX)));
        assert_eq!(values[2], (2, Value::Varint(1)));
        assert_eq!(values[3], (3, Value::Fixed64(1.5_f64.to_bits())));
        assert_eq!(values[4], (4, Value::Fixed32((-2.5_f32).to_bits())));
        assert_eq!(values[5], (1_001, Value::Bytes(b"abc")));
        let (5, Value::Bytes(inner)) = values[6] else { panic!("{:?}", values[6]) };
        let mut inner = Fields::new(inner);
        let field = inner.next().expect("a field").expect("valid");
        assert_eq!(field, Field { number: 6, value: Value::Bytes(&[7; 200]) });
        assert!(inner.next().is_none());
    }

    #[test]
    fn numbers_have_at_most_64_bits() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            out.put_varint(value);
            assert_eq!(out.len(), varint_bytes(value), "{value}");
            assert_eq!(read_varint(&out), Ok((value, &[][..])));
        }
        let too_long = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert_eq!(read_varint(&too_long), Err(ProtobufError::LongNumber));
        assert_eq!(read_varint(&[0x80; 20]), Err(ProtobufError::LongNumber));
        assert_eq!(read_varint(&[0x80]), Err(ProtobufError::Truncated));
    }

    #[test]
    fn invalid_bytes_end_the_fields() {
        for bytes in [
            &[0x0a][..],      // a text without a length
            &[0x0a, 5, 1, 2], // a length beyond the bytes
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f],
            &[0x0b],          // a group
            &[0x06],          // a wire type that does not exist
            &[0x00, 0],       // the field 0
            &[0x09, 1, 2, 3], // half of a number
            &[0x0d, 1],
        ] {
            let mut fields = Fields::new(bytes);
            assert!(fields.next().is_some_and(|field| field.is_err()), "{bytes:?}");
            assert!(fields.next().is_none(), "{bytes:?}");
        }
    }
}
