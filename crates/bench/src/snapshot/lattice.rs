//! The hash over all accounts, written a second time: whoever checks must not ask who is checked.

use solana_hash::Hash;

const NUMBERS: usize = 1_024;

/// 1,024 numbers, added up account by account.
pub(super) struct Lattice(Box<[u16; NUMBERS]>);

impl Lattice {
    pub(super) fn new() -> Self {
        Self(Box::new([0; NUMBERS]))
    }

    pub(super) fn add(
        &mut self,
        key: &[u8; 32],
        lamports: u64,
        data: &[u8],
        executable: bool,
        owner: &[u8; 32],
    ) {
        let mut hasher = blake3::Hasher::new();
        let head = lamports.to_le_bytes();
        for part in [&head[..], data, &[u8::from(executable)], owner, key] {
            hasher.update(part);
        }
        let mut bytes = [0; NUMBERS * 2];
        hasher.finalize_xof().fill(&mut bytes);
        for (number, pair) in self.0.iter_mut().zip(bytes.chunks_exact(2)) {
            *number = number.wrapping_add(u16::from_le_bytes([pair[0], pair[1]]));
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    pub(super) fn checksum(&self) -> Hash {
        Hash::new_from_array(blake3::hash(&self.bytes()).into())
    }
}
