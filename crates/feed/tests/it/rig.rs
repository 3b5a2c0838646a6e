//! A feed above slot 10 with one session. A test sends its updates one by one.

use std::time::Instant;

use feed::{
    BlockMeta, Event, Feed, FeedConfig, SlotStatus, SourceId, StreamStart, Update, UpdateKind,
};
use ledger::{BlockId, Slot};
use solana_pubkey::Pubkey;

use crate::chain::{SYSVARS, hash};

pub(crate) const ROOT: BlockId = BlockId { slot: 10, version: 0 };

pub(crate) type TestEvent = Event<u64, u64, ()>;
pub(crate) type TestKind = UpdateKind<u64, u64, ()>;

pub(crate) struct Rig {
    pub(crate) feed: Feed<u64, u64, ()>,
    pub(crate) source: SourceId,
    pub(crate) now: Instant,
    slots_max: usize,
}

impl Rig {
    pub(crate) fn new(config: FeedConfig) -> Self {
        let slots_max = config.slots_max;
        let mut feed = Feed::new(config, ROOT, hash(10));
        let source = feed.open_source(StreamStart::AfterRoot).expect("a free source");
        Self { feed, source, now: start_time(), slots_max }
    }

    /// Sends an update of a bank, and checks the bounds of the session.
    pub(crate) fn send_update(
        &mut self,
        slot: Slot,
        bank_id: Option<u64>,
        bytes: usize,
        kind: TestKind,
    ) {
        let update = Update { source: self.source, slot, bank_id, bytes, kind };
        self.feed.handle(update, self.now);
        let status = self.feed.status();
        let stats = status.stats;
        assert!(stats.open_bytes <= status.bytes_max, "{stats:?}");
        assert!(stats.open_banks <= self.slots_max, "{stats:?}");
    }

    /// Sends an update of a source that does not name its banks.
    pub(crate) fn send(&mut self, slot: Slot, kind: TestKind) {
        self.send_update(slot, None, 100, kind);
    }

    pub(crate) fn status(&mut self, slot: Slot, status: SlotStatus) {
        self.send(slot, UpdateKind::Status(status));
    }

    pub(crate) fn write(&mut self, slot: Slot, pubkey: Pubkey, write_version: u64) {
        self.send(slot, UpdateKind::Account { pubkey, write_version, account: write_version });
    }

    pub(crate) fn sysvars(&mut self, slot: Slot) {
        for pubkey in SYSVARS {
            self.write(slot, pubkey, slot * 100);
        }
    }

    /// Sends a whole bank without transactions on the bank of the slot before it.
    pub(crate) fn bank(&mut self, slot: Slot) {
        self.status(slot, SlotStatus::CreatedBank);
        self.sysvars(slot);
        self.send(slot, UpdateKind::BlockMeta(block_meta(slot)));
        self.status(slot, SlotStatus::Processed);
    }

    pub(crate) fn events(&mut self) -> Vec<TestEvent> {
        std::iter::from_fn(|| self.feed.poll_event()).collect()
    }
}

/// Returns the meta of a block without transactions on the block of the slot before it.
pub(crate) fn block_meta(slot: Slot) -> BlockMeta<()> {
    BlockMeta {
        parent_slot: slot - 1,
        parent_blockhash: hash(slot - 1),
        blockhash: hash(slot),
        executed_transaction_count: 0,
        entries_count: 0,
        meta: (),
    }
}

#[expect(clippy::disallowed_methods, reason = "the start; all other times are relative to it")]
pub(crate) fn start_time() -> Instant {
    Instant::now()
}
