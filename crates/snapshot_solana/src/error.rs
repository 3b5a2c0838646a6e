//! Why an archive was refused, and where.

use std::fmt;
use std::io;
use std::path::PathBuf;

use solana_hash::Hash;

/// A position in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveOffset {
    /// File name of the archive.
    pub archive: String,
    /// The file in it; `None` for the archive's own structure.
    pub file: Option<String>,
    /// Bytes from the beginning of that file, or of the unpacked archive.
    pub offset: u64,
}

impl fmt::Display for ArchiveOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}: {file} at byte {}", self.archive, self.offset),
            None => write!(f, "{}: unpacked byte {}", self.archive, self.offset),
        }
    }
}

/// Why a sink did not accept accounts.
pub type AccountSinkError = Box<dyn std::error::Error + Send + Sync>;

/// Why a snapshot could not be loaded. One variant for each action that the caller can take.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The file does not exist or cannot be read. Fix: the path.
    #[error("open {}", path.display())]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        #[source]
        err: io::Error,
    },
    /// The archive ends before it is complete. Fix: fetch it again.
    #[error("{at}: the archive is cut off here")]
    Truncated {
        /// The position of the end.
        at: ArchiveOffset,
    },
    /// The disk failed, or the data does not decompress. Fix: fetch it again.
    #[error("{at}: the rest of the archive cannot be read")]
    Unreadable {
        /// The position of the failure.
        at: ArchiveOffset,
        /// The error of the system or of the decompressor.
        #[source]
        err: io::Error,
    },
    /// The file is something else. Fix: pass a snapshot archive of Agave 4: tar.zst or tar.lz4.
    #[error("{at}: not a snapshot archive as Agave 4 writes it: {reason}")]
    Unsupported {
        /// The position.
        at: ArchiveOffset,
        /// What was found.
        reason: String,
    },
    /// The archive contradicts itself. Fix: fetch it again, from another source.
    #[error("{at}: the archive is damaged: {reason}")]
    Damaged {
        /// The position.
        at: ArchiveOffset,
        /// The contradiction.
        reason: String,
    },
    /// The content does not match the archive's own hash. Fix: fetch it again, from another source.
    #[error(
        "{archive}: the archive was altered: {what} is {found}, and {source} says {expected}",
        source = .claimed_by
    )]
    ChecksumMismatch {
        /// File name of the archive.
        archive: String,
        /// The name of the hash.
        what: &'static str,
        /// The hash of the content.
        found: String,
        /// The source of the expected hash.
        claimed_by: &'static str,
        /// The expected hash.
        expected: String,
    },
    /// The incremental archive is not based on this full one. Fix: pass two that match.
    #[error("{archive}: made on top of slot {base}, and the full snapshot is of slot {full}")]
    NotOnTop {
        /// File name of the incremental archive.
        archive: String,
        /// The slot of its full archive.
        base: u64,
        /// The slot of the full archive.
        full: u64,
    },
    /// The incremental archive lacks what was written between the ledger's slot and its own base. Fix: a full archive.
    #[error("{archive}: made on top of slot {base}, and the ledger is at slot {slot}")]
    AboveLedger {
        /// File name of the incremental archive.
        archive: String,
        /// The slot of its full archive.
        base: u64,
        /// The slot of the ledger.
        slot: u64,
    },
    /// The archive is not newer than the ledger. Fix: a newer one.
    #[error("{archive}: of slot {of}, and the ledger is at slot {slot}")]
    NotNewer {
        /// File name of the archive.
        archive: String,
        /// The slot of the archive.
        of: u64,
        /// The slot of the ledger.
        slot: u64,
    },
    /// The sink refused the accounts; the source has the reason.
    #[error("load the accounts of the snapshot")]
    AccountSink(#[source] AccountSinkError),
    /// A thread could not be started. Fix: fewer threads.
    #[error("start a thread")]
    Thread(#[source] io::Error),
}

impl SnapshotError {
    pub(crate) fn checksum_mismatch(
        archive: &str,
        what: &'static str,
        found: Hash,
        claimed_by: &'static str,
        expected: impl fmt::Display,
    ) -> Self {
        Self::ChecksumMismatch {
            archive: archive.to_owned(),
            what,
            found: found.to_string(),
            claimed_by,
            expected: expected.to_string(),
        }
    }
}
