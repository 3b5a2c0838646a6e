//! Why a ledger on disk could not be opened or written.

use std::io;
use std::path::PathBuf;

use ledger::Slot;

/// Why a ledger on disk could not be opened or written. One variant per thing its user can do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory holds something that we did not write. Fix: name an empty or a new one.
    #[error("{} is not a ledger of Hydrant: it holds {found}; fix: name an empty directory (--ledger)", dir.display())]
    Foreign {
        /// The directory.
        dir: PathBuf,
        /// The first thing in it that is not ours.
        found: String,
    },
    /// A ledger stands where a new one was to be made. Fix: open it, or start with `--reset`.
    #[error("{} holds a ledger already; fix: start with --reset to begin anew", dir.display())]
    Exists {
        /// The directory.
        dir: PathBuf,
    },
    /// Another process has the ledger open. Fix: stop it, or name another directory.
    #[error("ledger {} is in use by {user}; fix: stop it, or name another directory (--ledger)", dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// Who, as far as is known: `process 123`.
        user: String,
    },
    /// The ledger was written in a form that this version does not read.
    #[error("ledger {} has format {found}, this version reads {expected}; fix: start with --reset", dir.display())]
    Format {
        /// The directory.
        dir: PathBuf,
        /// What it says it is.
        found: String,
        /// What we read.
        expected: u32,
    },
    /// What is on disk is not what was written, or not all of it.
    #[error("ledger {} is damaged: {what}; fix: start with --reset", dir.display())]
    Damaged {
        /// The directory.
        dir: PathBuf,
        /// Which part, and how it shows: `block 123: checksum ...`.
        what: String,
    },
    /// A block does not follow the newest one: the caller's bug.
    #[error("block {slot} has parent {parent}, but the newest block of the ledger is {head}")]
    NotNext {
        /// The block's slot.
        slot: Slot,
        /// Its parent's.
        parent: Slot,
        /// The newest slot of the ledger.
        head: Slot,
    },
    /// The disk is full, or the quota on it is used up. What was confirmed stays. Fix: make room on it.
    #[error("ledger {} cannot be written, its disk is full: {free_bytes} bytes are free; what was confirmed stays on it; fix: make room, or name a directory on another disk (--ledger)", dir.display())]
    DiskFull {
        /// The directory.
        dir: PathBuf,
        /// What is free on its disk.
        free_bytes: u64,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The disk has less room than opening the ledger may take. Fix: make room on it.
    #[error("ledger {} is not opened, its disk has too little room: {free_bytes} bytes are free, {needed_bytes} are needed; fix: make room, or name a directory on another disk (--ledger)", dir.display())]
    InsufficientSpace {
        /// The directory.
        dir: PathBuf,
        /// What is free on its disk.
        free_bytes: u64,
        /// What may be needed.
        needed_bytes: u64,
    },
    /// This process may not write files as large as the ledger needs. Fix: raise the limit.
    #[error("ledger {} cannot be written, a file may have {limit} bytes at most (ulimit -f); what was confirmed stays on it; fix: raise that limit", dir.display())]
    FileTooLarge {
        /// The directory.
        dir: PathBuf,
        /// The limit.
        limit: u64,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The operating system refused. Fix: the source says what; often a full disk or permissions.
    #[error("{doing} {}", path.display())]
    Io {
        /// What was tried: `write`.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The storage engine could not read or write its files. What was kept stays. Fix: the source says
    /// what; often a full disk or permissions.
    #[error("storage engine of ledger {}", dir.display())]
    Engine {
        /// The directory.
        dir: PathBuf,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
