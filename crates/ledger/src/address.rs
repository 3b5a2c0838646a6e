//! An address as it comes in (opaque bytes) and as it is inside (a 32-bit number).

use std::fmt;
use std::hash::{Hash, Hasher};

/// The longest address of any ledger we mean to serve: a transaction's hash with the number of an output.
pub const ADDRESS_BYTES_MAX: usize = 36;

/// An address: opaque bytes of bounded length. Solana's are 32 bytes.
#[derive(Clone, Copy)]
pub struct Address {
    len: u8,
    bytes: [u8; ADDRESS_BYTES_MAX],
}

/// Bytes that cannot be an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an address has 1 to {ADDRESS_BYTES_MAX} bytes, not {bytes}")]
pub struct AddressError {
    /// Number of bytes.
    pub bytes: usize,
}

impl Address {
    /// The bytes of the address.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The address as an array of `N` bytes, if it has that many.
    pub fn to_array<const N: usize>(&self) -> Option<[u8; N]> {
        self.as_bytes().try_into().ok()
    }
}

impl From<[u8; 32]> for Address {
    fn from(key: [u8; 32]) -> Self {
        let mut bytes = [0; ADDRESS_BYTES_MAX];
        bytes[..32].copy_from_slice(&key);
        Self { len: 32, bytes }
    }
}

impl TryFrom<&[u8]> for Address {
    type Error = AddressError;

    fn try_from(source: &[u8]) -> Result<Self, AddressError> {
        if source.is_empty() || source.len() > ADDRESS_BYTES_MAX {
            return Err(AddressError { bytes: source.len() });
        }
        let mut bytes = [0; ADDRESS_BYTES_MAX];
        bytes[..source.len()].copy_from_slice(source);
        Ok(Self { len: source.len() as u8, bytes })
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Address {}

impl PartialOrd for Address {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Address {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Address {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.as_bytes());
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The number of an address inside the node. It is allocated by the address table, has no meaning without
/// it, and is reused for another address once no reader can hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressId(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_oversize_bytes_are_refused() {
        assert_eq!(Address::try_from(&[][..]), Err(AddressError { bytes: 0 }));
        assert_eq!(Address::try_from(&[7; 37][..]), Err(AddressError { bytes: 37 }));
        assert_eq!(Address::try_from(&[7; 36][..]).map(|a| a.as_bytes().len()), Ok(36));
    }

    #[test]
    fn a_prefix_is_another_address() {
        let long = Address::from([1; 32]);
        let short = Address::try_from(&[1; 31][..]);
        assert_ne!(Ok(long), short);
        assert_eq!(long.to_array::<32>(), Some([1; 32]));
        assert_eq!(long.to_array::<31>(), None);
    }
}
