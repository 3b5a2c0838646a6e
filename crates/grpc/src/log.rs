//! What was published in the last slots, for clients that start in the past, and for banks that are not final yet.
//!
//! Shape: entries in the order of publication, each with a position. The content of a bank that became confirmed or
//! finalized is one entry: its updates are those of the bank.
//! Bounds: slots and bytes. The oldest slots go first; a slot that was removed cannot be replayed or released any more.
//! Memory: updates share accounts with the ledger's state until their slot is the root, and transactions with history.
//! [`Log::own_bytes`] leaves out what is shared, [`Log::bytes`] has all.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use ledger::{BlockId, Commitment, Slot};

use crate::update::{UPDATE_BYTES, Update};

/// Entries that one read passes over: some ten microseconds.
const SCAN_MAX: usize = 4_096;

/// An entry of the log.
pub(crate) enum LogEntry {
    /// An update as it happened.
    Update(Arc<Update>),
    /// The content of a bank, at a commitment above processed.
    Released(Commitment, BlockId),
}

/// The content of a frozen bank: the last write of each account, the transactions, the block.
pub(crate) type BankContent = Arc<[Arc<Update>]>;

/// Where a client is in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    /// The position of the next entry.
    pub(crate) position: u64,
    /// The next update of a released entry.
    pub(crate) item: usize,
    /// Updates of earlier slots are left out.
    pub(crate) from_slot: Slot,
}

/// A slot in the log that is whole.
struct SlotStart {
    block: BlockId,
    position: u64,
    /// Bytes of its accounts, once the ledger's state has them no more.
    rooted_bytes: usize,
}

/// The log.
pub(crate) struct Log {
    slots_max: u64,
    bytes_max: usize,
    entries: VecDeque<(LogEntry, usize)>,
    /// The position of the first entry.
    first: u64,
    bytes: usize,
    /// Bytes of accounts that are only here.
    rooted_bytes: usize,
    starts: VecDeque<SlotStart>,
    contents: HashMap<BlockId, BankContent>,
    /// Whether nothing was removed, and the slot after which everything is published.
    complete_after: Option<Slot>,
}

impl Log {
    /// A log of everything after the slot `root`, which is `None` if the first slot is not known yet.
    pub(crate) fn new(slots_max: u64, bytes_max: usize, root: Option<Slot>) -> Self {
        Self {
            slots_max,
            bytes_max,
            complete_after: root,
            entries: VecDeque::new(),
            first: 0,
            bytes: 0,
            rooted_bytes: 0,
            starts: VecDeque::new(),
            contents: HashMap::new(),
        }
    }

    /// Starts a bank. Its updates follow.
    pub(crate) fn start(&mut self, block: BlockId) {
        self.starts.push_back(SlotStart { block, position: self.end(), rooted_bytes: 0 });
        while self
            .starts
            .front()
            .is_some_and(|start| start.block.slot.saturating_add(self.slots_max) <= block.slot)
        {
            self.remove_oldest();
        }
    }

    pub(crate) fn push(&mut self, update: &Arc<Update>) {
        self.add(LogEntry::Update(Arc::clone(update)), update.bytes());
    }

    /// Stores the content of a frozen bank, if the log still has all of it.
    pub(crate) fn set_content(&mut self, block: BlockId, content: BankContent) {
        if self.starts.iter().any(|start| start.block == block) {
            self.contents.insert(block, content);
        }
    }

    /// The content of a frozen bank, unless it was removed.
    pub(crate) fn content(&self, block: BlockId) -> Option<BankContent> {
        self.contents.get(&block).cloned()
    }

    pub(crate) fn release(&mut self, commitment: Commitment, block: BlockId) {
        self.add(LogEntry::Released(commitment, block), 0);
    }

    /// Removes all. Everything after the slot `root` follows, which is `None` if the first slot is not known.
    pub(crate) fn clear(&mut self, root: Option<Slot>) {
        *self = Self { first: self.end(), ..Self::new(self.slots_max, self.bytes_max, root) };
    }

    /// The oldest slot that can be replayed.
    pub(crate) fn first_slot(&self) -> Option<Slot> {
        let oldest = self.starts.iter().map(|start| start.block.slot).min();
        self.complete_after.map(|root| root.saturating_add(1)).or(oldest)
    }

    /// Whole slots in the log.
    pub(crate) fn slots(&self) -> usize {
        self.starts.len()
    }

    /// A slot is the root: the ledger's state gives up its accounts.
    pub(crate) fn set_root(&mut self, block: BlockId) {
        let Some(at) = self.starts.iter().position(|start| start.block == block) else { return };
        let end = self.starts.get(at + 1).map_or_else(|| self.end(), |next| next.position);
        let [first, end] = [self.starts[at].position, end]
            .map(|position| usize::try_from(position - self.first).unwrap_or(usize::MAX));
        let accounts = self.entries.range(first..end).filter_map(|(entry, _)| match entry {
            LogEntry::Update(update) => Some(update.account_bytes()),
            LogEntry::Released(..) => None,
        });
        let rooted_bytes = accounts.sum();
        self.starts[at].rooted_bytes = rooted_bytes;
        self.rooted_bytes += rooted_bytes;
    }

    /// Estimated bytes that are in use only here.
    pub(crate) fn own_bytes(&self) -> usize {
        self.entries.len() * (size_of::<(LogEntry, usize)>() + UPDATE_BYTES) + self.rooted_bytes
    }

    /// Where a replay from a slot starts. `None` if updates of the slot were removed.
    pub(crate) fn cursor(&self, from_slot: Slot) -> Option<Cursor> {
        let oldest = self.first_slot()?;
        if from_slot < oldest {
            return None;
        }
        let start = self.starts.iter().find(|start| start.block.slot >= from_slot);
        let position = start.map_or_else(|| self.end(), |start| start.position);
        Some(Cursor { position, item: 0, from_slot })
    }

    /// The next updates for a client, up to the first beyond `bytes_max`, and whether the log ends after them. `None` if
    /// entries at the cursor were removed.
    pub(crate) fn read(
        &self,
        cursor: &mut Cursor,
        commitment: Commitment,
        bytes_max: usize,
    ) -> Option<(Vec<Arc<Update>>, bool)> {
        let (mut updates, mut bytes) = (Vec::new(), 0);
        for _ in 0..SCAN_MAX {
            if cursor.position >= self.end() || bytes > bytes_max {
                break;
            }
            let index = usize::try_from(cursor.position.checked_sub(self.first)?).ok()?;
            let (entry, _) = self.entries.get(index)?;
            match entry {
                LogEntry::Update(update) => {
                    if update.slot >= cursor.from_slot && update.is_at(commitment) {
                        bytes += update.bytes();
                        updates.push(Arc::clone(update));
                    }
                }
                LogEntry::Released(level, block)
                    if *level == commitment && block.slot >= cursor.from_slot =>
                {
                    let content = self.contents.get(block)?;
                    let rest = content.get(cursor.item..).unwrap_or_default();
                    for update in rest {
                        if bytes > bytes_max {
                            return Some((updates, false));
                        }
                        bytes += update.bytes();
                        cursor.item += 1;
                        updates.push(Arc::clone(update));
                    }
                }
                LogEntry::Released(..) => {}
            }
            (cursor.position, cursor.item) = (cursor.position + 1, 0);
        }
        Some((updates, cursor.position >= self.end()))
    }

    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn add(&mut self, entry: LogEntry, bytes: usize) {
        let bytes = bytes + size_of::<(LogEntry, usize)>();
        self.bytes += bytes;
        self.entries.push_back((entry, bytes));
        while self.bytes > self.bytes_max && !self.entries.is_empty() {
            self.remove_oldest();
        }
    }

    /// Removes the oldest slot, and all entries before the next one.
    fn remove_oldest(&mut self) {
        self.complete_after = None;
        if let Some(start) = self.starts.pop_front() {
            self.contents.remove(&start.block);
            self.rooted_bytes -= start.rooted_bytes;
        }
        let next = self.starts.front().map_or_else(|| self.end(), |start| start.position);
        while self.first < next
            && let Some((_, bytes)) = self.entries.pop_front()
        {
            self.first += 1;
            self.bytes -= bytes;
        }
    }
}
