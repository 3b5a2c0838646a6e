//! Messages that were changed at random: no decoder panics, or allocates more than a constant times the bytes it reads.
//!
//! This test has a program of its own, because the heap is counted for the whole process.

use kaspa::{
    BlockDagInfo, BlockTemplate, BorshAddresses, BorshRequest, BorshServerMessage, ChainReply,
    CoinSupply, JsonAddresses, JsonRequest, JsonServerMessage, KaspaAddress, KaspaRecord, NodeInfo,
    Notification, Scope, ServerInfo, check_borsh_request, decode_borsh_sink, decode_borsh_utxos,
};
use ledger::Record;
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const BORSH: &str = include_str!("golden/borsh.txt");
const CHAIN: &str = include_str!("golden/chain.txt");
const JSON: &str = include_str!("golden/json.txt");

/// Changed messages for each golden one.
const ROUNDS: u64 = 200;
/// Heap bytes for each byte of a message. Most is needed by a list of transactions without inputs.
const HEAP_FACTOR: usize = 24;
/// Heap bytes whatever the message.
const HEAP_BASE: usize = 4_096;

/// The messages of a file.
fn messages(file: &'static str) -> impl Iterator<Item = &'static str> {
    file.lines().filter_map(|line| line.splitn(3, ' ').nth(2))
}

fn bytes(digits: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a digit") as u8;
    digits.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

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
    let _ = KaspaRecord::unpack(&[], message);
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
    let borsh = messages(BORSH).chain(messages(CHAIN)).map(bytes);
    let borsh = borsh.map(|message| (message, decode_borsh as fn(&[u8])));
    let json = messages(JSON).map(|text| (text.as_bytes().to_vec(), decode_json as fn(&[u8])));
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
    // Lists of a million elements of zeros: only their count and their lengths are right.
    for element_bytes in [0, 4, 16, 64, 128] {
        measure(&list_of_zeros(element_bytes), 0, decode_structure);
    }
}

/// A reply's structure: its version, and a list of a million elements of this length.
fn list_of_zeros(element_bytes: u32) -> Vec<u8> {
    let count = 1_000_000_u32;
    let mut list = vec![1, 0];
    list.extend_from_slice(&(4 + count * (4 + element_bytes)).to_le_bytes());
    list.extend_from_slice(&count.to_le_bytes());
    for _ in 0..count {
        list.extend_from_slice(&element_bytes.to_le_bytes());
        list.resize(list.len() + element_bytes as usize, 0);
    }
    list
}
