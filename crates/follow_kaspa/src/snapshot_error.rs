//! Why a snapshot file is refused.

use std::io;

use chain_kaspa::LoadError;
use kaspa::{Hash, Network};

/// Why a snapshot file is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// There is no such file.
    #[error("there is no such file")]
    Missing,
    /// The file cannot be read, or is cut.
    #[error("the file cannot be read to its end")]
    Io(#[from] io::Error),
    /// The file is not a snapshot of this version.
    #[error("it is not a snapshot of this version of Hydrant")]
    NotASnapshot,
    /// The file is of another network.
    #[error("it is of the network {found:?}, and {network} is followed (--network)")]
    OtherNetwork {
        /// The name in the file.
        found: String,
        /// The network that is followed.
        network: Network,
    },
    /// A field has a value that none is written with.
    #[error("{field} is damaged")]
    Damaged {
        /// The name of the field.
        field: &'static str,
    },
    /// The header does not have the hash that the file says.
    #[error("the header has the hash {computed}, and the file is of block {block}")]
    WrongHash {
        /// The hash in the file.
        block: Hash,
        /// The hash of the header.
        computed: Hash,
    },
    /// The UTXO set is not the one to which the block commits, or does not fit into the ledger.
    #[error("the UTXO set is refused")]
    Load(#[from] LoadError),
}
