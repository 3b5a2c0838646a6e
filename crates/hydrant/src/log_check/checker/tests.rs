//! Damages of a log of made-up records: each has its name and its position.

use std::collections::BTreeSet;

use bytes::Bytes;
use chain_solana::testing::RandomLedger;
use chain_solana::wire::{
    BlockSource, EncodedBlock, EncodedRecord, MESSAGE_BYTES_MAX, RecordDigest, RecordLink,
    TermRecord, WireError, WriterId, encode_marks, encode_snapshot, encode_term,
};
use ledger::Slot;

use super::*;
use crate::log_check::report::DAMAGE_NAMES;

const INGESTER: [u8; 16] = [7; 16];
/// Position of a block's digest of its state in the head.
const STATE_DIGEST: usize = 361;
/// Position of the version in a head.
const VERSION: usize = 4;

/// Records that are linked.
struct Chain {
    messages: Vec<StoredMessage>,
    ledger: RandomLedger,
    number: u64,
    previous: RecordDigest,
    term: u64,
}

impl Chain {
    /// A chain that begins with the snapshot of block 10.
    fn new() -> Self {
        let mut chain = Self {
            messages: Vec::new(),
            ledger: RandomLedger::new(5),
            number: 100,
            previous: RecordDigest([1; 32]),
            term: 1,
        };
        chain.add_snapshot(BlockName { slot: 10, number: 100 });
        chain
    }

    fn link(&self) -> RecordLink {
        RecordLink { number: self.number + 1, previous: self.previous }
    }

    fn writer(&self) -> WriterId {
        WriterId { term: self.term, ingester: INGESTER, level: None }
    }

    fn add(&mut self, record: &EncodedRecord) {
        self.number += 1;
        self.previous = record.digest();
        self.add_message(MessageKind::Head, record.head.clone());
        for body in &record.bodies {
            self.add_message(MessageKind::Body, body.clone());
        }
    }

    fn add_message(&mut self, kind: MessageKind, payload: Bytes) {
        let sequence = self.messages.len() as u64 + 1;
        self.messages.push(StoredMessage { sequence, kind, payload, pending: 0 });
    }

    fn add_snapshot(&mut self, block: BlockName) {
        let record = SnapshotRecord {
            link: self.link(),
            writer: self.writer(),
            made_at_ms: 0,
            manifest_key: "snap/local/10".to_owned(),
            manifest_digest: [2; 32],
            block,
            block_digest: self.previous,
        };
        self.add(&encode_snapshot(&record));
    }

    fn add_marks(&mut self, marks: Vec<Mark>) {
        let record = MarksRecord { link: self.link(), writer: self.writer(), made_at_ms: 0, marks };
        self.add(&encode_marks(&record));
    }

    fn add_term(&mut self) {
        self.term += 1;
        let record = TermRecord {
            link: self.link(),
            writer: self.writer(),
            made_at_ms: 0,
            reason: "a test".to_owned(),
        };
        self.add(&encode_term(&record));
    }

    fn add_block(&mut self, slot: Slot, parent: BlockName) {
        let mut block = self.ledger.block();
        block.id.slot = slot;
        block.parent.slot = parent.slot;
        let source = BlockSource {
            block: &block,
            parent_blockhash: block.previous_blockhash,
            capitalization: 0,
            clock_time: 0,
            is_jump: false,
            footer: None,
            made_at_ms: 0,
        };
        let encoded = EncodedBlock::new(&source).expect("a small block");
        self.add(&encoded.to_record(self.link(), self.writer(), parent.number));
    }

    /// Returns the sequence of the last message.
    fn last(&self) -> u64 {
        self.messages.len() as u64
    }
}

/// A chain of three blocks after the snapshot, and marks.
fn chain_of_blocks() -> Chain {
    let mut chain = Chain::new();
    chain.add_block(11, name(10, 100));
    chain.add_block(12, name(11, 102));
    chain.add_block(14, name(12, 103));
    chain.add_marks(vec![Mark::TipMoved(name(14, 104)), Mark::Rooted(name(11, 102))]);
    chain
}

fn name(slot: Slot, number: u64) -> BlockName {
    BlockName { slot, number }
}

fn root(slot: Slot, number: u64) -> Vec<Mark> {
    vec![Mark::Rooted(name(slot, number))]
}

/// Checks messages as a log of exactly these sequences.
fn check(messages: &[StoredMessage]) -> LogChecker {
    let last = messages.iter().map(|message| message.sequence).max().unwrap_or(0);
    let mut checker = LogChecker::new(1, last);
    messages.iter().for_each(|message| checker.push(message.clone()));
    checker.finish();
    checker
}

fn names(checker: &LogChecker) -> Vec<(u64, &'static str)> {
    let damages = &checker.report().damages;
    damages.iter().map(|damage| (damage.sequence, damage.name)).collect()
}

/// Changes the payload of a message.
fn edit(message: &mut StoredMessage, change: impl FnOnce(&mut Vec<u8>)) {
    let mut payload = message.payload.to_vec();
    change(&mut payload);
    message.payload = payload.into();
}

/// Changes a byte of a head, and writes the checksum that it then has.
fn forge(message: &mut StoredMessage, at: usize, value: u8) {
    edit(message, |payload| {
        payload[at] = value;
        let content = payload.len() - 4;
        let checksum = crc32(&payload[..content]);
        payload[content..].copy_from_slice(&checksum.to_le_bytes());
    });
}

/// The checksum of zip files.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[test]
fn an_undamaged_log_is_counted() {
    let mut chain = chain_of_blocks();
    chain.add_term();
    chain.add_marks(root(12, 103));
    let checker = check(&chain.messages);
    assert!(names(&checker).is_empty(), "{:?}", names(&checker));
    assert!(checker.is_complete());
    let report = checker.report();
    assert_eq!((report.messages, report.marks, report.term_records), (chain.last(), 3, 1));
    assert_eq!((report.blocks, report.root, report.writers.len()), (3, Some(12), 1));
    let text = report.to_string();
    assert!(text.contains("Records        101 to 107\n"), "{text}");
    assert!(text.contains("Terms          1 to 2, 1 changes, 1 ingesters\n"), "{text}");
    assert!(text.ends_with("Total          0 damages"), "{text}");
}

#[test]
fn each_damage_of_messages_has_its_name_and_its_position() {
    type Change = fn(&mut Vec<StoredMessage>);
    // The second message is the head of the first block, which has two bodies or more.
    let cases: [(&str, Change); 9] = [
        ("missing", |messages| drop(messages.remove(2))),
        ("repeated", |messages| messages.insert(3, messages[2].clone())),
        ("value", |messages| edit(&mut messages[1], |payload| payload[20] ^= 1)),
        ("version", |messages| forge(&mut messages[1], VERSION, 9)),
        ("body", |messages| edit(&mut messages[2], |payload| payload[5] ^= 1)),
        ("digest", |messages| {
            let byte = messages[1].payload[STATE_DIGEST] ^ 1;
            forge(&mut messages[1], STATE_DIGEST, byte);
        }),
        ("order", |messages| messages[2].kind = MessageKind::Head),
        ("length", |messages| messages[1].payload = vec![0; MESSAGE_BYTES_MAX + 1].into()),
        // The last block lacks its last body.
        ("cut", |messages| messages.truncate(messages.len() - 2)),
    ];
    for (expected, change) in cases {
        let mut messages = chain_of_blocks().messages;
        let mut heads = messages.iter().filter(|message| message.kind == MessageKind::Head);
        let second_block = heads.nth(2).map_or(0, |head| head.sequence);
        change(&mut messages);
        let sequence = match expected {
            "value" | "version" | "length" => 2,
            "missing" | "body" | "order" => 3,
            "repeated" => 4,
            // With the last body of the first block.
            "digest" => second_block - 1,
            _ => messages.len() as u64 + 1,
        };
        let found = names(&check(&messages)).first().copied();
        assert_eq!(found, Some((sequence, expected)));
    }
}

#[test]
fn each_damage_of_records_has_its_name_and_its_position() {
    type Change = fn(&mut Chain);
    let cases: [(&str, Change); 9] = [
        ("number", |chain| {
            chain.number += 1;
            chain.add_marks(Vec::new());
        }),
        ("chain", |chain| {
            chain.previous = RecordDigest([8; 32]);
            chain.add_marks(Vec::new());
        }),
        ("term", |chain| {
            chain.term += 1;
            chain.add_marks(Vec::new());
        }),
        ("parent", |chain| chain.add_block(15, name(12, 104))),
        ("slot", |chain| chain.add_block(14, name(14, 104))),
        ("mark", |chain| chain.add_marks(root(15, 101))),
        ("root", |chain| {
            chain.add_marks(root(14, 104));
            chain.add_marks(root(12, 103));
        }),
        ("snapshot", |chain| chain.add_snapshot(name(13, 103))),
        ("first_record", |chain| {
            *chain = Chain { messages: Vec::new(), ..Chain::new() };
            chain.add_marks(Vec::new());
        }),
    ];
    for (expected, change) in cases {
        let mut chain = chain_of_blocks();
        change(&mut chain);
        assert_eq!(names(&check(&chain.messages)), [(chain.last(), expected)]);
    }
}

#[test]
fn a_writer_that_changes_without_a_term_is_a_damage_each_time() {
    let mut chain = Chain::new();
    chain.term = 3;
    chain.add_marks(Vec::new());
    chain.term = 1;
    chain.add_marks(Vec::new());
    assert_eq!(names(&check(&chain.messages)), [(2, "term"), (3, "term")]);
}

#[test]
fn each_name_is_described() {
    let docs = include_str!("../../../../../docs/operations.md");
    let section = docs.split("### Faults of a log").nth(1).expect("the section of the names");
    let section = section.split("\n### ").next().expect("a section");
    let faults = ::replica::FaultKind::ALL.map(|kind| kind.name());
    let names: BTreeSet<&str> = DAMAGE_NAMES.into_iter().chain(faults).collect();
    for name in &names {
        assert!(section.contains(&format!("| `{name}` |")), "{name} has no row");
    }
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let unknown: Vec<&str> = rows.filter(|row| !names.contains(row)).collect();
    assert!(unknown.is_empty(), "{unknown:?} are no names");
    assert!(WireError::NAMES.iter().all(|name| DAMAGE_NAMES.contains(name)));
}
