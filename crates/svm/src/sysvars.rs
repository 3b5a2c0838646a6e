//! Sysvars: the chain's state for programs, updated with every slot.

use chain_solana::BlockhashQueue;
use ledger::Slot;
use solana_account::{AccountSharedData, ReadableAccount, WritableAccount};
use solana_clock::Clock;
use solana_epoch_rewards::EpochRewards;
use solana_epoch_schedule::EpochSchedule;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar as ids;
use solana_slot_hashes::SlotHashes;
use solana_slot_history::SlotHistory;
use solana_stake_interface::stake_history::{StakeHistory, StakeHistoryEntry};
#[expect(deprecated, reason = "programs still read this sysvar, so the ledger still has it")]
use solana_sysvar::recent_blockhashes::{IterItem, RecentBlockhashes};

use crate::signature_fee::LAMPORTS_PER_SIGNATURE;
use crate::vm::Vm;

/// Blockhashes in the sysvar: half of those in the queue.
const RECENT_BLOCKHASHES: usize = 150;
/// Bytes of the full sysvar: a count, then a hash and a fee for each entry.
const RECENT_BLOCKHASHES_BYTES: usize = 8 + RECENT_BLOCKHASHES * 40;

/// The rent epoch of accounts that the runtime creates.
const RENT_EPOCH_AT_GENESIS: u64 = 0;

/// Every sysvar that has an account.
pub const ALL: [Pubkey; 10] = [
    ids::clock::ID,
    ids::epoch_rewards::ID,
    ids::epoch_schedule::ID,
    ids::fees::ID,
    ids::last_restart_slot::ID,
    ids::recent_blockhashes::ID,
    ids::rent::ID,
    ids::slot_hashes::ID,
    ids::slot_history::ID,
    ids::stake_history::ID,
];

/// The inputs of the sysvars of a new block.
pub struct SlotContext<'a> {
    /// The slot of the new block.
    pub slot: Slot,
    /// The slot of its parent block.
    pub parent_slot: Slot,
    /// The bank hash of the parent.
    pub parent_hash: Hash,
    /// The blockhashes that transactions of the block may name.
    pub blockhashes: &'a BlockhashQueue,
    /// Time of the block in seconds since 1970.
    pub unix_timestamp: i64,
    /// The epochs that ended since the parent, each with its stake, the oldest first. Empty if this slot is in the same
    /// epoch as its parent; several if slots were passed over.
    pub ended_epochs: &'a [(u64, StakeHistoryEntry)],
}

/// Updates the sysvars for a new slot. Returns the changed accounts.
pub fn start_slot(vm: &mut Vm, context: &SlotContext<'_>) -> Vec<Pubkey> {
    let rent_epoch = rent_epoch(vm, &ids::clock::ID);
    let mut hashes: SlotHashes = vm.svm().get_sysvar();
    hashes.add(context.parent_slot, context.parent_hash);
    vm.svm_mut().set_sysvar(&hashes);

    let mut history: SlotHistory = vm.svm().get_sysvar();
    history.add(context.slot);
    vm.svm_mut().set_sysvar(&history);

    set_recent_blockhashes(vm, context.blockhashes);

    let mut changed =
        vec![ids::slot_hashes::ID, ids::slot_history::ID, ids::recent_blockhashes::ID];
    if !context.ended_epochs.is_empty() {
        let mut history = stake_history(vm);
        for (epoch, entry) in context.ended_epochs {
            history.add(*epoch, entry.clone());
        }
        set_stake_history(vm, &history);
        changed.push(ids::stake_history::ID);
    }

    let before: Clock = vm.svm().get_sysvar();
    let schedule: EpochSchedule = vm.svm().get_sysvar();
    let epoch = schedule.get_epoch(context.slot);
    let starts_epoch = epoch != before.epoch;
    let unix_timestamp = context.unix_timestamp;
    vm.svm_mut().set_sysvar(&Clock {
        slot: context.slot,
        epoch_start_timestamp: if starts_epoch {
            unix_timestamp
        } else {
            before.epoch_start_timestamp
        },
        epoch,
        leader_schedule_epoch: schedule.get_leader_schedule_epoch(context.slot),
        unix_timestamp,
    });
    changed.push(ids::clock::ID);
    for key in &changed {
        fund(vm, key, rent_epoch);
    }
    changed
}

/// Updates only the time. Returns the changed account, if it is another time.
pub fn set_time(vm: &mut Vm, unix_timestamp: i64) -> Option<Pubkey> {
    let mut clock: Clock = vm.svm().get_sysvar();
    if clock.unix_timestamp == unix_timestamp {
        return None;
    }
    clock.unix_timestamp = unix_timestamp;
    clock.epoch_start_timestamp = clock.epoch_start_timestamp.min(unix_timestamp);
    let rent_epoch = rent_epoch(vm, &ids::clock::ID);
    vm.svm_mut().set_sysvar(&clock);
    fund(vm, &ids::clock::ID, rent_epoch);
    Some(ids::clock::ID)
}

/// Sets the sysvar with the progress of an epoch's rewards.
pub fn set_epoch_rewards(vm: &mut Vm, rewards: &EpochRewards) {
    let rent_epoch = rent_epoch(vm, &ids::epoch_rewards::ID);
    vm.svm_mut().set_sysvar(rewards);
    fund(vm, &ids::epoch_rewards::ID, rent_epoch);
}

/// Returns the stake history sysvar.
pub fn stake_history(vm: &Vm) -> StakeHistory {
    vm.account(&ids::stake_history::ID)
        .and_then(|account| bincode::deserialize(account.data()).ok())
        .unwrap_or_default()
}

/// Writes the stake history sysvar.
pub fn set_stake_history(vm: &mut Vm, history: &StakeHistory) {
    let mut data = vec![0; solana_stake_interface::stake_history::SIZE];
    if let Err(err) = bincode::serialize_into(&mut data[..], history) {
        tracing::error!(%err, "the stake history's account is too small for its entries");
        return;
    }
    let lamports = vm.svm().minimum_balance_for_rent_exemption(data.len());
    let mut account = AccountSharedData::new(lamports, 0, &ids::ID);
    account.set_data_from_slice(&data);
    vm.put(ids::stake_history::ID, &account);
}

/// The inputs of the sysvars of genesis.
pub struct GenesisContext<'a> {
    /// The slot of the first block.
    pub slot: Slot,
    /// Time of genesis in seconds since 1970.
    pub unix_timestamp: i64,
    /// The time at which its epoch started.
    pub epoch_start_timestamp: i64,
    /// The epoch schedule of the ledger.
    pub schedule: &'a EpochSchedule,
    /// The queue with the genesis hash.
    pub blockhashes: &'a BlockhashQueue,
    /// The stakes of the epochs before.
    pub stake_history: &'a StakeHistory,
}

/// Sets the sysvars of genesis.
pub fn genesis(vm: &mut Vm, context: &GenesisContext<'_>) {
    let GenesisContext { slot, unix_timestamp, epoch_start_timestamp, schedule, .. } = *context;
    vm.svm_mut().set_sysvar(schedule);
    vm.svm_mut().set_sysvar(&SlotHashes::new(&[]));
    let mut history = SlotHistory::default();
    if slot > 0 {
        history.add(slot);
    }
    vm.svm_mut().set_sysvar(&history);
    vm.svm_mut().set_sysvar(&Clock {
        slot,
        epoch_start_timestamp,
        epoch: schedule.get_epoch(slot),
        leader_schedule_epoch: schedule.get_leader_schedule_epoch(slot),
        unix_timestamp,
    });
    set_recent_blockhashes(vm, context.blockhashes);
    set_stake_history(vm, context.stake_history);
    let sysvars: Vec<Pubkey> = vm
        .accounts()
        .filter(|(_, account)| account.owner() == &ids::ID)
        .map(|(key, _)| *key)
        .collect();
    for key in &sysvars {
        fund(vm, key, RENT_EPOCH_AT_GENESIS);
    }
}

#[expect(deprecated, reason = "programs still read this sysvar, so the ledger still has it")]
fn set_recent_blockhashes(vm: &mut Vm, blockhashes: &BlockhashQueue) {
    let newest_first = blockhashes.iter().rev().take(RECENT_BLOCKHASHES).enumerate();
    let sysvar: RecentBlockhashes = newest_first
        .map(|(age, hash)| IterItem(u64::MAX - age as u64, hash, LAMPORTS_PER_SIGNATURE))
        .collect();
    vm.svm_mut().set_sysvar(&sysvar);
}

/// Returns the rent epoch of a sysvar, which does not change.
fn rent_epoch(vm: &Vm, key: &Pubkey) -> u64 {
    vm.account(key).map_or(RENT_EPOCH_AT_GENESIS, ReadableAccount::rent_epoch)
}

/// Sets the size and the lamports of a sysvar as on a cluster. LiteSVM sets the size of its present entries, and one
/// lamport.
fn fund(vm: &mut Vm, key: &Pubkey, rent_epoch: u64) {
    let Some(account) = vm.account(key) else { return };
    let mut account: AccountSharedData = account.clone();
    if *key == ids::recent_blockhashes::ID {
        account.resize(RECENT_BLOCKHASHES_BYTES, 0);
    }
    let lamports = vm.svm().minimum_balance_for_rent_exemption(account.data().len());
    account.set_lamports(lamports);
    account.set_rent_epoch(rent_epoch);
    vm.svm_mut().set_account_no_checks(*key, account);
}
