//! Why an archive was refused, and where.

use std::fmt;
use std::io;
use std::path::PathBuf;

use solana_hash::Hash;

/// A place in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveOffset {
    /// File name of the archive.
    pub archive: String,
    /// Which file within it; none if it is the archive's own structure.
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

/// Why a snapshot could not be loaded. One variant per thing the caller can do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// There is no such file, or it may not be read. Fix: the path.
    #[error("open {}", path.display())]
    Open {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        err: io::Error,
    },
    /// The archive ends before it is complete. Fix: fetch it again.
    #[error("{place}: the archive is cut off here")]
    Truncated {
        /// Where the bytes ran out.
        place: ArchiveOffset,
    },
    /// The disk failed, or what is compressed does not decompress. Fix: fetch it again.
    #[error("{place}: the archive cannot be read on")]
    Unreadable {
        /// How far it could be read.
        place: ArchiveOffset,
        /// What the system, or the decompressor, said.
        #[source]
        err: io::Error,
    },
    /// The file is something else. Fix: give a snapshot archive of Agave 4, compressed as tar.zst.
    #[error("{place}: not a snapshot archive as Agave 4 writes it: {reason}")]
    Unsupported {
        /// Where that was found.
        place: ArchiveOffset,
        /// What is there instead.
        reason: String,
    },
    /// The archive contradicts itself. Fix: fetch it again, from somebody else.
    #[error("{place}: the archive is damaged: {reason}")]
    Damaged {
        /// Where that was found.
        place: ArchiveOffset,
        /// What is wrong.
        reason: String,
    },
    /// The content is not what the archive's own hash says. Fix: fetch it again, from somebody else.
    #[error("{archive}: the archive was altered: {what} is {found}, and {source} says {expected}", source = .says)]
    ChecksumMismatch {
        /// File name of the archive.
        archive: String,
        /// What was computed.
        what: &'static str,
        /// From what is there.
        found: String,
        /// Who says otherwise.
        says: &'static str,
        /// What it should be.
        expected: String,
    },
    /// The incremental archive was not made on top of this full one. Fix: give the two that match.
    #[error("{archive}: made on top of slot {base}, and the full snapshot is of slot {full}")]
    NotOnTop {
        /// File name of the incremental archive.
        archive: String,
        /// The slot that it needs.
        base: u64,
        /// The slot that there is.
        full: u64,
    },
    /// The accounts could not be taken in; the source says why.
    #[error("take in the accounts of the snapshot")]
    AccountSink(#[source] crate::AccountSinkError),
    /// A thread could not be started. Fix: fewer threads.
    #[error("start a thread")]
    Thread(#[source] io::Error),
}

impl SnapshotError {
    pub(crate) fn checksum_mismatch(
        archive: &str,
        what: &'static str,
        found: Hash,
        says: &'static str,
        expected: impl fmt::Display,
    ) -> Self {
        Self::ChecksumMismatch {
            archive: archive.to_owned(),
            what,
            found: found.to_string(),
            says,
            expected: expected.to_string(),
        }
    }
}
