//! The hash over all accounts, as in Agave: 1,024 16-bit numbers, added account by account.
//!
//! Order does not matter, so each thread adds its own accounts, and then the sums are added. The
//! number of an account is BLAKE3's extended output over lamports, data, executable, owner and
//! address.

use std::fmt;

const NUMBERS: usize = 1_024;
/// Bytes of the serialized hash.
pub const LT_HASH_BYTES: usize = NUMBERS * 2;

/// The fields of an account that its hash covers.
#[derive(Clone, Copy, Debug)]
pub struct AccountFields<'a> {
    /// Address of the account.
    pub address: &'a [u8; 32],
    /// Balance of the account in lamports.
    pub lamports: u64,
    /// Data of the account, not encoded.
    pub data: &'a [u8],
    /// Whether the account is a program.
    pub executable: bool,
    /// Address of the owning program.
    pub owner: &'a [u8; 32],
}

/// The hash over a set of accounts.
#[derive(Clone, PartialEq, Eq)]
pub struct LtHash([u16; NUMBERS]);

impl fmt::Debug for LtHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LtHash(")?;
        self.checksum().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, ")")
    }
}

impl LtHash {
    /// The hash over an empty set of accounts.
    pub const EMPTY: Self = Self([0; NUMBERS]);

    /// Creates the hash over one account; empty for an account without lamports.
    pub fn from_account(account: &AccountFields<'_>) -> Self {
        if account.lamports == 0 {
            return Self::EMPTY;
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(&account.lamports.to_le_bytes());
        hasher.update(account.data);
        hasher.update(&[u8::from(account.executable)]);
        hasher.update(account.owner);
        hasher.update(account.address);
        let mut bytes = [0; LT_HASH_BYTES];
        hasher.finalize_xof().fill(&mut bytes);
        Self::from_bytes(&bytes)
    }

    /// Reads the hash from its bytes: each number in little-endian order.
    pub fn from_bytes(bytes: &[u8; LT_HASH_BYTES]) -> Self {
        let mut numbers = [0; NUMBERS];
        for (number, pair) in numbers.iter_mut().zip(bytes.as_chunks().0) {
            *number = u16::from_le_bytes(*pair);
        }
        Self(numbers)
    }

    /// Returns the bytes of the hash, as a bank hash covers them.
    pub fn to_bytes(&self) -> [u8; LT_HASH_BYTES] {
        let mut bytes = [0; LT_HASH_BYTES];
        for (pair, number) in bytes.as_chunks_mut().0.iter_mut().zip(self.0) {
            *pair = number.to_le_bytes();
        }
        bytes
    }

    /// Adds the accounts of another hash.
    pub fn mix_in(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own = own.wrapping_add(other);
        }
    }

    /// Removes the accounts of another hash.
    pub fn mix_out(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own = own.wrapping_sub(other);
        }
    }

    /// Returns a checksum of 32 bytes, as in an archive's file name and in a validator's log.
    pub fn checksum(&self) -> [u8; 32] {
        blake3::hash(&self.to_bytes()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(address: u8, lamports: u64, data: &[u8]) -> LtHash {
        let address = [address; 32];
        let owner = [9; 32];
        LtHash::from_account(&AccountFields {
            address: &address,
            lamports,
            data,
            executable: false,
            owner: &owner,
        })
    }

    #[test]
    fn accounts_hash_equally_in_any_order() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut hashes: Vec<LtHash> = (0..50).map(|n| hash(n, 1 + random.u64(..), &[n])).collect();
        let sum = |hashes: &[LtHash]| {
            let mut sum = LtHash::EMPTY;
            hashes.iter().for_each(|hash| sum.mix_in(hash));
            sum
        };
        let expected = sum(&hashes);
        random.shuffle(&mut hashes);
        assert_eq!(sum(&hashes), expected);
        let mut rest = expected;
        hashes.iter().for_each(|hash| rest.mix_out(hash));
        assert_eq!(rest, LtHash::EMPTY);
    }

    #[test]
    fn an_account_without_lamports_is_no_account() {
        assert_eq!(hash(1, 0, b"data"), LtHash::EMPTY);
        assert_ne!(hash(1, 1, b"data"), LtHash::EMPTY);
    }

    #[test]
    fn each_field_changes_the_hash() {
        let address = [1; 32];
        let owner = [2; 32];
        let other = [3; 32];
        let account = AccountFields {
            address: &address,
            lamports: 4,
            data: &[5],
            executable: false,
            owner: &owner,
        };
        let changed = [
            AccountFields { address: &other, ..account },
            AccountFields { lamports: 5, ..account },
            AccountFields { data: &[6], ..account },
            AccountFields { data: &[5, 0], ..account },
            AccountFields { executable: true, ..account },
            AccountFields { owner: &other, ..account },
        ];
        let hash = LtHash::from_account(&account);
        assert!(changed.iter().all(|account| LtHash::from_account(account) != hash));
        assert_eq!(LtHash::from_bytes(&hash.to_bytes()), hash);
    }
}
