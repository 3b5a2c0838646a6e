//! Damages of a log of made-up records.

use bytes::Bytes;
use chain_solana::wire::{
    EncodedRecord, RecordDigest, RecordLink, TermRecord, WriterId, encode_marks, encode_snapshot,
    encode_term,
};

use super::*;

const INGESTER: [u8; 16] = [7; 16];

/// Records that are linked, each of one message.
struct Chain {
    messages: Vec<Bytes>,
    number: u64,
    previous: RecordDigest,
    term: u64,
}

impl Chain {
    /// A chain that begins with the snapshot of block 10.
    fn new() -> Self {
        let mut chain =
            Self { messages: Vec::new(), number: 100, previous: RecordDigest([1; 32]), term: 1 };
        let link = chain.link();
        let record = SnapshotRecord {
            link,
            writer: chain.writer(),
            made_at_ms: 0,
            manifest_key: "snap/local/10".to_owned(),
            manifest_digest: [2; 32],
            block: BlockName { slot: 10, number: 100 },
            block_digest: link.previous,
        };
        chain.add(&encode_snapshot(&record));
        chain
    }

    fn link(&self) -> RecordLink {
        RecordLink { number: self.number + 1, previous: self.previous }
    }

    fn writer(&self) -> WriterId {
        WriterId { term: self.term, ingester: INGESTER }
    }

    fn add(&mut self, record: &EncodedRecord) {
        self.number += 1;
        self.previous = record.digest();
        self.messages.push(record.head.clone());
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

    /// Checks the messages with their sequences.
    fn check(&self, messages: &[(u64, &Bytes)]) -> LogChecker {
        let mut checker = LogChecker::new(1, self.messages.len() as u64);
        for &(sequence, payload) in messages {
            let payload = payload.clone();
            let kind = MessageKind::Head;
            checker.push(StoredMessage { sequence, kind, payload, pending: 0 });
        }
        checker.finish();
        checker
    }

    fn with_sequences(&self) -> Vec<(u64, &Bytes)> {
        (1..).zip(&self.messages).collect()
    }
}

fn names(checker: &LogChecker) -> Vec<(u64, &'static str)> {
    let damages = checker.report().damages();
    damages.iter().map(|damage| (damage.sequence, damage.name)).collect()
}

fn root(slot: u64, number: u64) -> Vec<Mark> {
    vec![Mark::Rooted(BlockName { slot, number })]
}

#[test]
fn an_undamaged_log_is_counted() {
    let mut chain = Chain::new();
    chain.add_marks(root(10, 100));
    chain.add_term();
    chain.add_marks(root(10, 100));
    let checker = chain.check(&chain.with_sequences());
    assert!(names(&checker).is_empty(), "{:?}", names(&checker));
    assert!(checker.is_complete());
    let report = checker.report();
    assert_eq!((report.messages, report.marks, report.term_records), (4, 2, 1));
    assert_eq!((report.root, report.writers.len()), (Some(10), 1));
    let text = report.to_string();
    assert!(text.contains("Records        101 to 104\n"), "{text}");
    assert!(text.contains("Terms          1 to 2, 1 changes, 1 ingesters\n"), "{text}");
    assert!(text.ends_with("Total          0 damages"), "{text}");
}

#[test]
fn each_damage_has_its_name_and_its_position() {
    let mut chain = Chain::new();
    for _ in 0..5 {
        chain.add_marks(root(10, 100));
    }
    let good = chain.with_sequences();
    let mut flipped = chain.messages[2].to_vec();
    flipped[20] ^= 1;
    let flipped = Bytes::from(flipped);

    let mut damaged = good.clone();
    damaged[2].1 = &flipped;
    assert_eq!(names(&chain.check(&damaged)), [(3, "value")]);
    let mut missing = good.clone();
    missing.remove(2);
    assert_eq!(names(&chain.check(&missing)), [(3, "missing")]);
    // A missing record with the sequences of an intact log.
    let mut swapped = good.clone();
    swapped[2].1 = good[3].1;
    swapped[3].1 = good[2].1;
    let found = names(&chain.check(&swapped));
    assert_eq!(found.first(), Some(&(3, "order")), "{found:?}");
    let mut repeated = good.clone();
    repeated.insert(3, good[2]);
    assert_eq!(names(&chain.check(&repeated)), [(4, "repeated")]);
}

#[test]
fn unknown_blocks_falling_terms_and_falling_roots_are_damages() {
    let mut chain = Chain::new();
    chain.add_marks(root(11, 101));
    chain.add_marks(root(11, 100));
    chain.add_marks(root(9, 42));
    chain.term = 3;
    chain.add_marks(Vec::new());
    chain.term = 1;
    chain.add_marks(Vec::new());
    let found = names(&chain.check(&chain.with_sequences()));
    let expected = [(2, "mark"), (3, "mark"), (4, "root"), (5, "term"), (6, "term")];
    assert_eq!(found, expected);
}

#[test]
fn a_log_begins_with_a_snapshot() {
    let mut chain = Chain::new();
    chain.messages.clear();
    chain.add_marks(Vec::new());
    assert_eq!(names(&chain.check(&chain.with_sequences())), [(1, "first")]);
}
