//! The limits of messages and records, when they are written and when they are read.

use super::*;
use crate::wire::body::{BodyEntry, BodyWriter, SAFE_BYTES, Section};
use crate::wire::facts::rest_hasher;
use crate::wire::head::{BlockHead, Head, HeadContent, write_block_head};
use crate::wire::reader::append;

/// Reads the record of a block with these writes. Returns its number of bodies.
fn round_trip(writes: Vec<AccountWrite>) -> usize {
    let mut log = RandomLog::new(1);
    let mut block = log.random_block();
    block.writes = writes;
    let made = log.block(&block);
    assert!(made.messages.iter().all(|one| one.payload.len() <= MESSAGE_BYTES_MAX));
    let read = read_all(&made.messages);
    assert_eq!(read.refusal, None);
    assert!(made.is_equal(&read.records[0]));
    made.messages.len() - 1
}

#[test]
fn an_account_of_10_mib_spans_messages() {
    let bodies = round_trip(vec![write(1, noise(1, 10 << 20)), write(2, noise(2, 100))]);
    assert!(bodies > 40, "{bodies} bodies");
}

#[test]
fn compressible_accounts_need_few_messages() {
    let bodies = round_trip((0..4).map(|number| write(number, vec![0; 10 << 20])).collect());
    assert!(bodies < 45, "{bodies} bodies");
}

#[test]
fn accounts_of_changing_ratio_fit_into_messages() {
    for seed in 0..4 {
        let mut rng = Rng::with_seed(seed);
        let data = |number: u64| {
            let bytes = rng.usize(0..400_000);
            if rng.bool() { noise(number, bytes) } else { vec![number as u8; bytes] }
        };
        let data: Vec<Vec<u8>> = (0..20).map(data).collect();
        round_trip((0..).zip(data).map(|(number, data)| write(number, data)).collect());
    }
}

#[test]
fn an_empty_block_is_one_body_for_each_section() {
    let mut log = RandomLog::new(2);
    let mut block = log.random_block();
    block.writes.clear();
    block.transactions.clear();
    let made = log.block(&block);
    assert_eq!(made.messages.len(), 3);
    assert!(made.is_equal(&read_all(&made.messages).records[0]));
}

#[test]
fn bytes_that_cannot_be_compressed_fit_into_a_message() {
    assert!(zstd::zstd_safe::compress_bound(SAFE_BYTES) <= MESSAGE_BYTES_MAX);
}

#[test]
fn a_block_that_is_too_long_is_refused_by_the_writer() {
    let mut block = RandomLedger::new(1).block();
    let large = write(0, vec![0; 10 << 20]);
    let copy = |number| AccountWrite { pubkey: write(number, Vec::new()).pubkey, ..large.clone() };
    block.writes = (0..52).map(copy).collect();
    let source = BlockSource {
        block: &block,
        parent_blockhash: block.previous_blockhash,
        capitalization: 0,
        clock_time: 0,
        is_jump: false,
        footer: None,
        made_at_ms: 0,
    };
    let slot = block.id.slot;
    let refusal = EncodedBlock::new(&source).err();
    assert_eq!(refusal, Some(EncodeError::TooLong { slot, limit: RECORD_UNPACKED_BYTES_MAX }));
}

#[test]
fn a_block_of_too_many_messages_is_refused_by_the_writer() {
    let mut writer = BodyWriter::new(3).expect("a compressor");
    let mut write_body = || {
        let mut section = writer.start_section(Section::Rest, rest_hasher());
        section.out.u8(1);
        section.finish()
    };
    for _ in 1..RECORD_MESSAGES_MAX {
        write_body().expect("a body that fits");
    }
    let limit = RECORD_MESSAGES_MAX;
    assert_eq!(write_body(), Err(EncodeError::TooManyMessages { slot: 3, limit }));
}

#[test]
fn the_longest_marks_and_terms_fit_into_a_message() {
    let log = RandomLog::new(3);
    let error = "ö".repeat(3_000);
    let mark = Mark::Reverted {
        block: BlockName { slot: 1, number: 2 },
        reason: RevertReason::Dead { error: error.clone() },
    };
    let link = log.link;
    let writer = log.writer;
    let marks = MarksRecord { link, writer, made_at_ms: 0, marks: vec![mark; MARKS_MAX] };
    let record = encode_marks(&marks);
    assert!(record.bytes() <= MESSAGE_BYTES_MAX, "{} bytes", record.bytes());
    let head = read_head(&record.head).expect("a head");
    let RecordKind::Marks(marks) = head.kind else { panic!("no marks") };
    let cut = RevertReason::Dead { error: "ö".repeat(REVERT_ERROR_BYTES_MAX / 2) };
    let is_cut = |mark: &Mark| matches!(mark, Mark::Reverted { reason, .. } if *reason == cut);
    assert!(marks.len() == MARKS_MAX && marks.iter().all(is_cut));

    let record = encode_term(&TermRecord { link, writer, made_at_ms: 0, reason: error });
    assert!(record.bytes() < 1_200 && read_head(&record.head).is_ok());
}

#[test]
fn a_head_that_announces_too_much_is_refused() {
    let mut log = RandomLog::new(4);
    let block = log.random_block();
    let link = log.link;
    let made = log.block(&block);
    let head = Head::read(&made.messages[0].payload).expect("a head");
    let HeadContent::Block(head) = head.content else { panic!("no block") };
    let body = head.bodies[0];
    let refuse = |bodies: Vec<BodyEntry>| {
        let head = BlockHead { bodies, ..(*head).clone() };
        let message = write_block_head(link, log.writer, 0, &head);
        assert!(read_head(&message).is_err());
        let refusal = RecordReader::new().push(true, message).map(|_| ());
        refusal.expect_err("too much").to_string()
    };
    let number = link.number;
    let long = BodyEntry { bytes: 245_761, ..body };
    let expected = format!("record {number}: bytes of a body: 245761, at most 245760");
    assert_eq!(refuse(vec![long]), expected);
    let long = BodyEntry { unpacked_bytes: 1_048_577, ..body };
    let expected = format!("record {number}: unpacked bytes of a body: 1048577, at most 1048576");
    assert_eq!(refuse(vec![long]), expected);
    let expected = format!("record {number}: bodies: 1000, at most 999");
    assert_eq!(refuse(vec![body; 1_000]), expected);
    let long = BodyEntry { unpacked_bytes: 1 << 20, ..body };
    let expected = format!("record {number}: unpacked bytes: 537919488, at most 536870912");
    assert_eq!(refuse(vec![long; 513]), expected);
    let rest = BodyEntry { section: Section::Rest, ..body };
    let expected = format!("head of record {number}: cannot read its order of sections");
    assert_eq!(refuse(vec![rest, body]), expected);
    let message = Bytes::from(vec![0; MESSAGE_BYTES_MAX + 1]);
    let refusal = read_head(&message).expect_err("too long").to_string();
    assert_eq!(refusal, "bytes of a head: 245761, at most 245760");
}

#[test]
fn a_body_that_unpacks_to_another_length_is_refused() {
    let unpacked = vec![7; 1 << 20];
    let message = zstd::bulk::compress(&unpacked, 1).expect("compressed");
    let entry = |unpacked_bytes| BodyEntry {
        section: Section::State,
        bytes: message.len() as u32,
        unpacked_bytes,
        crc: crc32fast::hash(&message),
    };
    let mut decompressor = zstd::bulk::Decompressor::new().expect("a decompressor");
    let right = entry(1 << 20).unpack(&message, &mut decompressor);
    assert!(right.is_ok_and(|bytes| bytes == unpacked));
    for expected in [0, 1, 1_000_000, (1 << 20) - 1, (1 << 20) + 1] {
        let wrong = entry(expected).unpack(&message, &mut decompressor);
        assert_eq!(wrong, Err(BodyFault::Compression { expected }));
    }
}

#[test]
fn a_section_never_reserves_more_than_the_head_announces() {
    for seed in 0..50 {
        let mut rng = Rng::with_seed(seed);
        let parts: Vec<usize> = (0..rng.usize(1..30)).map(|_| rng.usize(0..5_000)).collect();
        let announced: usize = parts.iter().sum();
        let mut section = Vec::new();
        for part in parts {
            append(&mut section, &vec![1; part], announced);
            assert!(section.capacity() <= announced, "seed {seed}");
        }
        assert_eq!(section.len(), announced);
    }
}
