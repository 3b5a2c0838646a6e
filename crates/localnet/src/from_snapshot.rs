//! A ledger that continues from a snapshot of another one: the accounts, and their block.
//!
//! It is a separate ledger: its genesis hash and its validator are new. Features that are active in the snapshot's
//! accounts stay active, and other chosen features get accounts (`features`). Only the newest blockhash of the other
//! ledger is used: the transactions that named older ones are not known here, and no transaction may be executed twice.

use std::path::Path;
use std::sync::Arc;

use chain_solana::{Block, BlockInfo, BlockhashQueue, View};
use ledger::{BlockId, Commitment};
use query::LedgerError;
use snapshot_solana::{
    AccountSink, AccountSinkError, BankFields, Progress, Snapshot, SnapshotError,
};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_clock::Clock;
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar as ids;
use spl_generic_token::token::native_mint;
use svm::{AccountSource, Vm, WorkingSet};

use crate::bulk_load::BulkLoader;
use crate::config::Config;
use crate::features;
use crate::genesis::{self, GenesisError};
use crate::genesis_accounts::sysvar_fault;
use crate::keypairs::NodeKeypairs;
use crate::localnet::LocalnetError;

/// Sysvars that every next block needs.
const NEEDED: &[(Pubkey, &str)] = &[
    (ids::clock::ID, "clock sysvar"),
    (ids::epoch_schedule::ID, "epoch schedule sysvar"),
    (ids::rent::ID, "rent sysvar"),
    (ids::slot_hashes::ID, "slot hashes sysvar"),
    (ids::slot_history::ID, "slot history sysvar"),
];

/// A snapshot whose accounts are in a ledger that is not running yet.
pub struct LoadedSnapshot {
    pub(crate) snapshot: Snapshot,
    pub(crate) loader: BulkLoader,
}

/// Loads snapshot archives into a new ledger, as [`snapshot_solana::load`] does.
///
/// Memory: the ledger, and the memory of that function.
pub fn load_snapshot(
    config: &Config,
    full: &Path,
    incremental: Option<&Path>,
    threads: usize,
    progress: &Progress,
) -> Result<LoadedSnapshot, SnapshotError> {
    let mut table = LedgerTable { config, loader: None };
    let snapshot = snapshot_solana::load(full, incremental, threads, progress, &mut table)?;
    let Some(loader) = table.loader else { unreachable!("a load starts its table") };
    Ok(LoadedSnapshot { snapshot, loader })
}

impl LoadedSnapshot {
    /// The snapshot's metadata.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
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
struct LedgerTable<'a> {
    config: &'a Config,
    loader: Option<BulkLoader>,
}

impl LedgerTable<'_> {
    fn loader(&mut self) -> &mut BulkLoader {
        let Some(loader) = &mut self.loader else { unreachable!("a load starts its table") };
        loader
    }
}

impl AccountSink for LedgerTable<'_> {
    fn start(&mut self, fields: &BankFields) -> Result<(), AccountSinkError> {
        let (_, bank) = block_of(fields, 0, fields.capitalization);
        self.loader = Some(BulkLoader::new(self.config, bank));
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

/// Adds the node's own accounts to those of a snapshot. Returns the sum of lamports, and a working set.
pub(crate) fn complete(
    config: &Config,
    keys: &NodeKeypairs,
    snapshot: &Snapshot,
    loader: &mut BulkLoader,
) -> Result<(u64, WorkingSet), LocalnetError> {
    if let Some(what) = missing(loader.ledger()?) {
        return Err(GenesisError::Incomplete(what).into());
    }
    let active = features::for_snapshot(&config.features, loader.ledger()?)?;
    let mut set = WorkingSet::new(loader.ledger()?, active.clone());
    let absent = loader.missing_accounts(set.vm())?;
    let (added, _) = loader.replace(set.vm(), &absent)?;
    let clock: Clock = set.vm().svm().get_sysvar();
    if clock.slot != snapshot.bank.slot {
        return Err(GenesisError::Incomplete("clock sysvar: it shows another slot").into());
    }
    for wallet in config.mint.into_iter().chain([native_mint::id()]) {
        set.account(loader.ledger()?, &wallet);
    }
    let mut own = genesis::add_own(set.vm_mut(), config, keys)?;
    own.extend(features::add_accounts(&mut set, loader.ledger()?, &active));
    let (gained, lost) = loader.replace(set.vm(), &own)?;
    let lamports = u128::from(snapshot.lamports) + u128::from(added) + u128::from(gained);
    let lamports = u64::try_from(lamports - u128::from(lost));
    let lamports = lamports.map_err(|_| GenesisError::TooManyLamports)?;
    Ok((lamports, WorkingSet::new(loader.ledger()?, active)))
}

/// A needed sysvar that is missing or does not parse.
pub(crate) fn missing(accounts: &impl AccountSource) -> Option<&'static str> {
    let is_usable = |key: &Pubkey| {
        let account = accounts.account(key);
        account.is_some_and(|account| sysvar_fault(key, account.0.data()).is_none())
    };
    NEEDED.iter().find(|(key, _)| !is_usable(key)).map(|(_, what)| *what)
}

/// The block of the snapshot without its transactions, and its bank.
pub(crate) fn first_block(fields: &BankFields, vm: &Vm, capitalization: u64) -> (Block, BlockInfo) {
    let clock: Clock = vm.svm().get_sysvar();
    block_of(fields, clock.unix_timestamp, capitalization)
}

fn block_of(fields: &BankFields, unix_timestamp: i64, capitalization: u64) -> (Block, BlockInfo) {
    let newest_first = || fields.blockhashes.iter().rev().copied();
    let blockhash = newest_first().next().unwrap_or_default();
    let block = Block {
        id: BlockId { slot: fields.slot, bank: 0 },
        parent_slot: fields.parent_slot,
        block_height: fields.block_height,
        blockhash,
        previous_blockhash: newest_first().nth(1).unwrap_or_default(),
        bank_hash: fields.bank_hash,
        block_time: unix_timestamp,
        transaction_count: fields.transaction_count,
        transactions: Vec::new(),
        rewards: Vec::new(),
        reward_partitions: None,
        writes: Vec::new(),
    };
    let bank = BlockInfo {
        block: block.id,
        parent_slot: block.parent_slot,
        block_height: block.block_height,
        blockhashes: Arc::new(BlockhashQueue::new(blockhash)),
        transaction_count: block.transaction_count,
        unix_timestamp: block.block_time,
        capitalization,
        complete: true,
    };
    (block, bank)
}
