//! Reports of blocks that two ingesters have differently, and of records that replicas refuse.

use super::*;
use crate::plan::BlockDifference;

/// The block of slot 1 as another ingester has it: with another bank hash.
fn other_block() -> EncodedBlock {
    let block = chain_solana::Block {
        blockhash: key(1, false).blockhash,
        previous_blockhash: key(0, false).blockhash,
        bank_hash: Hash::new_from_array([8; 32]),
        ..empty_block(id(1), id(0))
    };
    let source = BlockSource::new(&block, &block_info(1), 1);
    EncodedBlock::new(&source).expect("a record")
}

/// Takes over from the ingester of a log, with the blocks up to slot 2.
fn take_over(plan: &mut Plan, messages: &[LogMessage]) -> Now {
    follow(plan, messages);
    for slot in 1..=2 {
        plan.handle(frozen(slot, Ok(content(slot, false))), NOW);
    }
    let later = Now { elapsed: LEASE, unix_ms: 2 };
    let Action::Append(batch) = plan.next_action(later) else { panic!("it takes over") };
    plan.handle(Input::Done(Outcome::Appended(Ok(batch.chain.position()))), later);
    later
}

#[test]
fn a_snapshot_after_a_difference_is_of_an_own_block() {
    let mut plan = plan(usize::MAX);
    take_over(&mut plan, &generation_with(&other_block()));
    assert_eq!(plan.counters().state_disagreements, 1);
    assert_eq!(plan.find_logged_block(&key(1, false)), None);
    assert!(plan.find_logged_block(&key(2, false)).is_some());
}

#[test]
fn a_record_that_differs_from_the_own_block_needs_a_snapshot_behind_it_at_once() {
    let messages = generation_with(&other_block());
    let wrong = messages.len() as u64;
    let mut plan = plan(usize::MAX);
    let later = take_over(&mut plan, &messages);
    // A replica that has not read the record does not refuse it.
    plan.handle(report(0, wrong - 1, "sum", None), later);
    assert_eq!(count_handled(&plan, ReportOutcome::Chain), 1);
    assert_eq!(plan.needed_snapshot(), None);
    plan.handle(report(0, wrong, "bank_hash", None), later);
    assert_eq!(count_handled(&plan, ReportOutcome::Different), 1);
    assert_eq!(plan.needed_snapshot(), Some(wrong));
    // Another one has read further before it has checked the block.
    let end = position(&plan);
    plan.handle(report(0, end, "sum", None), later);
    assert_eq!(count_handled(&plan, ReportOutcome::Different), 2);
    assert_eq!(plan.needed_snapshot(), Some(end));
    append_block(&mut plan, 3, later);
    plan.handle(snapshot(position(&plan)), later);
    assert_eq!(plan.needed_snapshot(), None);
    // Replicas get past the record with this snapshot.
    append_block(&mut plan, 4, later);
    plan.handle(report(0, position(&plan), "sum", None), later);
    assert_eq!(count_handled(&plan, ReportOutcome::Different), 2);
    assert_eq!(plan.needed_snapshot(), None);
    assert_eq!(plan.counters().generations_opened, 0);
}

#[test]
fn a_record_that_is_the_own_block_needs_no_snapshot_at_once() {
    let mut plan = plan(usize::MAX);
    let later = take_over(&mut plan, &generation_with(&content(1, false)));
    plan.handle(report(0, position(&plan), "sum", None), later);
    assert_eq!(count_handled(&plan, ReportOutcome::Different), 0);
    assert_eq!(plan.needed_snapshot(), None);
    assert!(plan.awaits_snapshot());
}

#[test]
fn a_leader_with_a_wrong_block_learns_it_from_another_ingester() {
    // The other ingester follows, and reports the difference once.
    let mut other = plan(usize::MAX);
    follow(&mut other, &generation_with(&other_block()));
    assert_eq!(other.take_difference(), None);
    other.handle(frozen(1, Ok(content(1, false))), NOW);
    let difference = other.take_difference().expect("the block differs");
    assert_eq!(other.take_difference(), None);
    let found = difference.to_report("test", 1);
    assert_eq!(FaultReport::from_object(&found.key(), found.to_text().as_bytes()), Some(found));

    let mut plan = leader(3);
    let wrong = BlockDifference { position: 4, ..difference };
    let report_of_other = wrong.to_report("test", 1);
    assert_eq!(report_of_other.sequence, 3);
    let checked = CheckedReport { report: report_of_other, scan: None };
    plan.handle(Input::Reported(checked), NOW);
    assert_eq!(count_handled(&plan, ReportOutcome::Disagreement), 1);
    // No replica has refused the block.
    assert_eq!(plan.needed_snapshot(), None);
    assert!(!plan.awaits_snapshot());
    plan.handle(report(0, 2, "sum", None), NOW);
    assert_eq!(count_handled(&plan, ReportOutcome::Different), 0);
    plan.handle(report(0, 4, "sum", None), NOW);
    assert_eq!(count_handled(&plan, ReportOutcome::Different), 1);
    assert_eq!(plan.needed_snapshot(), Some(4));
}

/// Returns slot and outcome of each report that was handled since the last call.
fn take_reported(plan: &mut Plan) -> Vec<(Slot, ReportOutcome)> {
    let notices = plan.take_notices().into_iter();
    let reported = notices.filter_map(|notice| match notice {
        Notice::Reported { slot, outcome, .. } => Some((slot, outcome)),
        _ => None,
    });
    reported.collect()
}

#[test]
fn the_slot_of_a_block_that_differs_is_named_with_the_report() {
    let messages = generation_with(&other_block());
    let wrong = messages.len() as u64;
    let mut plan = plan(usize::MAX);
    let later = take_over(&mut plan, &messages);
    plan.handle(report(0, wrong, "bank_hash", None), later);
    assert_eq!(take_reported(&mut plan), [(1, ReportOutcome::Different)]);

    let mut plan = leader(3);
    let name = BlockName { slot: 2, number: 3 };
    let difference = BlockDifference { generation: 0, position: 4, name };
    let checked = CheckedReport { report: difference.to_report("test", 1), scan: None };
    plan.handle(Input::Reported(checked), NOW);
    plan.handle(report(0, 4, "sum", None), NOW);
    let expected = [(2, ReportOutcome::Disagreement), (2, ReportOutcome::Different)];
    assert_eq!(take_reported(&mut plan), expected);
}
