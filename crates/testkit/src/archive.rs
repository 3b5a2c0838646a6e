//! Snapshot archives as Agave writes them, written and read in the plainest way. A test of Hydrant's reader must
//! not depend on that reader.
//!
//! In: accounts, in storage files by slot. Out: an archive's bytes ([`bank_fields`], [`put`], [`append`]), its
//! accounts ([`Accounts`]), and the hash over all of it ([`LtHash`]).
//! Bounds: none; everything is in memory at once.
//! Not here: the choice of accounts (tests and benchmarks), the reader that Hydrant uses (`snapshot_solana`).

mod bank_fields;
#[cfg(feature = "scenario")]
pub mod forge;
mod lt_hash;
mod read;
mod stored;

use std::io::{self, Write};

pub use bank_fields::{
    ArchivedVoter, HashedFields, StorageFile, UnhashedFields, bank_fields, bank_fields_with,
};
pub use lt_hash::LtHash;
pub use read::{Accounts, LocatedAccount, files};
pub use stored::Stored;

/// Appends an account to a storage file.
pub fn put(file: &mut Vec<u8>, address: &[u8; 32], account: &Stored<'_>) {
    let end = file.len() + account.bytes();
    file.extend([0; 8]); // write version: no longer used
    file.extend((account.data.len() as u64).to_le_bytes());
    file.extend(address);
    file.extend(account.lamports.to_le_bytes());
    file.extend(account.rent_epoch.to_le_bytes());
    file.extend(account.owner);
    file.push(account.executable.into());
    file.extend([0; 7 + 32]);
    file.extend(account.data);
    file.resize(end, 0);
}

/// Adds a file to an archive.
///
/// Errors: those of the underlying writer.
pub fn append<W: Write>(archive: &mut tar::Builder<W>, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, name, bytes)
}
