//! Snapshots of a cluster's ledger in an object store: written while the ledger is read, loaded in parallel.
//!
//! | object | holds |
//! |--------|-------|
//! | `snap/<cluster>/<slot>-<generation>-<blockhash>/part-<digest>` | the accounts of a range of addresses, in order |
//! | `snap/<cluster>/<slot>-<generation>-<blockhash>/manifest` | written last: the bank, its position in the log, each part |
//! | `faults/<cluster>/<generation>-<sequence>` | a fault of the log that a replica reports ([`fault_reports`]) |
//!
//! Shape: [`write_snapshot`] takes a finalized view. [`newest_snapshots`] lists manifests, [`load_manifest`] reads one,
//! and [`load_snapshot_parts`] fills a ledger. [`remove_old_snapshots`] removes old ones. The final blocks of the chain
//! are in the [`archive`].
//! Invariant: a snapshot without a manifest does not exist. A loaded ledger has the digests, number of accounts,
//! lamports and lattice sum of the manifest; otherwise the error names the object that differs.
//! Bounds: a writer holds [`WriteLimits::ids_max`] ids and three parts; a loader three parts for each of its threads.
//! Not here: Agave's archives (`snapshot_solana`), when snapshots are made, and how a ledger continues from one
//! (`replica`, `ingest`).
#![forbid(unsafe_code)]

mod address_order;
pub mod archive;
mod catalogue;
mod error;
pub mod fault_reports;
mod fields;
mod final_digest;
mod keys;
mod load;
mod manifest;
mod part_reader;
mod part_writer;
#[cfg(test)]
mod tests;
mod version;
mod write;

pub use catalogue::{RemovalRules, newest_snapshots, remove_old_snapshots};
pub use error::{ManifestError, PartError, SnapshotLoadError, SnapshotWriteError};
pub use fields::ManifestFields;
pub use keys::ManifestKey;
pub use load::{PartSums, fetch_part, load_manifest, load_snapshot_parts};
pub use manifest::{MANIFEST_BYTES_MAX, Manifest, PartEntry};
pub use part_reader::{PartReader, SnapshotAccount};
pub use part_writer::{EncodedPart, PartWriter};
pub use version::SNAPSHOT_VERSION;
pub use write::{SnapshotFacts, WriteLimits, write_snapshot};
