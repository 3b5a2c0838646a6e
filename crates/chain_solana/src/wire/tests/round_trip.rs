//! A record is read as it was written.

use store::{ByteReader, ByteWriter};

use super::*;
use crate::{BlockInfo, BlockhashQueue};

/// A source of a block with fixed values besides the block.
fn source(block: &Block) -> BlockSource<'_> {
    BlockSource {
        block,
        parent_blockhash: block.previous_blockhash,
        capitalization: 5,
        clock_time: 6,
        is_jump: false,
        footer: None,
        made_at_ms: 7,
    }
}

fn digests(source: &BlockSource<'_>) -> BlockDigests {
    EncodedBlock::new(source).expect("a block that fits").digests()
}

#[test]
fn random_records_come_back_field_by_field() {
    for seed in 0..60 {
        let mut log = RandomLog::new(seed);
        let made: Vec<Made> = (0..20).map(|_| log.record()).collect();
        let read = read_all(made.iter().flat_map(|made| &made.messages));
        assert_eq!(read.refusal, None, "seed {seed}");
        assert_eq!(read.records.len(), made.len(), "seed {seed}");
        for (read, made) in read.records.iter().zip(&made) {
            assert!(made.is_equal(read), "seed {seed}: {:?}", made.record);
        }
    }
}

#[test]
fn a_head_alone_names_the_block_its_parent_and_its_digests() {
    let mut ledger = RandomLedger::new(1);
    let block = ledger.block();
    let encoded = EncodedBlock::new(&source(&block)).expect("a block that fits");
    let link = RecordLink { number: 9, previous: RecordDigest([3; 32]) };
    let writer = WriterId { term: 2, ingester: [4; 16], level: None };
    let record = encoded.to_record(link, writer, 8);
    let head = read_head(&record.head).expect("a head");
    assert_eq!((head.link, head.writer, head.digest), (link, writer, record.digest()));
    assert_eq!(usize::from(head.body_messages), record.bodies.len());
    let kind = RecordKind::Block {
        name: BlockName { slot: block.id.slot, number: 9 },
        blockhash: block.blockhash,
        parent: BlockName { slot: block.parent.slot, number: 8 },
        digests: encoded.digests(),
    };
    assert_eq!(head.kind, kind);
    assert_eq!(encoded.slot(), block.id.slot);
    assert_eq!(encoded.blockhash(), block.blockhash);
    let parent = BlockKey { slot: block.parent.slot, blockhash: block.previous_blockhash };
    assert_eq!(encoded.parent(), parent);
    assert_eq!(encoded.bytes() + record.head.len(), record.bytes());
}

#[test]
fn the_other_heads_alone_have_everything() {
    for seed in 0..30 {
        let mut log = RandomLog::new(seed);
        for made in [log.marks(), log.term(), log.snapshot()] {
            let head = read_head(&made.messages[0].payload).expect("a head");
            assert_eq!((head.digest, head.body_messages), (made.digest, 0), "seed {seed}");
            match (head.kind, made.record) {
                (RecordKind::Marks(found), Record::Marks(made)) => assert_eq!(found, made.marks),
                (RecordKind::Snapshot(found), Record::Snapshot(made)) => assert_eq!(found, made),
                (RecordKind::Term, Record::Term(_)) => {}
                (found, made) => panic!("{found:?} of {made:?}, seed {seed}"),
            }
        }
    }
}

#[test]
fn the_position_in_the_log_changes_only_the_head() {
    let block = RandomLedger::new(2).block();
    let encoded = EncodedBlock::new(&source(&block)).expect("a block that fits");
    let writer = WriterId { term: 2, ingester: [4; 16], level: None };
    let record = |number| {
        let link = RecordLink { number, previous: RecordDigest::default() };
        encoded.to_record(link, writer, 8)
    };
    let first = record(9);
    let second = record(10);
    assert_eq!(first.bodies, second.bodies);
    assert_ne!(first.digest(), second.digest());
}

#[test]
fn each_digest_covers_its_part_of_a_block_and_no_other() {
    let mut blocks = (0..).map(|seed| RandomLedger::new(seed).block());
    let mut block = blocks.find(|block| !block.transactions.is_empty()).expect("one");
    block.writes = vec![write(1, vec![1, 2, 3])];
    let before = digests(&source(&block));
    // Versions are those of a process, and the order of writes is not the log's.
    let mut same = block.clone();
    same.id.version += 1;
    same.parent.version += 1;
    assert_eq!(digests(&source(&same)), before);

    let rest: [fn(&mut Block); 6] = [
        |block| block.block_time ^= 1,
        |block| block.transaction_count ^= 1,
        |block| block.reward_partitions = Some(77),
        |block| block.entries.push(entry(&mut Rng::with_seed(1))),
        |block| drop(block.transactions.pop()),
        |block| block.rewards.push(reward()),
    ];
    for (number, change) in rest.into_iter().enumerate() {
        let mut other = block.clone();
        change(&mut other);
        let after = digests(&source(&other));
        assert_eq!(after.state, before.state, "change {number}");
        assert_ne!(after.rest, before.rest, "change {number}");
    }
    let state: [fn(&mut Block); 10] = [
        |block| block.id.slot ^= 1,
        |block| block.parent.slot ^= 1,
        |block| block.block_height ^= 1,
        |block| block.blockhash = Hash::new_from_array([9; 32]),
        |block| block.bank_hash = Hash::new_from_array([9; 32]),
        |block| block.hash_components.parent_hash = Hash::new_from_array([9; 32]),
        |block| block.hash_components.signature_count ^= 1,
        |block| block.hash_components.lt_checksum = Hash::new_from_array([9; 32]),
        |block| block.writes = vec![write(1, vec![1, 2, 4])],
        |block| block.writes.clear(),
    ];
    for (number, change) in state.into_iter().enumerate() {
        let mut other = block.clone();
        change(&mut other);
        let after = digests(&source(&other));
        assert_ne!(after.state, before.state, "change {number}");
        assert_eq!(after.rest, before.rest, "change {number}");
    }
    let footer = Arc::new(BlockFooter::default());
    let after = digests(&BlockSource { footer: Some(&footer), ..source(&block) });
    assert!(after.state == before.state && after.rest != before.rest);
    for changed in [
        BlockSource { capitalization: 0, ..source(&block) },
        BlockSource { clock_time: 0, ..source(&block) },
        BlockSource { is_jump: true, ..source(&block) },
        BlockSource { parent_blockhash: Hash::new_from_array([9; 32]), ..source(&block) },
    ] {
        let after = digests(&changed);
        assert!(after.state != before.state && after.rest == before.rest);
    }
}

#[test]
fn writes_in_another_order_give_the_same_record() {
    let mut block = RandomLedger::new(3).block();
    block.writes = (0..9).map(|number| write(number, vec![number as u8; 9])).collect();
    let sorted = digests(&source(&block));
    block.writes.reverse();
    assert_eq!(digests(&source(&block)), sorted);
    block.writes.push(block.writes[4].clone());
    let repeated =
        EncodeError::RepeatedAccount { slot: block.id.slot, pubkey: block.writes[4].pubkey };
    assert_eq!(EncodedBlock::new(&source(&block)).err(), Some(repeated));
}

#[test]
fn the_info_of_a_block_survives_its_record() {
    let block = RandomLedger::new(4).block();
    let earlier = BlockhashQueue::new(block.previous_blockhash);
    let info = BlockInfo {
        block: block.id,
        parent: block.parent,
        block_height: block.block_height,
        blockhashes: Arc::new(earlier.with(block.blockhash)),
        transaction_count: block.transaction_count,
        unix_timestamp: -3,
        capitalization: 12,
        bank_hash: block.bank_hash,
        hash_components: block.hash_components,
        complete: true,
    };
    let encoded = EncodedBlock::new(&BlockSource::new(&block, &info, 1)).expect("it fits");
    let link = RecordLink { number: block.id.version, previous: RecordDigest::default() };
    let writer = WriterId { term: 1, ingester: [0; 16], level: None };
    let record = encoded.to_record(link, writer, block.parent.version);
    let mut reader = RecordReader::new();
    let mut read = None;
    for Message { is_head, payload } in messages(&record) {
        read = reader.push(is_head, payload).expect("an undamaged record");
    }
    let Some(ReadRecord { record: Record::Block(record), .. }) = read else { panic!("no block") };
    assert_eq!(format!("{:?}", record.block_info(&earlier)), format!("{info:?}"));
}

#[test]
fn a_record_states_the_level_of_its_writer() {
    let link = RecordLink { number: 9, previous: RecordDigest([3; 32]) };
    let levels = VerificationLevel::ALL.map(Some).into_iter().chain([None]);
    for level in levels {
        let writer = WriterId { term: 2, ingester: [4; 16], level };
        let reason = "a start".to_owned();
        let term = encode_term(&TermRecord { link, writer, made_at_ms: 1, reason });
        assert_eq!(read_head(&term.head).expect("a head").writer, writer);
    }
    let mut out = ByteWriter::default();
    out.u8(5);
    let refusal = codec::read_level(&mut ByteReader::new(&out.0)).expect_err("no such level");
    assert_eq!(refusal.what, "level of proof");
}

fn reward() -> solana_transaction_status::Reward {
    solana_transaction_status::Reward {
        pubkey: "an address".to_owned(),
        lamports: 1,
        post_balance: 2,
        reward_type: None,
        commission: None,
        commission_bps: None,
    }
}
