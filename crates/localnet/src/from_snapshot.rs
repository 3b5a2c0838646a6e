//! A ledger that goes on from a snapshot of another: its accounts, and the block they are as of.
//!
//! It is a ledger of its own: its genesis hash and its validator are new, and features are those of
//! every ledger of ours. Of the other ledger's blockhashes only the newest is taken: which
//! transactions named the older ones is not known here, and none may be executed twice.

use std::sync::Arc;

use chain::{Bank, Block, BlockhashQueue};
use ledger::BlockId;
use snapshot::{BankFields, Snapshot};
use solana_clock::Clock;
use solana_sdk_ids::sysvar as ids;

use crate::config::Config;
use crate::genesis::{self, GenesisError};
use crate::keys::NodeKeys;
use crate::vm::Vm;

/// Sysvars that every next block follows from.
const NEEDED: &[(solana_pubkey::Pubkey, &str)] = &[
    (ids::clock::ID, "clock sysvar"),
    (ids::epoch_schedule::ID, "epoch schedule sysvar"),
    (ids::rent::ID, "rent sysvar"),
    (ids::slot_hashes::ID, "slot hashes sysvar"),
    (ids::slot_history::ID, "slot history sysvar"),
];

/// A VM with everything of the snapshot, and the node's own accounts on top.
pub(crate) fn build(
    config: &Config,
    keys: &NodeKeys,
    snapshot: Snapshot,
) -> Result<Vm, GenesisError> {
    let slot = snapshot.bank.slot;
    let mut vm =
        Vm::adopt(snapshot.into_accounts()).map_err(|err| GenesisError::Vm(err.to_string()))?;
    for (key, what) in NEEDED {
        if vm.account(key).is_none() {
            return Err(GenesisError::Incomplete(what));
        }
    }
    let clock: Clock = vm.svm().get_sysvar();
    if clock.slot != slot {
        return Err(GenesisError::Incomplete("clock sysvar: it shows another slot"));
    }
    genesis::add_own(&mut vm, config, keys, clock.unix_timestamp)?;
    Ok(vm)
}

/// The block that the snapshot was taken at, without its transactions, and its bank.
pub(crate) fn first_block(fields: &BankFields, vm: &Vm, capitalization: u64) -> (Block, Bank) {
    let clock: Clock = vm.svm().get_sysvar();
    let newest_first = || fields.blockhashes.iter().rev().copied();
    let blockhash = newest_first().next().unwrap_or_default();
    let block = Block {
        id: BlockId { slot: fields.slot, bank: 0 },
        parent_slot: fields.parent_slot,
        block_height: fields.block_height,
        blockhash,
        previous_blockhash: newest_first().nth(1).unwrap_or_default(),
        bank_hash: fields.bank_hash,
        block_time: clock.unix_timestamp,
        transaction_count: fields.transaction_count,
        transactions: Vec::new(),
        writes: Vec::new(),
    };
    let bank = Bank {
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
