//! The bank of a snapshot: everything but its accounts, as a ledger starts from it or jumps to it, and as a snapshot is
//! written from it.
//!
//! Not here: loading and writing the accounts (`cluster_snapshot`).

use std::sync::Arc;

use chain_solana::wire::{BlockName, RecordChain};
use chain_solana::{Block, BlockInfo, View};
use cluster_snapshot::{Manifest, ManifestFields, SnapshotFacts};
use lattice::{HardFork, LtHash};
use ledger::BlockId;
use snapshot_solana::BankFields;
use snapshot_solana::stored_rows::{BankRow, ChainRow, LatticeRow};
use solana::{EpochStakes, VerificationLevel};

use crate::log_position::{LogPosition, RecordPosition};

/// The bank of a snapshot.
#[derive(Clone)]
pub(crate) struct SnapshotBank {
    pub(crate) block: Arc<Block>,
    pub(crate) info: Arc<BlockInfo>,
    pub(crate) lt_hash: LtHash,
    pub(crate) hard_forks: Vec<HardFork>,
    pub(crate) chain: ChainRow,
    pub(crate) epoch_stakes: Vec<EpochStakes>,
    /// The level of proof of the ingesters that logged the block and made it final; the lower one of two.
    pub(crate) level: Option<VerificationLevel>,
    pub(crate) position: RecordPosition,
}

/// Why no ledger can start from the bank of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SnapshotBankError {
    #[error("the bank has no blockhash")]
    NoBlockhash,
    #[error("the bank was not verified, so no block after it can be")]
    NoBankHash,
}

impl SnapshotBank {
    /// The bank of a manifest, whose block has this position in the log. Its version is the number of the record.
    pub(crate) fn new(
        manifest: &Manifest,
        position: RecordPosition,
    ) -> Result<Self, SnapshotBankError> {
        let fields = &manifest.fields;
        let info = fields.block_info().ok_or(SnapshotBankError::NoBlockhash)?;
        if !fields.block.has_bank_hash() {
            return Err(SnapshotBankError::NoBankHash);
        }
        // An ingester does not know the hard forks. Those before the block do not count, and an account names a later one.
        let hard_forks = fields.bank.lattice.as_ref().map(|row| row.hard_forks.clone());
        let id = BlockId { slot: manifest.block.slot, version: position.number };
        Ok(Self {
            block: Arc::new(Block { id, ..fields.block.clone() }),
            info: Arc::new(BlockInfo { block: id, ..info }),
            // Not that of the block: a ledger of `hydrant dev` may start from a snapshot with accounts of its own.
            lt_hash: manifest.lt_hash.clone(),
            hard_forks: hard_forks.unwrap_or_default(),
            chain: fields.chain.clone(),
            epoch_stakes: fields.epochs.clone(),
            level: fields.level,
            position,
        })
    }

    pub(crate) fn id(&self) -> BlockId {
        self.block.id
    }

    pub(crate) fn name(&self) -> BlockName {
        BlockName { slot: self.block.id.slot, number: self.position.number }
    }

    /// The position in the log from which its successors are read.
    pub(crate) fn log_position(&self) -> LogPosition {
        LogPosition {
            generation: self.position.generation,
            sequence: self.position.sequence,
            chain: RecordChain::new(self.position.number, self.position.digest),
        }
    }

    /// The fields that stakes, leaders and inflation are tracked with.
    pub(crate) fn fields(&self) -> BankFields {
        bank_fields(&self.chain, &self.block, &self.info, self.epoch_stakes.clone())
    }
}

/// Returns the fields of a bank of a chain.
pub(crate) fn bank_fields(
    chain: &ChainRow,
    block: &Block,
    info: &BlockInfo,
    epoch_stakes: Vec<EpochStakes>,
) -> BankFields {
    let mut fields = BankFields::empty();
    fields.slot = block.id.slot;
    fields.parent_slot = block.parent.slot;
    fields.block_height = block.block_height;
    fields.bank_hash = block.bank_hash;
    fields.parent_hash = block.hash_components.parent_hash;
    fields.transaction_count = block.transaction_count;
    fields.signature_count = block.hash_components.signature_count;
    fields.capitalization = info.capitalization;
    fields.genesis_unix_timestamp = chain.genesis_unix_timestamp;
    fields.epoch_schedule = chain.epoch_schedule.clone();
    fields.ns_per_slot = chain.ns_per_slot;
    fields.blockhashes = info.blockhashes.iter().copied().collect();
    fields.lamports_per_signature = chain.lamports_per_signature;
    fields.inflation = chain.inflation;
    fields.epoch_stakes = epoch_stakes;
    fields
}

/// The state at the root, from which a snapshot is written.
pub(crate) struct RootState {
    /// The accounts after the block of the bank.
    pub(crate) view: View,
    pub(crate) bank: SnapshotBank,
}

impl RootState {
    /// The facts of a snapshot of this state.
    pub(crate) fn facts(&self, cluster: &str, made_at_ms: u64) -> SnapshotFacts {
        let SnapshotBank { block, info, lt_hash, hard_forks, chain, epoch_stakes, level, position } =
            &self.bank;
        let lattice = LatticeRow { lt_hash: lt_hash.clone(), hard_forks: hard_forks.clone() };
        let blockhashes = info.blockhashes.iter().copied().collect();
        SnapshotFacts {
            cluster: cluster.to_owned(),
            generation: position.generation,
            position: position.sequence,
            block: self.bank.name(),
            block_digest: position.digest,
            fields: ManifestFields {
                chain: chain.clone(),
                bank: BankRow { blockhashes, lattice: Some(lattice), jump: None },
                epochs: epoch_stakes.clone(),
                // Its lists are not stored, and their elements are shared.
                block: Block { writes: Vec::new(), ..Block::clone(block) },
                unix_timestamp: info.unix_timestamp,
                capitalization: info.capitalization,
                level: *level,
            },
            made_at_ms,
        }
    }
}
