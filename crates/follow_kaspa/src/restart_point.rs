//! The block from which a chain starts again after a reorganization below its final block.
//!
//! Not here: how it is found (`restart`).

use std::path::PathBuf;

use kaspa::Hash;

/// The start of a chain that was reorganized below its final block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartBase {
    /// The snapshot file.
    Snapshot,
    /// The snapshot file before the newest one.
    PreviousSnapshot,
    /// The first block of the network.
    Genesis,
    /// The pruning point of a source, whose UTXO set is imported.
    Import,
}

/// The starts that a program has, besides the first block of the network.
#[derive(Clone, Debug)]
pub(crate) struct RestartOptions {
    /// The path of the snapshot file.
    pub(crate) snapshot: Option<PathBuf>,
    /// Whether a start without a snapshot file imports a UTXO set.
    pub(crate) can_import: bool,
}

/// A block that is on the chain of a source, and that a chain can start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RestartPoint {
    pub(crate) block: Hash,
    pub(crate) base: RestartBase,
}
