//! The start of a chain: the first block of a network, or a snapshot file.
//!
//! Not here: the start from the UTXO set of other nodes (`import`), the start after a deep reorganization, which
//! chooses between files (`restart`).

use std::path::Path;

use chain_kaspa::{Chain, ChainConfig, ChainLoader};
use kaspa::Network;

use crate::error::FollowError;
use crate::snapshot_error::SnapshotError;
use crate::snapshot_file::load_snapshot;

/// Starts a chain at the first block of its network. Mainnet's has UTXOs below it and needs a snapshot.
pub fn start_at_genesis(network: Network, config: ChainConfig) -> Result<Chain, FollowError> {
    if network == Network::Mainnet {
        return Err(FollowError::NeedsSnapshot { network });
    }
    Ok(ChainLoader::new(config, network.genesis()).finish()?)
}

/// Starts a chain at the block of a snapshot file if it exists, and else at the first block of the network.
pub fn start_chain(
    network: Network,
    config: ChainConfig,
    snapshot: Option<&Path>,
) -> Result<Chain, FollowError> {
    let Some(path) = snapshot else { return start_at_genesis(network, config) };
    match load_snapshot(path, network, config.clone()) {
        Ok(chain) => Ok(chain),
        Err(SnapshotError::Missing) => start_at_genesis(network, config),
        Err(error) => Err(FollowError::Snapshot { path: path.to_owned(), error: Box::new(error) }),
    }
}
