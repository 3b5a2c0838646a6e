//! A bank that waits for the caller's approval is not confirmed, and a retracted one may come again.

use std::time::Duration;

use fastrand::Rng;
use feed::{
    Decision, DropReason, Event, Feed, FeedConfig, Gap, GapReason, SlotStatus, StreamStart,
};
use ledger::BlockId;

use crate::chain::{Chain, hash};
use crate::checker::{Checker, ROOT};
use crate::rig::{Rig, start_time};
use crate::stream::{Manner, messages};

const HOUR: Duration = Duration::from_secs(3_600);

fn config() -> FeedConfig {
    FeedConfig { needs_approval: true, incomplete_timeout: HOUR, ..FeedConfig::default() }
}

#[test]
fn banks_that_are_approved_late_end_like_those_of_the_upstream() {
    for seed in 0..1_000 {
        let mut rng = Rng::with_seed(seed);
        let chain = Chain::random(&mut rng);
        let mut feed = Feed::new(config(), ROOT, Chain::root_hash());
        let mut checker = Checker::new(&chain);
        let now = start_time();
        let manner = Manner { has_ids: rng.bool(), first_version: 7 };
        let source = feed.open_source(StreamStart::AfterRoot).expect("a free source");
        for message in messages(&chain, manner, &mut rng) {
            feed.handle(message.update(source), now);
            checker.take(&mut feed);
            if rng.u8(0..8) == 0 {
                feed.apply(Decision::Approve(checker.tip));
                checker.take(&mut feed);
            }
        }
        for bank in checker.banks() {
            feed.apply(Decision::Approve(bank));
            checker.take(&mut feed);
        }
        // Banks that wait for approval are complete, so they are not overdue.
        feed.handle_timeout(now + HOUR * 2);
        checker.take(&mut feed);
        assert_eq!(checker.gaps, [], "seed {seed}");
        checker.check_end();
    }
}

/// Takes all events. Returns a word for each, and the gaps.
fn take_events(rig: &mut Rig) -> (Vec<String>, Vec<Gap>) {
    let mut words = Vec::new();
    let mut gaps = Vec::new();
    for event in rig.events() {
        words.push(match event {
            Event::Bank(bank) => format!("bank {}", bank.id.slot),
            Event::Dropped { bank, reason } => {
                assert_eq!(reason, DropReason::Replaced);
                format!("dropped {}", bank.slot)
            }
            Event::Tip(bank) => format!("tip {}", bank.slot),
            Event::Confirmed(bank) => format!("confirmed {}", bank.slot),
            Event::Root(bank) => format!("root {}", bank.slot),
            Event::Jumped { from, to } => format!("jumped {} {}", from.slot, to.slot),
            Event::Gap(gap) => {
                gaps.push(gap);
                "gap".to_owned()
            }
            other => panic!("unexpected: {other:?}"),
        });
    }
    (words, gaps)
}

#[test]
fn statuses_wait_for_the_approval_and_the_highest_root() {
    let mut rig = Rig::new(config());
    for slot in 11..=13 {
        rig.bank(slot);
    }
    let tip = rig.feed.status().tip;
    rig.status(13, SlotStatus::Confirmed);
    rig.status(11, SlotStatus::Finalized);
    rig.status(12, SlotStatus::Finalized);
    let (words, _) = take_events(&mut rig);
    assert!(!words.iter().any(|word| word.starts_with("confirmed")), "{words:?}");
    rig.feed.apply(Decision::LimitRoot(Some(11)));
    rig.feed.apply(Decision::Approve(tip));
    assert_eq!(take_events(&mut rig).0, ["confirmed 11", "root 11", "confirmed 13"]);
    rig.feed.apply(Decision::LimitRoot(Some(12)));
    assert_eq!(take_events(&mut rig).0, ["root 12"]);
}

#[test]
fn a_retracted_bank_is_dropped_with_its_descendants_and_may_come_again() {
    let mut rig = Rig::new(config());
    rig.bank(11);
    let verified = rig.feed.status().tip;
    rig.bank(12);
    let wrong = rig.feed.status().tip;
    rig.bank(13);
    rig.status(11, SlotStatus::Confirmed);
    rig.status(12, SlotStatus::Confirmed);
    rig.feed.apply(Decision::Approve(verified));
    take_events(&mut rig);
    rig.feed.apply(Decision::Retract(verified));
    assert_eq!(take_events(&mut rig).0, [""; 0], "a confirmed bank stays");
    rig.feed.apply(Decision::Retract(wrong));
    let (words, gaps) = take_events(&mut rig);
    assert_eq!(words, ["dropped 13", "dropped 12", "gap", "tip 11"]);
    let gap = &gaps[0];
    assert_eq!((gap.slot, gap.resume_from, &gap.reason), (12, 11, &GapReason::Retracted));
    rig.source = rig.feed.open_source(StreamStart::AfterRoot).expect("a free source");
    for slot in 11..=13 {
        rig.bank(slot);
    }
    rig.status(12, SlotStatus::Confirmed);
    let again = rig.feed.status().tip;
    assert_eq!(again.slot, 13);
    rig.feed.apply(Decision::Approve(again));
    let (words, _) = take_events(&mut rig);
    assert_eq!(words, ["bank 12", "tip 12", "bank 13", "tip 13", "confirmed 12"]);
}

/// A session that waited above a gap, and an archive of slot 12 that it joined.
fn join_archive() -> (Rig, BlockId) {
    let mut rig = Rig::new(config());
    rig.bank(11);
    rig.status(11, SlotStatus::Confirmed);
    let tip = rig.feed.status().tip;
    rig.feed.apply(Decision::Approve(tip));
    rig.feed.close_source(rig.source);
    rig.source = rig.feed.open_source(StreamStart::AtSlot).expect("a free source");
    (13..=15).for_each(|slot| rig.bank(slot));
    rig.status(15, SlotStatus::Confirmed);
    take_events(&mut rig);
    let jumped = rig.feed.jump(13, hash(13), rig.now).expect("it is above the confirmed bank");
    let (words, gaps) = take_events(&mut rig);
    assert_eq!(words, ["jumped 11 13", "tip 13", "bank 14", "bank 15", "tip 15"]);
    assert_eq!(gaps, []);
    (rig, jumped)
}

#[test]
fn the_block_of_an_archive_is_final_once_a_descendant_is_approved() {
    let (mut rig, _) = join_archive();
    let status = rig.feed.status();
    assert_eq!((status.root.slot, status.confirmed.slot), (10, 11));
    // Statuses of the slots that the archive covers are not awaited.
    rig.status(12, SlotStatus::Finalized);
    rig.feed.handle_timeout(rig.now + HOUR * 2);
    rig.feed.apply(Decision::LimitRoot(Some(12)));
    rig.feed.apply(Decision::Approve(status.tip));
    assert_eq!(take_events(&mut rig).0, ["confirmed 13", "confirmed 15"]);
    rig.feed.apply(Decision::LimitRoot(Some(13)));
    assert_eq!(take_events(&mut rig).0, ["root 11", "root 13"]);
    rig.bank(16);
    assert_eq!(take_events(&mut rig).0, ["bank 16", "tip 16"]);
}

#[test]
fn the_block_of_an_archive_that_is_retracted_leaves_the_confirmed_bank() {
    let (mut rig, jumped) = join_archive();
    rig.feed.apply(Decision::Retract(jumped));
    let (words, gaps) = take_events(&mut rig);
    assert_eq!(words, ["dropped 15", "dropped 14", "dropped 13", "gap", "tip 11"]);
    assert_eq!((&gaps[0].reason, gaps[0].resume_from), (&GapReason::Retracted, 11));
    // The next archive may be of the same slot.
    rig.source = rig.feed.open_source(StreamStart::AtSlot).expect("a free source");
    (13..=14).for_each(|slot| rig.bank(slot));
    rig.feed.jump(13, hash(13), rig.now).expect("it is above the confirmed bank");
    assert_eq!(take_events(&mut rig).0, ["jumped 11 13", "tip 13", "bank 14", "tip 14"]);
}
