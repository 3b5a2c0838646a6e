//! New generations: their causes, their snapshots, their numbers.

use super::*;

/// A plan that has retained the view of slot 2, while its events are at slot 0.
fn plan_with_view(queue_bytes_max: usize) -> Plan {
    let mut plan = plan(queue_bytes_max);
    loop {
        let outcome = match plan.next_action(NOW) {
            Action::CheckLog => Outcome::LogChecked(Ok(())),
            Action::CheckChain => Outcome::ChainChecked(Ok(None)),
            Action::FindGeneration => Outcome::GenerationFound(Ok(None)),
            Action::RetainView => {
                let view = ViewBlock { id: id(2), key: key(2, false) };
                plan.handle(Input::Done(Outcome::ViewRetained(view)), NOW);
                return plan;
            }
            other => panic!("{other:?}"),
        };
        plan.handle(Input::Done(outcome), NOW);
    }
}

#[test]
fn a_snapshot_is_of_the_view_that_the_events_reach_later() {
    let mut plan = plan_with_view(usize::MAX);
    for slot in 1..=5 {
        assert!(slot > 2 || matches!(plan.next_action(NOW), Action::Wait(_)));
        plan.handle(frozen(slot, Ok(content(slot, false))), NOW);
        let root = OwnEvent::Rooted { id: id(slot), key: key(slot, false) };
        plan.handle(Input::Own(root), NOW);
    }
    let Action::WriteSnapshot(request) = plan.next_action(NOW) else { panic!("a snapshot") };
    assert_eq!(request.block, id(2));
    for slot in 3..=5 {
        assert!(plan.own().find(&key(slot, false)).is_some(), "slot {slot} is retained");
    }
}

#[test]
fn a_queue_that_is_too_small_for_a_snapshot_is_named() {
    let queue_bytes_max = (content(1, false).bytes() + 1_000) * 4;
    let mut plan = plan_with_view(queue_bytes_max);
    for slot in 1..=2 {
        plan.handle(frozen(slot, Ok(content(slot, false))), NOW);
    }
    plan.handle(Input::Own(OwnEvent::Rooted { id: id(2), key: key(2, false) }), NOW);
    let Action::WriteSnapshot(request) = plan.next_action(NOW) else { panic!("a snapshot") };
    for slot in 3..=9 {
        plan.handle(frozen(slot, Ok(content(slot, false))), NOW);
    }
    let later = Now { elapsed: LEASE, unix_ms: 2 };
    plan.handle(Input::Done(end_writing(request)), later);
    let notices = plan.take_notices();
    let expected = Notice::SnapshotTooSlow { took: LEASE, queue_bytes_max };
    assert!(notices.contains(&expected), "{notices:?}");
}

#[test]
fn a_block_without_a_record_opens_a_new_generation() {
    let mut plan = plan(usize::MAX);
    lead(&mut plan);
    plan.handle(frozen(1, Err(Arc::from("too large"))), NOW);
    plan.handle(Input::Own(OwnEvent::TipMoved(id(1))), NOW);
    // A snapshot of the present root would have the same gap, and one generation would follow the other.
    assert!(matches!(plan.next_action(NOW), Action::Wait(_)));
    plan.handle(frozen(2, Ok(content(2, false))), NOW);
    plan.handle(Input::Own(OwnEvent::TipMoved(id(2))), NOW);
    assert!(matches!(plan.next_action(NOW), Action::Wait(_)));
    opens_a_generation(&mut plan, "too large");
}

#[test]
fn a_ledger_that_goes_back_below_its_root_gets_a_new_generation() {
    let mut plan = plan(usize::MAX);
    lead(&mut plan);
    plan.handle(frozen(1, Ok(content(1, false))), NOW);
    plan.handle(Input::Own(OwnEvent::Rooted { id: id(1), key: key(1, false) }), NOW);
    let reason = RevertReason::Dead { error: "on request".to_owned() };
    plan.handle(Input::Own(OwnEvent::Reverted { key: key(1, false), reason }), NOW);
    // A new block shows that the ledger continues.
    plan.handle(frozen(1, Ok(content(1, true))), NOW);
    opens_a_generation(&mut plan, "reverted a final block");
}

#[test]
fn dropped_blocks_open_a_new_generation() {
    let mut plan = plan(content(1, false).bytes() * 2 + 2_500);
    lead(&mut plan);
    for slot in 1..=3 {
        plan.handle(frozen(slot, Ok(content(slot, false))), NOW);
    }
    plan.handle(Input::Own(OwnEvent::TipMoved(id(3))), NOW);
    assert!(plan.own().dropped_blocks() > 0);
    opens_a_generation(&mut plan, "is missing");
}

/// Checks that the next action requests the newest generation once the root has passed the gap, and that a snapshot of
/// the root follows.
fn opens_a_generation(plan: &mut Plan, expected: &str) {
    let root = OwnEvent::Rooted { id: id(4), key: key(4, false) };
    plan.handle(frozen(4, Ok(content(4, false))), NOW);
    plan.handle(Input::Own(root), NOW);
    assert!(matches!(plan.next_action(NOW), Action::FindGeneration));
    plan.handle(Input::Done(Outcome::GenerationFound(Ok(Some(0)))), NOW);
    assert!(matches!(plan.next_action(NOW), Action::RetainView));
    let view = retain_root_view(plan);
    plan.handle(Input::Done(view), NOW);
    let Action::WriteSnapshot(request) = plan.next_action(NOW) else { panic!("a snapshot") };
    assert_eq!((request.generation, request.block), (1, id(4)));
    let notices = plan.take_notices();
    let is_expected = |notice: &Notice| match notice {
        Notice::OpensGeneration { generation: 1, reason } => reason.contains(expected),
        _ => false,
    };
    assert!(notices.iter().any(is_expected), "{notices:?}");
}

#[test]
fn a_snapshot_can_be_taken_of_a_block_with_a_record() {
    let mut plan = plan(usize::MAX);
    lead(&mut plan);
    plan.handle(frozen(1, Ok(content(1, false))), NOW);
    assert_eq!(plan.find_logged_block(&key(1, false)), None);
    let Action::Append(batch) = plan.next_action(NOW) else { panic!("it appends") };
    let position = batch.chain.position();
    let number = batch.chain.find(&key(1, false)).expect("the batch has the block");
    let digest = batch.chain.block(number).expect("the batch has the block").record;
    plan.handle(Input::Done(Outcome::Appended(Ok(position))), NOW);
    let name = BlockName { slot: 1, number };
    let expected = LoggedBlock { generation: 0, position, name, digest };
    assert_eq!(plan.find_logged_block(&key(1, false)), Some(expected));
    assert_eq!(plan.find_logged_block(&key(0, false)), None);
}

/// Returns the generation that a new ingester opens, or `None` if it follows the newest one.
fn find_opened_generation(found: FoundSnapshots, newest: Option<u64>) -> Option<u64> {
    let mut plan = plan(usize::MAX);
    loop {
        let outcome = match plan.next_action(NOW) {
            Action::CheckLog => Outcome::LogChecked(Ok(())),
            Action::CheckChain => Outcome::ChainChecked(Ok(Some(found))),
            Action::FindGeneration => Outcome::GenerationFound(Ok(newest)),
            Action::RetainView => retain_root_view(&plan),
            Action::WriteSnapshot(request) => return Some(request.generation),
            Action::OpenGeneration(generation) => {
                assert_eq!(Some(generation), newest);
                return None;
            }
            other => panic!("{other:?}"),
        };
        plan.handle(Input::Done(outcome), NOW);
    }
}

#[test]
fn a_deleted_generation_is_not_numbered_again() {
    let found = |logged_generation| FoundSnapshots {
        genesis_hash: Hash::default(),
        newest_generation: 2,
        logged_generation,
    };
    assert_eq!(find_opened_generation(found(Some(2)), Some(2)), None);
    assert_eq!(find_opened_generation(found(Some(2)), Some(1)), Some(3));
    assert_eq!(find_opened_generation(found(Some(2)), None), Some(3));
    // Whether generation 2 ever had a record is not known.
    assert_eq!(find_opened_generation(found(None), Some(1)), None);
    assert_eq!(find_opened_generation(found(None), None), Some(3));
}
