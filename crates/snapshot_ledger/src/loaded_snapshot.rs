//! Loads a snapshot of another ledger: its accounts into a new [`query::Ledger`], and its block.
//!
//! Not here: how a ledger continues from there, reading archives ([`snapshot_solana`]).

use std::path::Path;
use std::sync::Arc;

use chain_solana::{BankHashComponents, Block, BlockInfo, BlockhashQueue, View};
use ledger::{BlockId, Commitment};
use query::{LedgerConfig, LedgerError};
use snapshot_solana::{
    AccountSink, AccountSinkError, BankFields, Progress, Snapshot, SnapshotError,
};
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_pubkey::Pubkey;

use crate::bulk_load::BulkLoader;

/// A snapshot whose accounts are in a ledger that is not running yet.
pub struct LoadedSnapshot {
    snapshot: Snapshot,
    loader: BulkLoader,
}

/// Loads snapshot archives into a new ledger, as [`snapshot_solana::load`] does.
///
/// Memory: the ledger, and the memory of that function.
pub fn load_snapshot(
    config: &LedgerConfig,
    full: &Path,
    incremental: Option<&Path>,
    threads: usize,
    progress: &Progress,
) -> Result<LoadedSnapshot, SnapshotError> {
    let mut table = LedgerTable { config: config.clone(), loader: None };
    let snapshot = snapshot_solana::load(full, incremental, threads, progress, &mut table)?;
    let Some(mut loader) = table.loader else { unreachable!("a load starts its table") };
    loader.set_lt_hash((*snapshot.bank.lt_hash).clone());
    Ok(LoadedSnapshot { snapshot, loader })
}

impl LoadedSnapshot {
    /// The snapshot's metadata.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The snapshot's metadata, and the ledger with its accounts.
    pub fn into_parts(self) -> (Snapshot, BulkLoader) {
        (self.snapshot, self.loader)
    }

    /// A read-only view of the accounts.
    pub fn into_view(self) -> Result<View, LedgerError> {
        let (_, bank) = block_of(&self.snapshot.bank, 0, self.snapshot.lamports);
        Ok(self.loader.finish(bank)?.1.view(Commitment::Finalized))
    }

    /// Memory usage of the ledger's parts.
    pub fn usage(&self) -> query::LedgerUsage {
        self.loader.usage()
    }
}

/// A ledger that receives a snapshot's accounts. It is created when the snapshot's slot is known.
struct LedgerTable {
    config: LedgerConfig,
    loader: Option<BulkLoader>,
}

impl LedgerTable {
    fn loader(&mut self) -> &mut BulkLoader {
        let Some(loader) = &mut self.loader else { unreachable!("a load starts its table") };
        loader
    }
}

impl AccountSink for LedgerTable {
    fn start(&mut self, fields: &BankFields) -> Result<(), AccountSinkError> {
        let (_, bank) = block_of(fields, 0, fields.capitalization);
        self.loader = Some(BulkLoader::new(self.config.clone(), bank));
        Ok(())
    }

    fn id_of(&self, key: &Pubkey) -> Option<u32> {
        self.loader.as_ref()?.number(key).map(|id| id.0)
    }

    fn account(&self, key: &Pubkey) -> Option<AccountSharedData> {
        self.loader.as_ref()?.account(key).map(|account| account.0.clone())
    }

    fn put(
        &mut self,
        changes: Vec<(Pubkey, Option<AccountSharedData>)>,
    ) -> Result<Vec<u32>, AccountSinkError> {
        let ids = self.loader().put(changes.into_iter())?;
        Ok(ids.into_iter().map(|id| id.0).collect())
    }
}

/// The block of a snapshot without its transactions, and its bank. Accounts that the ledger adds to those of the
/// snapshot are not in its bank hash, which is the other ledger's.
pub fn block_of(
    fields: &BankFields,
    unix_timestamp: i64,
    capitalization: u64,
) -> (Block, BlockInfo) {
    let newest_first = || fields.blockhashes.iter().rev().copied();
    let blockhash = newest_first().next().unwrap_or_default();
    let block = Block {
        id: BlockId { slot: fields.slot, version: 0 },
        parent: BlockId { slot: fields.parent_slot, version: 0 },
        block_height: fields.block_height,
        blockhash,
        previous_blockhash: newest_first().nth(1).unwrap_or_default(),
        bank_hash: fields.bank_hash,
        hash_components: BankHashComponents {
            parent_hash: fields.parent_hash,
            signature_count: fields.signature_count,
            last_blockhash: blockhash,
            lt_checksum: Hash::new_from_array(fields.lt_hash.checksum()),
        },
        block_time: unix_timestamp,
        transaction_count: fields.transaction_count,
        transactions: Vec::new(),
        rewards: Vec::new(),
        reward_partitions: None,
        entries: Vec::new(),
        writes: Vec::new(),
    };
    let bank = BlockInfo {
        block: block.id,
        parent: block.parent,
        block_height: block.block_height,
        blockhashes: Arc::new(BlockhashQueue::new(blockhash)),
        transaction_count: block.transaction_count,
        unix_timestamp: block.block_time,
        capitalization,
        bank_hash: block.bank_hash,
        hash_components: block.hash_components,
        complete: true,
    };
    (block, bank)
}
