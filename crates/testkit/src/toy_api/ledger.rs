//! The ledger of counters: one writer, many readers, a block for each write.

use std::sync::Arc;

use ledger::{Address, BlockId, Change, KeyKind, Record};
use parking_lot::Mutex;
use query::{Ledger, LedgerConfig, Reader};
use tokio::sync::watch;

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
    /// The slot of the newest block.
    pub blocks: watch::Sender<u64>,
}

impl Counters {
    /// No counter.
    pub(super) fn new() -> Self {
        let root = BlockId { slot: 0, version: 0 };
        let config = LedgerConfig::new(1_000);
        let (mut writer, reader) = Ledger::new(config, root, Arc::new(()));
        writer.publish();
        Self { reader, writer: Arc::new(Mutex::new(writer)), blocks: watch::Sender::new(0) }
    }

    /// The same counters, read at the current block for as long as the value lives.
    pub(super) fn pinned(&self) -> Self {
        Self { reader: self.reader.pinned(), ..self.clone() }
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
        self.blocks.send_replace(block.slot);
        Some((value, block.slot))
    }
}
