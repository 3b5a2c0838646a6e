//! Why an import ended without a chain.

use std::io;
use std::path::PathBuf;

use crate::snapshot_error::SnapshotError;

/// Why an import ended without a chain. Peers and sources that fail are tried again, and are not among the reasons.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The configuration names no source.
    #[error("no source (--source)")]
    NoSource,
    /// The configuration names no peer, or none of them is tried again.
    #[error("no peer is left that may send the UTXO set (--import-peer): {last}")]
    NoPeer {
        /// Why the last one is not tried again.
        last: String,
    },
    /// Another thread ended the import ([`crate::ImportProgress::cancel`]).
    #[error("the import was cancelled")]
    Cancelled,
    /// The files of the import cannot be read or written.
    #[error("the files of the import of {}", path.display())]
    Io {
        /// The path of the snapshot file.
        path: PathBuf,
        /// The error of the disk.
        #[source]
        error: io::Error,
    },
    /// The imported set cannot be loaded: the ledger has no room, or the disk returns other bytes than were written.
    #[error("load the imported UTXO set")]
    Load(#[source] Box<SnapshotError>),
}
