//! A ledger that continues from a snapshot of another one.
//!
//! It is a separate ledger: its genesis hash and its validator are new. Features that are active in the snapshot's
//! accounts stay active, and other chosen features get accounts (`features`). Only the newest blockhash of the other
//! ledger is used: the transactions that named older ones are not known here, and no transaction may be executed twice.
//! Not here: reading the snapshot ([`snapshot_ledger`]).

use chain_solana::{Block, BlockInfo};
use snapshot_ledger::{BulkLoader, block_of};
use snapshot_solana::{BankFields, Snapshot};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_clock::Clock;
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar as ids;
use spl_generic_token::token::native_mint;
use svm::{AccountSource, Vm, WorkingSet};

use crate::config::Config;
use crate::error::{GenesisError, LocalnetError};
use crate::features;
use crate::genesis;
use crate::genesis_accounts::sysvar_fault;
use crate::keypairs::NodeKeypairs;

/// Sysvars that every next block needs.
const NEEDED: &[(Pubkey, &str)] = &[
    (ids::clock::ID, "clock sysvar"),
    (ids::epoch_schedule::ID, "epoch schedule sysvar"),
    (ids::rent::ID, "rent sysvar"),
    (ids::slot_hashes::ID, "slot hashes sysvar"),
    (ids::slot_history::ID, "slot history sysvar"),
];

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
    let absent = missing_accounts(loader.ledger()?, set.vm());
    let (added, _) = loader.replace(absent)?;
    let clock: Clock = set.vm().svm().get_sysvar();
    if clock.slot != snapshot.bank.slot {
        return Err(GenesisError::Incomplete("clock sysvar: it shows another slot").into());
    }
    for wallet in config.mint.into_iter().chain([native_mint::id()]) {
        set.account(loader.ledger()?, &wallet);
    }
    let mut own = genesis::add_own(set.vm_mut(), config, keys)?;
    own.extend(features::add_accounts(&mut set, loader.ledger()?, &active));
    let own = own.iter().filter_map(|key| Some((*key, set.vm().account(key)?.clone())));
    let (gained, lost) = loader.replace(own.collect())?;
    let lamports = u128::from(snapshot.lamports) + u128::from(added) + u128::from(gained);
    let lamports = u64::try_from(lamports - u128::from(lost));
    let lamports = lamports.map_err(|_| GenesisError::TooManyLamports)?;
    Ok((lamports, WorkingSet::new(loader.ledger()?, active)))
}

/// Accounts of the VM that the ledger lacks: builtin programs that another node did not have.
pub(crate) fn missing_accounts(
    accounts: &impl AccountSource,
    vm: &Vm,
) -> Vec<(Pubkey, AccountSharedData)> {
    let missing = vm.accounts().filter(|(key, _)| accounts.account(key).is_none());
    missing.map(|(key, account)| (*key, account.clone())).collect()
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
