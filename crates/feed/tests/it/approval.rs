//! A bank that waits for the caller's approval is not confirmed, and a retracted one may come again.

use std::time::{Duration, Instant};

use fastrand::Rng;
use feed::{
    BlockMeta, Decision, DropReason, Event, Feed, FeedConfig, Gap, GapReason, SlotStatus, SourceId,
    StreamStart, Update, UpdateKind,
};
use ledger::{BlockId, Slot};

use crate::chain::{Chain, SYSVARS, hash};
use crate::checker::{Checker, ROOT};
use crate::stream::{Manner, messages};

const HOUR: Duration = Duration::from_secs(3_600);

#[expect(clippy::disallowed_methods, reason = "the first moment; all others are counted from it")]
fn start() -> Instant {
    Instant::now()
}

fn config() -> FeedConfig {
    FeedConfig { needs_approval: true, incomplete_timeout: HOUR, ..FeedConfig::default() }
}

#[test]
fn banks_that_are_approved_late_end_like_those_of_the_upstream() {
    for seed in 0..1_000 {
        let mut rng = Rng::with_seed(seed);
        let chain = Chain::random(&mut rng);
        let mut feed = Feed::new(config(), ROOT, Chain::root_hash());
        let (mut checker, now) = (Checker::new(&chain), start());
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
        // What waited for approval lacked nothing.
        feed.handle_timeout(now + HOUR * 2);
        checker.take(&mut feed);
        assert_eq!(checker.gaps, [], "seed {seed}");
        checker.check_end();
    }
}

/// A feed above slot 10 with one session.
struct Rig {
    feed: Feed<u64, u64, ()>,
    source: SourceId,
    now: Instant,
}

impl Rig {
    fn new() -> Self {
        let mut feed = Feed::new(config(), BlockId { slot: 10, version: 0 }, hash(10));
        let source = feed.open_source(StreamStart::AfterRoot).expect("a free source");
        Self { feed, source, now: start() }
    }

    fn send(&mut self, slot: Slot, kind: UpdateKind<u64, u64, ()>) {
        let source = self.source;
        self.feed.handle(Update { source, slot, bank_id: None, bytes: 100, kind }, self.now);
    }

    fn status(&mut self, slot: Slot, status: SlotStatus) {
        self.send(slot, UpdateKind::Status(status));
    }

    /// A whole bank on the slot before it.
    fn bank(&mut self, slot: Slot) {
        self.status(slot, SlotStatus::CreatedBank);
        for pubkey in SYSVARS {
            self.send(slot, UpdateKind::Account { pubkey, write_version: slot, account: slot });
        }
        let meta = BlockMeta {
            parent_slot: slot - 1,
            parent_blockhash: hash(slot - 1),
            blockhash: hash(slot),
            executed_transaction_count: 0,
            entries_count: 0,
            meta: (),
        };
        self.send(slot, UpdateKind::BlockMeta(meta));
    }

    /// A word for each event, and the gaps.
    fn events(&mut self) -> (Vec<String>, Vec<Gap>) {
        let (mut words, mut gaps) = (Vec::new(), Vec::new());
        while let Some(event) = self.feed.poll_event() {
            words.push(match event {
                Event::Bank(bank) => format!("bank {}", bank.id.slot),
                Event::Dropped { bank, reason } => {
                    assert_eq!(reason, DropReason::Replaced);
                    format!("dropped {}", bank.slot)
                }
                Event::Tip(bank) => format!("tip {}", bank.slot),
                Event::Confirmed(bank) => format!("confirmed {}", bank.slot),
                Event::Jumped { to, .. } => format!("jumped {}", to.slot),
                Event::Root(bank) => format!("root {}", bank.slot),
                Event::LateWrite { .. } => "late".to_owned(),
                Event::Gap(gap) => {
                    gaps.push(gap);
                    "gap".to_owned()
                }
            });
        }
        (words, gaps)
    }
}

#[test]
fn statuses_wait_for_the_approval_and_the_highest_root() {
    let mut rig = Rig::new();
    for slot in 11..=13 {
        rig.bank(slot);
    }
    let tip = rig.feed.status().tip;
    rig.status(13, SlotStatus::Confirmed);
    rig.status(11, SlotStatus::Finalized);
    rig.status(12, SlotStatus::Finalized);
    let (words, _) = rig.events();
    assert!(!words.iter().any(|word| word.starts_with("confirmed")), "{words:?}");
    rig.feed.apply(Decision::LimitRoot(Some(11)));
    rig.feed.apply(Decision::Approve(tip));
    assert_eq!(rig.events().0, ["confirmed 11", "root 11", "confirmed 13"]);
    rig.feed.apply(Decision::LimitRoot(Some(12)));
    assert_eq!(rig.events().0, ["root 12"]);
}

#[test]
fn a_retracted_bank_is_dropped_with_its_descendants_and_may_come_again() {
    let mut rig = Rig::new();
    rig.bank(11);
    let verified = rig.feed.status().tip;
    rig.bank(12);
    let wrong = rig.feed.status().tip;
    rig.bank(13);
    rig.status(11, SlotStatus::Confirmed);
    rig.status(12, SlotStatus::Confirmed);
    rig.feed.apply(Decision::Approve(verified));
    rig.events();
    rig.feed.apply(Decision::Retract(verified));
    assert_eq!(rig.events().0, [""; 0], "a confirmed bank stays");
    rig.feed.apply(Decision::Retract(wrong));
    let (words, gaps) = rig.events();
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
    let (words, _) = rig.events();
    assert_eq!(words, ["bank 12", "tip 12", "bank 13", "tip 13", "confirmed 12"]);
}
