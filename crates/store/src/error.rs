//! Why a ledger on disk could not be opened or written.

use std::io;
use std::path::PathBuf;

use ledger::Slot;

/// Why a ledger on disk could not be opened or written. One variant for each action that the user can take.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory contains something that Hydrant did not write. Fix: name an empty or a new one.
    #[error("{} is not a ledger of Hydrant: it holds {found}; fix: name an empty directory (--ledger)", dir.display())]
    Foreign {
        /// The directory.
        dir: PathBuf,
        /// The first entry in it that is not ours.
        found: String,
    },
    /// The directory of a new ledger contains one. Fix: open it, or start with `--reset`.
    #[error("{} holds a ledger already; fix: start with --reset to create a new one", dir.display())]
    Exists {
        /// The directory.
        dir: PathBuf,
    },
    /// Another process has the ledger open. Fix: stop it, or name another directory.
    #[error("ledger {} is in use by {user}; fix: stop it, or name another directory (--ledger)", dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// The other process as far as known: `process 123`.
        user: String,
    },
    /// The ledger was written in a format that this version does not read.
    #[error("ledger {} has format {found}, this version reads {expected}; fix: start with --reset", dir.display())]
    Format {
        /// The directory.
        dir: PathBuf,
        /// Its format.
        found: String,
        /// The format of this version.
        expected: u32,
    },
    /// The data on disk is not what was written, or is incomplete.
    #[error("ledger {} is damaged: {what}; fix: start with --reset", dir.display())]
    Damaged {
        /// The directory.
        dir: PathBuf,
        /// The damaged part and the symptom: `block 123: checksum ...`.
        what: String,
    },
    /// A block does not follow the newest one, which is the caller's bug.
    #[error("block {slot} has parent {parent}, but the newest block of the ledger is {head}")]
    NotNext {
        /// The block's slot.
        slot: Slot,
        /// Its parent's.
        parent: Slot,
        /// The newest slot of the ledger.
        head: Slot,
    },
    /// The disk is full, or its quota is used up. Confirmed blocks stay. Fix: free space on it.
    #[error("ledger {} cannot be written, its disk is full: {free_bytes} bytes are free; what was confirmed stays on it; fix: make room, or name a directory on another disk (--ledger)", dir.display())]
    DiskFull {
        /// The directory.
        dir: PathBuf,
        /// Free bytes on its disk.
        free_bytes: u64,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The disk has less free space than the opening of the ledger may need. Fix: free space on it.
    #[error("ledger {} is not opened, its disk has too little room: {free_bytes} bytes are free, {needed_bytes} are needed; fix: make room, or name a directory on another disk (--ledger)", dir.display())]
    InsufficientSpace {
        /// The directory.
        dir: PathBuf,
        /// Free bytes on its disk.
        free_bytes: u64,
        /// Bytes that may be needed.
        needed_bytes: u64,
    },
    /// The limit of file sizes of this process is too low for the ledger. Fix: raise it.
    #[error("ledger {} cannot be written, a file may have {limit} bytes at most (ulimit -f); what was confirmed stays on it; fix: raise that limit", dir.display())]
    FileTooLarge {
        /// The directory.
        dir: PathBuf,
        /// The limit.
        limit: u64,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// An operation of the system failed. Fix: see the source; often a full disk or permissions.
    #[error("{doing} {}", path.display())]
    Io {
        /// The operation: `write`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The storage engine could not read or write its files. Stored blocks stay. Fix: see the source; often a full disk
    /// or permissions.
    #[error("storage engine of ledger {}", dir.display())]
    Engine {
        /// The directory.
        dir: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
