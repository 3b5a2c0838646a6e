//! The hash over all accounts, implemented a second time.

use solana_hash::Hash;

use super::Stored;

const NUMBERS: usize = 1_024;

/// 1,024 numbers of 16 bits, added up account by account. The order does not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainLtHash(Box<[u16; NUMBERS]>);

impl Default for PlainLtHash {
    fn default() -> Self {
        Self(Box::new([0; NUMBERS]))
    }
}

impl PlainLtHash {
    /// Counts an account in; a closed one does not count.
    pub fn add(&mut self, address: &[u8; 32], account: &Stored<'_>) {
        if account.lamports == 0 {
            return;
        }
        let mut hasher = blake3::Hasher::new();
        let lamports = account.lamports.to_le_bytes();
        let executable = [u8::from(account.executable)];
        for part in [&lamports[..], account.data, &executable, &account.owner, address] {
            hasher.update(part);
        }
        let mut bytes = [0; NUMBERS * 2];
        hasher.finalize_xof().fill(&mut bytes);
        for (number, pair) in self.0.iter_mut().zip(bytes.chunks_exact(2)) {
            *number = number.wrapping_add(u16::from_le_bytes([pair[0], pair[1]]));
        }
    }

    /// The numbers, one after the other.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// The form in the archive's name.
    pub fn checksum(&self) -> Hash {
        Hash::new_from_array(blake3::hash(&self.bytes()).into())
    }
}
