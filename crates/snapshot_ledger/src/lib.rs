//! A new ledger that is filled in bulk, from a snapshot or from another source of accounts.
//!
//! Shape: [`load_snapshot`] reads archives into a [`LoadedSnapshot`]. A [`BulkLoader`] is the ledger before its first
//! publication. Producers (`localnet`, `follow`) continue from there.
//! Not here: reading archives ([`snapshot_solana`]), how a ledger continues.
#![forbid(unsafe_code)]

mod bulk_load;
mod loaded_snapshot;

pub use bulk_load::BulkLoader;
pub use loaded_snapshot::{LoadedSnapshot, block_of, load_snapshot};
