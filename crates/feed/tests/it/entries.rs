//! Entries belong to a bank: it waits for those that its source counts, and state never depends on them.

use std::time::Duration;

use feed::{Bank, BlockMeta, Event, FeedConfig, FeedStats, SlotStatus, UpdateKind};
use ledger::Slot;
use solana::Entry;

use crate::chain::hash;
use crate::rig::{Rig, block_meta};

const TIMEOUT: Duration = Duration::from_secs(2);

fn start() -> Rig {
    let config =
        FeedConfig { bytes_max: 100_000, incomplete_timeout: TIMEOUT, ..FeedConfig::default() };
    Rig::new(config)
}

impl Rig {
    fn entry(&mut self, slot: Slot, index: u64) {
        self.send(slot, UpdateKind::Entry { index, entry: entry(slot, index) });
    }

    /// Sends a bank of two transactions without its entries and its meta.
    fn content(&mut self, slot: Slot) {
        self.status(slot, SlotStatus::CreatedBank);
        self.sysvars(slot);
        for index in 0..2 {
            self.send(slot, UpdateKind::Transaction { index, transaction: index });
        }
    }

    fn meta(&mut self, slot: Slot, entries_count: u64) {
        let meta = BlockMeta { executed_transaction_count: 2, entries_count, ..block_meta(slot) };
        self.send(slot, UpdateKind::BlockMeta(meta));
        self.status(slot, SlotStatus::Processed);
    }

    /// Takes the banks that became whole.
    fn banks(&mut self) -> Vec<Bank<u64, u64, ()>> {
        let banks = self.events().into_iter().filter_map(|event| match event {
            Event::Bank(bank) => Some(*bank),
            Event::Gap(gap) => panic!("{}", gap.reason),
            _ => None,
        });
        banks.collect()
    }

    /// Takes the one bank that became whole, and returns its entries.
    fn entries(&mut self) -> Vec<Entry> {
        let mut banks = self.banks();
        assert_eq!(banks.len(), 1);
        banks.remove(0).entries
    }

    fn stats(&self) -> FeedStats {
        self.feed.status().stats
    }
}

/// One of three: one transaction, another one, and a tick.
fn entry(slot: Slot, index: u64) -> Entry {
    let is_last = index == 2;
    Entry {
        num_hashes: 1,
        hash: if is_last { hash(slot) } else { hash(slot * 1_000 + index) },
        transaction_count: u64::from(!is_last),
        starting_transaction_index: index,
    }
}

fn whole(slot: Slot) -> Vec<Entry> {
    (0..3).map(|index| entry(slot, index)).collect()
}

#[test]
fn a_bank_waits_for_its_entries_in_any_order() {
    let mut rig = start();
    rig.entry(11, 2);
    rig.content(11);
    rig.meta(11, 3);
    rig.entry(11, 0);
    rig.entry(11, 0);
    assert!(rig.banks().is_empty(), "an entry is missing");
    rig.entry(11, 1);
    assert_eq!(rig.entries(), whole(11));
    assert_eq!((rig.stats().duplicates, rig.stats().banks_without_entries), (1, 0));
}

#[test]
fn entries_that_the_block_does_not_count_are_left_out_and_not_held() {
    let mut rig = start();
    rig.content(11);
    rig.content(12);
    let before = rig.stats().open_bytes;
    (0..3).for_each(|index| rig.entry(12, index));
    assert!(rig.stats().open_bytes > before);
    // A validator counts none in a block that it made itself.
    rig.meta(12, 0);
    rig.entry(12, 7);
    assert_eq!(rig.stats().open_bytes, before + 100 + 64);
    rig.meta(11, 0);
    let banks = rig.banks();
    assert!(banks.iter().all(|bank| bank.entries.is_empty()), "{banks:?}");
    assert_eq!((banks.len(), rig.stats().banks_without_entries), (2, 0));
}

#[test]
fn a_source_that_counts_entries_and_does_not_send_them_is_followed_without_them() {
    let mut rig = start();
    rig.content(11);
    rig.entry(11, 0);
    rig.meta(11, 3);
    assert!(rig.banks().is_empty());
    rig.now += TIMEOUT;
    rig.feed.handle_timeout(rig.now);
    assert_eq!(rig.entries(), []);
    assert_eq!(rig.stats().banks_without_entries, 1);
    // The next bank does not wait.
    rig.content(12);
    rig.entry(12, 0);
    rig.meta(12, 3);
    assert_eq!(rig.entries(), []);
    assert_eq!(rig.stats().banks_without_entries, 2);
    assert!(rig.feed.has_source(rig.source), "the source is still followed");
}

#[test]
fn entries_that_do_not_lead_to_the_blockhash_are_not_reported() {
    let mut rig = start();
    rig.content(11);
    rig.meta(11, 3);
    rig.entry(11, 0);
    rig.entry(11, 1);
    let wrong = Entry { hash: hash(99), ..entry(11, 2) };
    rig.send(11, UpdateKind::Entry { index: 2, entry: wrong });
    assert_eq!(rig.entries(), []);
    assert_eq!(rig.stats().banks_without_entries, 1);
}

#[test]
fn entries_without_end_are_a_gap_at_the_bound_of_bytes() {
    let mut rig = start();
    (0..10_000).for_each(|index| rig.entry(11, index));
    let gap = rig.events().into_iter().find_map(|event| match event {
        Event::Gap(gap) => Some(gap.reason.name()),
        _ => None,
    });
    assert_eq!(gap, Some("bytes"));
    assert_eq!(rig.stats().open_bytes, 0);
}
