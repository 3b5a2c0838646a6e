//! The ledger of counters: one writer, many readers, a final block for each write. Above the newest final block there may
//! be a tip that another block replaces.

use std::sync::Arc;

use ledger::{Address, BlockId, Change, KeyKind, Record};
use parking_lot::{Mutex, RwLock};
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
    writer: Arc<Mutex<Writer>>,
    listeners: Arc<RwLock<Vec<BlockListener>>>,
}

struct Writer {
    ledger: Ledger<Counter, ()>,
    /// The block above the newest final one, if there is one.
    tip: Option<BlockId>,
    /// Versions of blocks so far.
    versions: u64,
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
        let (mut ledger, reader) = Ledger::new(config, root, Arc::new(()));
        ledger.publish();
        let writer = Writer { ledger, tip: None, versions: 0 };
        Self { reader, writer: Arc::new(Mutex::new(writer)), listeners: Arc::default() }
    }

    /// Adds a function that is called with each new block.
    pub(super) fn add_listener(&self, listener: BlockListener) {
        self.listeners.write().push(listener);
    }

    /// Returns the counters at the current block, for as long as the value lives.
    pub(super) fn pinned(&self) -> Self {
        Self { reader: self.reader.pin(), ..self.clone() }
    }

    /// Adds to a counter in a block of its own; returns the new value and its slot. `None` if the ledger is full.
    pub fn add(&self, name: &Address, amount: u64) -> Option<(u64, u64)> {
        let mut writer = self.writer.lock();
        let before = writer.ledger.record_at(writer.ledger.root(), name);
        let value = before.map_or(0, |counter| counter.0).wrapping_add(amount);
        let block = writer.add_block(&[(*name, value)])?;
        writer.ledger.confirm(block).ok()?;
        writer.ledger.finalize(block).ok()?; // it drops the tip
        writer.tip = None;
        writer.ledger.publish();
        let block = NewBlock { slot: block.slot, counter: *name, value };
        self.listeners.read().iter().for_each(|listener| listener(&block));
        Some((value, block.slot))
    }

    /// Replaces the tip by a block on the newest final one, in which these counters have these values: readers of the
    /// processed state see it instead of the tip before. Returns it; `None` if the ledger is full.
    pub fn replace_tip(&self, counters: &[(Address, u64)]) -> Option<BlockId> {
        let mut writer = self.writer.lock();
        let block = writer.add_block(counters)?;
        writer.ledger.set_tip(block).ok()?;
        if let Some(before) = writer.tip.replace(block) {
            writer.ledger.drop_fork(before).ok()?;
        }
        writer.ledger.publish();
        Some(block)
    }
}

impl Writer {
    /// Adds a complete block on the newest final one. Readers do not see it. `None` if the ledger is full.
    fn add_block(&mut self, counters: &[(Address, u64)]) -> Option<BlockId> {
        let parent = self.ledger.root();
        let block = BlockId { slot: parent.slot + 1, version: self.versions };
        self.versions += 1;
        let change = |(address, value): &(Address, u64)| Change {
            address: *address,
            record: Some(Arc::new(Counter(*value))),
        };
        let changes = counters.iter().map(change).collect();
        let meta = || Arc::new(());
        self.ledger.open_hidden(block, parent, meta()).ok()?;
        if self.ledger.apply(block, changes, meta()).is_err() {
            self.ledger.drop_fork(block).ok()?;
            return None;
        }
        self.ledger.complete(block, meta()).ok()?;
        Some(block)
    }
}
