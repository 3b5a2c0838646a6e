//! The hash over all accounts, as in Agave: 1,024 16-bit numbers, added account by account.
//!
//! Order does not matter, so each thread adds its own accounts, and then the sums are added. The
//! number of an account is BLAKE3's extended output over lamports, data, executable, owner and
//! address.

use solana_account::{AccountSharedData, ReadableAccount};
use solana_hash::Hash;
use solana_pubkey::Pubkey;

const NUMBERS: usize = 1_024;
/// Bytes of the serialized hash.
pub(crate) const LT_HASH_BYTES: usize = NUMBERS * 2;

/// The hash over a set of accounts.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct LtHash([u16; NUMBERS]);

impl LtHash {
    /// The hash over no accounts.
    pub(crate) const EMPTY: Self = Self([0; NUMBERS]);

    /// The hash over one account; empty for an account without lamports.
    pub(crate) fn from_account(key: &Pubkey, account: &AccountSharedData) -> Self {
        if account.lamports() == 0 {
            return Self::EMPTY;
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(&account.lamports().to_le_bytes());
        hasher.update(account.data());
        hasher.update(&[u8::from(account.executable())]);
        hasher.update(account.owner().as_ref());
        hasher.update(key.as_ref());
        let mut bytes = [0; LT_HASH_BYTES];
        hasher.finalize_xof().fill(&mut bytes);
        Self::from_bytes(&bytes)
    }

    pub(crate) fn from_bytes(bytes: &[u8; LT_HASH_BYTES]) -> Self {
        let mut numbers = [0; NUMBERS];
        for (number, pair) in numbers.iter_mut().zip(bytes.as_chunks().0) {
            *number = u16::from_le_bytes(*pair);
        }
        Self(numbers)
    }

    pub(crate) fn to_bytes(&self) -> [u8; LT_HASH_BYTES] {
        let mut bytes = [0; LT_HASH_BYTES];
        for (pair, number) in bytes.as_chunks_mut().0.iter_mut().zip(self.0) {
            *pair = number.to_le_bytes();
        }
        bytes
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own = own.wrapping_add(other);
        }
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own = own.wrapping_sub(other);
        }
    }

    /// A checksum of 32 bytes, as in an archive's file name.
    pub(crate) fn checksum(&self) -> Hash {
        Hash::new_from_array(blake3::hash(&self.to_bytes()).into())
    }
}
