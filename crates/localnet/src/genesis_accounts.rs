//! The accounts that a user adds to a new ledger: checked, and loaded as a stream.
//!
//! Shape: [`check_account`] refuses a sysvar with which the ledger could not run. [`load_genesis_accounts`] writes
//! accounts from an iterator to the ledger's state. The VM gets only replacements of accounts that it has.
//! Bounds: [`CHUNK_MAX`] accounts or [`CHUNK_BYTES_MAX`] of their data are buffered.
//! Invariant: no accepted account makes a step of the ledger panic.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use snapshot_ledger::BulkLoader;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_clock::Clock;
use solana_epoch_schedule::{EpochSchedule, MINIMUM_SLOTS_PER_EPOCH};
use solana_loader_v3_interface::get_program_data_address;
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar as ids;
use solana_slot_hashes::SlotHashes;
use solana_slot_history::{MAX_ENTRIES, SlotHistory};
use solana_sysvar::epoch_rewards::EpochRewards;
use solana_sysvar::last_restart_slot::LastRestartSlot;
use solana_sysvar::rent::Rent;
use solana_sysvar::stake_history::StakeHistory;
#[expect(deprecated, reason = "programs still read these sysvars, so a user may add them")]
use solana_sysvar::{fees::Fees, recent_blockhashes::RecentBlockhashes};
use svm::{Vm, sysvars};
use wincode::DeserializeOwned;

use crate::config::{Config, GenesisAccount, HEAD_SLOT_MAX};
use crate::error::{GenesisError, LocalnetError, SourceError};
use crate::genesis;

/// Accounts of one chunk.
const CHUNK_MAX: usize = 4_096;
/// Bytes of data of one chunk. The last account may exceed it.
const CHUNK_BYTES_MAX: usize = 16 << 20;
/// Slots of an epoch: 46 days of 400 ms slots. The leader schedule has an entry for each.
pub const SLOTS_PER_EPOCH_MAX: u64 = 10_000_000;
/// The bytes of the largest account.
const DATA_BYTES_MAX: usize = 10 << 20;
/// Lamports of a byte at most, so that no account's rent exceeds a `u64`.
const LAMPORTS_PER_BYTE_MAX: u64 = u64::MAX / (DATA_BYTES_MAX as u64 + 128);

/// Lamports of a new ledger at most. A `u64` still holds twice as many, after inflation.
pub(crate) const LAMPORTS_MAX: u64 = u64::MAX / 2;

/// A source of accounts of a new ledger, one at a time.
pub type GenesisAccountSource<'a> = dyn Iterator<Item = Result<GenesisAccount, SourceError>> + 'a;

/// Refuses a sysvar that does not parse, or with which the ledger could not make blocks. Other accounts are not
/// restricted: a program that does not load fails when it is called.
pub fn check_account(genesis_account: &GenesisAccount) -> Result<(), GenesisError> {
    let data = genesis_account.account.data();
    // An account without lamports does not exist.
    let fault = if genesis_account.account.lamports() == 0 {
        sysvars::ALL.contains(&genesis_account.address).then_some("it has no lamports")
    } else {
        sysvar_fault(&genesis_account.address, data)
    };
    match fault {
        None => Ok(()),
        Some(reason) => Err(GenesisError::Sysvar { address: genesis_account.address, reason }),
    }
}

/// What is wrong with the data of a sysvar. `None` for valid data and for other accounts.
pub(crate) fn sysvar_fault(address: &Pubkey, data: &[u8]) -> Option<&'static str> {
    match *address {
        ids::clock::ID => fault(data, |clock: &Clock| {
            (clock.slot > HEAD_SLOT_MAX).then_some("no slots remain after its slot")
        }),
        ids::epoch_schedule::ID => fault(data, epoch_schedule_fault),
        ids::slot_history::ID => fault(data, |history: &SlotHistory| {
            let is_whole = history.bits.len() == MAX_ENTRIES;
            if !is_whole {
                return Some("it does not have a bit for each of its 1048576 slots");
            }
            (history.next_slot > HEAD_SLOT_MAX).then_some("no slots remain after its slot")
        }),
        ids::rent::ID => fault(data, |rent: &Rent| {
            let is_possible = rent.lamports_per_byte <= LAMPORTS_PER_BYTE_MAX
                && rent.try_minimum_balance(DATA_BYTES_MAX).is_some();
            (!is_possible).then_some("the rent of a large account is more than a u64 holds")
        }),
        ids::slot_hashes::ID => fault(data, |_: &SlotHashes| None),
        ids::stake_history::ID => fault(data, |_: &StakeHistory| None),
        ids::epoch_rewards::ID => fault(data, |_: &EpochRewards| None),
        ids::last_restart_slot::ID => fault(data, |_: &LastRestartSlot| None),
        #[expect(deprecated, reason = "programs still read these sysvars")]
        ids::fees::ID => fault(data, |_: &Fees| None),
        #[expect(deprecated, reason = "programs still read these sysvars")]
        ids::recent_blockhashes::ID => fault(data, |_: &RecentBlockhashes| None),
        _ => None,
    }
}

/// Parses data as the VM does, and runs a further check.
fn fault<T: DeserializeOwned<Dst = T>>(
    data: &[u8],
    further: impl FnOnce(&T) -> Option<&'static str>,
) -> Option<&'static str> {
    match T::deserialize_from(data) {
        Ok(sysvar) => further(&sysvar),
        Err(_) => Some("its data does not parse"),
    }
}

fn epoch_schedule_fault(schedule: &EpochSchedule) -> Option<&'static str> {
    let slots = schedule.slots_per_epoch;
    if !(MINIMUM_SLOTS_PER_EPOCH..=SLOTS_PER_EPOCH_MAX).contains(&slots) {
        return Some("an epoch has from 32 to 10000000 slots");
    }
    let offset = schedule.leader_schedule_slot_offset;
    let expected = EpochSchedule::custom(slots, offset, schedule.warmup);
    (*schedule != expected).then_some("its first normal epoch does not follow from its slots")
}

/// Adds accounts to a new ledger and replaces existing ones, except fixed accounts and programs of `config`. True if
/// one of them replaced an account of `vm` that is not a sysvar: compiled code in the VM may then be outdated.
pub(crate) fn load_genesis_accounts(
    config: &Config,
    vm: &mut Vm,
    loader: &mut BulkLoader,
    accounts: &mut GenesisAccountSource<'_>,
) -> Result<bool, LocalnetError> {
    let mut chunk: HashMap<Pubkey, AccountSharedData> = HashMap::new();
    let mut chunk_bytes = 0;
    let mut is_outdated = false;
    let added = config.programs.iter().map(|program| program.program_id);
    let programs: HashSet<Pubkey> =
        added.flat_map(|program| [program, get_program_data_address(&program)]).collect();
    for genesis_account in accounts {
        let genesis_account = genesis_account.map_err(LocalnetError::Source)?;
        check_account(&genesis_account)?;
        let GenesisAccount { address, account } = genesis_account;
        if genesis::is_fixed(vm, &address) || programs.contains(&address) {
            continue;
        }
        if sysvars::ALL.contains(&address) {
            vm.put(address, &account);
        } else if vm.account(&address).is_some() {
            vm.put_as_data(address, &account);
            is_outdated = true;
        }
        chunk_bytes += account.data().len();
        // Of two accounts with the same address the later one counts.
        chunk.insert(address, account);
        if chunk.len() >= CHUNK_MAX || chunk_bytes >= CHUNK_BYTES_MAX {
            loader.put_over(std::mem::take(&mut chunk))?;
            chunk_bytes = 0;
        }
    }
    loader.put_over(chunk)?;
    Ok(is_outdated)
}

/// The lamports of all accounts. Fails above [`LAMPORTS_MAX`].
pub(crate) fn check_lamports(loader: &BulkLoader) -> Result<u64, GenesisError> {
    let lamports = loader.lamports();
    let max = LAMPORTS_MAX;
    match u64::try_from(lamports) {
        Ok(sum) if sum <= max => Ok(sum),
        _ => Err(GenesisError::Lamports { lamports, max }),
    }
}

/// Runs a step of the creation of a ledger. A panic, which is our bug or the VM's, becomes an error: the node reports
/// it and exits with 1.
pub(crate) fn catch_panic<T>(
    step: impl FnOnce() -> Result<T, LocalnetError>,
) -> Result<T, LocalnetError> {
    catch_unwind(AssertUnwindSafe(step))
        .unwrap_or_else(|panic| Err(GenesisError::Panicked(message(&*panic)).into()))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
