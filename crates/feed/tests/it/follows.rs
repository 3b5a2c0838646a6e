//! Every order that a source may send in gives the banks, tips and roots of the upstream.

use std::time::{Duration, Instant};

use fastrand::Rng;
use feed::{Decision, Feed, FeedConfig, GapReason, LandedVote, StreamStart, UpdateKind};
use solana_pubkey::Pubkey;

use crate::chain::{Chain, SYSVARS};
use crate::checker::{Checker, ROOT};
use crate::rig::start_time;
use crate::stream::{Manner, Message, messages, repeat_some, replay_messages};

const RUNS: u64 = 4_000;
const HOUR: Duration = Duration::from_secs(3_600);

fn new_feed() -> Feed<u64, u64, ()> {
    let config = FeedConfig {
        incomplete_timeout: HOUR,
        quiescent_after: 2,
        hot_quiescent_after: 4,
        ..FeedConfig::default()
    };
    Feed::new(config, ROOT, Chain::root_hash())
}

fn manner(rng: &mut Rng) -> Manner {
    Manner { has_ids: rng.bool(), first_version: rng.u64(0..1_000_000) }
}

fn with_seeds(run: impl Fn(&mut Rng)) {
    for seed in 0..RUNS {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run(&mut Rng::with_seed(seed));
        }));
        assert!(result.is_ok(), "seed {seed}");
    }
}

fn send(
    feed: &mut Feed<u64, u64, ()>,
    checker: &mut Checker<'_>,
    messages: &[Message],
    now: &mut Instant,
    rng: &mut Rng,
) {
    let source = feed.open_source(StreamStart::AfterRoot).expect("a free source");
    for message in messages {
        *now += Duration::from_millis(rng.u64(0..20));
        feed.handle(message.update(source), *now);
        checker.take(feed);
        end_batch(feed, checker, rng);
        if rng.u8(0..16) == 0 {
            feed.handle_timeout(*now);
            checker.take(feed);
        }
    }
    if rng.bool() {
        feed.close_source(source);
    }
}

/// Ends the batch of updates after some of them.
fn end_batch(feed: &mut Feed<u64, u64, ()>, checker: &mut Checker<'_>, rng: &mut Rng) {
    if rng.u8(0..4) == 0 {
        feed.handle_batch_end(1);
        checker.take(feed);
    }
}

#[test]
fn any_allowed_order_gives_the_banks_of_the_upstream() {
    with_seeds(|rng| {
        let chain = Chain::random(rng);
        let mut feed = new_feed();
        let mut checker = Checker::new(&chain);
        let mut now = start_time();
        let sent = messages(&chain, manner(rng), rng);
        let sent = repeat_some(sent, &chain, rng);
        send(&mut feed, &mut checker, &sent, &mut now, rng);
        feed.handle_timeout(now + HOUR * 2);
        checker.take(&mut feed);
        assert_eq!(checker.gaps, []);
        checker.check_end();
    });
}

#[test]
fn a_stream_that_is_cut_and_resumed_loses_and_doubles_nothing() {
    with_seeds(|rng| {
        let chain = Chain::random(rng);
        let mut feed = new_feed();
        let mut checker = Checker::new(&chain);
        let mut now = start_time();
        let manner = manner(rng);
        let all = messages(&chain, manner, rng);
        let mut cut = 0;
        while cut < all.len() {
            let from_slot = feed.status().root.slot + 1;
            let next = (cut + rng.usize(1..=all.len())).min(all.len());
            let mut session = replay_messages(&all[..cut], from_slot, rng);
            session.extend_from_slice(&all[cut..next]);
            let source = feed.open_source(StreamStart::AfterRoot).expect("a free source");
            for message in &session {
                now += Duration::from_millis(rng.u64(0..20));
                feed.handle(message.update(source), now);
                checker.take(&mut feed);
                end_batch(&mut feed, &mut checker, rng);
            }
            if next < all.len() {
                feed.close_source(source);
                checker.take(&mut feed);
            }
            cut = next;
        }
        feed.handle_timeout(now + HOUR * 2);
        checker.take(&mut feed);
        assert_eq!(checker.gaps, []);
        checker.check_end();
    });
}

#[test]
fn another_source_takes_over_where_one_has_a_hole() {
    with_seeds(|rng| {
        let chain = Chain::random(rng);
        let mut feed = new_feed();
        let mut checker = Checker::new(&chain);
        let mut now = start_time();
        let mut lossy = messages(&chain, manner(rng), rng);
        lossy.remove(rng.usize(..lossy.len()));
        let loses_content = |message: &Message| match &message.kind {
            UpdateKind::Account { pubkey, .. } => SYSVARS.contains(pubkey),
            UpdateKind::Transaction { .. } | UpdateKind::BlockMeta(_) => true,
            UpdateKind::Status(_) | UpdateKind::Entry { .. } => false,
        };
        let whole = messages(&chain, manner(rng), rng);
        // The verifier, not the feed, finds a lost write of an account that is not a sysvar.
        let is_found = lossy.len() + 1 == whole.len()
            && lossy.iter().filter(|it| loses_content(it)).count()
                < whole.iter().filter(|it| loses_content(it)).count();
        if !is_found {
            return;
        }
        send(&mut feed, &mut checker, &lossy, &mut now, rng);
        feed.handle_timeout(now + HOUR * 2);
        checker.take(&mut feed);
        for gap in &checker.gaps {
            let is_named = matches!(
                gap.reason,
                GapReason::Incomplete { .. } | GapReason::ParentUnknown { .. }
            );
            assert!(is_named, "{gap:?}");
            assert_eq!(gap.resume_from, checker.root.slot + 1);
        }
        let whole = replay_messages(&whole, feed.status().root.slot + 1, rng);
        send(&mut feed, &mut checker, &whole, &mut now, rng);
        feed.handle_timeout(now);
        checker.take(&mut feed);
        checker.check_end();
    });
}

#[test]
fn two_sources_at_once_give_each_bank_once() {
    with_seeds(|rng| {
        let chain = Chain::random(rng);
        let mut feed = new_feed();
        let mut checker = Checker::new(&chain);
        let mut now = start_time();
        let mut streams = Vec::new();
        for _ in 0..2 {
            let source = feed.open_source(StreamStart::AfterRoot).expect("a free source");
            let all = messages(&chain, manner(rng), rng);
            streams.push((source, repeat_some(all, &chain, rng).into_iter()));
        }
        while !streams.is_empty() {
            let at = rng.usize(..streams.len());
            let (source, stream) = &mut streams[at];
            let Some(message) = stream.next() else {
                streams.remove(at);
                continue;
            };
            now += Duration::from_millis(rng.u64(0..20));
            feed.handle(message.update(*source), now);
            checker.take(&mut feed);
            end_batch(&mut feed, &mut checker, rng);
        }
        feed.handle_timeout(now + HOUR * 2);
        checker.take(&mut feed);
        assert_eq!(checker.gaps, []);
        checker.check_end();
    });
}

#[test]
fn the_tip_is_where_the_stake_voted() {
    with_seeds(|rng| {
        let chain = Chain::random(rng);
        let mut feed = new_feed();
        let mut checker = Checker::new(&chain);
        let mut now = start_time();
        let all = messages(&chain, manner(rng), rng);
        send(&mut feed, &mut checker, &all, &mut now, rng);
        let newest = chain.banks.last().map_or(0, |bank| bank.slot);
        let mut votes = Vec::new();
        for voter in 0..rng.u8(0..5) {
            let slot = rng.u64(checker.root.slot + 1..=newest + 1);
            let stake = rng.u64(1..100);
            feed.apply(Decision::CountVotes(vec![LandedVote {
                voter: Pubkey::from([voter; 32]),
                slot,
                stake,
            }]));
            votes.push((slot, stake));
            checker.take(&mut feed);
        }
        assert_eq!(feed.status().tip, checker.best(checker.confirmed, &votes));
    });
}
