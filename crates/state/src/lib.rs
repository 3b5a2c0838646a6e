//! The records by address id and block: forks, roots, and snapshots of one block.
//!
//! Shape: [`State`] is the writer's side; [`Snapshot`] is one block's state, immutable, and shares all
//! unchanged data with the state that it was taken from. A record has one rooted version and a short
//! list of unrooted ones; a read sees the newest among its block's ancestors. Rooted versions that
//! pack ([`ledger::Record::pack`]) are stored without their own and their keys' addresses in blobs of 64 records; the
//! others, and unrooted ones, are stored unpacked. If many blocks write a record, all versions but the first are
//! patches.
//! Bounds: [`UNROOTED_MAX`] blocks; records are bounded by the address table.
//! Invariant: rooting or dropping a block touches only the records that it wrote.
//! Not here: addresses (`address`), finding records by key (`index`), publishing (`query`).
#![forbid(unsafe_code)]

mod fork_tree;
mod leaf;
mod leaf_map;
#[cfg(test)]
mod own_address_tests;
mod packed_leaf;
mod persistent_array;
mod snapshot;
mod state;
mod unpacked_versions;
mod version;

pub use fork_tree::{BlockError, UNROOTED_MAX};
pub use leaf_map::StateMemory;
pub use snapshot::Snapshot;
pub use state::{RemovedVersion, State};
pub use version::{Version, VisibleVersion};
