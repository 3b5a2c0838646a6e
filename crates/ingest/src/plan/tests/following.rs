//! A followed log: other chains, differences, takeovers, and the cost of a log that is away.

use super::*;

#[test]
fn a_log_of_another_chain_is_refused_by_name() {
    let mut plan = plan(usize::MAX);
    assert!(matches!(plan.next_action(NOW), Action::CheckLog));
    plan.handle(Input::Done(Outcome::LogChecked(Ok(()))), NOW);
    assert!(matches!(plan.next_action(NOW), Action::CheckChain));
    let other = Hash::new_from_array([5; 32]);
    let found =
        FoundSnapshots { genesis_hash: other, newest_generation: 0, logged_generation: None };
    plan.handle(Input::Done(Outcome::ChainChecked(Ok(Some(found)))), NOW);
    assert!(matches!(plan.next_action(NOW), Action::Stop));
    let notices = plan.take_notices();
    let [Notice::Stopped(reason)] = &notices[..] else { panic!("{notices:?}") };
    assert!(reason.contains(&other.to_string()) && reason.contains("--log-cluster"), "{reason}");
}

#[test]
fn a_block_that_differs_is_reported_with_its_slot() {
    let info = block_info(1);
    let block = chain_solana::Block {
        blockhash: key(1, false).blockhash,
        previous_blockhash: key(0, false).blockhash,
        bank_hash: Hash::new_from_array([8; 32]),
        block_time: 99,
        ..empty_block(id(1), id(0))
    };
    let other = EncodedBlock::new(&BlockSource::new(&block, &info, 1)).expect("a record");
    for is_own_first in [false, true] {
        let mut plan = plan(usize::MAX);
        let own = frozen(1, Ok(content(1, false)));
        if is_own_first {
            plan.handle(own.clone(), NOW);
            follow(&mut plan, &generation_with(&other));
        } else {
            follow(&mut plan, &generation_with(&other));
            plan.handle(own, NOW);
        }
        let counters = plan.counters();
        assert_eq!((counters.state_disagreements, counters.rest_disagreements), (1, 1));
        let notices = plan.take_notices();
        for what in ["state", "rest"] {
            assert!(notices.contains(&Notice::Disagrees { slot: 1, what }), "{notices:?}");
        }
    }
}

#[test]
fn a_follower_takes_over_after_the_lease_and_not_before() {
    let mut plan = plan(usize::MAX);
    follow(&mut plan, &generation_with(&content(1, false)));
    plan.handle(frozen(1, Ok(content(1, false))), NOW);
    plan.handle(frozen(2, Ok(content(2, false))), NOW);
    assert!(matches!(plan.next_action(NOW), Action::Wait(Some(until)) if until == LEASE));
    let later = Now { elapsed: LEASE, unix_ms: 2 };
    let Action::Append(batch) = plan.next_action(later) else { panic!("it takes over") };
    // A term and the block that the log lacks.
    assert_eq!((batch.records, batch.blocks.len()), (2, 1));
    assert_eq!(batch.chain.term(), OTHER.term + 1);
}

#[test]
fn a_block_that_the_leader_reverted_is_logged_again() {
    let mut log = OtherLog::new();
    log.push_block(&content(1, false), 5);
    log.push_block(&content(2, false), 7);
    let reverted =
        Mark::Reverted { block: BlockName { slot: 2, number: 8 }, reason: RevertReason::Abandoned };
    log.push_marks(vec![reverted]);
    let mut plan = plan(usize::MAX);
    for slot in 1..=3 {
        plan.handle(frozen(slot, Ok(content(slot, false))), NOW);
        plan.handle(Input::Own(OwnEvent::TipMoved(id(slot))), NOW);
    }
    follow(&mut plan, &log.messages);
    let later = Now { elapsed: LEASE, unix_ms: 2 };
    let Action::Append(batch) = plan.next_action(later) else { panic!("it takes over") };
    assert_eq!(batch.blocks.len(), 2, "{batch:?}");
    assert!(batch.chain.find(&key(3, false)).is_some(), "{batch:?}");
}

#[test]
fn a_jump_behind_the_confirmed_block_is_not_logged() {
    let mut log = OtherLog::new();
    for slot in 1..=6 {
        log.push_block(&content(slot, false), if slot == 1 { 5 } else { slot + 5 });
    }
    let block = |slot| BlockName { slot, number: slot + 6 };
    log.push_marks(vec![Mark::TipMoved(block(6)), Mark::Confirmed(block(5))]);
    let mut plan = plan(usize::MAX);
    for slot in 1..=3 {
        plan.handle(frozen(slot, Ok(content(slot, false))), NOW);
    }
    plan.handle(Input::Own(OwnEvent::Confirmed(key(3, false))), NOW);
    follow(&mut plan, &log.messages);
    plan.handle(frozen_on(3, 9, Ok(content(9, false))), NOW);
    plan.handle(Input::Own(OwnEvent::TipMoved(id(9))), NOW);
    plan.handle(Input::Own(OwnEvent::Rooted { id: id(9), key: key(9, false) }), NOW);
    let mut elapsed = Duration::ZERO;
    let request = loop {
        let now = Now { elapsed, unix_ms: 2 };
        match plan.next_action(now) {
            Action::Append(batch) => {
                assert!(batch.blocks.is_empty(), "{batch:?}");
                let last = batch.chain.position();
                plan.handle(Input::Done(Outcome::Appended(Ok(last))), now);
            }
            Action::FindGeneration => {
                plan.handle(Input::Done(Outcome::GenerationFound(Ok(Some(0)))), now);
            }
            Action::RetainView => {
                let outcome = retain_root_view(&plan);
                plan.handle(Input::Done(outcome), now);
            }
            Action::WriteSnapshot(request) => break request,
            Action::Wait(until) => elapsed = until.expect("the lease ends"),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((request.generation, request.block), (1, id(9)));
}

#[test]
fn an_item_that_no_leader_can_append_ends_no_term() {
    let mut plan = plan(usize::MAX);
    follow(&mut plan, &generation_with(&content(1, false)));
    plan.handle(frozen(1, Ok(content(1, false))), NOW);
    // Its parent is a fork that the log does not have.
    plan.handle(frozen(3, Ok(content(3, false))), NOW);
    let later = Now { elapsed: LEASE * 10, unix_ms: 2 };
    assert!(matches!(plan.next_action(later), Action::FindGeneration));
    plan.handle(Input::Done(Outcome::GenerationFound(Ok(Some(0)))), later);
    let action = plan.next_action(later);
    assert!(matches!(action, Action::Wait(_)), "{action:?}");
}

#[test]
fn the_jump_of_another_ingester_is_not_compared() {
    let info = block_info(2);
    let block = chain_solana::Block {
        blockhash: key(2, false).blockhash,
        previous_blockhash: key(0, false).blockhash,
        ..empty_block(id(2), id(0))
    };
    let source = BlockSource { is_jump: true, ..BlockSource::new(&block, &info, 1) };
    let jump = EncodedBlock::new(&source).expect("a record");
    let mut plan = plan(usize::MAX);
    follow(&mut plan, &generation_with(&jump));
    plan.handle(frozen(1, Ok(content(1, false))), NOW);
    plan.handle(frozen(2, Ok(content(2, false))), NOW);
    let counters = plan.counters();
    assert_eq!((counters.state_disagreements, counters.rest_disagreements), (0, 0));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is about the time that it takes")]
fn a_log_that_is_away_costs_the_same_for_each_block() {
    let mut plan = plan(usize::MAX);
    lead(&mut plan);
    let started_at = Instant::now();
    let content = content(1, false);
    for slot in 1..=20_000 {
        let now = Now { elapsed: Duration::from_millis(slot), unix_ms: 1 };
        let events = [
            OwnEvent::TipMoved(id(slot)),
            OwnEvent::Confirmed(key(slot, false)),
            OwnEvent::Rooted { id: id(slot), key: key(slot, false) },
        ];
        plan.handle(frozen(slot, Ok(Arc::clone(&content))), now);
        events.into_iter().for_each(|event| plan.handle(Input::Own(event), now));
        let outcome = match plan.next_action(now) {
            Action::Append(_) => Outcome::Appended(Err(AppendFailure::Unknown)),
            Action::ReadTail => Outcome::TailRead(Ok(Tail { first: 1, last: 1 })),
            Action::FindGeneration => Outcome::GenerationFound(Ok(Some(0))),
            _ => continue,
        };
        plan.handle(Input::Done(outcome), now);
    }
    assert!(plan.own().item_count() >= 60_000, "{}", plan.own().item_count());
    // It takes minutes if each event costs a pass over all that wait.
    let took = started_at.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
}
