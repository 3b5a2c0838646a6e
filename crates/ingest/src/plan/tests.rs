//! Decisions of one ingester, with a log that the test writes by hand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chain_solana::RevertReason;
use chain_solana::wire::{
    BlockName, BlockSource, EncodedBlock, EncodedRecord, Mark, MarksRecord, RecordDigest,
    RecordLink, SnapshotRecord, WriterId, encode_marks, encode_snapshot,
};
use cluster_snapshot::fault_reports::FaultReport;
use ledger::{BlockId, Slot};
use replicated_log::{LogMessage, StoredMessage, Tail};
use solana_hash::Hash;
use testkit::test_ledger::{block_info, empty_block};

use super::{
    Action, AppendFailure, FoundSnapshots, Input, LoggedBlock, Notice, Now, Outcome, Plan,
    PlanConfig, ReadFailure, SnapshotRequest, ViewBlock, WrittenSnapshot,
};
use crate::model::source::{content, key};
use crate::own_chain::{BlockContent, FrozenBlock, OwnEvent, OwnStart};

const LEASE: Duration = Duration::from_secs(3);
const NOW: Now = Now { elapsed: Duration::ZERO, unix_ms: 1 };
const OTHER: WriterId = WriterId { term: 7, ingester: [9; 16] };

fn id(slot: Slot) -> BlockId {
    BlockId { slot, version: 1 }
}

fn plan(queue_bytes_max: usize) -> Plan {
    let config = PlanConfig {
        ingester: [1; 16],
        lease: LEASE,
        genesis_hash: Hash::default(),
        queue_bytes_max,
    };
    Plan::new(config, OwnStart { root: id(0), root_key: key(0, false), is_complete: true })
}

fn frozen(slot: Slot, content: BlockContent) -> Input {
    frozen_on(slot - 1, slot, content)
}

/// A block whose parent is of a lower slot. It is a jump if slots are between them.
fn frozen_on(parent: Slot, slot: Slot, content: BlockContent) -> Input {
    Input::Own(OwnEvent::Frozen(FrozenBlock {
        id: id(slot),
        key: key(slot, false),
        parent: key(parent, false),
        is_jump: parent + 1 < slot,
        content,
    }))
}

fn retain_root_view(plan: &Plan) -> Outcome {
    let key = plan.own().root_key();
    Outcome::ViewRetained(ViewBlock { id: id(key.slot), key })
}

fn end_writing(request: SnapshotRequest) -> Outcome {
    Outcome::SnapshotWritten(Ok(WrittenSnapshot {
        number: request.number,
        block_digest: request.block_digest,
        manifest_key: "manifest".to_owned(),
        manifest_digest: [0; 32],
    }))
}

/// Opens the first epoch, which this ingester then leads.
fn lead(plan: &mut Plan) {
    open(plan, 0);
}

/// Opens an epoch after the one before it, and leads it.
fn open(plan: &mut Plan, epoch: u64) {
    loop {
        let outcome = match plan.next_action(NOW) {
            Action::CheckChain => Outcome::ChainChecked(Ok(None)),
            Action::FindEpoch => Outcome::EpochFound(Ok(epoch.checked_sub(1))),
            Action::RetainView => retain_root_view(plan),
            Action::WriteSnapshot(request) => end_writing(request),
            Action::CreateEpoch(created) if created == epoch => Outcome::EpochCreated(Ok(())),
            Action::OpenEpoch(opened) if opened == epoch => Outcome::EpochOpened(Ok(())),
            Action::Append(batch) => Outcome::Appended(Ok(batch.chain.position())),
            Action::Read(1) => {
                plan.handle(Input::Done(Outcome::ReaderOpened(Ok(()))), NOW);
                return;
            }
            other => panic!("{other:?}"),
        };
        plan.handle(Input::Done(outcome), NOW);
    }
}

/// Follows an epoch of another ingester with these messages.
fn follow(plan: &mut Plan, messages: &[LogMessage]) {
    let last = messages.len() as u64;
    loop {
        let outcome = match plan.next_action(NOW) {
            Action::CheckChain => Outcome::ChainChecked(Ok(None)),
            Action::FindEpoch => Outcome::EpochFound(Ok(Some(0))),
            Action::OpenEpoch(0) => Outcome::EpochOpened(Ok(())),
            Action::AskTail => Outcome::TailRead(Ok(Tail { first: 1, last })),
            Action::Read(0) => Outcome::ReaderOpened(Ok(())),
            Action::Wait(_) => break,
            other => panic!("{other:?}"),
        };
        plan.handle(Input::Done(outcome), NOW);
    }
    number_messages(messages)
        .into_iter()
        .for_each(|message| plan.handle(Input::Message(message), NOW));
}

/// The messages as a reader gets them.
fn number_messages(messages: &[LogMessage]) -> Vec<StoredMessage> {
    let last = messages.len() as u64;
    let numbered = (1..).zip(messages.iter().cloned());
    let stored = numbered.map(|(sequence, LogMessage { kind, payload })| StoredMessage {
        sequence,
        kind,
        payload,
        pending: last - sequence,
    });
    stored.collect()
}

/// The records of an epoch that another ingester writes.
struct OtherLog {
    messages: Vec<LogMessage>,
    link: RecordLink,
}

impl OtherLog {
    /// An epoch that starts with the block of slot 0, whose number is 5.
    fn new() -> Self {
        let block_digest = RecordDigest([3; 32]);
        let link = RecordLink { number: 6, previous: block_digest };
        let mut log = Self { messages: Vec::new(), link };
        log.push(encode_snapshot(&SnapshotRecord {
            link,
            writer: OTHER,
            made_at_ms: 1,
            manifest_key: "manifest".to_owned(),
            manifest_digest: [0; 32],
            block: BlockName { slot: 0, number: 5 },
            block_digest,
        }));
        log
    }

    fn push(&mut self, record: EncodedRecord) {
        self.link = RecordLink { number: self.link.number + 1, previous: record.digest() };
        self.messages.push(LogMessage::head(record.head));
        self.messages.extend(record.bodies.into_iter().map(LogMessage::body));
    }

    fn push_block(&mut self, block: &EncodedBlock, parent: u64) {
        self.push(block.to_record(self.link, OTHER, parent));
    }

    fn push_marks(&mut self, marks: Vec<Mark>) {
        let link = self.link;
        self.push(encode_marks(&MarksRecord { link, writer: OTHER, made_at_ms: 1, marks }));
    }
}

/// The messages of an epoch with one block of slot 1 on the block of slot 0.
fn epoch_with(block: &EncodedBlock) -> Vec<LogMessage> {
    let mut log = OtherLog::new();
    log.push_block(block, 5);
    log.messages
}

#[test]
fn a_log_of_another_chain_is_refused_by_name() {
    let mut plan = plan(usize::MAX);
    assert!(matches!(plan.next_action(NOW), Action::CheckChain));
    let other = Hash::new_from_array([5; 32]);
    let found = FoundSnapshots { genesis_hash: other, newest_epoch: 0, logged_epoch: None };
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
            follow(&mut plan, &epoch_with(&other));
        } else {
            follow(&mut plan, &epoch_with(&other));
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
    follow(&mut plan, &epoch_with(&content(1, false)));
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
            Action::FindEpoch => {
                plan.handle(Input::Done(Outcome::EpochFound(Ok(Some(0)))), now);
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
    assert_eq!((request.epoch, request.block), (1, id(9)));
}

/// Starts on a log of this extent, whose readers end so. Returns the reason of the epoch that the plan opens.
fn open_instead(tail: Tail, read: impl Fn(&mut Plan, Now)) -> Arc<str> {
    let mut plan = plan(usize::MAX);
    let mut elapsed = Duration::ZERO;
    for _ in 0..1_000 {
        let now = Now { elapsed, unix_ms: 2 };
        let outcome = match plan.next_action(now) {
            Action::CheckChain => Outcome::ChainChecked(Ok(None)),
            Action::FindEpoch => Outcome::EpochFound(Ok(Some(0))),
            Action::OpenEpoch(0) => Outcome::EpochOpened(Ok(())),
            Action::AskTail => Outcome::TailRead(Ok(tail.clone())),
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
                assert_eq!(request.epoch, 1);
                let mut notices = plan.take_notices().into_iter();
                let reason = notices.find_map(|notice| match notice {
                    Notice::OpensEpoch { reason, .. } => Some(reason),
                    _ => None,
                });
                return reason.expect("a notice");
            }
            other => panic!("{other:?}"),
        };
        plan.handle(Input::Done(outcome), now);
    }
    panic!("no epoch is opened");
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
        for message in number_messages(&epoch_with(&content(1, false))) {
            plan.handle(Input::Message(message), now);
        }
        plan.handle(Input::ReadFailed(ReadFailure::Truncated { wanted: 9 }), now);
    });
    assert!(reason.contains("a message of the log is missing"), "{reason}");
}

#[test]
fn a_log_with_a_damaged_body_is_replaced() {
    let mut messages = epoch_with(&content(1, false));
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

#[test]
fn a_leader_finds_that_its_own_record_was_stored_damaged() {
    let mut plan = plan(usize::MAX);
    lead(&mut plan);
    plan.handle(frozen(1, Ok(content(1, false))), NOW);
    let Action::Append(batch) = plan.next_action(NOW) else { panic!("it appends") };
    let mut messages = number_messages(&batch.messages);
    let last = batch.chain.position();
    plan.handle(Input::Done(Outcome::Appended(Ok(last))), NOW);
    for message in &mut messages {
        message.sequence += batch.after;
    }
    let body = messages.last_mut().expect("the block has bodies");
    let mut payload = body.payload.to_vec();
    payload[0] ^= 1;
    body.payload = payload.into();
    let mut elapsed = Duration::ZERO;
    for _ in 0..100 {
        let now = Now { elapsed, unix_ms: 2 };
        messages.iter().for_each(|it| plan.handle(Input::Message(it.clone()), now));
        match plan.next_action(now) {
            Action::Read(after) => {
                assert_eq!(after, batch.after, "it reads the damaged record again");
                plan.handle(Input::Done(Outcome::ReaderOpened(Ok(()))), now);
            }
            Action::FindEpoch => {
                plan.handle(Input::Done(Outcome::EpochFound(Ok(Some(0)))), now);
            }
            Action::RetainView => {
                let outcome = retain_root_view(&plan);
                plan.handle(Input::Done(outcome), now);
            }
            Action::WriteSnapshot(request) => return assert_eq!(request.epoch, 1),
            Action::Wait(until) => elapsed = until.expect("a time"),
            other => panic!("{other:?}"),
        }
    }
    panic!("no epoch is opened");
}

/// Reads the extent after an append without a reply, until the plan does something else, or the time ends.
fn ask_tail(plan: &mut Plan, last: u64, from: Duration, until: Duration) -> Option<Action> {
    let mut elapsed = from;
    while elapsed < until {
        let now = Now { elapsed, unix_ms: 2 };
        match plan.next_action(now) {
            Action::AskTail => {
                let tail = Tail { first: 1, last };
                plan.handle(Input::Done(Outcome::TailRead(Ok(tail))), now);
            }
            Action::FindEpoch => {
                plan.handle(Input::Done(Outcome::EpochFound(Ok(Some(0)))), now);
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
        let outcome = ask_tail(&mut plan, 1, Duration::ZERO, until);
        outcome.or_else(|| ask_tail(&mut plan, then, until, until + LEASE))
    };
    let position = 1 + number_messages(&epoch_with(&content(1, false))).len() as u64 - 1;
    let append = shorter(LEASE, position);
    assert!(matches!(append, Some(Action::Append(_))), "{append:?}");
    let opening = shorter(LEASE * 3, position);
    assert!(matches!(opening, Some(Action::WriteSnapshot(_))), "{opening:?}");
}

#[test]
fn an_item_that_no_leader_can_append_ends_no_term() {
    let mut plan = plan(usize::MAX);
    follow(&mut plan, &epoch_with(&content(1, false)));
    plan.handle(frozen(1, Ok(content(1, false))), NOW);
    // Its parent is a fork that the log does not have.
    plan.handle(frozen(3, Ok(content(3, false))), NOW);
    let later = Now { elapsed: LEASE * 10, unix_ms: 2 };
    assert!(matches!(plan.next_action(later), Action::FindEpoch));
    plan.handle(Input::Done(Outcome::EpochFound(Ok(Some(0)))), later);
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
    follow(&mut plan, &epoch_with(&jump));
    plan.handle(frozen(1, Ok(content(1, false))), NOW);
    plan.handle(frozen(2, Ok(content(2, false))), NOW);
    let counters = plan.counters();
    assert_eq!((counters.state_disagreements, counters.rest_disagreements), (0, 0));
}

/// A plan that has retained the view of slot 2, while its events are at slot 0.
fn plan_with_view(queue_bytes_max: usize) -> Plan {
    let mut plan = plan(queue_bytes_max);
    loop {
        let outcome = match plan.next_action(NOW) {
            Action::CheckChain => Outcome::ChainChecked(Ok(None)),
            Action::FindEpoch => Outcome::EpochFound(Ok(None)),
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
fn a_follower_replaces_a_log_that_stops_delivering() {
    let mut plan = plan(usize::MAX);
    let messages = epoch_with(&content(1, false));
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
            Action::AskTail => Outcome::TailRead(Ok(Tail { first: 1, last })),
            Action::FindEpoch => Outcome::EpochFound(Ok(Some(0))),
            Action::RetainView => return,
            Action::Wait(until) => {
                elapsed = until.expect("a time");
                continue;
            }
            other => panic!("{other:?}"),
        };
        plan.handle(Input::Done(outcome), now);
    }
    panic!("no epoch is opened");
}

#[test]
fn a_log_that_counts_a_message_it_lost_is_replaced() {
    let tail = Tail { first: 1, last: 10 };
    let reason = open_instead(tail, |plan, now| {
        for message in number_messages(&epoch_with(&content(1, false))) {
            plan.handle(Input::Message(message), now);
        }
    });
    assert!(reason.contains("a message of the log is missing"), "{reason}");
}

#[test]
fn a_block_without_a_record_opens_a_new_epoch() {
    let mut plan = plan(usize::MAX);
    lead(&mut plan);
    plan.handle(frozen(1, Err(Arc::from("too large"))), NOW);
    plan.handle(Input::Own(OwnEvent::TipMoved(id(1))), NOW);
    // A snapshot of the present root would have the same gap, and one epoch would follow the other.
    assert!(matches!(plan.next_action(NOW), Action::Wait(_)));
    plan.handle(frozen(2, Ok(content(2, false))), NOW);
    plan.handle(Input::Own(OwnEvent::TipMoved(id(2))), NOW);
    assert!(matches!(plan.next_action(NOW), Action::Wait(_)));
    opens_an_epoch(&mut plan, "too large");
}

#[test]
fn a_ledger_that_goes_back_below_its_root_gets_a_new_epoch() {
    let mut plan = plan(usize::MAX);
    lead(&mut plan);
    plan.handle(frozen(1, Ok(content(1, false))), NOW);
    plan.handle(Input::Own(OwnEvent::Rooted { id: id(1), key: key(1, false) }), NOW);
    let reason = RevertReason::Dead { error: "on request".to_owned() };
    plan.handle(Input::Own(OwnEvent::Reverted { key: key(1, false), reason }), NOW);
    // A new block shows that the ledger continues.
    plan.handle(frozen(1, Ok(content(1, true))), NOW);
    opens_an_epoch(&mut plan, "reverted a final block");
}

#[test]
fn dropped_blocks_open_a_new_epoch() {
    let mut plan = plan(content(1, false).bytes() * 2 + 2_500);
    lead(&mut plan);
    for slot in 1..=3 {
        plan.handle(frozen(slot, Ok(content(slot, false))), NOW);
    }
    plan.handle(Input::Own(OwnEvent::TipMoved(id(3))), NOW);
    assert!(plan.own().dropped_blocks() > 0);
    opens_an_epoch(&mut plan, "is missing");
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
            Action::AskTail => Outcome::TailRead(Ok(Tail { first: 1, last: 1 })),
            Action::FindEpoch => Outcome::EpochFound(Ok(Some(0))),
            _ => continue,
        };
        plan.handle(Input::Done(outcome), now);
    }
    assert!(plan.own().item_count() >= 60_000, "{}", plan.own().item_count());
    // It takes minutes if each event costs a pass over all that wait.
    let took = started_at.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
}

/// The next action looks for a newer epoch once the root has passed the gap, and a snapshot of the root follows.
fn opens_an_epoch(plan: &mut Plan, expected: &str) {
    let root = OwnEvent::Rooted { id: id(4), key: key(4, false) };
    plan.handle(frozen(4, Ok(content(4, false))), NOW);
    plan.handle(Input::Own(root), NOW);
    assert!(matches!(plan.next_action(NOW), Action::FindEpoch));
    plan.handle(Input::Done(Outcome::EpochFound(Ok(Some(0)))), NOW);
    assert!(matches!(plan.next_action(NOW), Action::RetainView));
    let view = retain_root_view(plan);
    plan.handle(Input::Done(view), NOW);
    let Action::WriteSnapshot(request) = plan.next_action(NOW) else { panic!("a snapshot") };
    assert_eq!((request.epoch, request.block), (1, id(4)));
    let notices = plan.take_notices();
    let is_expected = |notice: &Notice| match notice {
        Notice::OpensEpoch { epoch: 1, reason } => reason.contains(expected),
        _ => false,
    };
    assert!(notices.iter().any(is_expected), "{notices:?}");
}

fn root_block(plan: &mut Plan, slot: Slot) {
    plan.handle(frozen(slot, Ok(content(slot, false))), NOW);
    plan.handle(Input::Own(OwnEvent::Rooted { id: id(slot), key: key(slot, false) }), NOW);
}

/// A report of a replica that has read up to a slot.
fn report(epoch: u64, slot: Slot, what: &str) -> Input {
    Input::Reported(FaultReport {
        cluster: "test".to_owned(),
        epoch,
        sequence: 9,
        record: 7,
        slot,
        confirmed: slot - 1,
        what: what.to_owned(),
        made_at_ms: 1,
    })
}

fn followed_epoch(plan: &Plan) -> Option<u64> {
    plan.followed_log().map(|followed| followed.epoch)
}

#[test]
fn a_reported_fault_opens_one_epoch_above_it() {
    let mut plan = plan(usize::MAX);
    lead(&mut plan);
    (1..=3).for_each(|slot| root_block(&mut plan, slot));
    // A snapshot of slot 3 is not above the replica's, and no epoch helps an old release.
    plan.handle(report(0, 3, "sum"), NOW);
    plan.handle(report(0, 2, "version"), NOW);
    assert_eq!(followed_epoch(&plan), Some(0));
    root_block(&mut plan, 4);
    plan.handle(report(0, 3, "sum"), NOW);
    assert_eq!(followed_epoch(&plan), None);
    open(&mut plan, 1);
    // The report is found again, and the replica cannot continue in the new epoch either.
    plan.handle(report(0, 3, "sum"), NOW);
    plan.handle(report(1, 3, "sum"), NOW);
    assert_eq!(followed_epoch(&plan), Some(1));
    let later = Now { elapsed: Duration::from_secs(3_600), unix_ms: 2 };
    plan.handle(report(1, 3, "sum"), later);
    assert_eq!(followed_epoch(&plan), None);
}

#[test]
fn a_follower_leaves_reports_to_the_leader() {
    let mut plan = plan(usize::MAX);
    follow(&mut plan, &epoch_with(&content(1, false)));
    root_block(&mut plan, 1);
    root_block(&mut plan, 2);
    plan.handle(report(0, 1, "sum"), NOW);
    assert_eq!(followed_epoch(&plan), Some(0));
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
    let expected = LoggedBlock { epoch: 0, position, name, digest };
    assert_eq!(plan.find_logged_block(&key(1, false)), Some(expected));
    assert_eq!(plan.find_logged_block(&key(0, false)), None);
}

/// Returns the epoch that a new ingester opens, or `None` if it follows the newest one.
fn find_opened_epoch(found: FoundSnapshots, newest: Option<u64>) -> Option<u64> {
    let mut plan = plan(usize::MAX);
    loop {
        let outcome = match plan.next_action(NOW) {
            Action::CheckChain => Outcome::ChainChecked(Ok(Some(found))),
            Action::FindEpoch => Outcome::EpochFound(Ok(newest)),
            Action::RetainView => retain_root_view(&plan),
            Action::WriteSnapshot(request) => return Some(request.epoch),
            Action::OpenEpoch(epoch) => {
                assert_eq!(Some(epoch), newest);
                return None;
            }
            other => panic!("{other:?}"),
        };
        plan.handle(Input::Done(outcome), NOW);
    }
}

#[test]
fn a_deleted_epoch_is_not_numbered_again() {
    let found = |logged_epoch| FoundSnapshots {
        genesis_hash: Hash::default(),
        newest_epoch: 2,
        logged_epoch,
    };
    assert_eq!(find_opened_epoch(found(Some(2)), Some(2)), None);
    assert_eq!(find_opened_epoch(found(Some(2)), Some(1)), Some(3));
    assert_eq!(find_opened_epoch(found(Some(2)), None), Some(3));
    // Whether epoch 2 ever had a record is not known.
    assert_eq!(find_opened_epoch(found(None), Some(1)), None);
    assert_eq!(find_opened_epoch(found(None), None), Some(3));
}
