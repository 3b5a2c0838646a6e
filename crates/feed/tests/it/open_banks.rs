//! Open banks are reported in batches, and a whole bank names the accounts that were not reported before.

use std::collections::BTreeMap;

use fastrand::Rng;
use feed::{Bank, Decision, Event, FeedConfig, OpenBank, SlotStatus, StreamStart, UpdateKind};
use ledger::{BlockId, Slot};
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar;

use crate::chain::{SYSVARS, hash};
use crate::rig::{ROOT, Rig, TestKind, block_meta};

fn start(quiescent_after: u64, hot_quiescent_after: u64) -> Rig {
    Rig::new(FeedConfig { quiescent_after, hot_quiescent_after, ..FeedConfig::default() })
}

/// The events of open banks, as a caller that prepares them applies them.
#[derive(Default)]
struct Preparation {
    opened: Vec<BlockId>,
    ended: Vec<BlockId>,
    first_writes: Vec<Pubkey>,
    accounts: BTreeMap<Pubkey, u64>,
    /// Number of reported accounts; one counts again when it is reported again.
    reports: usize,
    whole: Vec<Bank<u64, u64, ()>>,
}

impl Preparation {
    fn take_events(&mut self, rig: &mut Rig) {
        for event in rig.events() {
            match event {
                Event::Opened(bank) => self.opened.push(bank.id),
                Event::Ended(bank) => self.ended.push(bank),
                Event::FirstWrites { pubkeys, .. } => self.first_writes.extend(pubkeys),
                Event::Quiescent { accounts, .. } => {
                    self.reports += accounts.len();
                    self.accounts.extend(accounts.iter().map(|it| (it.pubkey, it.account)));
                }
                Event::Bank(bank) => self.whole.push(*bank),
                Event::Tip(_) => {}
                other => panic!("unexpected: {other:?}"),
            }
        }
    }

    /// Ends a batch of one update. Returns the number of accounts that it reports.
    fn end_batch(&mut self, rig: &mut Rig) -> usize {
        let before = self.reports;
        rig.feed.handle_batch_end(1);
        self.take_events(rig);
        self.reports - before
    }
}

impl Rig {
    fn send_named(&mut self, slot: Slot, bank_id: u64, kind: TestKind) {
        self.send_update(slot, Some(bank_id), 100, kind);
    }

    fn write_named(&mut self, slot: Slot, bank_id: u64, pubkey: Pubkey, account: u64) {
        let kind = UpdateKind::Account { pubkey, write_version: account, account };
        self.send_named(slot, bank_id, kind);
    }

    /// Starts a bank, and returns its event.
    fn open_bank(&mut self, slot: Slot, bank_id: u64) -> OpenBank<u64> {
        self.send_named(slot, bank_id, UpdateKind::Status(SlotStatus::CreatedBank));
        self.write_named(slot, bank_id, sysvar::slot_hashes::ID, 1);
        self.write_named(slot, bank_id, sysvar::clock::ID, 2);
        self.feed.handle_batch_end(1);
        let opened = self.events().into_iter().find_map(|event| match event {
            Event::Opened(bank) => Some(*bank),
            _ => None,
        });
        opened.expect("it has its first sysvars")
    }

    /// Starts a bank, and prepares it.
    fn prepare_bank(&mut self, slot: Slot, bank_id: u64) -> BlockId {
        let id = self.open_bank(slot, bank_id).id;
        self.feed.apply(Decision::Prepare(id));
        id
    }

    fn meta_named(&mut self, slot: Slot, bank_id: u64) {
        self.send_named(slot, bank_id, UpdateKind::BlockMeta(block_meta(slot)));
    }
}

fn key(n: u8) -> Pubkey {
    Pubkey::new_from_array([n; 32])
}

#[test]
fn reported_and_pending_accounts_are_the_whole_bank() {
    for seed in 0..50 {
        let mut rng = Rng::with_seed(seed);
        let mut rig = start(rng.u64(..20), rng.u64(..40));
        let id = rig.prepare_bank(11, 1);
        let mut known = Preparation::default();
        known.take_events(&mut rig);
        let mut version = 2;
        let mut reports = 0;
        for _ in 0..200 {
            version += rng.u64(..3);
            // Some are hot, and some writes are not newer than the one before.
            let n = if rng.bool() { rng.u8(..3) } else { rng.u8(..200) };
            rig.write_named(11, 1, key(n), version);
            if rng.u8(..5) == 0 {
                reports += known.end_batch(&mut rig);
            }
            if rng.u8(..60) == 0 {
                // A caller that starts again gets all accounts once more.
                known = Preparation::default();
                rig.feed.apply(Decision::StopPreparing(id));
                assert_eq!(known.end_batch(&mut rig), 0);
                rig.feed.apply(Decision::Prepare(id));
                known.take_events(&mut rig);
            }
        }
        for pubkey in SYSVARS {
            rig.write_named(11, 1, pubkey, version);
        }
        known.end_batch(&mut rig);
        assert!(known.whole.is_empty());
        rig.meta_named(11, 1);
        known.end_batch(&mut rig);
        assert!(reports > 0, "seed {seed}");
        let bank = known.whole.pop().expect("it is whole");
        assert_eq!((bank.id, &known.ended), (id, &Vec::new()), "a whole bank is not an ended one");
        let last: BTreeMap<Pubkey, u64> =
            bank.accounts.iter().map(|write| (write.pubkey, write.account)).collect();
        for pubkey in &bank.pending {
            known.accounts.insert(*pubkey, last[pubkey]);
        }
        assert_eq!(known.accounts, last, "seed {seed}");
        known.first_writes.sort_unstable();
        assert!(known.first_writes.iter().eq(last.keys()), "each account is new once");
    }
}

#[test]
fn a_bank_is_opened_with_its_first_sysvars_and_prepared_on_request() {
    let mut rig = start(0, 0);
    let mut known = Preparation::default();
    rig.write_named(11, 1, sysvar::slot_hashes::ID, 7);
    rig.write_named(11, 1, sysvar::clock::ID, 8);
    known.end_batch(&mut rig);
    assert!(known.opened.is_empty(), "it was not created");
    let bank = rig.open_bank(11, 1);
    assert_eq!((bank.id.slot, bank.slot_hashes, bank.clock), (11, 7, 8));
    rig.write_named(11, 1, key(1), 9);
    assert_eq!(known.end_batch(&mut rig), 0, "the caller does not prepare it");
    rig.feed.apply(Decision::Prepare(bank.id));
    known.take_events(&mut rig);
    let expected = [(key(1), 9), (sysvar::clock::ID, 8), (sysvar::slot_hashes::ID, 7)];
    assert_eq!(known.accounts, BTreeMap::from(expected));
    assert!(known.opened.is_empty(), "it is opened once");
}

#[test]
fn banks_of_a_detached_source_are_opened_after_the_jump() {
    let mut rig = start(0, 0);
    rig.feed.close_source(rig.source);
    rig.source = rig.feed.open_source(StreamStart::AtSlot).expect("a free source");
    let mut known = Preparation::default();
    rig.bank(12);
    rig.status(13, SlotStatus::CreatedBank);
    rig.sysvars(13);
    known.end_batch(&mut rig);
    assert!(known.opened.is_empty());
    rig.feed.jump(12, hash(12), rig.now).expect("it is above the root");
    rig.events();
    known.end_batch(&mut rig);
    assert_eq!(known.opened.iter().map(|bank| bank.slot).collect::<Vec<_>>(), [13]);
}

#[test]
fn an_account_that_is_written_again_and_again_is_not_reported() {
    let mut rig = start(4, 4);
    rig.prepare_bank(11, 1);
    let mut known = Preparation::default();
    for n in 1..=40 {
        rig.write_named(11, 1, key(1), u64::from(n) * 2);
        rig.write_named(11, 1, key(100 + n), u64::from(n) * 2);
        known.end_batch(&mut rig);
    }
    assert!(!known.accounts.contains_key(&key(1)), "each of its writes would cost a hash");
    assert!(known.accounts.len() >= 30, "{}", known.accounts.len());
}

#[test]
fn an_account_that_was_written_again_waits_longer() {
    let mut rig = start(2, 6);
    rig.prepare_bank(11, 1);
    let mut known = Preparation::default();
    for (version, n) in [(1, 1), (2, 1), (3, 2)] {
        rig.write_named(11, 1, key(n), version);
    }
    let mut hot_at = None;
    let mut cold_at = None;
    for n in 4..=12 {
        rig.write_named(11, 1, key(100 + n), u64::from(n));
        known.end_batch(&mut rig);
        if known.accounts.contains_key(&key(1)) {
            hot_at.get_or_insert(n);
        }
        if known.accounts.contains_key(&key(2)) {
            cold_at.get_or_insert(n);
        }
    }
    assert_eq!(cold_at, Some(5), "its last write was the third");
    assert_eq!(hot_at, Some(8), "its last write was the second");
}

#[test]
fn accounts_wait_longer_in_large_batches() {
    let mut rig = start(2, 2);
    rig.prepare_bank(11, 1);
    let mut known = Preparation::default();
    let mut pubkeys = (1..).map(|n: u64| {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        Pubkey::from(bytes)
    });
    let mut reports = Vec::new();
    for _ in 0..6 {
        for pubkey in pubkeys.by_ref().take(200) {
            rig.write_named(11, 1, pubkey, 3);
        }
        let before = known.reports;
        rig.feed.handle_batch_end(200);
        known.take_events(&mut rig);
        reports.push(known.reports - before);
    }
    // The two sysvars precede the first batch.
    assert_eq!(reports, [0, 0, 2, 200, 200, 200]);
}

#[test]
fn all_accounts_are_reported_when_the_bank_freezes() {
    let mut rig = start(5, 5);
    rig.prepare_bank(11, 1);
    let mut known = Preparation::default();
    for n in 1..=3 {
        rig.write_named(11, 1, key(n), u64::from(n));
    }
    assert_eq!(known.end_batch(&mut rig), 0, "they may be written again");
    rig.write_named(11, 1, sysvar::slot_history::ID, 4);
    assert_eq!(known.end_batch(&mut rig), 6, "SlotHistory is written last");
    rig.write_named(11, 1, key(1), 5);
    assert_eq!(known.end_batch(&mut rig), 1, "and little follows it");
    assert_eq!((known.accounts[&key(1)], known.accounts.len()), (5, 6));
    // If much follows, it was not written last.
    for n in 6..=40 {
        rig.write_named(11, 1, key(1), u64::from(n));
        rig.write_named(11, 1, key(n), u64::from(n));
        known.end_batch(&mut rig);
    }
    assert_eq!(known.accounts[&key(1)], 7, "each of its writes would cost a hash");
}

#[test]
fn transactions_are_available_up_to_the_first_that_is_missing() {
    let mut rig = start(0, 0);
    let bank = rig.open_bank(11, 1).id;
    let mut found = Vec::new();
    for (index, expected) in [(1, 0), (0, 2), (3, 2), (2, 4)] {
        rig.send_named(11, 1, UpdateKind::Transaction { index, transaction: index });
        let next = rig.feed.open_transactions(bank, found.len() as u64);
        found.extend(next.map(|transaction| *transaction));
        assert_eq!(found.len(), expected);
    }
    assert_eq!(found, [0, 1, 2, 3]);
}

#[test]
fn a_bank_that_ends_while_it_is_open_is_reported_once_as_ended() {
    let mut rig = start(0, 0);
    let mut known = Preparation::default();
    let first = rig.prepare_bank(11, 1);
    rig.events();
    // Another bank of the slot replaces it.
    rig.send_named(11, 2, UpdateKind::Status(SlotStatus::CreatedBank));
    known.end_batch(&mut rig);
    assert_eq!(known.ended, [first]);
    assert_eq!(rig.feed.open_transactions(first, 0).count(), 0);
    rig.feed.apply(Decision::Prepare(first));
    assert_eq!(rig.events().len(), 0, "it is not open");
    let second = rig.prepare_bank(11, 2);
    assert!(second.slot == first.slot && second != first, "no id is used twice");
    rig.events();
    rig.send_named(11, 2, UpdateKind::Status(SlotStatus::Dead { error: "dead".into() }));
    known.end_batch(&mut rig);
    let third = rig.prepare_bank(12, 3);
    rig.events();
    rig.feed.close_source(rig.source);
    known.end_batch(&mut rig);
    known.end_batch(&mut rig);
    assert_eq!(known.ended, [first, second, third]);
}

#[test]
fn a_bank_that_another_source_completes_first_is_ended() {
    let mut rig = start(0, 0);
    let mut known = Preparation::default();
    let slower = rig.source;
    let opened = rig.prepare_bank(11, 1);
    rig.events();
    rig.source = rig.feed.open_source(StreamStart::AfterRoot).expect("a free source");
    rig.bank(11);
    known.end_batch(&mut rig);
    assert_ne!(known.whole[0].id, opened);
    assert!(known.ended.is_empty(), "the slower source has not completed it");
    rig.source = slower;
    for pubkey in SYSVARS {
        rig.write_named(11, 1, pubkey, 9);
    }
    rig.send_named(11, 1, UpdateKind::BlockMeta(block_meta(11)));
    known.end_batch(&mut rig);
    assert_eq!(known.ended, [opened]);
    assert_eq!((known.whole.len(), rig.feed.status().root), (1, ROOT));
}
