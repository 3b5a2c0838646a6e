//! A block of the log becomes a block of the ledger: hidden, written, compared with its record, and frozen.
//!
//! Input: a whole record. Output: a complete block of the ledger, which is frozen in history. No tip moves here, except
//! to a block that the ingester has jumped to.
//! Invariant: a block whose sum or bank hash is not that of its record leaves nothing behind.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use chain_solana::wire::{BlockKey, BlockRecord, WireAccount};
use chain_solana::{
    AccountUpdate, Block, BlockInfo, BlockhashQueue, LedgerEvent, RECENT_BLOCKHASHES_MAX,
};
use follow::bank::{Hashing, PreparedBank, StateAt};
use lattice::{BankHashInputs, HardFork, LtHash, crossed_hard_forks};
use ledger::{BlockId, Commitment};
use solana::Account;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_hash::Hash;
use solana_sdk_ids::sysvar;

use super::{Frozen, UNROOTED_MAX, WriteError, Writer, block_key, ledger_error, named_block};
use crate::clock::unix_ms;
use crate::error::ReplicaError;
use crate::fault::Fault;
use crate::input_queue::BlockInput;
use crate::known_blocks::Resolved;
use crate::log_position::RecordPosition;
use crate::snapshot_bank::bank_fields;

/// Bits of a write version that number the writes of one block. The record's number is above them.
const WRITE_INDEX_BITS: u32 = 22;
/// Bytes of an entry of the RecentBlockhashes sysvar: a hash, and the fee of a signature.
const RECENT_BLOCKHASH_BYTES: usize = 40;

impl Writer {
    pub(super) fn write_block(&mut self, input: BlockInput) -> Result<(), WriteError> {
        let BlockInput { record, position, votes } = input;
        let Some(parent) = self.find_parent(&record, position)? else { return Ok(()) };
        let Some(frozen) = self.banks.get(&parent) else { return Ok(()) };
        let parent_info = Arc::clone(&frozen.info);
        let id = BlockId { slot: record.block.id.slot, version: record.link.number };
        let made_at_ms = record.made_at_ms;
        let opened = PreparedBank::open(&mut self.ledger, id, parent, Arc::clone(&parent_info));
        let mut prepared = opened.map_err(|err| ledger_error(id, err))?;
        let needs_updates = self.output.sinks.iter().any(|sink| sink.needs_account_updates());
        let updates = needs_updates.then(|| account_updates(record.link.number, &record.accounts));
        let is_jump = record.is_jump;
        let lt_hash = match self.write_accounts(&mut prepared, &record) {
            Ok(lt_hash) => lt_hash,
            Err(err) => {
                // Only the root could not be dropped.
                let _ = self.ledger.drop_fork(id);
                return Err(err);
            }
        };
        let mut info = record.block_info(&parent_info.blockhashes);
        if is_jump && let Some(queue) = recent_blockhashes(&prepared, record.block.blockhash) {
            info.blockhashes = Arc::new(queue);
        }
        let info = Arc::new(BlockInfo { block: id, parent, ..info });
        self.ledger.complete(id, Arc::clone(&info)).map_err(|err| ledger_error(id, err))?;
        let changes = prepared.cluster_changes();
        let BlockRecord { block, footer, .. } = record;
        let block = Arc::new(Block { id, parent, writes: prepared.into_writes(), ..block });
        let frozen = Frozen {
            block: Arc::clone(&block),
            info: Arc::clone(&info),
            lt_hash,
            position,
            votes,
            is_executed: is_jump,
            is_confirmed: false,
            level: self.level,
        };
        self.banks.insert(id, frozen);
        self.known.insert(position.number, block_key(&block), named_block(&block));
        self.status.blocks.fetch_add(1, Ordering::Relaxed);
        self.status.record_delay(unix_ms().saturating_sub(made_at_ms));
        if is_jump {
            self.known.skip_names(id.slot);
            return self.show_jumped(&block, info);
        }
        let parent_state = StateAt { ledger: &self.ledger, block: parent };
        self.cluster.add_bank(id, parent, &changes, &parent_state);
        self.history.record_block(&block);
        let root = self.ledger.root().slot;
        let timestamp_ms = made_at_ms;
        let unsent = &mut self.output.unsent;
        unsent.push(LedgerEvent::BankCreated { block: id, parent, root, timestamp_ms });
        if let Some(updates) = updates {
            unsent.push(LedgerEvent::AccountsWritten { block: id, updates });
        }
        if let Some(footer) = footer {
            unsent.push(LedgerEvent::BlockFooter { block: id, footer });
        }
        unsent.push(LedgerEvent::Frozen { block, info, timestamp_ms });
        Ok(())
    }

    /// Finds the parent of a block. Returns `None` if the block is of a fork that is not here, or is here already.
    fn find_parent(
        &mut self,
        record: &BlockRecord,
        position: RecordPosition,
    ) -> Result<Option<BlockId>, WriteError> {
        let number = record.link.number;
        let slot = record.block.id.slot;
        let key = BlockKey { slot, blockhash: record.block.blockhash };
        let known = self.known.find(&key);
        if let Some(known) = known.filter(|known| known.bank_hash == record.block.bank_hash) {
            self.known.add_number(number, known.id);
            self.set_position(known.id, position);
            return Ok(None);
        }
        let wrong_parent = Fault::Parent { slot, number, parent: record.parent_number };
        let parent = match self.known.resolve(record.parent_number) {
            Resolved::Block(id) => id,
            Resolved::Skipped | Resolved::Older => {
                self.skip(number);
                return Ok(None);
            }
            Resolved::Unknown => return Err(wrong_parent.into()),
        };
        let Some(frozen) = self.banks.get(&parent) else {
            // The parent is below the root.
            self.skip(number);
            return Ok(None);
        };
        let is_parent = record.block.parent.slot == parent.slot
            && parent.slot < slot
            && record.parent_blockhash == frozen.block.blockhash;
        if !is_parent {
            return Err(wrong_parent.into());
        }
        let confirmed = self.ledger.tip(Commitment::Confirmed);
        if record.is_jump && !self.is_on_chain(confirmed, parent) {
            return Err(Fault::Jump { slot, number, confirmed }.into());
        }
        check_write_versions(number, record.accounts.len())?;
        if !record.block.has_bank_hash() {
            return Err(Fault::NoSum { slot }.into());
        }
        let blocks = self.banks.len();
        if blocks > UNROOTED_MAX {
            return Err(Fault::Unrooted { blocks, limit: UNROOTED_MAX }.into());
        }
        Ok(Some(parent))
    }

    fn skip(&mut self, number: u64) {
        self.known.skip(number);
        self.status.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes the accounts of a block, and compares what follows with the record. Returns the sum over all accounts.
    fn write_accounts(
        &mut self,
        prepared: &mut PreparedBank,
        record: &BlockRecord,
    ) -> Result<LtHash, WriteError> {
        let status = Arc::clone(&self.status);
        let hashing = Hashing { nanos: &status.hash_nanos, is_open: false };
        let writes = record.accounts.iter().map(|WireAccount { pubkey, account }| {
            (*pubkey, account.clone().unwrap_or_else(closed_account))
        });
        let written = prepared.write(&mut self.ledger, writes, Some(hashing));
        written.map_err(|err| WriteError::Fatal(ReplicaError::Bank(err)))?;
        let Some(parent) = self.banks.get(&prepared.parent()) else {
            let slot = record.block.id.slot;
            let number = record.link.number;
            return Err(Fault::Parent { slot, number, parent: record.parent_number }.into());
        };
        let lt_hash = prepared.change().add_to(&parent.lt_hash);
        check_sum(record, &lt_hash)?;
        if !record.is_jump {
            let hard_forks = with_restart(&self.hard_forks, prepared);
            self.hard_forks = check_bank_hash(record, &parent.block, &lt_hash, hard_forks)?;
        }
        Ok(lt_hash)
    }

    /// Shows a block that the ingester has jumped to: its transactions are unknown, and the cluster is read again from
    /// its accounts. Its tips move by their marks.
    fn show_jumped(&mut self, block: &Arc<Block>, info: Arc<BlockInfo>) -> Result<(), WriteError> {
        let id = block.id;
        self.history.record_jump(block);
        self.history.set_tip(id);
        // It descends from the confirmed block, or it was refused.
        self.ledger.set_tip(id).map_err(|err| ledger_error(id, err))?;
        let epoch_stakes = self.cluster.epoch_stakes().cloned().collect();
        let fields = bank_fields(&self.chain, block, &info, epoch_stakes);
        self.output.unsent.push(LedgerEvent::Jumped { block: Arc::clone(block), info });
        self.publish();
        self.cluster.jump(&fields, &self.reader.view(Commitment::Processed));
        self.status.jumps.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Fails if the write versions of a block would not be above those of all blocks before it.
fn check_write_versions(number: u64, accounts: usize) -> Result<(), Fault> {
    let is_number_low = number < 1 << (u64::BITS - WRITE_INDEX_BITS);
    let are_writes_few = accounts as u64 <= 1 << WRITE_INDEX_BITS;
    match is_number_low && are_writes_few {
        true => Ok(()),
        false => Err(Fault::WriteVersions { number, accounts }),
    }
}

/// Compares the sum over all accounts with that of the record.
fn check_sum(record: &BlockRecord, lt_hash: &LtHash) -> Result<(), Fault> {
    let computed = Hash::new_from_array(lt_hash.checksum());
    let recorded = record.block.hash_components.lt_checksum;
    let slot = record.block.id.slot;
    let number = record.link.number;
    match computed == recorded {
        true => Ok(()),
        false => Err(Fault::Sum { slot, number, computed, recorded }),
    }
}

/// Computes the bank hash of a block, and compares it with that of its record. A cluster may restart twice at a slot,
/// which no account says. Returns the hard forks with that count.
fn check_bank_hash(
    record: &BlockRecord,
    parent: &Block,
    lt_hash: &LtHash,
    mut hard_forks: Vec<HardFork>,
) -> Result<Vec<HardFork>, Fault> {
    let block = &record.block;
    let slot = block.id.slot;
    let crossed = crossed_hard_forks(&hard_forks, parent.id.slot, slot);
    let bank_hash = |hard_forks: u64| {
        let inputs = BankHashInputs {
            parent_hash: parent.bank_hash.to_bytes(),
            signature_count: block.hash_components.signature_count,
            last_blockhash: block.blockhash.to_bytes(),
            lt_hash,
            hard_forks,
        };
        Hash::new_from_array(inputs.hash())
    };
    let computed = bank_hash(crossed);
    let recorded = block.bank_hash;
    if computed == recorded {
        return Ok(hard_forks);
    }
    let is_crossed = |fork: &&mut HardFork| parent.id.slot < fork.slot && fork.slot <= slot;
    if let Some(fork) = hard_forks.iter_mut().find(is_crossed)
        && bank_hash(crossed + 1) == recorded
    {
        fork.count += 1;
        return Ok(hard_forks);
    }
    Err(Fault::BankHash { slot, number: record.link.number, computed, recorded })
}

/// The hard forks, with the restart that the block is the first to follow.
fn with_restart(hard_forks: &[HardFork], prepared: &PreparedBank) -> Vec<HardFork> {
    let mut hard_forks = hard_forks.to_vec();
    if let Some(slot) = prepared.restart_slot()
        && !hard_forks.iter().any(|fork| fork.slot == slot)
    {
        hard_forks.push(HardFork { slot, count: 1 });
    }
    hard_forks
}

pub(super) fn closed_account() -> Account {
    Account(AccountSharedData::default())
}

/// The account writes of a block for the sinks that need them. Their versions are equal on all replicas: the number of
/// the record, and the position in it.
fn account_updates(number: u64, accounts: &[WireAccount]) -> Arc<[AccountUpdate]> {
    let updates = accounts.iter().enumerate().map(|(index, WireAccount { pubkey, account })| {
        let account = account.clone().unwrap_or_else(closed_account);
        AccountUpdate {
            pubkey: *pubkey,
            account: Arc::new(account),
            write_version: (number << WRITE_INDEX_BITS) + index as u64,
            signature: None,
            executed: None,
        }
    });
    updates.collect()
}

/// Reads the hashes of the RecentBlockhashes sysvar, and adds the block's own. The sysvar has the newest one first.
fn recent_blockhashes(prepared: &PreparedBank, blockhash: Hash) -> Option<BlockhashQueue> {
    let account = prepared.account(&sysvar::recent_blockhashes::ID)?;
    let entries = account.0.data().get(size_of::<u64>()..)?;
    let hashes = entries.chunks_exact(RECENT_BLOCKHASH_BYTES).take(RECENT_BLOCKHASHES_MAX);
    let hashes = hashes.filter_map(|entry| entry.first_chunk().copied()).map(Hash::new_from_array);
    let mut hashes: Vec<Hash> = hashes.filter(|hash| *hash != Hash::default()).collect();
    hashes.reverse();
    if hashes.last() != Some(&blockhash) {
        hashes.push(blockhash);
    }
    BlockhashQueue::restore(hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_write_versions_cannot_hold_is_refused() {
        // The record numbers of a generation start at its number, shifted by 32 bits.
        assert!(check_write_versions((1_023 << 32) + 7, 1 << 22).is_ok());
        for (number, accounts) in [(1_024 << 32, 1), (7, (1 << 22) + 1)] {
            let fault = check_write_versions(number, accounts).expect_err("a fault");
            assert_eq!(fault.name(), "write_versions");
        }
    }
}
