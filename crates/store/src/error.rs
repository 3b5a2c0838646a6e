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
        /// Directory that was to hold the ledger.
        dir: PathBuf,
        /// The first entry in it that Hydrant did not write.
        found: String,
    },
    /// The directory of a new ledger contains one. Fix: open it, or start with `--reset`.
    #[error("{} holds a ledger already; fix: start with --reset to create a new one", dir.display())]
    Exists {
        /// Directory that holds the other ledger.
        dir: PathBuf,
    },
    /// Another process has the ledger open. Fix: stop it, or name another directory.
    #[error("ledger {} is in use by {user}; fix: stop it, or name another directory (--ledger)", dir.display())]
    InUse {
        /// Directory of the ledger in use.
        dir: PathBuf,
        /// The other process as far as known: `process 123`.
        user: String,
    },
    /// The ledger was written in a format that this version does not read.
    #[error("ledger {} has format {found}, this version reads {expected}; fix: start with --reset", dir.display())]
    Format {
        /// Directory of the unreadable ledger.
        dir: PathBuf,
        /// Format that the ledger's mark names.
        found: String,
        /// Format that this version reads.
        expected: u32,
    },
    /// The data on disk differs from the data that was written, or is incomplete.
    #[error("ledger {} is damaged: {what}; fix: start with --reset", dir.display())]
    Damaged {
        /// Directory of the damaged ledger.
        dir: PathBuf,
        /// The damaged part and the symptom: `block 123: checksum ...`.
        what: String,
    },
    /// A block does not follow the newest one, which is the caller's bug.
    #[error("block {slot} has parent {parent}, but the newest block of the ledger is {head}")]
    NotNext {
        /// Slot of the block that was appended.
        slot: Slot,
        /// Slot of the parent of that block.
        parent: Slot,
        /// The newest slot of the ledger.
        head: Slot,
    },
    /// The disk is full, or its quota is used up. Confirmed blocks stay. Fix: free space on it.
    #[error("ledger {} cannot be written, its disk is full: {free_bytes} bytes are free; confirmed blocks are retained; fix: free space, or name a directory on another disk (--ledger)", dir.display())]
    DiskFull {
        /// Directory of the ledger on the full disk.
        dir: PathBuf,
        /// Free bytes on the disk of the ledger.
        free_bytes: u64,
        /// The system's error of the failed write.
        #[source]
        source: io::Error,
    },
    /// The disk has less free space than the opening of the ledger may need. Fix: free space on it.
    #[error("ledger {} is not opened, its disk has too little space: {free_bytes} bytes are free, {needed_bytes} are needed; fix: free space, or name a directory on another disk (--ledger)", dir.display())]
    InsufficientSpace {
        /// Directory of the ledger that was not opened.
        dir: PathBuf,
        /// Free bytes on the disk of the ledger.
        free_bytes: u64,
        /// Bytes that the opening may need on the disk.
        needed_bytes: u64,
    },
    /// The limit of file sizes of this process is too low for the ledger. Fix: raise it.
    #[error("ledger {} cannot be written, a file may have at most {limit} bytes (ulimit -f); confirmed blocks are retained; fix: raise that limit", dir.display())]
    FileTooLarge {
        /// Directory of the ledger that cannot grow.
        dir: PathBuf,
        /// Maximum bytes of a file of this process.
        limit: u64,
        /// The system's error of the failed write.
        #[source]
        source: io::Error,
    },
    /// An operation of the system failed. Fix: see the source; often a full disk or permissions.
    #[error("{doing} {}", path.display())]
    Io {
        /// The operation that failed, as a verb: `write`.
        doing: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// The system's error of the operation.
        #[source]
        source: io::Error,
    },
    /// The storage engine could not read or write its files. Stored blocks stay. Fix: see the source; often a full disk
    /// or permissions.
    #[error("storage engine of ledger {}", dir.display())]
    Engine {
        /// Directory of the ledger of the engine.
        dir: PathBuf,
        /// The engine's error, or the text of its panic.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
