//! The newest final block of a ledger as an archive.
//!
//! In: the accounts, the blocks and the stakes of a ledger that makes its blocks itself. Out: a file.
//! Not here: when an archive is made (`archives`).

use std::path::Path;
use std::sync::Arc;

use chain_solana::{Cluster, ClusterInfo, History, Reader, View};
use ledger::{Address, Commitment, Slot};
use snapshot_solana::{ArchiveWriteError, ArchivedBank, BankFields, WrittenArchive, write_archive};
use solana_pubkey::Pubkey;
use stakes_solana::epoch_stakes;

use crate::status_cache;

/// Milliseconds of a slot of a ledger that makes a block for each transaction.
const SLOT_MS_DEFAULT: u64 = 400;

/// A ledger that is written to archives.
pub struct ArchivedLedger {
    /// Reader of the accounts of the ledger.
    pub reader: Reader,
    /// History of the blocks of the ledger.
    pub history: Arc<History>,
    /// Constant properties of the cluster.
    pub info: Arc<ClusterInfo>,
    /// Stakes and inflation of the cluster.
    pub cluster: Arc<dyn Cluster>,
}

impl ArchivedLedger {
    /// Returns the newest slot that can be archived.
    pub(crate) fn newest_slot(&self) -> Slot {
        self.reader.view(Commitment::Finalized).block().slot
    }

    /// Writes an archive of the newest final block.
    pub(crate) fn write(&self, dir: &Path) -> Result<WrittenArchive, ArchiveWriteError> {
        let view = self.reader.view(Commitment::Finalized);
        let bank = self.bank(&view);
        write_archive(dir, &bank, || {
            // Every address of the ledger is a pubkey.
            let pubkey = |address: Address| Pubkey::try_from(address.as_bytes()).ok();
            view.all().filter_map(move |(address, account)| Some((pubkey(address)?, account)))
        })
    }

    fn bank(&self, view: &View) -> ArchivedBank {
        let info = &self.info;
        let block = view.meta();
        let slot = view.block().slot;
        let epoch = info.epoch_schedule.get_epoch(slot);
        let slot_ms = if info.slot_ms == 0 { SLOT_MS_DEFAULT } else { info.slot_ms };
        let mut fields = BankFields::empty();
        fields.slot = slot;
        fields.parent_slot = block.parent.slot;
        fields.block_height = block.block_height;
        fields.bank_hash = block.bank_hash;
        fields.parent_hash = block.hash_components.parent_hash;
        fields.transaction_count = block.transaction_count;
        fields.signature_count = block.hash_components.signature_count;
        fields.genesis_unix_timestamp = info.genesis_unix_timestamp;
        fields.epoch_schedule = info.epoch_schedule.clone();
        fields.ns_per_slot = u128::from(slot_ms) * 1_000_000;
        fields.blockhashes = block.blockhashes.iter().copied().collect();
        fields.lamports_per_signature = info.lamports_per_signature;
        fields.inflation =
            self.cluster.inflation().map_or_else(Default::default, |it| *it.inflation());
        let epochs = [epoch, epoch + 1];
        fields.epoch_stakes = epochs.map(|epoch| epoch_stakes(&*self.cluster, view, epoch)).into();
        let status_cache = status_cache::encode(&self.history.snapshot(), slot);
        ArchivedBank { fields, leader: info.identity, status_cache }
    }
}
