//! A stream that starts anywhere joins at the block of an archive: it reports every later bank, and mixes none.

use std::time::Duration;

use fastrand::Rng;
use feed::{Decision, Feed, FeedConfig, GapReason, SlotStatus, StreamStart, UpdateKind};
use ledger::Slot;

use crate::chain::Chain;
use crate::checker::{Checker, ROOT};
use crate::rig::start_time;
use crate::stream::{Manner, Message, messages};

const RUNS: u64 = 6_000;
const HOUR: Duration = Duration::from_secs(3_600);

fn new_feed(needs_approval: bool) -> Feed<u64, u64, ()> {
    let config = FeedConfig { needs_approval, incomplete_timeout: HOUR, ..FeedConfig::default() };
    Feed::new(config, ROOT, Chain::root_hash())
}

/// Outcomes of the runs of all seeds.
#[derive(Debug, Default)]
struct Outcomes {
    joined: usize,
    began_inside: usize,
    ended_by_jump: usize,
}

/// Follows a stream that starts at a random message, with an archive of a random final slot. After a session has ended,
/// another one continues at the next message. In half of the runs banks are approved late, the archive's among them.
fn join(seed: u64, outcomes: &mut Outcomes) {
    let rng = &mut Rng::with_seed(seed);
    let chain = Chain::random(rng);
    let manner = Manner { has_ids: rng.bool(), first_version: rng.u64(0..1_000_000) };
    let all = messages(&chain, manner, rng);
    let Some(slot) = rng.choice(chain.finalized_slots()).copied() else { return };
    let blockhash = chain.canonical(slot).hash;
    let needs_approval = rng.bool();
    let mut feed = new_feed(needs_approval);
    let mut checker = Checker::new(&chain);
    let mut now = start_time();
    let cut = rng.usize(..all.len());
    let delay = rng.usize(..all.len());
    let mut source = feed.open_source(StreamStart::MidSlot).expect("a free source");
    let mut jumped_at: Option<usize> = None;
    for (at, message) in all.iter().enumerate().skip(cut) {
        now += Duration::from_millis(rng.u64(0..20));
        feed.handle(message.update(source), now);
        checker.take(&mut feed);
        if jumped_at.is_none() && at >= cut + delay && feed.status().joinable_from <= Some(slot) {
            assert_eq!(feed.status().root, ROOT, "nothing is shown before the jump");
            if feed.status().joinable_from.is_some() {
                assert!(feed.jump(slot, blockhash, now).is_some());
                checker.take(&mut feed);
                let [root, tip] = [feed.status().root, feed.status().tip];
                assert!(tip.slot >= slot && (root.slot >= slot) != needs_approval, "{root:?}");
                jumped_at = Some(at);
            }
        }
        if needs_approval && jumped_at.is_some() && rng.u8(0..8) == 0 {
            feed.apply(Decision::Approve(checker.tip));
            checker.take(&mut feed);
        }
        if !feed.has_source(source) {
            let is_attached = jumped_at.is_some();
            let next = if is_attached { None } else { feed.open_source(StreamStart::MidSlot) };
            let Some(next) = next else { break };
            source = next;
        }
    }
    for bank in checker.banks().into_iter().filter(|_| jumped_at.is_some()) {
        feed.apply(Decision::Approve(bank));
        checker.take(&mut feed);
    }
    feed.handle_timeout(now + HOUR * 2);
    checker.take(&mut feed);
    outcomes.began_inside += count(&checker, |reason| matches!(reason, GapReason::BeganInside));
    outcomes.ended_by_jump += count(&checker, |reason| matches!(reason, GapReason::Jumped { .. }));
    if jumped_at.is_some() && feed.has_source(source) {
        outcomes.joined += 1;
        checker.check_end_after(slot);
    }
}

fn count(checker: &Checker<'_>, is_it: impl Fn(&GapReason) -> bool) -> usize {
    checker.gaps.iter().filter(|gap| is_it(&gap.reason)).count()
}

#[test]
fn a_stream_that_begins_anywhere_joins_an_archive_and_never_mixes_two_banks() {
    let mut outcomes = Outcomes::default();
    for seed in 0..RUNS {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut of_seed = Outcomes::default();
            join(seed, &mut of_seed);
            of_seed
        }));
        let of_seed = result.unwrap_or_else(|_| panic!("seed {seed}"));
        outcomes.joined += of_seed.joined;
        outcomes.began_inside += of_seed.began_inside;
        outcomes.ended_by_jump += of_seed.ended_by_jump;
    }
    // Each way is taken by many seeds.
    assert!(outcomes.joined > 500, "{outcomes:?}");
    assert!(outcomes.began_inside > 20 && outcomes.ended_by_jump > 20, "{outcomes:?}");
}

/// Without bank ids, content before "created" is of an earlier bank of the slot.
#[test]
fn the_end_of_a_replaced_bank_is_a_gap_and_no_part_of_its_successor() {
    for has_ids in [true, false] {
        let mut feed = new_feed(false);
        let now = start_time();
        let source = feed.open_source(StreamStart::AfterRoot).expect("a free source");
        let bank_id = has_ids.then_some(7);
        let pubkey = solana_pubkey::Pubkey::from([1; 32]);
        let write = UpdateKind::Account { pubkey, write_version: 1, account: 5 };
        for kind in [write, UpdateKind::Status(SlotStatus::CreatedBank)] {
            let slot: Slot = ROOT.slot + 1;
            feed.handle(Message { slot, bank_id, kind }.update(source), now);
        }
        assert_eq!(feed.has_source(source), has_ids);
    }
}
