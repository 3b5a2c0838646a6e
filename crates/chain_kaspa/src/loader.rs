//! The start of a chain: its first block, and the UTXO set after it.
//!
//! Input: a header, and UTXOs from a snapshot, an import, or none for a new network. Output: a [`Chain`], if the set is
//! the one to which the header commits.
//! Cost for each UTXO: some 1.2 µs for its record, and 3.3 µs for its hash, which other threads can compute
//! ([`hash_utxos`]).

use std::sync::Arc;

use kaspa::{Hash, Header, Outpoint, UtxoEntry};
use ledger::BlockId;
use muhash::MuHash;
use query::LedgerError;

use crate::block_changes::BlockChanges;
use crate::block_info::{BlockInfo, Ledger, Reader, Supply};
use crate::chain::Chain;
use crate::config::ChainConfig;
use crate::ledger_block::{ChainBlock, LedgerBlock};
use crate::records::RecordChanges;
use crate::refusal::UtxoError;
use crate::script_utxo::ScriptUtxo;

/// UTXOs that are written at once.
const BATCH_UTXOS: usize = 4_096;

/// Why a chain does not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The set has a UTXO twice, or amounts that do not fit.
    #[error(transparent)]
    Utxo(#[from] UtxoError),
    /// The set is not the one to which the first block commits.
    #[error("the UTXO set has the hash {computed}, and block {block} commits to {committed}")]
    WrongCommitment {
        /// The hash of the first block.
        block: Hash,
        /// The computed hash of the UTXO set.
        computed: Hash,
        /// The commitment of the block.
        committed: Hash,
    },
    /// The ledger has no room. Raise its limit of addresses.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// A chain that is being filled.
pub struct ChainLoader {
    config: ChainConfig,
    ledger: Ledger,
    reader: Reader,
    root: BlockId,
    info: BlockInfo,
    product: MuHash,
}

/// Returns the product over a part of a UTXO set, for [`ChainLoader::add_product`].
pub fn hash_utxos<'a>(utxos: impl IntoIterator<Item = &'a (Outpoint, UtxoEntry)>) -> MuHash {
    let mut product = MuHash::EMPTY;
    for (outpoint, entry) in utxos {
        product.add(&entry.element(outpoint));
    }
    product
}

impl ChainLoader {
    /// Starts at a block. Its UTXO set is the one after its acceptance.
    pub fn new(config: ChainConfig, header: Header) -> Self {
        let root = BlockId { slot: header.daa_score, version: 0 };
        let info = BlockInfo {
            hash: header.hash(),
            daa_score: header.daa_score,
            header: Arc::new(header),
            is_virtual: false,
            supply: Supply::default(),
        };
        let meta = Arc::new(info.clone());
        let (ledger, reader) = query::Ledger::new(config.ledger.clone(), root, meta);
        Self { config, ledger, reader, root, info, product: MuHash::EMPTY }
    }

    /// Adds UTXOs to the set, and hashes them.
    pub fn insert(&mut self, utxos: &[(Outpoint, UtxoEntry)]) -> Result<(), LoadError> {
        self.add_product(&hash_utxos(utxos));
        self.insert_unhashed(utxos)
    }

    /// Adds the product over UTXOs to that of the set. [`Self::insert_unhashed`] adds the UTXOs themselves.
    pub fn add_product(&mut self, product: &MuHash) {
        self.product.mix_in(product);
    }

    /// Adds UTXOs to the set without their product, which [`Self::add_product`] adds.
    pub fn insert_unhashed(&mut self, utxos: &[(Outpoint, UtxoEntry)]) -> Result<(), LoadError> {
        for batch in utxos.chunks(BATCH_UTXOS) {
            let mut records = RecordChanges::new(&self.ledger, self.root);
            for (outpoint, entry) in batch {
                let sompi = entry.amount;
                let supply = self.info.supply.with_added(sompi);
                self.info.supply = supply.ok_or(UtxoError::Supply { sompi })?;
                records.insert(&ScriptUtxo::new(*outpoint, entry))?;
            }
            let set = records.finish();
            self.ledger.apply(self.root, set.changes, Arc::new(self.info.clone()))?;
        }
        Ok(())
    }

    /// Returns the sums over the UTXOs so far.
    pub fn supply(&self) -> Supply {
        self.info.supply
    }

    /// Compares the set with the commitment of the block, and starts the chain.
    pub fn finish(mut self) -> Result<Chain, LoadError> {
        self.product.normalize();
        let computed = Hash(self.product.finalize());
        let committed = self.info.header.utxo_commitment;
        if computed != committed {
            let block = self.info.hash;
            return Err(LoadError::WrongCommitment { block, computed, committed });
        }
        let info = Arc::new(self.info);
        self.ledger.apply(self.root, Vec::new(), Arc::clone(&info))?;
        self.ledger.publish();
        let block = LedgerBlock {
            id: self.root,
            parent: self.root,
            parent_info: Arc::clone(&info),
            info,
            changes: BlockChanges::default(),
            accepted_ids: Vec::new(),
        };
        let root = ChainBlock { block: Arc::new(block), product: self.product };
        Ok(Chain::new(&self.config, self.ledger, self.reader, root))
    }
}
