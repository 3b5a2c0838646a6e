//! Damages that replicas report: appends continue, and one snapshot is needed.

mod differences;
mod own_damages;

use chain_solana::wire::{TermRecord, encode_term};

use super::*;
use crate::model::report::fault_report;
use crate::plan::{CheckedReport, KnownSnapshot, ReportOutcome};
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
