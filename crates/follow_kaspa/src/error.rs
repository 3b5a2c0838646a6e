//! Why a follower could not start, or ended.

use std::io;
use std::path::PathBuf;

use chain_kaspa::LoadError;
use kaspa::{Hash, Network};
use query::LedgerError;

use crate::restart_point::RestartBase;
use crate::snapshot_error::SnapshotError;

/// Why a follower could not start, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The configuration names no source.
    #[error("no source (--source)")]
    NoSource,
    /// A source has a URL that cannot be connected to.
    #[error("{server}: the URL of a source is ws[s]://HOST:PORT[/PATH]")]
    Url {
        /// The scheme, host and port of the URL.
        server: String,
    },
    /// The first block of a network cannot be the start, because UTXOs are below it.
    #[error(
        "{network} cannot be followed from its first block, which has UTXOs below it; fix: import the UTXO set of the \
         pruning point (--import-peer), or start from a snapshot file"
    )]
    NeedsSnapshot {
        /// The network.
        network: Network,
    },
    /// The UTXO set of the start is not the one to which its block commits.
    #[error("the UTXO set of the start is refused")]
    Load(#[from] LoadError),
    /// The snapshot file is refused.
    #[error("the snapshot file {} is refused; fix: remove it, or name another one", path.display())]
    Snapshot {
        /// The path of the file.
        path: PathBuf,
        /// The rule that the file breaks.
        #[source]
        error: Box<SnapshotError>,
    },
    /// The ledger has no room, or refuses a block for another reason that the caller cannot cause.
    #[error("the ledger refused a block")]
    Ledger(#[from] LedgerError),
    /// The chain was reorganized below its final block. After [`crate::FollowHandle::stop`], [`crate::start_chain`] starts
    /// again below the reorganization: the program should start the node again.
    #[error(
        "the chain was reorganized below its final block; fix: start the node again, which continues from block {block}"
    )]
    Restart {
        /// The block from which it starts.
        block: Hash,
        /// The source of that block's UTXO set.
        base: RestartBase,
    },
    /// The snapshot file for a restart cannot be renamed.
    #[error("the snapshot file {} cannot be renamed for a restart", path.display())]
    PrepareRestart {
        /// The path of the file.
        path: PathBuf,
        /// The error of the disk.
        #[source]
        error: io::Error,
    },
    /// A thread could not be started.
    #[error("start a thread")]
    Thread(#[source] io::Error),
    /// The writing thread panicked; that is our bug.
    #[error("the writing thread panicked")]
    Panicked,
}
