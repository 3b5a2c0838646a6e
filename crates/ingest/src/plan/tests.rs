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

mod damage;
mod following;
mod opening;
mod reports;
mod silence;

const LEASE: Duration = Duration::from_secs(3);
const NOW: Now = Now { elapsed: Duration::ZERO, unix_ms: 1 };
const OTHER: WriterId = WriterId { term: 7, ingester: [9; 16], level: None };

fn id(slot: Slot) -> BlockId {
    BlockId { slot, version: 1 }
}

fn plan(queue_bytes_max: usize) -> Plan {
    let config = PlanConfig {
        ingester: [1; 16],
        level: None,
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

/// Opens the first generation, which this ingester then leads.
fn lead(plan: &mut Plan) {
    open(plan, 0);
}

/// Opens a generation after the one before it, and leads it.
fn open(plan: &mut Plan, generation: u64) {
    loop {
        let outcome = match plan.next_action(NOW) {
            Action::CheckLog => Outcome::LogChecked(Ok(())),
            Action::CheckChain => Outcome::ChainChecked(Ok(None)),
            Action::FindGeneration => Outcome::GenerationFound(Ok(generation.checked_sub(1))),
            Action::RetainView => retain_root_view(plan),
            Action::WriteSnapshot(request) => end_writing(request),
            Action::CreateGeneration(created) if created == generation => {
                Outcome::GenerationCreated(Ok(()))
            }
            Action::OpenGeneration(opened) if opened == generation => {
                Outcome::GenerationOpened(Ok(()))
            }
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

/// Follows a generation of another ingester with these messages.
fn follow(plan: &mut Plan, messages: &[LogMessage]) {
    let last = messages.len() as u64;
    loop {
        let outcome = match plan.next_action(NOW) {
            Action::CheckLog => Outcome::LogChecked(Ok(())),
            Action::CheckChain => Outcome::ChainChecked(Ok(None)),
            Action::FindGeneration => Outcome::GenerationFound(Ok(Some(0))),
            Action::OpenGeneration(0) => Outcome::GenerationOpened(Ok(())),
            Action::ReadTail => Outcome::TailRead(Ok(Tail { first: 1, last })),
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

/// The records of a generation that another ingester writes.
struct OtherLog {
    messages: Vec<LogMessage>,
    link: RecordLink,
}

impl OtherLog {
    /// A generation that starts with the block of slot 0, whose number is 5.
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

/// The messages of a generation with one block of slot 1 on the block of slot 0.
fn generation_with(block: &EncodedBlock) -> Vec<LogMessage> {
    let mut log = OtherLog::new();
    log.push_block(block, 5);
    log.messages
}
