//! The ledger of counters: one writer, many readers, a block for each write.

use std::sync::{Arc, OnceLock};

use ledger::{Address, BlockId, Change, KeyKind, Record};
use parking_lot::Mutex;
use query::{Ledger, LedgerConfig, Reader};

/// A named number.
#[derive(Debug)]
pub struct Counter(pub u64);

impl Record for Counter {
    fn keys(&self, _: &mut dyn FnMut(KeyKind, Address)) {}

    fn global_rank(&self) -> Option<u64> {
        Some(self.0)
    }
}

/// The counters of a ledger. Clones share them.
#[derive(Clone)]
pub struct Counters {
    /// Reads the counters.
    pub reader: Reader<Counter, ()>,
    writer: Arc<Mutex<Ledger<Counter, ()>>>,
    listener: Arc<OnceLock<BlockListener>>,
}

/// A block, which changes one counter.
pub(super) struct NewBlock {
    pub(super) slot: u64,
    pub(super) counter: Address,
    /// The new value of the counter.
    pub(super) value: u64,
}

/// Called with each new block, in order, after readers can see it.
type BlockListener = Box<dyn Fn(&NewBlock) + Send + Sync>;

impl Counters {
    /// No counter.
    pub(super) fn new() -> Self {
        let root = BlockId { slot: 0, version: 0 };
        let config = LedgerConfig::new(1_000);
        let (mut writer, reader) = Ledger::new(config, root, Arc::new(()));
        writer.publish();
        Self { reader, writer: Arc::new(Mutex::new(writer)), listener: Arc::default() }
    }

    /// Sets the function that is called with each new block.
    pub(super) fn set_listener(&self, listener: BlockListener) {
        assert!(self.listener.set(listener).is_ok(), "a ledger has one listener");
    }

    /// Returns the counters at the current block, for as long as the value lives.
    pub(super) fn pinned(&self) -> Self {
        Self { reader: self.reader.pin(), ..self.clone() }
    }

    /// Adds to a counter in a block of its own; returns the new value and its slot. `None` if the ledger is full.
    pub fn add(&self, name: &Address, amount: u64) -> Option<(u64, u64)> {
        let mut ledger = self.writer.lock();
        let parent = ledger.root();
        let block = BlockId { slot: parent.slot + 1, version: 0 };
        let value = ledger.record(name).map_or(0, |counter| counter.0).wrapping_add(amount);
        let change = Change { address: *name, record: Some(Arc::new(Counter(value))) };
        let meta = || Arc::new(());
        ledger.open(block, parent, meta()).ok()?;
        if ledger.apply(block, vec![change], meta()).is_err() {
            ledger.drop_fork(block).ok()?;
            return None;
        }
        ledger.complete(block, meta()).ok()?;
        ledger.confirm(block).ok()?;
        ledger.finalize(block).ok()?;
        ledger.publish();
        if let Some(listener) = self.listener.get() {
            listener(&NewBlock { slot: block.slot, counter: *name, value });
        }
        Some((value, block.slot))
    }
}
