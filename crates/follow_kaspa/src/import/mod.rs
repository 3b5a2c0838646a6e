//! The start of a chain from the UTXO set of the pruning point, which other nodes of the network send.
//!
//! A kaspad deletes blocks below its pruning point, some 30 hours below its sink on mainnet, and has the UTXO set
//! there. The header of the block comes from a source by wRPC; the set comes from a peer by the protocol between nodes,
//! and is compared with the commitment in the header. Afterwards the chain is followed as from a snapshot file.
//! Resumed: UTXOs that a lost peer or an earlier process has received are in a file. The protocol always sends a set
//! from its first UTXO, so they are received again and compared, but neither written nor hashed again.
//! Not here: the snapshot file (`snapshot_file`), the chain above the pruning point (`session`).

mod checkpoint;
pub(crate) mod chunk;
mod chunk_store;
mod config;
mod deadline;
mod import_error;
mod import_paths;
mod importer;
mod messages;
mod peer;
mod peer_error;
mod progress;
mod pruning_point;
mod transfer;

pub use config::{ImportConfig, ImportLimits, PeerConfig};
pub use import_error::ImportError;
pub use import_paths::remove_chain_files;
pub use importer::import_chain;
pub use peer_error::PeerError;
pub use progress::ImportProgress;
