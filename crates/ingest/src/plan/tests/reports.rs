//! Damages that replicas report, or that the leader finds: appends continue, and one snapshot is needed.

use chain_solana::wire::{TermRecord, encode_term};

use super::*;
use crate::model::report::fault_report;
use crate::plan::{BlockDifference, CheckedReport, KnownSnapshot, ReportOutcome};
use crate::scan::ScanResult;

/// A report of a replica that got past a message.
fn report(generation: u64, sequence: u64, what: &str, scan: Option<ScanResult>) -> Input {
    Input::Reported(CheckedReport { report: fault_report(generation, sequence, what), scan })
}

fn damage_report(sequence: u64, last: u64) -> Input {
    report(0, sequence, "body", Some(ScanResult::Damaged { last }))
}

fn snapshot(position: u64) -> Input {
    Input::Snapshot(KnownSnapshot { generation: 0, position })
}

/// Adds a block, which the next action appends.
fn append_block(plan: &mut Plan, slot: Slot, now: Now) {
    plan.handle(frozen(slot, Ok(content(slot, false))), now);
    let action = plan.next_action(now);
    let Action::Append(batch) = action else { panic!("slot {slot}: {action:?}") };
    assert!(batch.chain.find(&key(slot, false)).is_some());
    plan.handle(Input::Done(Outcome::Appended(Ok(batch.chain.position()))), now);
}

/// A leader whose log has some blocks.
fn leader(blocks: u64) -> Plan {
    let mut plan = plan(usize::MAX);
    lead(&mut plan);
    (1..=blocks).for_each(|slot| append_block(&mut plan, slot, NOW));
    plan
}

fn position(plan: &Plan) -> u64 {
    plan.followed_log().expect("it follows the log").position
}

fn count_handled(plan: &Plan, outcome: ReportOutcome) -> u64 {
    plan.counters().reports[outcome as usize]
}

#[test]
fn a_report_of_an_intact_record_is_counted_once_and_changes_nothing() {
    let mut plan = leader(3);
    for _ in 0..1_000 {
        for sequence in [0, 1, 4] {
            plan.handle(report(0, sequence, "body", Some(ScanResult::Intact)), NOW);
        }
    }
    assert_eq!(count_handled(&plan, ReportOutcome::Intact), 3);
    assert_eq!(plan.counters().reports.iter().sum::<u64>(), 3);
    assert_eq!(plan.needed_snapshot(), None);
    assert!(!plan.awaits_snapshot());
    append_block(&mut plan, 4, NOW);
    assert_eq!(plan.counters().generations_opened, 1);
}

#[test]
fn a_damaged_record_needs_one_snapshot_behind_it_while_appends_continue() {
    let mut plan = leader(3);
    plan.handle(damage_report(1, 3), NOW);
    plan.handle(damage_report(1, 3), NOW);
    assert_eq!(plan.needed_snapshot(), Some(3));
    assert_eq!(count_handled(&plan, ReportOutcome::Damaged), 1);
    append_block(&mut plan, 4, NOW);
    // Snapshots before the damage, and of another generation, are of no use.
    plan.handle(snapshot(3), NOW);
    plan.handle(Input::Snapshot(KnownSnapshot { generation: 1, position: 9 }), NOW);
    assert_eq!(plan.needed_snapshot(), Some(3));
    append_block(&mut plan, 5, NOW);
    plan.handle(snapshot(6), NOW);
    assert_eq!(plan.needed_snapshot(), None);
    plan.handle(damage_report(1, 3), NOW);
    assert_eq!(plan.needed_snapshot(), None);
    append_block(&mut plan, 6, NOW);
    assert_eq!(plan.counters().generations_opened, 1);
}

#[test]
fn reports_of_no_position_of_the_followed_log_are_ignored() {
    let mut plan = leader(3);
    let end = position(&plan);
    for sequence in [end + 1, u64::MAX] {
        plan.handle(damage_report(sequence, sequence), NOW);
    }
    for generation in [1, u64::MAX] {
        let scan = Some(ScanResult::Damaged { last: 2 });
        plan.handle(report(generation, 1, "body", scan), NOW);
    }
    assert_eq!(plan.counters().reports.iter().sum::<u64>(), 0);
    assert_eq!(plan.needed_snapshot(), None);
    append_block(&mut plan, 4, NOW);
}

#[test]
fn faults_that_no_snapshot_mends_are_counted_only() {
    let mut plan = leader(3);
    let lasting = ["level", "no_sum", "write_versions", "version", "later"];
    for (sequence, what) in (0..).zip(lasting) {
        plan.handle(report(0, sequence, what, Some(ScanResult::Damaged { last: 3 })), NOW);
    }
    assert_eq!(count_handled(&plan, ReportOutcome::Lasting), 5);
    assert_eq!(plan.needed_snapshot(), None);
    assert!(!plan.awaits_snapshot());
    append_block(&mut plan, 4, NOW);
}

#[test]
fn a_fault_of_the_chain_makes_the_next_snapshot_due_earlier() {
    let mut plan = leader(3);
    let end = position(&plan);
    plan.handle(report(0, end, "sum", None), NOW);
    assert_eq!(count_handled(&plan, ReportOutcome::Chain), 1);
    assert_eq!(plan.needed_snapshot(), None);
    assert!(plan.awaits_snapshot());
    plan.handle(snapshot(end), NOW);
    assert!(plan.awaits_snapshot());
    append_block(&mut plan, 4, NOW);
    plan.handle(snapshot(position(&plan)), NOW);
    assert!(!plan.awaits_snapshot());
}

#[test]
fn a_log_without_a_response_is_not_damaged() {
    let mut plan = leader(3);
    for scan in [None, Some(ScanResult::Unknown)] {
        plan.handle(report(0, 1, "body", scan), NOW);
        assert_eq!(plan.counters().reports.iter().sum::<u64>(), 0);
    }
    // The result is known after the outage.
    plan.handle(damage_report(1, 3), NOW);
    assert_eq!(plan.needed_snapshot(), Some(3));
}

#[test]
fn a_report_is_handled_again_by_the_next_leader() {
    let mut plan = plan(usize::MAX);
    follow(&mut plan, &generation_with(&content(1, false)));
    plan.handle(frozen(1, Ok(content(1, false))), NOW);
    plan.handle(damage_report(0, 1), NOW);
    assert_eq!(plan.needed_snapshot(), None);
    plan.handle(frozen(2, Ok(content(2, false))), NOW);
    let later = Now { elapsed: LEASE, unix_ms: 2 };
    let Action::Append(batch) = plan.next_action(later) else { panic!("it takes over") };
    plan.handle(Input::Done(Outcome::Appended(Ok(batch.chain.position()))), later);
    plan.handle(damage_report(0, 1), later);
    assert_eq!(plan.needed_snapshot(), Some(1));
    // The leader before has written the snapshot.
    plan.handle(snapshot(2), later);
    assert_eq!(plan.needed_snapshot(), None);
}

#[test]
fn a_former_leader_lists_snapshots_before_it_writes_one() {
    let mut plan = plan(usize::MAX);
    follow(&mut plan, &generation_with(&content(1, false)));
    (1..=2).for_each(|slot| plan.handle(frozen(slot, Ok(content(slot, false))), NOW));
    let later = Now { elapsed: LEASE, unix_ms: 2 };
    let Action::Append(batch) = plan.next_action(later) else { panic!("it takes over") };
    plan.handle(Input::Done(Outcome::Appended(Ok(batch.chain.position()))), later);
    plan.handle(damage_report(1, 3), later);
    assert_eq!(plan.needed_snapshot(), Some(3));

    // The other ingester leads again, and may write the snapshot.
    let term = encode_term(&TermRecord {
        link: batch.chain.next_link(),
        writer: WriterId { term: batch.chain.term() + 1, ..OTHER },
        made_at_ms: 2,
        reason: "no append".to_owned(),
    });
    let mut messages = batch.messages;
    messages.push(LogMessage::head(term.head));
    for mut message in number_messages(&messages) {
        message.sequence += batch.after;
        plan.handle(Input::Message(message), later);
    }
    assert_eq!(plan.needed_snapshot(), None);

    // It ends.
    plan.handle(frozen(3, Ok(content(3, false))), later);
    let again = Now { elapsed: LEASE * 2, unix_ms: 3 };
    let batch = loop {
        match plan.next_action(again) {
            Action::Append(batch) => break batch,
            Action::FindGeneration => {
                plan.handle(Input::Done(Outcome::GenerationFound(Ok(Some(0)))), again);
            }
            other => panic!("{other:?}"),
        }
    };
    plan.handle(Input::Done(Outcome::Appended(Ok(batch.chain.position()))), again);
    let term = batch.chain.term();
    assert_eq!(plan.needed_snapshot(), None);
    // A list from before the other one led does not count.
    plan.handle(Input::SnapshotsListed { term: term - 2 }, again);
    assert_eq!(plan.needed_snapshot(), None);
    plan.handle(Input::SnapshotsListed { term }, again);
    assert_eq!(plan.needed_snapshot(), Some(3));
    plan.handle(snapshot(4), again);
    assert_eq!(plan.needed_snapshot(), None);
}

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

#[test]
fn a_report_from_before_a_known_snapshot_needs_no_other_one() {
    let mut plan = leader(3);
    plan.handle(snapshot(4), NOW);
    plan.handle(damage_report(1, 3), NOW);
    plan.handle(report(0, 2, "sum", None), NOW);
    assert_eq!(count_handled(&plan, ReportOutcome::Damaged), 1);
    assert_eq!(plan.needed_snapshot(), None);
    assert!(!plan.awaits_snapshot());
}

#[test]
fn snapshots_do_not_hide_a_log_that_stores_no_whole_record() {
    let mut plan = leader(3);
    let unreadable = |last| report(0, 1, "body", Some(ScanResult::Unreadable { last }));
    for slot in 4..=6 {
        let end = position(&plan);
        plan.handle(unreadable(end), NOW);
        append_block(&mut plan, slot, NOW);
        plan.handle(snapshot(position(&plan)), NOW);
        assert_eq!(plan.needed_snapshot(), None);
    }
    let end = position(&plan);
    plan.handle(unreadable(end), NOW);
    assert_eq!(plan.followed_log(), None);
}

#[test]
fn a_log_that_grows_without_a_whole_record_gets_a_new_generation() {
    let mut plan = leader(3);
    let unreadable = |last| report(0, 1, "body", Some(ScanResult::Unreadable { last }));
    for _ in 0..100 {
        plan.handle(unreadable(3), NOW);
    }
    assert_eq!(plan.needed_snapshot(), Some(3));
    append_block(&mut plan, 4, NOW);
    for last in 4..=5 {
        plan.handle(unreadable(last), NOW);
        assert!(plan.followed_log().is_some());
    }
    plan.handle(unreadable(6), NOW);
    assert_eq!(plan.followed_log(), None);
    open(&mut plan, 1);
    assert_eq!(plan.needed_snapshot(), None);
}

#[test]
fn thousands_of_reports_do_not_delay_an_append() {
    let mut plan = leader(3);
    let scans = [ScanResult::Intact, ScanResult::Damaged { last: 2 }, ScanResult::Unknown];
    for slot in 4..=30 {
        let end = position(&plan);
        for sequence in 0..1_000 {
            let scan = scans[sequence as usize % scans.len()];
            plan.handle(report(0, sequence, "body", Some(scan)), NOW);
            plan.handle(report(0, end - sequence.min(end), "sum", None), NOW);
        }
        append_block(&mut plan, slot, NOW);
    }
    assert_eq!(plan.counters().generations_opened, 1);
}

/// The messages of a batch as the log stores them, with a damage of the last one.
fn store_damaged(after: u64, messages: &[LogMessage]) -> Vec<StoredMessage> {
    let mut stored = number_messages(messages);
    stored.iter_mut().for_each(|message| message.sequence += after);
    let last = stored.last_mut().expect("a batch has messages");
    let mut payload = last.payload.to_vec();
    payload[0] ^= 1;
    last.payload = payload.into();
    stored
}

#[test]
fn a_leader_continues_behind_a_damage_of_its_own_record() {
    let mut plan = plan(usize::MAX);
    lead(&mut plan);
    plan.handle(frozen(1, Ok(content(1, false))), NOW);
    let Action::Append(batch) = plan.next_action(NOW) else { panic!("it appends") };
    let last = batch.chain.position();
    plan.handle(Input::Done(Outcome::Appended(Ok(last))), NOW);
    let stored = store_damaged(batch.after, &batch.messages);
    let mut elapsed = Duration::ZERO;
    for _ in 0..100 {
        let now = Now { elapsed, unix_ms: 2 };
        stored.iter().for_each(|it| plan.handle(Input::Message(it.clone()), now));
        match plan.next_action(now) {
            Action::Read(after) => {
                plan.handle(Input::Done(Outcome::ReaderOpened(Ok(()))), now);
                if after == last {
                    assert_eq!(plan.needed_snapshot(), Some(last));
                    assert_eq!(plan.counters().passed_damages, 1);
                    return append_block(&mut plan, 2, now);
                }
                assert_eq!(after, batch.after, "it reads the damaged record again");
            }
            Action::FindGeneration => {
                plan.handle(Input::Done(Outcome::GenerationFound(Ok(Some(0)))), now);
            }
            Action::Wait(until) => elapsed = until.expect("a time"),
            other => panic!("{other:?}"),
        }
    }
    panic!("the damage is not passed over");
}

#[test]
fn a_log_that_stores_only_damaged_records_gets_a_new_generation() {
    let mut plan = plan(usize::MAX);
    lead(&mut plan);
    let mut stored: Vec<StoredMessage> = Vec::new();
    let mut elapsed = Duration::ZERO;
    let mut slot = 0;
    for _ in 0..1_000 {
        let now = Now { elapsed, unix_ms: 2 };
        let mut read_after = u64::MAX;
        let outcome = match plan.next_action(now) {
            Action::Read(after) => {
                read_after = after;
                Outcome::ReaderOpened(Ok(()))
            }
            Action::Append(batch) => {
                stored.extend(store_damaged(batch.after, &batch.messages));
                read_after = batch.after;
                Outcome::Appended(Ok(batch.chain.position()))
            }
            Action::FindGeneration => Outcome::GenerationFound(Ok(Some(0))),
            Action::RetainView => {
                assert_eq!(plan.counters().passed_damages, 3);
                return;
            }
            Action::Wait(until) => {
                elapsed = until.expect("a time");
                if slot < 40 {
                    slot += 1;
                    plan.handle(frozen(slot, Ok(content(slot, false))), now);
                }
                continue;
            }
            other => panic!("{other:?}"),
        };
        plan.handle(Input::Done(outcome), now);
        let read: Vec<StoredMessage> =
            stored.iter().filter(|it| it.sequence > read_after).cloned().collect();
        read.into_iter().for_each(|message| plan.handle(Input::Message(message), now));
    }
    panic!("no generation is opened");
}
