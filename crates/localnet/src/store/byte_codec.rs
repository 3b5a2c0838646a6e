//! The encoding of plain values: little-endian numbers, lengths of four bytes, options as one byte.
//!
//! Reading invalid bytes fails. It never panics, and never reserves more memory than the input has bytes.
//! Not here: the records (codec.rs) and the checksum (row.rs).

/// Writes values to bytes.
#[derive(Default)]
pub(super) struct ByteWriter(pub(super) Vec<u8>);

/// Reads values from bytes.
pub(super) struct ByteReader<'a>(&'a [u8]);

/// The bytes are invalid. `what` names the value.
#[derive(Debug, thiserror::Error)]
#[error("cannot read its {what}")]
pub(super) struct DecodeError {
    pub(super) what: &'static str,
}

impl ByteWriter {
    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn i64(&mut self, value: i64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn key(&mut self, value: &[u8; 32]) {
        self.0.extend(value);
    }

    pub(super) fn bytes(&mut self, value: &[u8]) {
        self.len(value.len());
        self.0.extend(value);
    }

    pub(super) fn str(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    pub(super) fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.len(items.len());
        items.iter().for_each(|item| write(self, item));
    }

    pub(super) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    /// A value is at most 1 GiB (row.rs), so a length that does not fit into a `u32` fails there.
    fn len(&mut self, len: usize) {
        self.u32(len as u32);
    }
}

impl<'a> ByteReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether all bytes were read.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fails if bytes are left.
    pub(super) fn end(self) -> Result<(), DecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(DecodeError { what: "end" }) }
    }

    pub(super) fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        self.array(what).map(|[byte]| byte)
    }

    pub(super) fn bool(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError { what }),
        }
    }

    pub(super) fn u16(&mut self, what: &'static str) -> Result<u16, DecodeError> {
        self.array(what).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        self.array(what).map(u64::from_le_bytes)
    }

    pub(super) fn i64(&mut self, what: &'static str) -> Result<i64, DecodeError> {
        self.array(what).map(i64::from_le_bytes)
    }

    pub(super) fn key(&mut self, what: &'static str) -> Result<[u8; 32], DecodeError> {
        self.array(what)
    }

    pub(super) fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let len = self.u32(what)? as usize;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(DecodeError { what })?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn str(&mut self, what: &'static str) -> Result<String, DecodeError> {
        let bytes = self.bytes(what)?.to_vec();
        String::from_utf8(bytes).map_err(|_| DecodeError { what })
    }

    pub(super) fn list<T>(
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

    pub(super) fn option<T>(
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
