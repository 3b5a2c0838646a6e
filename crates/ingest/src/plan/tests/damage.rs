//! Logs that are damaged, shorter than they were, or without messages that they count.

use super::*;

/// Starts a plan on a log of this extent, and calls `read` for each reader. Returns the reason of the generation that
/// the plan opens.
fn open_instead(tail: Tail, read: impl Fn(&mut Plan, Now)) -> Arc<str> {
    let mut plan = plan(usize::MAX);
    let mut elapsed = Duration::ZERO;
    for _ in 0..1_000 {
        let now = Now { elapsed, unix_ms: 2 };
        let outcome = match plan.next_action(now) {
            Action::CheckLog => Outcome::LogChecked(Ok(())),
            Action::CheckChain => Outcome::ChainChecked(Ok(None)),
            Action::FindGeneration => Outcome::GenerationFound(Ok(Some(0))),
            Action::OpenGeneration(0) => Outcome::GenerationOpened(Ok(())),
            Action::ReadTail => Outcome::TailRead(Ok(tail.clone())),
            Action::RetainView => retain_root_view(&plan),
            Action::Read(_) => {
                plan.handle(Input::Done(Outcome::ReaderOpened(Ok(()))), now);
                read(&mut plan, now);
                continue;
            }
            Action::Wait(until) => {
                elapsed = until.expect("a time");
                continue;
            }
            Action::WriteSnapshot(request) => {
                assert_eq!(request.generation, 1);
                let mut notices = plan.take_notices().into_iter();
                let reason = notices.find_map(|notice| match notice {
                    Notice::OpensGeneration { reason, .. } => Some(reason),
                    _ => None,
                });
                return reason.expect("a notice");
            }
            other => panic!("{other:?}"),
        };
        plan.handle(Input::Done(outcome), now);
    }
    panic!("no generation is opened");
}

#[test]
fn a_log_whose_messages_were_all_removed_is_replaced() {
    for first in [0, 11] {
        let reason = open_instead(Tail { first, last: 10 }, |_, _| {});
        assert!(reason.contains("all messages"), "{reason}");
    }
}

#[test]
fn a_log_with_a_hole_is_replaced() {
    let tail = Tail { first: 1, last: 10 };
    let reason = open_instead(tail, |plan, now| {
        for message in number_messages(&generation_with(&content(1, false))) {
            plan.handle(Input::Message(message), now);
        }
        plan.handle(Input::ReadFailed(ReadFailure::Truncated { wanted: 9 }), now);
    });
    assert!(reason.contains("a message of the log is missing"), "{reason}");
}

#[test]
fn a_log_with_a_damaged_body_is_replaced() {
    let mut messages = generation_with(&content(1, false));
    let body = messages.last_mut().expect("the block has bodies");
    let mut payload = body.payload.to_vec();
    payload[0] ^= 1;
    body.payload = payload.into();
    let tail = Tail { first: 1, last: messages.len() as u64 };
    let reason = open_instead(tail, |plan, now| {
        for message in number_messages(&messages) {
            plan.handle(Input::Message(message), now);
        }
    });
    assert!(reason.contains("a record of the log is damaged"), "{reason}");
}

/// Reads the extent after an append without a reply, until the plan does something else, or the time ends.
fn request_tail(plan: &mut Plan, last: u64, from: Duration, until: Duration) -> Option<Action> {
    let mut elapsed = from;
    while elapsed < until {
        let now = Now { elapsed, unix_ms: 2 };
        match plan.next_action(now) {
            Action::ReadTail => {
                let tail = Tail { first: 1, last };
                plan.handle(Input::Done(Outcome::TailRead(Ok(tail))), now);
            }
            Action::FindGeneration => {
                plan.handle(Input::Done(Outcome::GenerationFound(Ok(Some(0)))), now);
            }
            Action::RetainView => {
                let outcome = retain_root_view(plan);
                plan.handle(Input::Done(outcome), now);
            }
            Action::Wait(until) => elapsed = until.expect("a time"),
            other => return Some(other),
        }
    }
    None
}

#[test]
fn a_log_is_replaced_after_it_was_shorter_for_two_leases() {
    let shorter = |until: Duration, then: u64| {
        let mut plan = plan(usize::MAX);
        lead(&mut plan);
        for slot in 1..=2 {
            plan.handle(frozen(slot, Ok(content(slot, false))), NOW);
            let Action::Append(batch) = plan.next_action(NOW) else { panic!("it appends") };
            let appended = match slot {
                1 => Ok(batch.chain.position()),
                _ => Err(AppendFailure::Unknown),
            };
            plan.handle(Input::Done(Outcome::Appended(appended)), NOW);
        }
        let outcome = request_tail(&mut plan, 1, Duration::ZERO, until);
        outcome.or_else(|| request_tail(&mut plan, then, until, until + LEASE))
    };
    let position = 1 + number_messages(&generation_with(&content(1, false))).len() as u64 - 1;
    let append = shorter(LEASE, position);
    assert!(matches!(append, Some(Action::Append(_))), "{append:?}");
    let opening = shorter(LEASE * 3, position);
    assert!(matches!(opening, Some(Action::WriteSnapshot(_))), "{opening:?}");
}

#[test]
fn a_follower_replaces_a_log_that_stops_delivering() {
    let mut plan = plan(usize::MAX);
    let messages = generation_with(&content(1, false));
    follow(&mut plan, &messages);
    let last = messages.len() as u64 + 3;
    let mut elapsed = Duration::ZERO;
    let mut message = number_messages(&messages).pop().expect("a message");
    message.pending = 3;
    plan.handle(Input::Message(message), NOW);
    for _ in 0..100 {
        let now = Now { elapsed, unix_ms: 2 };
        let outcome = match plan.next_action(now) {
            Action::Read(_) => Outcome::ReaderOpened(Ok(())),
            Action::OpenGeneration(0) => Outcome::GenerationOpened(Ok(())),
            Action::ReadTail => Outcome::TailRead(Ok(Tail { first: 1, last })),
            Action::FindGeneration => Outcome::GenerationFound(Ok(Some(0))),
            Action::RetainView => return,
            Action::Wait(until) => {
                elapsed = until.expect("a time");
                continue;
            }
            other => panic!("{other:?}"),
        };
        plan.handle(Input::Done(outcome), now);
    }
    panic!("no generation is opened");
}

#[test]
fn a_log_that_counts_a_message_it_lost_is_replaced() {
    let tail = Tail { first: 1, last: 10 };
    let reason = open_instead(tail, |plan, now| {
        for message in number_messages(&generation_with(&content(1, false))) {
            plan.handle(Input::Message(message), now);
        }
    });
    assert!(reason.contains("a message of the log is missing"), "{reason}");
}

#[test]
fn a_follower_recovers_a_generation_behind_a_damage() {
    let mut log = OtherLog::new();
    log.push_block(&content(1, false), 5);
    let damaged = log.messages.len();
    for slot in 2..=8 {
        log.push_block(&content(slot, false), slot + 5);
    }
    let block = |slot| BlockName { slot, number: slot + 6 };
    log.push_marks(vec![
        Mark::TipMoved(block(8)),
        Mark::Confirmed(block(8)),
        Mark::Rooted(block(4)),
    ]);
    let mut stored = number_messages(&log.messages);
    stored.iter_mut().for_each(|message| message.pending = 0);
    let mut payload = stored[damaged - 1].payload.to_vec();
    payload[0] ^= 1;
    stored[damaged - 1].payload = payload.into();

    let mut plan = plan(usize::MAX);
    follow(&mut plan, &log.messages[..1]);
    stored[1..damaged].iter().for_each(|it| plan.handle(Input::Message(it.clone()), NOW));
    let mut last = damaged as u64;
    let end = stored.len() as u64;
    let mut elapsed = Duration::ZERO;
    for _ in 0..200 {
        let now = Now { elapsed, unix_ms: 2 };
        if plan.followed_log().is_some_and(|followed| followed.position == end) {
            return assert_eq!(plan.counters().generations_opened, 0);
        }
        let outcome = match plan.next_action(now) {
            Action::Read(after) => {
                plan.handle(Input::Done(Outcome::ReaderOpened(Ok(()))), now);
                let read = stored.iter().filter(|it| it.sequence > after && it.sequence <= last);
                read.for_each(|it| plan.handle(Input::Message(it.clone()), now));
                continue;
            }
            Action::ReadTail => Outcome::TailRead(Ok(Tail { first: 1, last })),
            Action::FindGeneration => Outcome::GenerationFound(Ok(Some(0))),
            Action::OpenGeneration(0) => {
                // The leader has appended meanwhile.
                last = end;
                Outcome::GenerationOpened(Ok(()))
            }
            Action::Wait(until) => {
                elapsed = until.expect("a time");
                continue;
            }
            other => panic!("{other:?}"),
        };
        plan.handle(Input::Done(outcome), now);
    }
    panic!("the generation is not recovered");
}
