//! The updates of the last slots, for clients that start in the past, and for banks that are not final yet.
//!
//! Shape: entries in the order of publication, each with a position. The content of a bank that became confirmed or
//! finalized is one entry: its updates are those of the bank.
//! Bounds: slots that have a bank, and bytes. The oldest slots go first; a slot that was removed can no longer be
//! replayed or released. Slots without a bank do not count, so a ledger that skips many of them retains its log.
//! Invariant: the bound of slots removes only slots that are final, and banks that were left. Banks that are left are
//! removed before banks that wait for a commitment, also at the bound of bytes.
//! Memory: updates share accounts with the ledger's state until their slot is the root, and transactions with history.
//! [`Log::own_bytes`] does not count shared memory, [`Log::bytes`] does.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use ledger::{BlockId, Commitment, Slot};
use tonic::Status;

use crate::update::{UPDATE_BYTES, Update};

/// Entries that one read passes over: some ten microseconds.
const SCAN_MAX: usize = 4_096;

pub(crate) enum LogEntry {
    /// An update, in the order of publication.
    Update(Arc<Update>),
    /// The content of a bank, at a commitment above processed.
    Released(Commitment, BlockId),
    /// Nothing: an entry of a bank that was left and removed.
    Removed,
}

/// The content of a frozen bank: the last write of each account, the transactions, the block.
pub(crate) type BankContent = Arc<[Arc<Update>]>;

/// The position of a client in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    /// The position of the next entry.
    pub(crate) position: u64,
    /// The next update of a released entry.
    pub(crate) item: usize,
    /// Updates of earlier slots are left out.
    pub(crate) from_slot: Slot,
}

/// An update of the log, and the cursor after it.
pub(crate) struct LoggedUpdate {
    pub(crate) update: Arc<Update>,
    pub(crate) next: Cursor,
}

/// A part of the log, which one read returns.
pub(crate) struct LogPart {
    /// The updates of the part that the client has not taken.
    pub(crate) updates: VecDeque<LoggedUpdate>,
    /// The position of the first entry after the part.
    pub(crate) end: Cursor,
    /// Whether the log ends with the part.
    pub(crate) is_end: bool,
}

/// A bank in the log that is whole.
struct BankStart {
    block: BlockId,
    position: u64,
    /// Bytes of its accounts, once the ledger's state has them no more.
    rooted_bytes: usize,
    /// The position at which the ledger left it. `None` if it is on the chain or may still get there.
    left_at: Option<u64>,
}

pub(crate) struct Log {
    slots_max: u64,
    bytes_max: usize,
    entries: VecDeque<(LogEntry, usize)>,
    /// Banks in `starts` that were left.
    left: usize,
    /// The newest final slot. Everything up to it is released or was left.
    root: Option<Slot>,
    /// The position of the first entry.
    first: u64,
    bytes: usize,
    /// Bytes of accounts that are only here.
    rooted_bytes: usize,
    starts: VecDeque<BankStart>,
    /// The banks of each slot in `starts`.
    slots: HashMap<Slot, usize>,
    contents: HashMap<BlockId, BankContent>,
    /// The position after the restored banks, which lack accounts and entries.
    whole_from: u64,
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
            root,
            left: 0,
            entries: VecDeque::new(),
            first: 0,
            bytes: 0,
            rooted_bytes: 0,
            starts: VecDeque::new(),
            slots: HashMap::new(),
            contents: HashMap::new(),
            whole_from: 0,
        }
    }

    /// Starts a bank. Its updates follow.
    pub(crate) fn start(&mut self, block: BlockId) {
        let position = self.end();
        self.starts.push_back(BankStart { block, position, rooted_bytes: 0, left_at: None });
        *self.slots.entry(block.slot).or_default() += 1;
        self.enforce_slots_max();
    }

    /// Records that the chain dropped a bank, which reaches no further commitment.
    pub(crate) fn mark_dropped(&mut self, block: BlockId) {
        // A local ledger leaves final banks on request. Those that follow may have the same slots.
        self.root = self.root.map(|root| root.min(block.slot.saturating_sub(1)));
        let end = self.end();
        let is_live = |start: &&mut BankStart| start.block == block && start.left_at.is_none();
        if let Some(start) = self.starts.iter_mut().find(is_live) {
            start.left_at = Some(end);
            self.left += 1;
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

    /// The banks so far were restored. Later ones are whole.
    pub(crate) fn end_restored(&mut self) {
        self.whole_from = self.end();
    }

    /// Whether the banks at and after a cursor are whole.
    pub(crate) fn has_whole_banks(&self, cursor: &Cursor) -> bool {
        cursor.position >= self.whole_from
    }

    /// The oldest slot that every client can replay.
    pub(crate) fn first_slot(&self) -> Option<Slot> {
        let whole = self.starts.iter().filter(|start| start.position >= self.whole_from);
        let oldest = whole.map(|start| start.block.slot).min();
        self.complete_after.map(|root| root.saturating_add(1)).or(oldest)
    }

    /// The oldest slot for clients that need neither accounts nor entries.
    fn first_restored_slot(&self) -> Option<Slot> {
        let oldest = self.starts.iter().map(|start| start.block.slot).min();
        oldest.into_iter().chain(self.first_slot()).min()
    }

    /// The status of a client that starts from a slot that it cannot replay.
    pub(crate) fn unavailable_status(&self, from_slot: Slot) -> Status {
        let Some(first) = self.first_slot() else {
            return Status::out_of_range(format!("from_slot {from_slot} is not available"));
        };
        let mut text = format!(
            "from_slot {from_slot} is not available any more, the first available slot is {first}"
        );
        if let Some(restored) = self.first_restored_slot().filter(|slot| *slot < first) {
            let _ =
                write!(text, " ({restored} without accounts and entries, which are not stored)");
        }
        Status::out_of_range(text)
    }

    /// Returns the number of whole slots in the log.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// A slot is the root: the ledger's state gives up its accounts.
    pub(crate) fn set_root(&mut self, block: BlockId) {
        self.root = Some(block.slot);
        self.count_rooted_bytes(block);
        self.enforce_slots_max();
    }

    fn count_rooted_bytes(&mut self, block: BlockId) {
        let Some(at) = self.starts.iter().position(|start| start.block == block) else { return };
        let end = self.starts.get(at + 1).map_or_else(|| self.end(), |next| next.position);
        let [first, end] = [self.starts[at].position, end]
            .map(|position| usize::try_from(position - self.first).unwrap_or(usize::MAX));
        let accounts = self.entries.range(first..end).filter_map(|(entry, _)| match entry {
            LogEntry::Update(update) => Some(update.account_bytes()),
            LogEntry::Released(..) | LogEntry::Removed => None,
        });
        let rooted_bytes = accounts.sum();
        self.starts[at].rooted_bytes = rooted_bytes;
        self.rooted_bytes += rooted_bytes;
    }

    /// Estimated bytes that are in use only here.
    pub(crate) fn own_bytes(&self) -> usize {
        self.entries.len() * (size_of::<(LogEntry, usize)>() + UPDATE_BYTES) + self.rooted_bytes
    }

    /// Returns the start of a replay from a slot, or `None` if updates of the slot were removed.
    pub(crate) fn cursor(&self, from_slot: Slot, needs_whole_banks: bool) -> Option<Cursor> {
        let oldest =
            if needs_whole_banks { self.first_slot() } else { self.first_restored_slot() }?;
        if from_slot < oldest {
            return None;
        }
        let start = self.starts.iter().find(|start| start.block.slot >= from_slot);
        let position = start.map_or_else(|| self.end(), |start| start.position);
        Some(Cursor { position, item: 0, from_slot })
    }

    /// The next updates for a client, up to the first beyond `bytes_max`. `None` if entries at the cursor were removed.
    pub(crate) fn read(
        &self,
        cursor: &Cursor,
        commitment: Commitment,
        bytes_max: usize,
    ) -> Option<LogPart> {
        let mut updates = VecDeque::new();
        let mut bytes = 0;
        let mut cursor = *cursor;
        for _ in 0..SCAN_MAX {
            if cursor.position >= self.end() || bytes > bytes_max {
                break;
            }
            let index = usize::try_from(cursor.position.checked_sub(self.first)?).ok()?;
            let (entry, _) = self.entries.get(index)?;
            let after = Cursor { position: cursor.position + 1, item: 0, ..cursor };
            match entry {
                LogEntry::Update(update) => {
                    if update.slot >= cursor.from_slot && update.is_at(commitment) {
                        bytes += update.bytes();
                        updates.push_back(LoggedUpdate { update: Arc::clone(update), next: after });
                    }
                }
                LogEntry::Released(level, block)
                    if *level == commitment && block.slot >= cursor.from_slot =>
                {
                    let content = self.contents.get(block)?;
                    let rest = content.get(cursor.item..).unwrap_or_default();
                    for update in rest {
                        if bytes > bytes_max {
                            return Some(LogPart { updates, end: cursor, is_end: false });
                        }
                        bytes += update.bytes();
                        cursor.item += 1;
                        updates
                            .push_back(LoggedUpdate { update: Arc::clone(update), next: cursor });
                    }
                }
                LogEntry::Released(..) | LogEntry::Removed => {}
            }
            cursor = after;
        }
        Some(LogPart { updates, end: cursor, is_end: cursor.position >= self.end() })
    }

    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn add(&mut self, entry: LogEntry, bytes: usize) {
        let bytes = bytes + size_of::<(LogEntry, usize)>();
        self.bytes += bytes;
        self.entries.push_back((entry, bytes));
        while self.bytes > self.bytes_max && !self.entries.is_empty() {
            if self.is_oldest_settled() || !self.remove_left() {
                self.remove_oldest();
            }
        }
    }

    /// Removes slots beyond `slots_max` that no client waits for.
    fn enforce_slots_max(&mut self) {
        while self.slots.len() as u64 > self.slots_max {
            if self.is_oldest_settled() {
                self.remove_oldest();
            } else if !self.remove_left() {
                return;
            }
        }
    }

    /// Whether the oldest bank gets to no further commitment.
    fn is_oldest_settled(&self) -> bool {
        self.starts.front().is_some_and(|start| {
            start.left_at.is_some() || self.root.is_some_and(|root| start.block.slot <= root)
        })
    }

    /// Removes the oldest bank that was left and is the only one of its slot. Its entries stay, without content. False
    /// if there is none. Cost: the banks, and the entries between its start and its end.
    fn remove_left(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        let is_removable = |start: &BankStart| {
            start.left_at.is_some() && self.slots.get(&start.block.slot) == Some(&1)
        };
        let Some(at) = self.starts.iter().position(is_removable) else { return false };
        let Some(start) = self.starts.remove(at) else { return false };
        let [from, to] =
            [start.position, start.left_at.unwrap_or(start.position)].map(|position| {
                usize::try_from(position.saturating_sub(self.first)).unwrap_or(usize::MAX)
            });
        for (entry, bytes) in self.entries.range_mut(from..to) {
            let is_own = match entry {
                LogEntry::Update(update) => update.slot == start.block.slot,
                LogEntry::Released(_, block) => *block == start.block,
                LogEntry::Removed => false,
            };
            if is_own {
                self.bytes -= *bytes - size_of::<(LogEntry, usize)>();
                *entry = LogEntry::Removed;
                *bytes = size_of::<(LogEntry, usize)>();
            }
        }
        self.forget(&start);
        true
    }

    /// Drops the data of a bank other than its entries.
    fn forget(&mut self, start: &BankStart) {
        self.contents.remove(&start.block);
        if let Some(banks) = self.slots.get_mut(&start.block.slot) {
            *banks -= 1;
            if *banks == 0 {
                self.slots.remove(&start.block.slot);
            }
        }
        self.rooted_bytes -= start.rooted_bytes;
        self.left -= usize::from(start.left_at.is_some());
    }

    /// Removes the oldest slot, and all entries before the next one.
    fn remove_oldest(&mut self) {
        if self.starts.front().is_none_or(|start| start.position >= self.whole_from) {
            self.complete_after = None;
        }
        if let Some(start) = self.starts.pop_front() {
            self.forget(&start);
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
