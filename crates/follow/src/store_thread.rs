//! Stores rooted banks in a directory, on a thread of its own.
//!
//! In: rooted banks, from the one writer. Out: batches of the ledger on disk.
//! Shape: a bank waits until [`DELAY_BANKS`] later ones are rooted, and for a time. So after a restart the source sends
//! the newest final banks once more, and subscribers of this node that had not received them yet can resume.
//! A bank that does not follow from the one before, such as that of an archive, starts a batch, which removes all
//! earlier blocks: those that are stored follow from each other.
//! Bounds: [`QUEUE_BYTES_MAX`] wait. Then the writer waits for the disk, and the node falls behind: nothing is lost.
//! Not here: the content of rows (`snapshot_solana::stored_rows`), a start from the directory (`stored_ledger`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chain_solana::{Block, View};
use ledger::Slot;
use ledger_store::{LedgerStore, NewLedger};
use parking_lot::{Condvar, Mutex};
use solana_pubkey::Pubkey;
use store::StoreError;

use crate::base::{BaseLedger, BaseStore};
use crate::clock::now;
use crate::error::FollowError;
use crate::status::FollowStatus;

/// Rooted banks that are not stored yet, the newest ones.
const DELAY_BANKS: usize = 16;
/// Bytes of these banks. Beyond them the oldest are stored earlier.
const DELAY_BYTES_MAX: u64 = 64 << 20;
/// Bytes of all banks that wait or are being written. One larger bank waits alone.
const QUEUE_BYTES_MAX: u64 = 128 << 20;
/// Banks of a batch, and their bytes. The last bank may exceed the bytes.
const BATCH_BANKS_MAX: usize = 32;
const BATCH_BYTES_MAX: u64 = 16 << 20;

pub(crate) struct RootedBank {
    pub(crate) block: Arc<Block>,
    /// The row of the bank, without its block.
    pub(crate) bank: Vec<u8>,
    /// The stakes of epochs, if they changed.
    pub(crate) epochs: Option<Vec<u8>>,
    /// Blocks below this slot are not stored any longer.
    pub(crate) retain_from: Slot,
    /// Whether it follows from the bank before. If not, no block before it is stored any longer.
    pub(crate) is_next: bool,
}

impl RootedBank {
    fn bytes(&self) -> u64 {
        let epochs = self.epochs.as_ref().map_or(0, Vec::len);
        self.block.bytes() + (self.bank.len() + epochs) as u64
    }
}

/// The queue to the thread. It ends the thread when it is dropped, and waits for the batch that is being written.
pub(crate) struct StoreQueue {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Maximum time between the root and the commit of a bank.
    delay: Duration,
    changed: Condvar,
    status: Arc<FollowStatus>,
}

struct WaitingBank {
    bank: RootedBank,
    bytes: u64,
    rooted: Instant,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<WaitingBank>,
    /// Bytes of the banks that wait.
    waiting_bytes: u64,
    /// Of the banks that are being written.
    writing_bytes: u64,
    /// Whether the writer waits for space.
    is_full: bool,
    is_closed: bool,
    is_ended: bool,
    err: Option<StoreError>,
}

impl StoreQueue {
    /// Starts the thread. A new ledger gets the accounts of `base`, the view of its first block.
    pub(crate) fn start(
        store: BaseStore,
        base: View,
        status: Arc<FollowStatus>,
    ) -> Result<Self, FollowError> {
        let BaseStore { ledger, delay } = store;
        let state = Mutex::default();
        let changed = Condvar::new();
        let shared = Arc::new(Shared { state, delay, changed, status });
        let ended = EndGuard(Arc::clone(&shared));
        let run = move || {
            let ended = ended;
            let shared = &*ended.0;
            if let Err(err) = shared.run(ledger, base) {
                tracing::error!(err = &err as &dyn std::error::Error, "a bank is not stored");
                shared.state.lock().err = Some(err);
            }
        };
        let thread = std::thread::Builder::new().name("store".into()).spawn(run);
        let thread = Some(thread.map_err(FollowError::Thread)?);
        Ok(Self { shared, thread })
    }

    /// Adds the child of the last bank. It waits while the queue is full.
    pub(crate) fn push(&self, bank: RootedBank) -> Result<(), FollowError> {
        let Shared { state, changed, status, .. } = &*self.shared;
        let bytes = bank.bytes();
        let state = &mut state.lock();
        if state.is_over(bytes) {
            status.store_waits.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(bytes = state.bytes(), "the disk is slower than the chain");
            state.is_full = true;
            changed.notify_all();
            while state.is_over(bytes) && !state.is_ended {
                changed.wait(state);
            }
            state.is_full = false;
        }
        if state.is_ended {
            return Err(state.err.take().map_or(FollowError::StorePanicked, FollowError::Store));
        }
        state.add(bank, bytes, now());
        status.store_bytes.store(state.bytes(), Ordering::Relaxed);
        changed.notify_all();
        Ok(())
    }
}

impl Drop for StoreQueue {
    fn drop(&mut self) {
        self.shared.state.lock().is_closed = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic was reported by the runtime.
            let _ = thread.join();
        }
    }
}

/// Reports the end of the thread, also of one that panicked.
struct EndGuard(Arc<Shared>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.state.lock().is_ended = true;
        self.0.changed.notify_all();
    }
}

impl State {
    fn bytes(&self) -> u64 {
        self.waiting_bytes + self.writing_bytes
    }

    fn is_over(&self, more: u64) -> bool {
        self.bytes() > 0 && self.bytes() + more > QUEUE_BYTES_MAX
    }

    fn add(&mut self, mut bank: RootedBank, bytes: u64, rooted: Instant) {
        if !bank.is_next {
            bank.retain_from = bank.block.id.slot;
        }
        self.waiting.push_back(WaitingBank { bank, bytes, rooted });
        self.waiting_bytes += bytes;
    }

    /// The oldest banks that do not have to wait any longer.
    fn take_batch(&mut self, now: Instant, delay: Duration) -> Vec<RootedBank> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < BATCH_BANKS_MAX && bytes < BATCH_BYTES_MAX {
            let is_over = self.is_full || self.waiting_bytes > DELAY_BYTES_MAX;
            let is_old = self.waiting.len() > DELAY_BANKS;
            let is_first = batch.is_empty();
            let is_due = |waiting: &mut WaitingBank| {
                (is_first || waiting.bank.is_next)
                    && (is_over
                        || (is_old && now.saturating_duration_since(waiting.rooted) >= delay))
            };
            let Some(waiting) = self.waiting.pop_front_if(is_due) else { break };
            self.waiting_bytes -= waiting.bytes;
            bytes += waiting.bytes;
            batch.push(waiting.bank);
        }
        self.writing_bytes = bytes;
        batch
    }

    /// When a bank is due, if no other one comes.
    fn next_due(&self, delay: Duration) -> Option<Instant> {
        let is_old = self.waiting.len() > DELAY_BANKS;
        self.waiting.front().filter(|_| is_old).map(|waiting| waiting.rooted + delay)
    }
}

impl Shared {
    fn run(&self, ledger: BaseLedger, base: View) -> Result<(), StoreError> {
        let store = match ledger {
            BaseLedger::Open(store) => Some(store),
            BaseLedger::New(new) => self.create(new, &base)?,
        };
        // The view is released, so that the state can free its versions.
        drop(base);
        let Some(mut store) = store else { return Ok(()) };
        self.status.stored.store(store.newest_slot(), Ordering::Relaxed);
        while let Some(batch) = self.next_batch() {
            set_rows(&mut store, &batch);
            store.append_all(&blocks(&batch))?;
            self.status.stored.store(store.newest_slot(), Ordering::Relaxed);
            self.finish_batch();
        }
        Ok(())
    }

    /// Writes the accounts of a new ledger, and between them the banks that are due. `None` if the queue was dropped.
    fn create(&self, mut new: NewLedger, base: &View) -> Result<Option<LedgerStore>, StoreError> {
        let slot = base.block().slot;
        tracing::info!(slot, "the state is being stored");
        let mut accounts = base.all().filter_map(|(address, account)| {
            // Every address of the ledger is a pubkey.
            Some((Pubkey::try_from(address.as_bytes()).ok()?, account))
        });
        while new.insert_chunk(&mut accounts)? {
            let batch = {
                let mut state = self.state.lock();
                if state.is_closed {
                    return Ok(None);
                }
                state.take_batch(now(), self.delay)
            };
            if !batch.is_empty() {
                set_rows(new.store(), &batch);
                new.append_all(&blocks(&batch))?;
                self.finish_batch();
            }
        }
        let store = new.finish()?;
        tracing::info!(slot = store.newest_slot(), "the state is stored");
        Ok(Some(store))
    }

    /// Waits for banks that are due. `None` once the queue was dropped.
    fn next_batch(&self) -> Option<Vec<RootedBank>> {
        let state = &mut self.state.lock();
        loop {
            if state.is_closed {
                return None;
            }
            let batch = state.take_batch(now(), self.delay);
            if !batch.is_empty() {
                return Some(batch);
            }
            match state.next_due(self.delay) {
                Some(due) => drop(self.changed.wait_until(state, due)),
                None => self.changed.wait(state),
            }
        }
    }

    fn finish_batch(&self) {
        let mut state = self.state.lock();
        state.writing_bytes = 0;
        self.status.store_bytes.store(state.bytes(), Ordering::Relaxed);
        self.changed.notify_all();
    }
}

fn blocks(batch: &[RootedBank]) -> Vec<&Block> {
    batch.iter().map(|bank| &*bank.block).collect()
}

/// Sets the rows that the next append writes with the blocks.
fn set_rows(store: &mut LedgerStore, batch: &[RootedBank]) {
    if let Some(epochs) = batch.iter().rev().find_map(|bank| bank.epochs.as_ref()) {
        store.set_epochs(epochs.clone());
    }
    for bank in batch {
        store.prune_below(bank.retain_from);
    }
    if let Some(newest) = batch.last() {
        store.set_bank(newest.bank.clone());
    }
}

#[cfg(test)]
mod tests {
    use chain_solana::{AccountWrite, BankHashComponents};
    use ledger::{AddressId, BlockId};
    use solana::Account;
    use solana_account::AccountSharedData;
    use solana_hash::Hash;

    use super::*;

    const DELAY: Duration = Duration::from_secs(5);

    fn hash(slot: Slot) -> Hash {
        Hash::new_from_array([slot as u8; 32])
    }

    /// A bank that wrote an account with these bytes.
    fn bank(slot: Slot, bytes: usize) -> RootedBank {
        let account = AccountSharedData::new(1, bytes, &Pubkey::default());
        let write = AccountWrite {
            pubkey: Pubkey::default(),
            id: AddressId(0),
            account: Some(Arc::new(Account(account)).into()),
            removed_keys: Vec::new(),
        };
        let block = Block {
            id: BlockId { slot, version: slot },
            parent: BlockId { slot: slot - 1, version: slot - 1 },
            block_height: slot,
            blockhash: hash(slot),
            previous_blockhash: hash(slot - 1),
            bank_hash: Hash::default(),
            hash_components: BankHashComponents::default(),
            block_time: 0,
            transaction_count: 0,
            transactions: Vec::new(),
            rewards: Vec::new(),
            reward_partitions: None,
            entries: Vec::new(),
            writes: vec![write],
        };
        let block = Arc::new(block);
        let bank = Vec::new();
        let epochs = None;
        RootedBank { block, bank, epochs, retain_from: 0, is_next: true }
    }

    fn state(banks: impl Iterator<Item = RootedBank>, rooted: Instant) -> State {
        let mut state = State::default();
        for bank in banks {
            let bytes = bank.bytes();
            state.add(bank, bytes, rooted);
        }
        state
    }

    fn slots(batch: &[RootedBank]) -> Vec<Slot> {
        batch.iter().map(|bank| bank.block.id.slot).collect()
    }

    #[test]
    fn a_bank_is_due_after_later_ones_and_after_a_time() {
        let rooted = now();
        let mut state = state((1..=20).map(|slot| bank(slot, 100)), rooted);
        let almost = rooted + DELAY - Duration::from_millis(1);
        assert!(state.take_batch(almost, DELAY).is_empty());
        assert_eq!(state.next_due(DELAY), Some(rooted + DELAY));
        assert_eq!(slots(&state.take_batch(rooted + DELAY, DELAY)), [1, 2, 3, 4]);
        assert_eq!((state.waiting.len(), state.next_due(DELAY)), (DELAY_BANKS, None));
        assert!(state.take_batch(rooted + 2 * DELAY, DELAY).is_empty());
    }

    #[test]
    fn large_banks_are_stored_earlier_and_a_full_queue_at_once() {
        let rooted = now();
        let mut large = state((1..=10).map(|slot| bank(slot, 10 << 20)), rooted);
        // The banks above the bound are due, in batches.
        assert_eq!(slots(&large.take_batch(rooted, DELAY)), [1, 2]);
        assert_eq!(slots(&large.take_batch(rooted, DELAY)), [3, 4]);
        assert!(large.take_batch(rooted, DELAY).is_empty());
        assert!(large.waiting_bytes <= DELAY_BYTES_MAX);
        assert!(!large.is_over(1 << 20) && large.is_over(100 << 20));
        let mut full = state((1..=3).map(|slot| bank(slot, 100)), rooted);
        full.is_full = true;
        assert_eq!(slots(&full.take_batch(rooted, DELAY)), [1, 2, 3]);
        // A bank that is larger than the queue waits alone.
        full.writing_bytes = 0;
        assert!(!full.is_over(QUEUE_BYTES_MAX + 1));
    }

    #[test]
    fn a_bank_that_does_not_follow_begins_a_batch_without_the_blocks_before() {
        let rooted = now();
        let banks = [(1, true), (2, true), (10, false), (11, true), (20, false)];
        let banks = banks.map(|(slot, is_next)| RootedBank { is_next, ..bank(slot, 100) });
        let mut state = state(banks.into_iter(), rooted);
        state.is_full = true;
        let mut batches = Vec::new();
        while !state.waiting.is_empty() {
            batches.push(state.take_batch(rooted, DELAY));
        }
        let found: Vec<_> = batches.iter().map(|batch| slots(batch)).collect();
        assert_eq!(found, [vec![1, 2], vec![10, 11], vec![20]]);
        let retained = |batch: &Vec<RootedBank>| batch.iter().map(|bank| bank.retain_from).max();
        let retained: Vec<_> = batches.iter().filter_map(retained).collect();
        assert_eq!(retained, [0, 10, 20]);
    }
}
