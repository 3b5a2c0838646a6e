//! Damages that the leader finds in its own records: it continues behind them, and one snapshot is needed.

use super::*;

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
