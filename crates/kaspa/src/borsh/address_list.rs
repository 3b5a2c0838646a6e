//! The addresses of a request in Borsh, read in parts: a request may have a million of them.

use super::frame::BorshRequest;
use super::reader::{BorshError, Reader};
use super::utxo::{ADDRESS_BYTES_MIN, read_address};
use crate::address::KaspaAddress;
use crate::operation::{Event, Operation};

/// A position in the addresses of a request: of getUtxosByAddresses, getBalancesByAddresses, or a subscription's scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BorshAddresses {
    /// Offset in the structure of the request.
    at: usize,
    left: usize,
}

impl BorshAddresses {
    /// Finds the addresses of a request. Their number is checked against the bytes.
    pub fn find(request: &BorshRequest<'_>) -> Result<Self, BorshError> {
        let structure = request.structure()?;
        let mut reader = Reader::new(structure);
        let _version = reader.u16()?;
        if !matches!(request.operation, Operation::Method(_)) {
            let variant = reader.u8()?;
            if variant != Event::UtxosChanged.variant() {
                let value = u64::from(variant);
                return Err(BorshError::UnknownValue { field: "the scope", value });
            }
        }
        let left = reader.count(ADDRESS_BYTES_MIN)?;
        Ok(Self { at: structure.len() - reader.remaining().len(), left })
    }

    /// Reads up to `count_max` addresses of the same request. Returns none if all have been read.
    pub fn read(
        &mut self,
        request: &BorshRequest<'_>,
        count_max: usize,
    ) -> Result<Vec<KaspaAddress>, BorshError> {
        let structure = request.structure()?;
        let error = BorshError::Truncated { needed: self.at, left: structure.len() };
        let mut reader = Reader::new(structure.get(self.at..).ok_or(error)?);
        let count = self.left.min(count_max);
        let mut addresses = Vec::with_capacity(count);
        for _ in 0..count {
            addresses.push(read_address(&mut reader)?);
        }
        self.at = structure.len() - reader.remaining().len();
        self.left -= count;
        Ok(addresses)
    }
}
