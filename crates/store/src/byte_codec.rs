//! The encoding of plain values: little-endian numbers, lengths of four bytes, options as one byte.
//!
//! Reading invalid bytes fails. It never panics, and never reserves more memory than the input has bytes.
//! Not here: the records (the caller), and the checksum (`row`).

/// Appends values to a buffer of bytes.
#[derive(Default)]
pub struct ByteWriter(
    /// The bytes that were written so far.
    pub Vec<u8>,
);

/// Reads values from a slice of bytes.
pub struct ByteReader<'a>(&'a [u8]);

/// The bytes are invalid. `what` names the value.
#[derive(Debug, thiserror::Error)]
#[error("cannot read its {what}")]
pub struct DecodeError {
    /// The value that cannot be read.
    pub what: &'static str,
}

impl ByteWriter {
    /// Writes a number of one byte.
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    /// Writes a number of two bytes.
    pub fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    /// Writes a number of four bytes.
    pub fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    /// Writes a number of eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    /// Writes a signed number in eight bytes.
    pub fn i64(&mut self, value: i64) {
        self.0.extend(value.to_le_bytes());
    }

    /// Writes a key without its length.
    pub fn key(&mut self, value: &[u8; 32]) {
        self.0.extend(value);
    }

    /// Writes bytes after their length.
    pub fn bytes(&mut self, value: &[u8]) {
        self.len(value.len());
        self.0.extend(value);
    }

    /// Writes text after its length.
    pub fn str(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    /// Writes the number of items, then each of them with `write`.
    pub fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.len(items.len());
        items.iter().for_each(|item| write(self, item));
    }

    /// Writes whether there is a value, then the value with `write`.
    pub fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    /// Writes a length. A value is at most 1 GiB (row.rs), so a length that does not fit into a `u32` fails there.
    fn len(&mut self, len: usize) {
        self.u32(len as u32);
    }
}

impl<'a> ByteReader<'a> {
    /// Reads `bytes` from their start.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns whether all bytes were read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fails unless all bytes have been read.
    pub fn end(self) -> Result<(), DecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(DecodeError { what: "end" }) }
    }

    /// Reads one byte. Here and below, `what` names the value in the error.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        self.array(what).map(|[byte]| byte)
    }

    /// Reads a byte that is 0 or 1.
    pub fn bool(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError { what }),
        }
    }

    /// Reads a number of two bytes.
    pub fn u16(&mut self, what: &'static str) -> Result<u16, DecodeError> {
        self.array(what).map(u16::from_le_bytes)
    }

    /// Reads a number of four bytes.
    pub fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// Reads a number of eight bytes.
    pub fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// Reads a signed number from eight bytes.
    pub fn i64(&mut self, what: &'static str) -> Result<i64, DecodeError> {
        self.array(what).map(i64::from_le_bytes)
    }

    /// Reads a key, which has no length.
    pub fn key(&mut self, what: &'static str) -> Result<[u8; 32], DecodeError> {
        self.array(what)
    }

    /// Reads bytes after their length.
    pub fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let len = self.u32(what)? as usize;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(DecodeError { what })?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Reads text after its length.
    pub fn str(&mut self, what: &'static str) -> Result<String, DecodeError> {
        let bytes = self.bytes(what)?.to_vec();
        String::from_utf8(bytes).map_err(|_| DecodeError { what })
    }

    /// Reads the number of items, then each of them with `read`.
    pub fn list<T>(
        &mut self,
        what: &'static str,
        mut read: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let len = self.u32(what)? as usize;
        // Every item has at least one byte, so a length beyond the remaining bytes is invalid.
        if len > self.0.len() {
            return Err(DecodeError { what });
        }
        let mut items = Vec::new();
        for _ in 0..len {
            items.push(read(self)?);
        }
        Ok(items)
    }

    /// Reads whether there is a value, then the value with `read`.
    pub fn option<T>(
        &mut self,
        what: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        if self.bool(what)? { read(self).map(Some) } else { Ok(None) }
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(DecodeError { what })?;
        self.0 = rest;
        Ok(*array)
    }
}
