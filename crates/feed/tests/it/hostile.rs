//! Hostile streams stay in bounds, and the gap names the reason.

use std::time::Duration;

use feed::{
    BlockMeta, Decision, Event, FeedConfig, Gap, GapReason, LandedVote, Missing, SlotStatus,
    StreamStart, UpdateKind,
};
use ledger::Slot;
use solana_hash::Hash;
use solana_pubkey::Pubkey;

use crate::chain::{SYSVARS, hash};
use crate::rig::{ROOT, Rig, block_meta};

const TIMEOUT: Duration = Duration::from_secs(2);

fn start() -> Rig {
    Rig::new(FeedConfig {
        slots_max: 50,
        bytes_max: 100_000,
        incomplete_timeout: TIMEOUT,
        voters_max: 10,
        sources_max: 2,
        ..FeedConfig::default()
    })
}

impl Rig {
    fn meta_after(&mut self, slot: Slot, parent_hash: Hash, executed_transaction_count: u64) {
        let parent_blockhash = parent_hash;
        let meta = BlockMeta { parent_blockhash, executed_transaction_count, ..block_meta(slot) };
        self.send(slot, UpdateKind::BlockMeta(meta));
    }

    fn wait(&mut self) {
        self.now += TIMEOUT;
        self.feed.handle_timeout(self.now);
    }

    /// Takes the one gap, and checks that the source is closed.
    fn gap(&mut self) -> Gap {
        let mut gaps: Vec<Gap> = Vec::new();
        for event in self.events() {
            if let Event::Gap(gap) = event {
                gaps.push(gap);
            }
        }
        assert_eq!(gaps.len(), 1, "{gaps:?}");
        assert!(!self.feed.has_source(self.source));
        assert_eq!(self.feed.status().stats.open_bytes, 0);
        let ignored = self.feed.status().stats.ignored;
        self.status(20, SlotStatus::CreatedBank);
        assert_eq!(self.feed.status().stats.ignored, ignored + 1, "a closed source is not heard");
        gaps.remove(0)
    }
}

#[test]
fn a_bank_without_its_transactions_is_a_gap_that_counts_them() {
    let mut rig = start();
    rig.status(11, SlotStatus::CreatedBank);
    rig.sysvars(11);
    rig.meta_after(11, hash(10), 3);
    rig.send(11, UpdateKind::Transaction { index: 1, transaction: 1 });
    rig.wait();
    assert!(rig.events().is_empty(), "until it is processed more may come");
    rig.status(11, SlotStatus::Processed);
    rig.wait();
    let gap = rig.gap();
    let missing = Missing { transactions: 2, ..Missing::default() };
    assert_eq!(gap.reason, GapReason::Incomplete { missing, waited: TIMEOUT });
    assert_eq!((gap.slot, gap.resume_from, gap.dropped_slots), (11, 11, vec![11]));
    assert_eq!(
        gap.reason.to_string(),
        "the bank lacks 2 transactions (a source must send votes and failed ones too) after 2s \
         (feed.incomplete_timeout)"
    );
}

#[test]
fn a_missing_sysvar_or_created_bank_is_named() {
    let mut rig = start();
    for pubkey in &SYSVARS[..3] {
        rig.write(11, *pubkey, 1);
    }
    rig.meta_after(11, hash(10), 0);
    rig.status(11, SlotStatus::Processed);
    rig.wait();
    let text = rig.gap().reason.to_string();
    assert!(text.contains("that it was created, the sysvar SlotHistory"), "{text}");
}

#[test]
fn a_confirmed_slot_of_which_nothing_came_is_a_gap() {
    let mut rig = start();
    rig.status(11, SlotStatus::Confirmed);
    rig.wait();
    let missing = Missing { created: true, meta: true, ..Missing::default() };
    assert_eq!(rig.gap().reason, GapReason::Incomplete { missing, waited: TIMEOUT });
}

#[test]
fn a_hole_in_the_slots_is_a_gap_at_once() {
    let mut rig = start();
    rig.bank(11);
    rig.bank(13);
    assert_eq!(rig.gap().reason, GapReason::ParentUnknown { parent: 12, root: 10 });
}

#[test]
fn another_cluster_is_recognized_by_the_hash_of_our_root() {
    let mut rig = start();
    rig.status(11, SlotStatus::CreatedBank);
    rig.sysvars(11);
    rig.meta_after(11, hash(99), 0);
    rig.status(11, SlotStatus::Confirmed);
    rig.wait();
    assert_eq!(rig.gap().reason, GapReason::OtherChain { ours: hash(10), theirs: hash(99) });
}

#[test]
fn slots_far_from_ours_are_a_gap_or_nothing() {
    let mut rig = start();
    for slot in 0..=10 {
        rig.status(slot, SlotStatus::CreatedBank);
        rig.write(slot, SYSVARS[0], 1);
    }
    assert!(rig.events().is_empty());
    assert_eq!((rig.feed.status().stats.stale, rig.feed.status().stats.open_banks), (22, 0));
    rig.bank(1_000_000);
    assert_eq!(rig.gap().reason, GapReason::ParentUnknown { parent: 999_999, root: 10 });
}

#[test]
fn endless_open_banks_end_at_the_bound_of_slots() {
    let mut rig = start();
    for slot in 11..=61 {
        rig.status(slot, SlotStatus::CreatedBank);
    }
    let gap = rig.gap();
    assert_eq!(gap.reason, GapReason::Slots { slots: 51, limit: 50 });
    assert_eq!(gap.dropped_slots, (11..=60).collect::<Vec<Slot>>());
}

#[test]
fn endless_banks_without_a_root_end_at_the_bound_of_slots() {
    let mut rig = start();
    for slot in 11..=61 {
        rig.bank(slot);
    }
    assert_eq!(rig.gap().reason, GapReason::Slots { slots: 51, limit: 50 });
    assert_eq!(rig.feed.status().stats.unrooted_banks, 50, "reported banks stay");
}

#[test]
fn endless_replays_of_a_slot_end_at_a_bound() {
    let mut rig = start();
    for bank_id in 1..=9 {
        let kind = UpdateKind::Status(SlotStatus::CreatedBank);
        rig.send_update(11, Some(bank_id), 0, kind);
    }
    assert_eq!(rig.gap().reason, GapReason::BanksOfSlot { banks: 9, limit: 8 });
}

#[test]
fn huge_accounts_end_at_the_bound_of_bytes() {
    let mut rig = start();
    for number in 0..2 {
        let pubkey = Pubkey::from([number; 32]);
        let kind = UpdateKind::Account { pubkey, write_version: 1, account: 1 };
        rig.send_update(11, None, 60_000, kind);
    }
    let gap = rig.gap();
    let reason = GapReason::Bytes { update: 60_064, bytes: 120_128, limit: 100_000 };
    assert_eq!((gap.reason, gap.dropped_bytes), (reason, 120_128));
}

#[test]
fn writes_of_one_account_without_end_hold_one_account() {
    let mut rig = start();
    for write_version in 0..10_000 {
        rig.write(11, Pubkey::from([1; 32]), write_version);
    }
    assert_eq!(rig.feed.status().stats.open_bytes, 164);
    assert!(rig.events().is_empty());
}

#[test]
fn a_transaction_beyond_the_count_is_a_gap() {
    let mut rig = start();
    rig.send(11, UpdateKind::Transaction { index: u64::MAX, transaction: 1 });
    rig.meta_after(11, hash(10), 1);
    let reason = GapReason::TransactionIndex { index: u64::MAX, count: 1 };
    assert_eq!(rig.gap().reason, reason);
}

#[test]
fn two_metas_of_one_bank_are_a_gap() {
    let mut rig = start();
    rig.meta_after(11, hash(10), 1);
    rig.meta_after(11, hash(10), 1);
    assert_eq!(rig.feed.status().stats.duplicates, 1);
    let other = BlockMeta { blockhash: hash(77), ..block_meta(11) };
    rig.send(11, UpdateKind::BlockMeta(other));
    assert_eq!(rig.gap().reason, GapReason::TwoMetas { first: hash(11), second: hash(77) });
}

#[test]
fn a_write_after_the_bank_is_reported_as_late() {
    let mut rig = start();
    rig.bank(11);
    let events = rig.events();
    assert!(matches!(&events[..], [Event::Bank(_), Event::Tip(_)]), "{events:?}");
    rig.write(11, SYSVARS[0], 1_100);
    assert!(rig.events().is_empty(), "the same write again");
    rig.write(11, SYSVARS[0], 1_101);
    rig.write(11, Pubkey::from([9; 32]), 1);
    let late = rig.events();
    let late = late.iter().map(|event| match event {
        Event::LateWrite { bank, write } => (bank.slot, write.pubkey, write.write_version),
        other => panic!("{other:?}"),
    });
    let expected = [(11, SYSVARS[0], 1_101), (11, Pubkey::from([9; 32]), 1)];
    assert_eq!(late.collect::<Vec<_>>(), expected);
}

#[test]
fn a_dead_bank_takes_its_descendants_with_it() {
    let mut rig = start();
    rig.bank(11);
    rig.bank(12);
    rig.events();
    rig.status(11, SlotStatus::Dead { error: "broken".into() });
    let events = rig.events();
    let dropped = events.iter().filter_map(|event| match event {
        Event::Dropped { bank, .. } => Some(bank.slot),
        _ => None,
    });
    assert_eq!(dropped.collect::<Vec<Slot>>(), [12, 11]);
    assert_eq!(rig.feed.status().tip, ROOT);
    rig.status(11, SlotStatus::Dead { error: "broken".into() });
    assert!(rig.events().is_empty());
}

#[test]
fn a_confirmed_bank_is_not_dead() {
    let mut rig = start();
    rig.bank(11);
    rig.status(11, SlotStatus::Confirmed);
    rig.events();
    rig.status(11, SlotStatus::Dead { error: "late".into() });
    assert!(rig.events().is_empty());
    assert_eq!(rig.feed.status().confirmed.slot, 11);
}

#[test]
fn voters_beyond_the_bound_do_not_count() {
    let mut rig = start();
    rig.bank(11);
    for voter in 0..20 {
        rig.feed.apply(Decision::CountVotes(vec![LandedVote {
            voter: Pubkey::from([voter; 32]),
            slot: 11,
            stake: u64::MAX,
        }]));
    }
    assert_eq!(rig.feed.status().tip.slot, 11);
}

#[test]
fn sources_beyond_the_bound_are_refused() {
    let mut rig = start();
    assert!(rig.feed.open_source(StreamStart::AfterRoot).is_some());
    assert_eq!(rig.feed.open_source(StreamStart::AfterRoot), None);
    rig.feed.close_source(rig.source);
    assert!(rig.feed.open_source(StreamStart::AfterRoot).is_some());
}
