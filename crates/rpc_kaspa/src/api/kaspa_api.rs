//! The state that the methods read: a chain, and its network.

use std::sync::Arc;

use chain_kaspa::ChainReader;
use kaspa::{Network, Prefix};
use ledger::{Commitment, Slot};
use query::ChangeTracker;
use response_cache::LedgerVersions;

/// Methods over a chain.
#[derive(Clone)]
pub struct KaspaApi {
    pub(super) chain: ChainReader,
    network: Network,
}

impl KaspaApi {
    /// Creates the API of a chain.
    pub fn new(chain: ChainReader, network: Network) -> Self {
        Self { chain, network }
    }

    /// Returns the chain that the methods read.
    pub(crate) fn chain(&self) -> &ChainReader {
        &self.chain
    }

    /// Returns the prefix of addresses in results.
    pub(super) fn prefix(&self) -> Prefix {
        self.network.prefix()
    }
}

impl LedgerVersions for KaspaApi {
    fn version_and_slot(&self, commitment: Commitment) -> (u64, Slot) {
        let (version, block) = self.chain.utxos.version_and_block(commitment);
        (version, block.slot)
    }

    fn change_tracker(&self) -> &Arc<ChangeTracker> {
        self.chain.utxos.change_tracker()
    }
}
