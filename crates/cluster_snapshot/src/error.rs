//! Why a snapshot was not written, or not loaded.

use depot::DepotError;
use ledger::{Address, Slot};
use query::LedgerError;
use store::DecodeError;

use crate::version::SNAPSHOT_VERSION;

/// Why a manifest cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The object is not a manifest, or its start is damaged.
    #[error("is not a manifest")]
    Magic,
    /// The object is longer than a manifest may be. It was not read.
    #[error("has {bytes} bytes, at most {bytes_max}")]
    Length {
        /// The length of the object.
        bytes: u64,
        /// The limit.
        bytes_max: usize,
    },
    /// The bytes are not those that were written.
    #[error("is damaged: its digest differs")]
    Digest,
    /// Another version of the program wrote it.
    #[error(
        "has version {found}, this program reads {SNAPSHOT_VERSION}: upgrade readers before the programs that write snapshots"
    )]
    Version {
        /// The version of the manifest.
        found: u16,
    },
    /// The parts are not in the order of their addresses, or their sums are not those of the manifest.
    #[error("contradicts itself: {0}")]
    Contradiction(&'static str),
    /// A value cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// Why a part cannot be read or written.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// The object is not a part, or its start is damaged.
    #[error("is not a part of a snapshot")]
    Magic,
    /// Another version of the program wrote it.
    #[error("has version {found}, this program reads {SNAPSHOT_VERSION}: upgrade readers first")]
    Version {
        /// The version of the part.
        found: u16,
    },
    /// The object has another length than the manifest says.
    #[error("has {found} bytes, the manifest says {expected}")]
    Length {
        /// The length of the object.
        found: u64,
        /// The length in the manifest.
        expected: u64,
    },
    /// A frame is cut, too long, or cannot be unpacked.
    #[error("frame {frame} is damaged")]
    Frame {
        /// The number of the frame, from 0 on.
        frame: usize,
    },
    /// An account cannot be decoded.
    #[error("account {account}: cannot read its {what}")]
    Account {
        /// The number of the account in the part, from 0 on.
        account: u64,
        /// The value.
        what: &'static str,
    },
    /// Accounts are not in the order of their addresses, or outside the part's range.
    #[error("account {0:?} is out of order")]
    Order(Address),
    /// A sum over the part is not that of the manifest.
    #[error("has another {0} than the manifest says")]
    Sum(&'static str),
    /// The compressor failed.
    #[error("cannot compress: {0}")]
    Compressor(String),
}

/// Why a snapshot was not written. Its parts may exist, its manifest does not.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotWriteError {
    /// The store failed.
    #[error("cannot write the snapshot of slot {slot}: {source}")]
    Depot {
        /// The slot of the block.
        slot: Slot,
        /// The error of the store.
        source: DepotError,
    },
    /// A part could not be encoded, or an existing object of its name is damaged.
    #[error("cannot write the snapshot of slot {slot}: {key}: {source}")]
    Part {
        /// The slot of the block.
        slot: Slot,
        /// The part.
        key: String,
        /// The error.
        source: PartError,
    },
    /// The view is not of the block that the facts are of, or its sums differ from theirs.
    #[error(
        "cannot write the snapshot of slot {slot}: the ledger has another {what} than the bank"
    )]
    Facts {
        /// The slot of the block.
        slot: Slot,
        /// The value that differs.
        what: &'static str,
    },
    /// A part disappeared before the manifest was written.
    #[error("cannot write the snapshot of slot {slot}: {key} was removed")]
    Removed {
        /// The slot of the block.
        slot: Slot,
        /// The part.
        key: String,
    },
    /// The task that encodes ended early.
    #[error("cannot write the snapshot of slot {slot}: {reason}")]
    Task {
        /// The slot of the block.
        slot: Slot,
        /// Why the task ended.
        reason: String,
    },
}

/// Why a snapshot was not loaded. The one before may be intact.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotLoadError {
    /// The store failed, or an object is missing.
    #[error("cannot load a snapshot: {0}")]
    Depot(#[from] DepotError),
    /// The manifest is damaged, too long, or of another version.
    #[error("cannot load a snapshot: {key} {source}")]
    Manifest {
        /// The manifest.
        key: String,
        /// The reason.
        source: ManifestError,
    },
    /// The manifest is not of the snapshot that its key names, or not the one that the log names.
    #[error("cannot load a snapshot: {key} is of another {what}: {found}")]
    Other {
        /// The manifest.
        key: String,
        /// The value that differs: cluster, block or digest.
        what: &'static str,
        /// The value of the manifest.
        found: String,
    },
    /// A part is damaged.
    #[error("cannot load a snapshot: {key} {source}")]
    Part {
        /// The part.
        key: String,
        /// The reason.
        source: PartError,
    },
    /// The sums of all parts are not those of the manifest.
    #[error("cannot load a snapshot: {key} has another {what} than its parts")]
    Sum {
        /// The manifest.
        key: String,
        /// The sum that differs.
        what: &'static str,
    },
    /// The ledger took no more accounts.
    #[error("cannot load a snapshot: {0}")]
    Ledger(#[from] LedgerError),
    /// A task of the load ended early.
    #[error("cannot load a snapshot: {0}")]
    Task(String),
}
