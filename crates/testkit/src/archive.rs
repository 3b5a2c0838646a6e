//! Snapshot archives as Agave writes them, written and read in the plainest way. A test of Hydrant's reader must
//! not depend on that reader.
//!
//! In: accounts, in storage files by slot. Out: an archive's bytes ([`bank_fields`], [`put`], [`append`]), its
//! accounts ([`Accounts`]), and the hash over all of it ([`PlainLtHash`]).
//! Bounds: none; everything is in memory at once.
//! Not here: the choice of accounts (tests and benchmarks), the reader that Hydrant uses (`snapshot_solana`).

mod bank_fields;
#[cfg(feature = "scenario")]
pub mod forge;
mod lt_hash;
mod read;
mod stored;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use lz4_flex::frame::{BlockMode, FrameEncoder, FrameInfo};

pub use bank_fields::{
    ArchivedVoter, HashedFields, StorageFile, UnhashedFields, bank_fields, bank_fields_with,
};
pub use lt_hash::PlainLtHash;
pub use read::{Accounts, LocatedAccount, files};
pub use stored::Stored;

/// The directory of the recorded run of a real validator.
const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../hydrant/tests/recorded_validator");

/// Returns the full archive that a real validator wrote: Agave's `solana-test-validator` at slot 100, under load.
///
/// Errors: the directory of the recording cannot be read, or has no archive.
pub fn find_recorded() -> io::Result<PathBuf> {
    let path = Path::new(RECORDING).canonicalize()?;
    for entry in path.read_dir()? {
        let entry = entry?.path();
        if entry.to_string_lossy().ends_with(".tar.zst") {
            return Ok(entry);
        }
    }
    Err(io::Error::other(format!("{}: no archive", path.display())))
}

/// Writes a copy of an archive into `dir`, compressed with LZ4 as Agave does. Returns its path: the name with
/// `tar.lz4`.
///
/// Errors: the archive cannot be read, or the copy cannot be written.
pub fn copy_as_lz4(archive: &Path, dir: &Path) -> io::Result<PathBuf> {
    let info = FrameInfo::new().block_mode(BlockMode::Linked).content_checksum(true);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(&zstd::stream::decode_all(File::open(archive)?)?)?;
    let stem = Path::new(archive.file_name().unwrap_or_default()).with_extension("lz4");
    let path = dir.join(stem);
    std::fs::write(&path, encoder.finish()?)?;
    Ok(path)
}

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
