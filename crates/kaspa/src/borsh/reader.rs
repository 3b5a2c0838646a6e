//! Reads Borsh from a slice, without an allocation by a length that no bytes back.

use crate::hash::Hash;

/// Bytes that are not the expected message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BorshError {
    /// The bytes end within a field.
    #[error("{needed} bytes are needed and {left} are left")]
    Truncated {
        /// Bytes that the field needs.
        needed: usize,
        /// Bytes up to the end.
        left: usize,
    },
    /// A list has more elements than fit into the bytes.
    #[error(
        "{count} elements of at least {element_bytes} bytes do not fit into the {left} bytes left"
    )]
    Count {
        /// Elements of the list.
        count: u32,
        /// The fewest bytes of one.
        element_bytes: usize,
        /// Bytes up to the end.
        left: usize,
    },
    /// A field has a value that does not exist.
    #[error("{field} has the unknown value {value}")]
    UnknownValue {
        /// The name of the field.
        field: &'static str,
        /// The value that was read.
        value: u64,
    },
    /// Bytes are left after the message.
    #[error("{bytes} bytes are left after the message")]
    TrailingBytes {
        /// The number of bytes that are left.
        bytes: usize,
    },
    /// An optional field is missing that the node sends at the requested level.
    #[error("the field {field} is missing")]
    MissingField {
        /// The name of the field.
        field: &'static str,
    },
    /// A field has parts that do not belong together.
    #[error("{field} is invalid: {reason}")]
    Invalid {
        /// The name of the field.
        field: &'static str,
        /// Why it is not valid.
        reason: String,
    },
}

/// The bytes of a message that are not read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the bytes that are not read yet.
    pub(crate) fn remaining(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn take_bytes(&mut self, count: usize) -> Result<&'a [u8], BorshError> {
        let error = BorshError::Truncated { needed: count, left: self.rest.len() };
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(error)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], BorshError> {
        let error = BorshError::Truncated { needed: N, left: self.rest.len() };
        let (taken, rest) = self.rest.split_first_chunk().ok_or(error)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, BorshError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, BorshError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, BorshError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, BorshError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn f64(&mut self) -> Result<f64, BorshError> {
        self.array().map(f64::from_le_bytes)
    }

    pub(crate) fn hash(&mut self) -> Result<Hash, BorshError> {
        self.array().map(Hash)
    }

    /// Reads a byte that is 0 or 1.
    pub(crate) fn flag(&mut self, field: &'static str) -> Result<bool, BorshError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(BorshError::UnknownValue { field, value: u64::from(value) }),
        }
    }

    /// Reads a value that may be missing.
    pub(crate) fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, BorshError>,
    ) -> Result<Option<T>, BorshError> {
        if self.flag("the tag of an option")? { read(self).map(Some) } else { Ok(None) }
    }

    /// Reads a value that must not be missing, although it may be by its type.
    pub(crate) fn present<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, BorshError>,
    ) -> Result<T, BorshError> {
        self.option(read)?.ok_or(BorshError::MissingField { field })
    }

    /// Reads bytes after their length.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], BorshError> {
        let len = self.u32()?;
        self.take_bytes(len as usize)
    }

    pub(crate) fn string(&mut self, field: &'static str) -> Result<String, BorshError> {
        let bytes = self.bytes()?;
        let text = std::str::from_utf8(bytes);
        text.map(str::to_owned)
            .map_err(|error| BorshError::Invalid { field, reason: error.to_string() })
    }

    /// Reads a structure after its length. The bytes after its known fields are from a newer version, and are
    /// skipped.
    pub(crate) fn payload(&mut self) -> Result<Self, BorshError> {
        self.bytes().map(Self::new)
    }

    /// Reads an optional structure: it has a length, and within it a tag and another length.
    pub(crate) fn optional_payload(&mut self) -> Result<Option<Self>, BorshError> {
        self.payload()?.option(Self::payload)
    }

    /// Reads the number of elements that follow, if that many of `element_bytes` bytes fit into the rest.
    pub(crate) fn count(&mut self, element_bytes: usize) -> Result<usize, BorshError> {
        let count = self.u32()?;
        let left = self.rest.len();
        if (count as usize).saturating_mul(element_bytes) > left {
            return Err(BorshError::Count { count, element_bytes, left });
        }
        Ok(count as usize)
    }

    /// Reads a list of elements, each of which has at least `element_bytes` bytes.
    pub(crate) fn list<T>(
        &mut self,
        element_bytes: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, BorshError>,
    ) -> Result<Vec<T>, BorshError> {
        let count = self.count(element_bytes)?;
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            list.push(read(self)?);
        }
        Ok(list)
    }

    pub(crate) fn hashes(&mut self) -> Result<Vec<Hash>, BorshError> {
        self.list(size_of::<Hash>(), Self::hash)
    }

    /// Checks that nothing is left.
    pub(crate) fn finish(self) -> Result<(), BorshError> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(BorshError::TrailingBytes { bytes }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_are_not_there_are_refused() {
        let huge = [0xff, 0xff, 0xff, 0xff, 1, 2];
        assert_eq!(
            Reader::new(&huge).bytes(),
            Err(BorshError::Truncated { needed: 0xffff_ffff, left: 2 })
        );
        assert_eq!(
            Reader::new(&huge).hashes(),
            Err(BorshError::Count { count: 0xffff_ffff, element_bytes: 32, left: 2 })
        );
        assert_eq!(Reader::new(&[2]).option(Reader::u8).map_err(|error| error.to_string()), {
            Err("the tag of an option has the unknown value 2".to_owned())
        });
        assert_eq!(Reader::new(&[0]).finish(), Err(BorshError::TrailingBytes { bytes: 1 }));
    }
}
