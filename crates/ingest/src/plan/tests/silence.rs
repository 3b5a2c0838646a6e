//! A log that does not respond: one notice, and appends that resume where the log ends.

use super::*;
use crate::plan::SILENCE_MAX;

#[test]
fn an_outage_is_reported_once_and_appends_resume_after_it() {
    let mut plan = plan(usize::MAX);
    lead(&mut plan);
    plan.take_notices();
    plan.handle(frozen(1, Ok(content(1, false))), NOW);
    let mut elapsed = Duration::ZERO;
    while elapsed < LEASE * 10 {
        let now = Now { elapsed, unix_ms: 2 };
        let outcome = match plan.next_action(now) {
            Action::Append(_) => Outcome::Appended(Err(AppendFailure::Unknown)),
            Action::ReadTail => Outcome::TailRead(Err(())),
            Action::FindGeneration => Outcome::GenerationFound(Err(())),
            Action::Wait(until) => {
                elapsed = until.expect("a time");
                continue;
            }
            other => panic!("{other:?}"),
        };
        elapsed += Duration::from_millis(100);
        plan.handle(Input::Done(outcome), Now { elapsed, unix_ms: 2 });
    }
    assert_eq!(plan.unanswered_since(), Some(Duration::ZERO));
    assert_eq!(plan.counters().silences, 1);
    let notices = plan.take_notices();
    assert_eq!(notices, [Notice::Silent]);

    for _ in 0..100 {
        let now = Now { elapsed, unix_ms: 3 };
        let outcome = match plan.next_action(now) {
            Action::Append(batch) => {
                assert_eq!(batch.after, 1, "nothing is appended twice");
                let last = batch.chain.position();
                plan.handle(Input::Done(Outcome::Appended(Ok(last))), now);
                assert_eq!(plan.unanswered_since(), None);
                let notices = plan.take_notices();
                assert!(matches!(notices[..], [Notice::Responds { .. }]), "{notices:?}");
                return;
            }
            Action::ReadTail => Outcome::TailRead(Ok(Tail { first: 1, last: 1 })),
            Action::FindGeneration => Outcome::GenerationFound(Ok(Some(0))),
            Action::Wait(until) => {
                elapsed = until.expect("a time");
                continue;
            }
            other => panic!("{other:?}"),
        };
        plan.handle(Input::Done(outcome), now);
    }
    panic!("the block is not appended");
}

#[test]
fn a_hanging_operation_is_visible_before_it_ends() {
    let mut plan = plan(usize::MAX);
    lead(&mut plan);
    assert_eq!(plan.unanswered_since(), None);
    plan.handle(frozen(1, Ok(content(1, false))), NOW);
    let started = Now { elapsed: LEASE, unix_ms: 2 };
    assert!(matches!(plan.next_action(started), Action::Append(_)));
    assert_eq!(plan.unanswered_since(), Some(LEASE));
}

#[test]
fn a_store_that_is_down_at_the_start_is_not_silence_of_the_log() {
    let mut plan = plan(usize::MAX);
    let mut elapsed = Duration::ZERO;
    let mut attempts = 0;
    while elapsed < SILENCE_MAX * 3 {
        let outcome = match plan.next_action(Now { elapsed, unix_ms: 2 }) {
            Action::CheckLog => Outcome::LogChecked(Ok(())),
            Action::CheckChain => {
                attempts += 1;
                // The store is tried for a while.
                assert_eq!(plan.unanswered_since(), None);
                elapsed += SILENCE_MAX / 2;
                Outcome::ChainChecked(Err(()))
            }
            Action::Wait(until) => {
                elapsed = until.expect("a time");
                continue;
            }
            other => panic!("{other:?}"),
        };
        plan.handle(Input::Done(outcome), Now { elapsed, unix_ms: 2 });
    }
    assert!(attempts > 3);
    assert_eq!(plan.unanswered_since(), None);
    assert_eq!(plan.counters().silences, 0);
    assert!(plan.take_notices().is_empty());
}

#[test]
fn a_log_that_is_down_at_the_start_is_silent() {
    let mut plan = plan(usize::MAX);
    let mut elapsed = Duration::ZERO;
    while elapsed < SILENCE_MAX * 3 {
        match plan.next_action(Now { elapsed, unix_ms: 2 }) {
            Action::CheckLog => {
                elapsed += SILENCE_MAX / 2;
                let outcome = Outcome::LogChecked(Err(()));
                plan.handle(Input::Done(outcome), Now { elapsed, unix_ms: 2 });
            }
            Action::Wait(until) => elapsed = until.expect("a time"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(plan.take_notices(), [Notice::Silent]);
}
