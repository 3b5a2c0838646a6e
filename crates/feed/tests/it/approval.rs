//! A bank that waits for the caller's approval is not confirmed, and a retracted one may come again.

use std::time::Duration;

use fastrand::Rng;
use feed::{
    Decision, DropReason, Event, Feed, FeedConfig, Gap, GapReason, SlotStatus, StreamStart,
};

use crate::chain::Chain;
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
