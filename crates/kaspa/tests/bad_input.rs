//! Messages that were changed at random: no decoder panics, or allocates more than a constant times the bytes it reads.
//!
//! This test has a program of its own, because the heap is counted for the whole process.

use kaspa::{
    BlockDagInfo, BlockTemplate, BorshAddresses, BorshReply, BorshRequest, BorshServerMessage,
    ChainReply, CoinSupply, Hash, JsonAddresses, JsonRequest, JsonServerMessage, KaspaAddress,
    KaspaRecord, NodeInfo, Notification, Outpoint, SCRIPT_KEY, Scope, ServerInfo,
    check_borsh_request, decode_borsh_sink, decode_borsh_utxos,
};
use ledger::{Address, Record};
use peak_alloc::PeakAlloc;
use testkit::kaspa_golden::{BORSH, CHAIN, JSON, decode_digits, expect_bytes, messages};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Changed messages for each golden one.
const ROUNDS: u64 = 200;
/// Heap bytes for each byte of a message. Most is needed by a list of transactions without inputs.
const HEAP_FACTOR: usize = 24;
/// Heap bytes whatever the message.
const HEAP_BASE: usize = 4_096;

/// Makes a few changes: a bit, a byte, a length, an end, a doubled part.
fn change(message: &mut Vec<u8>, random: &mut fastrand::Rng) {
    for _ in 0..random.usize(1..4) {
        let Some(last) = message.len().checked_sub(1) else { return };
        let at = random.usize(0..=last);
        match random.u8(0..6) {
            0 => message[at] ^= 1 << random.u8(0..8),
            1 => message[at] = random.u8(..),
            2 => {
                let length = [0, 1, 0x7fff_ffff, 0xffff_ffff, random.u32(..)][random.usize(0..5)];
                let end = message.len().min(at + 4);
                let bytes = length.to_le_bytes();
                message[at..end].copy_from_slice(&bytes[..end - at]);
            }
            3 => message.truncate(at),
            4 => message.insert(at, random.u8(..)),
            _ => {
                let end = message.len().min(at + random.usize(0..80));
                let part = message[at..end].to_vec();
                message.splice(at..at, part);
            }
        }
    }
}

/// Runs `decode`, and checks the heap that it needed.
fn measure(message: &[u8], seed: u64, decode: impl FnOnce(&[u8])) {
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    decode(message);
    let used = HEAP.peak_usage().saturating_sub(before);
    let bound = HEAP_BASE + HEAP_FACTOR * message.len();
    assert!(used <= bound, "seed {seed}: {used} heap bytes for {} bytes", message.len());
}

fn decode_structure(structure: &[u8]) {
    let _ = ServerInfo::decode_borsh(structure);
    let _ = NodeInfo::decode_borsh(structure);
    let _ = CoinSupply::decode_borsh(structure);
    let _ = BlockDagInfo::decode_borsh(structure);
    let _ = BlockTemplate::decode_borsh(structure);
    let _ = kaspa::Block::decode_borsh(structure);
    let _ = decode_borsh_utxos(structure);
    let _ = decode_borsh_sink(structure);
    if let Ok(mut chain) = ChainReply::parse(structure) {
        while let Ok(Some(block)) = chain.next_block() {
            let _ = block.header.version;
        }
    }
}

fn decode_borsh(message: &[u8]) {
    if let Ok(request) = BorshRequest::parse(message) {
        let _ = check_borsh_request(&request);
        let _ = request.addresses();
        let _ = request.address();
        let _ = request.no_params();
        let _ = request.scope();
        let _ = request.window_size();
        let _ = request.allow_orphan_offset();
        if let Ok(mut position) = BorshAddresses::find(&request) {
            while position.read(&request, 3).is_ok_and(|part| !part.is_empty()) {}
        }
    }
    match BorshServerMessage::parse(message) {
        Ok(BorshServerMessage::Reply(reply)) => {
            let _ = reply.result.map(decode_structure);
        }
        Ok(BorshServerMessage::Notification { event, payload }) => {
            let _ = Notification::decode_borsh(event, payload);
        }
        Err(_) => {}
    }
    let outpoint = Outpoint { transaction_id: Hash([7; 32]), index: 7 };
    let own_address = || outpoint.ledger_address();
    let _ = KaspaRecord::unpack(&[], message, &own_address);
    let _ = KaspaRecord::unpack(&[(SCRIPT_KEY, Address::from([7; 32]))], message, &own_address);
}

fn decode_json(message: &[u8]) {
    let Ok(text) = std::str::from_utf8(message) else { return };
    if let Ok(request) = JsonRequest::parse(text) {
        let _ = request.addresses();
        let _ = request.address();
        let _ = request.no_params();
        let _: Result<Scope, _> = request.scope();
        let _ = request.window_size();
        let _ = request.encode_without_orphans(1);
        if let Ok(mut position) = JsonAddresses::find(text, &request) {
            while position.read(text, 3).is_ok_and(|part| !part.is_empty()) {}
        }
    }
    if let Ok(message) = JsonServerMessage::parse(text) {
        let _ = message.result();
        if let Some(params) = message.params {
            let _ = Notification::decode_json(params.get());
        }
    }
    let _ = text.parse::<KaspaAddress>();
}

/// One test, because a second one would run alongside on the same heap.
#[test]
fn no_decoder_panics_or_allocates_without_bytes() {
    let borsh = messages(BORSH).chain(messages(CHAIN)).map(|golden| decode_digits(golden.text));
    let borsh = borsh.map(|message| (message, decode_borsh as fn(&[u8])));
    let json = messages(JSON).map(|golden| golden.text.as_bytes().to_vec());
    let json = json.map(|message| (message, decode_json as fn(&[u8])));
    for (number, (message, decode)) in (0..).zip(borsh.chain(json)) {
        measure(&message, 0, decode);
        for round in 0..ROUNDS {
            let seed = number * ROUNDS + round;
            let mut random = fastrand::Rng::with_seed(seed);
            let mut changed = message.clone();
            change(&mut changed, &mut random);
            measure(&changed, seed, decode);
        }
    }
    // Long lists of zeros: only their count and their lengths are right. The lengths are around those of the shortest
    // transactions of both encodings.
    for element_bytes in [0, 4, 16, 28, 29, 64, 72, 73, 128] {
        let utxos = [&[1, 0][..], &payload(&zeros(1_000_000, element_bytes))].concat();
        measure(&utxos, 0, decode_structure);
        let transactions = zeros(100_000, element_bytes);
        measure(&block_with(&transactions), 0, decode_structure);
        measure(&chain_with(&transactions), 0, decode_structure);
    }
    // The decoders do get as far as these lists.
    assert!(kaspa::Block::decode_borsh(&block_with(&zeros(0, 0))).is_ok());
    let chain = chain_with(&zeros(0, 0));
    let mut chain = ChainReply::parse(&chain).expect("a chain");
    assert!(matches!(chain.next_block(), Ok(Some(_))));
}

/// A list of elements of this length.
fn zeros(count: u32, element_bytes: u32) -> Vec<u8> {
    let mut list = count.to_le_bytes().to_vec();
    for _ in 0..count {
        list.extend_from_slice(&element_bytes.to_le_bytes());
        list.resize(list.len() + element_bytes as usize, 0);
    }
    list
}

/// Returns bytes, with their length before them.
fn payload(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32).to_le_bytes()[..], content].concat()
}

/// Returns the payload at a position, with its length.
fn payload_at(structure: &[u8], at: usize) -> &[u8] {
    &structure[at..at + 4 + number_at(structure, at)]
}

fn number_at(structure: &[u8], at: usize) -> usize {
    let number = structure[at..].first_chunk().expect("four bytes");
    u32::from_le_bytes(*number) as usize
}

/// Returns the structure of a recorded reply.
fn find_structure(file: &'static str, name: &str) -> Vec<u8> {
    let frame = expect_bytes(file, name, "response");
    match BorshServerMessage::parse(&frame) {
        Ok(BorshServerMessage::Reply(BorshReply { result: Ok(structure), .. })) => {
            structure.to_vec()
        }
        other => panic!("not a successful reply: {other:?}"),
    }
}

/// Returns a reply to getBlock with a recorded header and this list of transactions.
fn block_with(transactions: &[u8]) -> Vec<u8> {
    let recorded = find_structure(BORSH, "getBlock");
    // Versions and lengths: of the reply (2), of the block (4 + 2), then the header.
    let block = [&recorded[6..8], payload_at(&recorded, 8), &payload(transactions)].concat();
    [&recorded[..2], &payload(&block)].concat()
}

/// Returns a reply to getVirtualChainFromBlockV2 with one block: a recorded header and this list of transactions.
fn chain_with(transactions: &[u8]) -> Vec<u8> {
    let recorded = find_structure(CHAIN, "chain_v2_full");
    // The lists of removed and of added hashes, then that of blocks: its length, its count, the length of the first.
    let added_at = 2 + 4 + 32 * number_at(&recorded, 2);
    let blocks_at = added_at + 4 + 32 * number_at(&recorded, added_at);
    let block_at = blocks_at + 12;
    let version = &recorded[block_at..block_at + 2];
    let header = payload_at(&recorded, block_at + 2);
    let block = [version, header, &payload(transactions)].concat();
    let blocks = [&1_u32.to_le_bytes()[..], &payload(&block)].concat();
    [&recorded[..2], &[0; 8], &payload(&blocks)].concat()
}
