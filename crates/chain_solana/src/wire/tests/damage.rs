//! A damaged log is refused by name. No record is ever accepted that was not written.

use super::*;

/// A log of a few records of all kinds; the first one and another one are blocks of several bodies.
fn log(seed: u64) -> Vec<Made> {
    let mut log = RandomLog::new(seed);
    let mut large = log.random_block();
    large.writes = (0..2).map(|number| write(number, noise(seed + number, 250_000))).collect();
    let first = log.block(&large);
    let mut made = vec![first, log.marks(), log.term(), log.snapshot()];
    made.extend((0..4).map(|_| log.record()));
    let mut large = log.random_block();
    large.writes = vec![write(1, noise(seed + 9, 300_000))];
    made.push(log.block(&large));
    made.push(log.marks());
    assert!(made[0].messages.len() > 4 && made[8].messages.len() > 3);
    made
}

/// Reads a damaged log. Panics unless all accepted records are those that were written, and the damage is named. It
/// needs no name if the log only lacks its end.
fn check(made: &[Made], damaged: &[Message], what: &str) -> Option<WireError> {
    let read = read_all(damaged);
    for (read, made) in read.records.iter().zip(made) {
        assert!(made.is_equal(read), "{what}: another record {:?}", made.record.link());
    }
    let whole: Vec<&Message> = made.iter().flat_map(|made| &made.messages).collect();
    let is_start = damaged.iter().eq(whole.iter().copied().take(damaged.len()));
    match &read.refusal {
        Some(err) => assert!(!is_start && err.to_string().len() > 10, "{what}: {err}"),
        None => assert!(is_start, "{what}: accepted"),
    }
    read.refusal
}

fn flatten(made: &[Made]) -> Vec<Message> {
    made.iter().flat_map(|made| made.messages.iter().cloned()).collect()
}

#[test]
fn a_flipped_bit_is_refused_wherever_it_is() {
    for seed in 0..2 {
        let made = log(seed);
        let whole = flatten(&made);
        let mut rng = Rng::with_seed(seed);
        for at in 0..whole.len() {
            for _ in 0..8 {
                let mut damaged = whole.clone();
                let mut payload = damaged[at].payload.to_vec();
                let byte = rng.usize(0..payload.len());
                payload[byte] ^= 1 << rng.u32(0..8);
                damaged[at].payload = payload.into();
                check(&made, &damaged, &format!("seed {seed}, byte {byte} of message {at}"));
            }
        }
    }
}

#[test]
fn each_bit_of_a_head_counts() {
    let mut log = RandomLog::new(7);
    let block = log.random_block();
    let heads = [log.block(&block), log.marks(), log.term(), log.snapshot()];
    for made in &heads {
        let head = &made.messages[0].payload;
        for bit in 0..head.len() * 8 {
            let mut damaged = head.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let err = read_head(&Bytes::from(damaged)).expect_err("a flipped bit");
            assert!(matches!(err, WireError::Decode(_)), "bit {bit}: {err}");
        }
        for len in 0..head.len() {
            assert!(read_head(&head.slice(..len)).is_err(), "cut at {len}");
        }
    }
}

#[test]
fn a_cut_or_longer_message_is_refused() {
    for seed in 0..3 {
        let made = log(seed);
        let whole = flatten(&made);
        let mut rng = Rng::with_seed(seed);
        for at in 0..whole.len() {
            let payload = &whole[at].payload;
            let cut = payload.slice(..rng.usize(0..payload.len()));
            let longer = Bytes::from([&payload[..], &[rng.u8(..)]].concat());
            for other in [cut, longer, Bytes::new()] {
                let mut damaged = whole.clone();
                damaged[at].payload = other;
                check(&made, &damaged, &format!("seed {seed}, length of message {at}"));
            }
        }
    }
}

#[test]
fn missing_doubled_and_swapped_messages_are_refused() {
    for seed in 0..2 {
        let made = log(seed);
        let whole = flatten(&made);
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged.remove(at);
            check(&made, &damaged, &format!("seed {seed}, message {at} is missing"));
            let mut damaged = whole.clone();
            damaged.insert(at, whole[at].clone());
            check(&made, &damaged, &format!("seed {seed}, message {at} is doubled"));
            // A reader takes the record that it begins with: its caller knows which one that has to be.
            for other in (at + 1..whole.len()).filter(|_| at > 0) {
                let mut damaged = whole.clone();
                damaged.swap(at, other);
                check(&made, &damaged, &format!("seed {seed}, messages {at} and {other}"));
            }
            let mut damaged = whole.clone();
            damaged[at].is_head ^= true;
            check(&made, &damaged, &format!("seed {seed}, message {at} of the other kind"));
        }
    }
}

#[test]
fn missing_doubled_and_swapped_records_are_refused() {
    let made = log(1);
    let whole = |order: &[usize]| -> Vec<Message> {
        order.iter().flat_map(|record| made[*record].messages.iter().cloned()).collect()
    };
    for (order, [last, found]) in [
        (vec![0, 1, 3], [1, 3]),
        (vec![0, 1, 1], [1, 1]),
        (vec![0, 2, 1], [0, 2]),
        (vec![0, 1, 0], [1, 0]),
    ] {
        let read = read_all(&whole(&order));
        let number = |record: usize| made[record].record.link().number;
        let expected = ChainFault::Number { last: number(last), found: number(found) };
        assert_eq!(read.refusal, Some(WireError::Chain(expected)), "{order:?}");
    }
}

#[test]
fn a_record_of_another_log_is_refused_by_its_link() {
    let mut one = RandomLog::new(1);
    let mut other = RandomLog::new(2);
    other.link.number = one.link.number;
    let mut messages = one.marks().messages;
    other.marks();
    messages.extend(other.term().messages);
    let number = one.link.number;
    let refusal = read_all(&messages).refusal.expect("a refusal");
    let is_refused = matches!(
        &refusal,
        WireError::Chain(ChainFault::Previous { number: refused, .. }) if *refused == number
    );
    assert!(is_refused, "{refusal}");
}

#[test]
fn a_reader_starts_after_a_known_record() {
    let made = log(2);
    let RecordLink { number, previous } = made[1].record.link();
    let last = RecordChain::new(number - 1, previous);
    let mut reader = RecordReader::after(last);
    assert_eq!(reader.last(), Some(last));
    let push = |reader: &mut RecordReader, made: &Made| {
        let Message { is_head, payload } = made.messages[0].clone();
        reader.push(is_head, payload).map(|read| read.is_some())
    };
    assert_eq!(push(&mut reader, &made[1]), Ok(true));
    assert_eq!(reader.last().map(|last| last.digest), Some(made[1].digest));
    let other = RecordChain::new(number - 2, previous);
    let fault = ChainFault::Number { last: number - 2, found: number };
    assert_eq!(push(&mut RecordReader::after(other), &made[1]), Err(fault.into()));
}

#[test]
fn a_writer_without_a_term_is_refused() {
    let mut log = RandomLog::new(6);
    let mut messages = log.marks().messages;
    log.writer.term += 1;
    messages.extend(log.marks().messages);
    let refusal = read_all(&messages).refusal.expect("a refusal");
    assert_eq!(refusal.name(), "term", "{refusal}");
    assert!(WireError::NAMES.contains(&refusal.name()));
}

#[test]
fn a_damaged_body_is_named_by_record_and_position() {
    let made = log(1);
    let number = made[0].record.link().number;
    let count = made[0].messages.len() - 1;
    let mut damaged = flatten(&made);
    let mut payload = damaged[2].payload.to_vec();
    payload[100] ^= 4;
    damaged[2].payload = payload.into();
    let err = check(&made, &damaged, "body 2").expect("a refusal").to_string();
    let start = format!("record {number}: body 2 of {count} (state): checksum ");
    assert!(err.starts_with(&start), "{err}");

    let mut damaged = flatten(&made);
    damaged.remove(2);
    let err = check(&made, &damaged, "body 2").expect("a refusal").to_string();
    assert!(err.starts_with(&format!("record {number}: body 2 of {count} (state): ")), "{err}");

    damaged.truncate(2);
    damaged.extend(made[1].messages.iter().cloned());
    let err = check(&made, &damaged, "a record without its end").expect("a refusal").to_string();
    assert_eq!(err, format!("found a head instead of body 2 of {count} of record {number}"));
}

#[test]
fn a_body_of_another_block_is_refused_with_its_checksum() {
    let mut log = RandomLog::new(3);
    let mut block = log.random_block();
    block.writes = vec![write(1, vec![1; 100])];
    let encode = |block: &Block| {
        let info = crate::BlockInfo {
            block: block.id,
            parent: block.parent,
            block_height: block.block_height,
            blockhashes: Arc::new(crate::BlockhashQueue::new(block.blockhash)),
            transaction_count: 0,
            unix_timestamp: 0,
            capitalization: 0,
            bank_hash: block.bank_hash,
            hash_components: block.hash_components,
            complete: true,
        };
        let encoded = EncodedBlock::new(&BlockSource::new(block, &info, 0)).expect("it fits");
        encoded.to_record(log.link, log.writer, 0)
    };
    let one = encode(&block);
    block.writes = vec![write(1, vec![2; 100])];
    let other = encode(&block);
    // The head of one block, made to describe the accounts of the other one.
    let mut head = read_block_head(&one);
    head.bodies[0] = read_block_head(&other).bodies[0];
    let forged = head::write_block_head(log.link, log.writer, 0, &head);
    let mut reader = RecordReader::new();
    assert!(matches!(reader.push(true, forged), Ok(None)));
    assert!(matches!(reader.push(false, other.bodies[0].clone()), Ok(None)));
    let refusal = reader.push(false, one.bodies[1].clone()).map(|_| ());
    let what = format!("the state of record {}", log.link.number);
    assert_eq!(refusal, Err(WireError::Digest { what }));
}

#[test]
fn a_newer_version_is_refused_with_the_order_of_upgrades() {
    let mut log = RandomLog::new(4);
    let block = log.random_block();
    for made in [log.block(&block), log.marks(), log.term(), log.snapshot()] {
        let newer = with_version(&made.messages[0].payload, 2);
        let expected = WireError::Version { found: 2, known: 1 };
        assert_eq!(
            expected.to_string(),
            "the record has version 2, and this release reads up to version 1; upgrade the readers \
             of a log first, then its writers"
        );
        assert_eq!(RecordReader::new().push(true, newer.clone()).map(|_| ()), Err(expected));
        let expected = WireError::Version { found: 2, known: 1 };
        assert_eq!(read_head(&newer), Err(expected));
    }
}

/// Returns a head with another version and the checksum that it then has.
fn with_version(head: &[u8], version: u16) -> Bytes {
    let mut newer = head[..head.len() - 4].to_vec();
    newer[4..6].copy_from_slice(&version.to_le_bytes());
    newer.extend(crc32fast::hash(&newer).to_le_bytes());
    newer.into()
}

/// Returns the part of a block's head that only blocks have.
fn read_block_head(record: &EncodedRecord) -> head::BlockHead {
    match head::Head::read(&record.head).map(|head| head.content) {
        Ok(head::HeadContent::Block(head)) => *head,
        _ => panic!("no block"),
    }
}
