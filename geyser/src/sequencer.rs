//! From the validator's updates to the events of a ledger, in the order that clients rely on.
//!
//! In: updates in the order in which the validator's threads sent them. Out: [`LedgerEvent`]s: a bank's creation, its
//! writes and transactions as they happen, the frozen block with its entries once its metadata and all its transactions
//! are there, then confirmed and finalized. The server makes the remaining order of it: it tells processed with the block, each status
//! once, and the ancestors' first, those that the validator skipped included.
//! Shape: no clock, thread or socket. `handle` takes an update; `take_events` gives what follows from all so far.
//! Bounds: [`BANKS_MAX`] banks above the root and [`AWAITING_MAX`] statuses of banks that are not whole; beyond, the
//! caller must close all clients ([`Overflow`]) and the next created bank is a new beginning.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use chain_solana::{
    AccountUpdate, BankHashComponents, Block, BlockInfo, BlockhashQueue, ExecutedTransaction,
    LedgerEvent, RevertReason,
};
use ledger::{BlockId, Slot};
use solana::Entry;
use solana_hash::Hash;

use crate::counters::{Event, PluginCounters};
use crate::replica::{GeyserUpdate, ReplicaBlock, SlotStatus};

/// Banks above the root: almost seven minutes of 200 ms. Agave itself stops long before.
const BANKS_MAX: usize = 2_048;
/// Statuses that wait for a bank to be whole. Agave reports a status at most some slots before.
const AWAITING_MAX: usize = 512;
/// Writes of one event.
const WRITES_MAX: usize = 256;
/// Bytes of their data, after which the event is complete.
const WRITE_BYTES_MAX: usize = 1 << 20;

/// The validator does not complete its banks. All clients must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Overflow {
    #[error("{0} banks are above the root")]
    Banks(usize),
    #[error("{0} statuses wait for a bank that is not complete: slot {1}")]
    Statuses(usize, Slot),
}

/// A bank above the root, or the root.
struct Bank {
    parent: BlockId,
    transactions: Vec<Arc<ExecutedTransaction>>,
    /// By index. Of a slot that is replayed, the newest ones.
    entries: BTreeMap<u64, Entry>,
    meta: Option<Box<ReplicaBlock>>,
    /// The bank as a block, once it is whole.
    block: Option<Arc<Block>>,
}

/// A status of a bank above processed.
#[derive(Clone, Copy)]
enum Reached {
    Confirmed,
    Rooted,
}

impl Bank {
    /// Whether its metadata and all its transactions are there.
    fn is_executed(&self) -> bool {
        let count = self.transactions.len() as u64;
        self.meta.as_ref().is_some_and(|meta| meta.executed_transaction_count <= count)
    }

    fn has_entries(&self) -> bool {
        let count = self.entries.len() as u64;
        self.meta.as_ref().is_some_and(|meta| meta.entry_count <= count)
    }
}

/// Orders updates.
pub(crate) struct Sequencer {
    banks: BTreeMap<BlockId, Bank>,
    last_version: u64,
    root: Slot,
    /// Whether any entry came. A validator that started without the plugin sends none.
    has_entries: bool,
    awaiting: VecDeque<(BlockId, Reached)>,
    /// Writes of one bank that are not in an event yet.
    writes: Vec<AccountUpdate>,
    write_bytes: usize,
    /// Transactions of one bank that are not in an event yet.
    executed: Vec<Arc<ExecutedTransaction>>,
    /// The bank of both.
    batch_of: BlockId,
    events: Vec<LedgerEvent>,
}

impl Sequencer {
    pub(crate) fn new() -> Self {
        Self {
            banks: BTreeMap::new(),
            last_version: 0,
            root: 0,
            has_entries: false,
            awaiting: VecDeque::new(),
            writes: Vec::new(),
            write_bytes: 0,
            executed: Vec::new(),
            batch_of: BlockId { slot: 0, version: 0 },
            events: Vec::new(),
        }
    }

    /// Forgets all banks: updates were lost. Versions of banks rise further.
    pub(crate) fn reset(&mut self) {
        *self = Self { last_version: self.last_version, root: self.root, ..Self::new() };
    }

    /// The events that follow from all updates so far.
    pub(crate) fn take_events(&mut self) -> Vec<LedgerEvent> {
        self.flush();
        std::mem::take(&mut self.events)
    }

    /// Handles an update. `now_ms` is milliseconds since 1970.
    pub(crate) fn handle(
        &mut self,
        update: GeyserUpdate,
        now_ms: u64,
        counters: &PluginCounters,
    ) -> Result<(), Overflow> {
        match update {
            GeyserUpdate::Account { slot, update } => self.write(slot, update, counters),
            GeyserUpdate::Transaction(executed) => self.execute(executed, now_ms, counters)?,
            GeyserUpdate::BlockMeta(meta) => {
                let Some(id) = self.find_announced_bank(meta.slot, counters) else { return Ok(()) };
                if let Some(bank) = self.banks.get_mut(&id) {
                    bank.meta = Some(meta);
                }
                self.freeze_if_whole(id, now_ms, counters)?;
            }
            GeyserUpdate::Entry { slot, index, entry } => {
                self.has_entries = true;
                let Some(id) = self.find_announced_bank(slot, counters) else { return Ok(()) };
                if let Some(bank) = self.banks.get_mut(&id).filter(|bank| bank.block.is_none()) {
                    bank.entries.insert(index, entry);
                }
                self.freeze_if_whole(id, now_ms, counters)?;
            }
            GeyserUpdate::Slot { slot, parent, status } => {
                self.flush();
                match status {
                    SlotStatus::CreatedBank => self.create(slot, parent, now_ms)?,
                    SlotStatus::Confirmed => self.reach(slot, Reached::Confirmed, now_ms)?,
                    SlotStatus::Rooted => {
                        self.reach(slot, Reached::Rooted, now_ms)?;
                        // Entries that have not come until now do not come.
                        let bank = self.newest(slot);
                        bank.map_or(Ok(()), |id| self.freeze_if_executed(id, now_ms, counters))?;
                    }
                    SlotStatus::Dead(error) => self.kill(slot, error, now_ms),
                }
            }
        }
        Ok(())
    }

    /// The newest bank of a slot.
    fn newest(&self, slot: Slot) -> Option<BlockId> {
        let all = BlockId { slot, version: 0 }..=BlockId { slot, version: u64::MAX };
        self.banks.range(all).next_back().map(|(id, _)| *id)
    }

    /// Returns the newest announced bank of a slot. Counts an update that precedes the first announced bank.
    fn find_announced_bank(&self, slot: Slot, counters: &PluginCounters) -> Option<BlockId> {
        let newest = self.newest(slot);
        if newest.is_none() {
            counters.record(Event::Unannounced);
        }
        newest
    }

    fn create(&mut self, slot: Slot, parent: Option<Slot>, now_ms: u64) -> Result<(), Overflow> {
        if let Some(earlier) = self.newest(slot) {
            self.remove(earlier, RevertReason::Replaced, now_ms);
        }
        if self.banks.len() >= BANKS_MAX {
            return Err(Overflow::Banks(self.banks.len()));
        }
        self.last_version += 1;
        let block = BlockId { slot, version: self.last_version };
        let parent = parent.unwrap_or_else(|| slot.saturating_sub(1));
        let unknown = BlockId { slot: parent, version: 0 };
        let parent = self.newest(parent).unwrap_or(unknown);
        let bank = Bank {
            parent,
            transactions: Vec::new(),
            entries: BTreeMap::new(),
            meta: None,
            block: None,
        };
        self.banks.insert(block, bank);
        let root = self.root;
        self.events.push(LedgerEvent::BankCreated { block, parent, root, timestamp_ms: now_ms });
        Ok(())
    }

    fn write(&mut self, slot: Slot, update: AccountUpdate, counters: &PluginCounters) {
        let Some(id) = self.find_announced_bank(slot, counters) else { return };
        if self.banks.get(&id).is_some_and(|bank| bank.block.is_some()) {
            counters.record(Event::LateWrite);
        }
        if id != self.batch_of || !self.executed.is_empty() {
            self.flush();
        }
        self.batch_of = id;
        self.write_bytes += solana_account::ReadableAccount::data(&update.account.0).len();
        self.writes.push(update);
        if self.writes.len() >= WRITES_MAX || self.write_bytes >= WRITE_BYTES_MAX {
            self.flush();
        }
    }

    fn execute(
        &mut self,
        executed: Arc<ExecutedTransaction>,
        now_ms: u64,
        counters: &PluginCounters,
    ) -> Result<(), Overflow> {
        let Some(id) = self.find_announced_bank(executed.slot, counters) else { return Ok(()) };
        if id != self.batch_of || !self.writes.is_empty() {
            self.flush();
        }
        self.batch_of = id;
        if let Some(bank) = self.banks.get_mut(&id) {
            bank.transactions.push(Arc::clone(&executed));
        }
        self.executed.push(executed);
        if self.executed.len() >= WRITES_MAX {
            self.flush();
        }
        self.freeze_if_whole(id, now_ms, counters)
    }

    /// Makes events of the writes and transactions that wait. Only one kind does.
    fn flush(&mut self) {
        let block = self.batch_of;
        if !self.writes.is_empty() {
            let updates = std::mem::take(&mut self.writes).into();
            self.events.push(LedgerEvent::AccountsWritten { block, updates });
            self.write_bytes = 0;
        }
        if !self.executed.is_empty() {
            let executed = std::mem::take(&mut self.executed).into();
            self.events.push(LedgerEvent::Executed(executed));
        }
    }

    fn freeze_if_whole(
        &mut self,
        id: BlockId,
        now_ms: u64,
        counters: &PluginCounters,
    ) -> Result<(), Overflow> {
        match self.banks.get(&id) {
            Some(bank) if self.has_entries && !bank.has_entries() => Ok(()),
            _ => self.freeze_if_executed(id, now_ms, counters),
        }
    }

    /// Freezes a bank that has everything but perhaps its entries.
    fn freeze_if_executed(
        &mut self,
        id: BlockId,
        now_ms: u64,
        counters: &PluginCounters,
    ) -> Result<(), Overflow> {
        let Some(bank) = self.banks.get_mut(&id) else { return Ok(()) };
        if !bank.is_executed() || bank.block.is_some() {
            return Ok(());
        }
        let entry_count = bank.meta.as_ref().map_or(0, |meta| meta.entry_count);
        let transactions = std::mem::take(&mut bank.transactions);
        let entries = std::mem::take(&mut bank.entries);
        let content = (transactions, entries);
        let (block, has_holes) = new_block(id, bank.parent, bank.meta.take(), content);
        if block.entries.is_empty() && entry_count > 0 {
            counters.record(Event::WithoutEntries);
        }
        if has_holes {
            counters.record(Event::IndexHole);
            tracing::error!(slot = id.slot, "the transactions of a bank are not numbered from 0");
        }
        bank.block = Some(Arc::clone(&block));
        self.flush();
        let info = new_block_info(&block);
        self.events.push(LedgerEvent::Frozen { block, info, timestamp_ms: now_ms });
        self.take_reached(now_ms)
    }

    /// A bank gets to a commitment. Agave may say so before the bank is whole.
    fn reach(&mut self, slot: Slot, reached: Reached, now_ms: u64) -> Result<(), Overflow> {
        // Without a bank, the slot is older than the plugin.
        let Some(id) = self.newest(slot) else { return Ok(()) };
        self.awaiting.push_back((id, reached));
        self.take_reached(now_ms)
    }

    /// Sends the statuses up to the first whose bank is not whole.
    fn take_reached(&mut self, now_ms: u64) -> Result<(), Overflow> {
        while let Some((id, reached)) = self.awaiting.front().copied() {
            let block = match self.banks.get(&id) {
                Some(Bank { block: Some(block), .. }) => Arc::clone(block),
                Some(Bank { block: None, .. }) => break,
                // It was replaced, or the root has passed it.
                None => {
                    self.awaiting.pop_front();
                    continue;
                }
            };
            self.awaiting.pop_front();
            let timestamp_ms = now_ms;
            self.events.push(match reached {
                Reached::Confirmed => LedgerEvent::Confirmed { block, timestamp_ms },
                Reached::Rooted => LedgerEvent::Rooted { block, timestamp_ms },
            });
            if matches!(reached, Reached::Rooted) {
                self.root = id.slot;
                self.banks = self.banks.split_off(&id);
            }
        }
        match self.awaiting.front() {
            Some((id, _)) if self.awaiting.len() > AWAITING_MAX => {
                Err(Overflow::Statuses(self.awaiting.len(), id.slot))
            }
            _ => Ok(()),
        }
    }

    fn kill(&mut self, slot: Slot, error: String, now_ms: u64) {
        if let Some(id) = self.newest(slot) {
            self.remove(id, RevertReason::Dead { error }, now_ms);
        }
    }

    fn remove(&mut self, id: BlockId, reason: RevertReason, now_ms: u64) {
        self.flush();
        let Some(bank) = self.banks.remove(&id) else { return };
        let block = bank.block.unwrap_or_else(|| {
            let content = (bank.transactions, bank.entries);
            let (block, _) = new_block(id, bank.parent, bank.meta, content);
            block
        });
        self.events.push(LedgerEvent::Reverted { block, reason, timestamp_ms: now_ms });
    }
}

/// A block, and whether the numbers of its transactions have holes. gRPC sends no bank hash and no count of all
/// transactions, and gets the accounts as updates: these fields stay empty. So do the entries if they are not all there.
fn new_block(
    id: BlockId,
    parent: BlockId,
    meta: Option<Box<ReplicaBlock>>,
    (mut transactions, entries): (Vec<Arc<ExecutedTransaction>>, BTreeMap<u64, Entry>),
) -> (Arc<Block>, bool) {
    transactions.sort_unstable_by_key(|executed| executed.index);
    let has_holes =
        transactions.iter().zip(0_u32..).any(|(executed, index)| executed.index != index);
    let mut height = 0;
    let mut time = 0;
    let mut hashes = [Hash::default(); 2];
    let mut rewards = Vec::new();
    let mut reward_partitions = None;
    let mut entry_count = 0;
    let mut parent = parent;
    if let Some(meta) = meta {
        (height, time) = (meta.block_height, meta.block_time);
        hashes = [meta.blockhash, meta.parent_blockhash];
        rewards = meta.rewards.rewards;
        reward_partitions = meta.rewards.num_partitions;
        entry_count = meta.entry_count;
        if parent.slot != meta.parent_slot {
            parent = BlockId { slot: meta.parent_slot, version: 0 };
        }
    }
    let [blockhash, previous_blockhash] = hashes;
    let mut entries: Vec<Entry> = entries.range(..entry_count).map(|(_, entry)| *entry).collect();
    if !Entry::are_whole(&entries, transactions.len() as u64, &blockhash) {
        entries.clear();
    }
    let block = Block {
        id,
        parent,
        block_height: height,
        blockhash,
        previous_blockhash,
        bank_hash: Hash::default(),
        hash_components: BankHashComponents::default(),
        block_time: time,
        transaction_count: 0,
        transactions,
        rewards,
        reward_partitions,
        entries,
        writes: Vec::new(),
    };
    (Arc::new(block), has_holes)
}

/// The properties of a block, as far as Agave tells them to a plugin. The sum of lamports is unknown, and stays 0: gRPC
/// sends none of these properties.
fn new_block_info(block: &Block) -> Arc<BlockInfo> {
    Arc::new(BlockInfo {
        block: block.id,
        parent: block.parent,
        block_height: block.block_height,
        blockhashes: Arc::new(BlockhashQueue::new(block.blockhash)),
        transaction_count: block.transaction_count,
        unix_timestamp: block.block_time,
        capitalization: 0,
        bank_hash: block.bank_hash,
        hash_components: block.hash_components,
        complete: true,
    })
}
