//! The bank's fields in bincode. Fields that Hydrant does not read are as short as possible.

use solana_sha256_hasher::hashv;

use super::LtHash;

/// A storage file as the bank lists it.
#[derive(Clone, Copy, Debug)]
pub struct StorageFile {
    /// Its slot.
    pub slot: u64,
    /// The number after the slot in its name.
    pub id: u64,
    /// Bytes of its accounts.
    pub bytes: u64,
}

/// What a bank's hash covers besides its accounts.
#[derive(Clone, Copy, Debug)]
pub struct HashedFields {
    /// The slot of its parent.
    pub parent_slot: u64,
    /// The bank hash of its parent.
    pub parent_hash: [u8; 32],
    /// Signatures that its transactions require.
    pub signature_count: u64,
    /// Its blockhash.
    pub last_blockhash: [u8; 32],
}

impl HashedFields {
    /// Those of a bank that no other knows.
    pub fn at(slot: u64) -> Self {
        let (parent_hash, last_blockhash) = ([3; 32], [4; 32]);
        Self { parent_slot: slot - 1, parent_hash, signature_count: 1, last_blockhash }
    }
}

/// The fields of the bank at `slot` that states these files, this capitalization and this hash.
pub fn bank_fields(slot: u64, files: &[StorageFile], lamports: u64, lattice: &LtHash) -> Vec<u8> {
    bank_fields_with(slot, HashedFields::at(slot), files, lamports, lattice)
}

/// The same for a bank whose hash covers these fields.
pub fn bank_fields_with(
    slot: u64,
    hashed: HashedFields,
    files: &[StorageFile],
    lamports: u64,
    lattice: &LtHash,
) -> Vec<u8> {
    let HashedFields { parent_slot, parent_hash, signature_count, last_blockhash: last } = hashed;
    let lattice = lattice.bytes();
    let bank_hash = hashv(&[&parent_hash, &signature_count.to_le_bytes(), &last]);
    let bank_hash = hashv(&[bank_hash.as_ref(), &lattice]).to_bytes();
    let mut out = Vec::new();
    let mut raw = |bytes: &[u8]| out.extend_from_slice(bytes);
    let n = |number: u64| number.to_le_bytes();
    raw(&n(1)); // blockhash queue: index, last, two hashes, retained
    raw(&[1]);
    raw(&last);
    raw(&n(2));
    for (index, hash) in [(1, last), (0, [5; 32])] {
        raw(&hash);
        [5_000, index, 0].into_iter().for_each(|number| raw(&n(number)));
    }
    raw(&n(300));
    raw(&n(0)); // ancestors
    raw(&bank_hash);
    raw(&parent_hash);
    raw(&n(parent_slot));
    raw(&n(0)); // hard forks
    raw(&n(77)); // transactions
    raw(&n(0)); // ticks
    raw(&n(signature_count));
    raw(&n(lamports));
    raw(&n(0)); // ticks at most
    raw(&[0]); // hashes per tick
    raw(&n(64));
    raw(&400_000_000_u128.to_le_bytes());
    raw(&n(1_700_000_000));
    raw(&[0; 16]);
    raw(&n(slot));
    raw(&n(0));
    raw(&n(slot)); // height
    raw(&[0; 32 + 16 + 33 + 8]); // leader, fees, rent
    raw(&[0; 8 + 33 + 8 + 17]); // rent collector
    [8_192, 8_192].into_iter().for_each(|number| raw(&n(number)));
    raw(&[0; 17]); // rest of the epoch schedule
    raw(&[0; 48]); // inflation
    raw(&[0; 5 * 8]); // stakes
    raw(&[0; 4 * 8]); // accounts and stakes without use
    raw(&[1]);
    raw(&n(files.len() as u64));
    for file in files {
        [file.slot, 1, file.id, file.bytes].into_iter().for_each(|number| raw(&n(number)));
    }
    raw(&n(0));
    raw(&n(slot));
    raw(&[0; 64 + 40 + 16]);
    raw(&n(5_000));
    raw(&[0, 0]);
    raw(&n(0)); // epochs with stakes
    raw(&[1]);
    raw(&lattice);
    raw(&[0]);
    out
}
