//! Methods that kaspad does not have, for JSON-RPC and REST: positions, pages, history by address and by transaction.
//!
//! Each result names the block that it is true at ([`position`]), so results of several calls can be compared.
//! Addresses may have the prefix of any network, as in kaspad.
//! Bounds: a page has at most [`PAGE_ENTRIES_MAX`] entries.
//! Not here: envelopes and HTTP (`jsonrpc`), routes (`rest_kaspa`), the methods of kaspad (`methods`).

mod balance;
mod options;
mod position;
mod transactions;
mod utxo_page;

use std::sync::Arc;

use chain_kaspa::ChainReader;
use jsonrpc::{Api, Execution, MethodSpec};
use kaspa::{Network, Prefix};
use ledger::{Commitment, Slot};
use query::ChangeTracker;
use response_cache::LedgerVersions;

/// Entries of a page, if a request does not say how many.
const PAGE_ENTRIES_DEFAULT: usize = 100;
/// The most entries of a page: some 400 KB of UTXOs.
const PAGE_ENTRIES_MAX: usize = 1_000;

/// Methods over a chain.
#[derive(Clone)]
pub struct KaspaApi {
    chain: ChainReader,
    network: Network,
}

impl KaspaApi {
    /// Creates the API of a chain.
    pub fn new(chain: ChainReader, network: Network) -> Self {
        Self { chain, network }
    }

    fn prefix(&self) -> Prefix {
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

impl Api for KaspaApi {
    const METHODS: &'static [&'static [MethodSpec<Self>]] = &[&[
        MethodSpec::new("getPosition", Execution::Inline, position::get_position),
        MethodSpec::new("getBalance", Execution::Light, balance::get_balance),
        MethodSpec::new("getUtxos", Execution::Medium, utxo_page::get_utxos),
        MethodSpec::new("getTransaction", Execution::Light, transactions::get_transaction),
        MethodSpec::new("getTransactions", Execution::Medium, transactions::get_transactions),
    ]];

    fn pinned(&self) -> Self {
        let mut pinned = self.clone();
        pinned.chain.utxos = self.chain.utxos.pin();
        pinned
    }
}
