//! Converts fields of the proto with a type that is wider than their values.

use std::str::FromStr;

use solana_hash::Hash;
use solana_pubkey::Pubkey;

use crate::convert::error::ConvertError;

/// Parses a hash in base58.
pub(crate) fn hash(field: &'static str, text: &str) -> Result<Hash, ConvertError> {
    Hash::from_str(text).map_err(|_| ConvertError::Hash { field, text: text.into() })
}

/// Converts a key of 32 bytes.
pub(crate) fn pubkey(field: &'static str, bytes: &[u8]) -> Result<Pubkey, ConvertError> {
    array(field, bytes).map(Pubkey::new_from_array)
}

pub(crate) fn array<const N: usize>(
    field: &'static str,
    bytes: &[u8],
) -> Result<[u8; N], ConvertError> {
    bytes.try_into().map_err(|_| ConvertError::Length { field, bytes: bytes.len(), expected: N })
}

/// An index that fits into a byte.
pub(crate) fn byte(field: &'static str, value: u32) -> Result<u8, ConvertError> {
    u8::try_from(value).map_err(|_| ConvertError::Range { field, value: value.into() })
}

pub(crate) fn keys(field: &'static str, keys: &[Vec<u8>]) -> Result<Vec<Pubkey>, ConvertError> {
    keys.iter().map(|key| pubkey(field, key)).collect()
}
