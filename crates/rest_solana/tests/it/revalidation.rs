//! A 304 is sent only if the client's bytes equal the current response, whatever was written in between, and equal
//! `ETag`s mean equal bytes.

use std::collections::HashMap;

use fastrand::Rng;
use ledger::{Address, Change};
use query::{Ledger, LedgerConfig};
use solana::Account;
use solana_account::AccountSharedData;
use solana_pubkey::Pubkey;

use crate::history::{completed, confirm_block, executed};
use crate::wire::Client;
use crate::world::{PROGRAM, bank, block, mint, token, with_data};
use crate::{Node, decode, get};

fn key(n: u8) -> Pubkey {
    Pubkey::new_from_array([n; 32])
}

const MINTS: [u8; 2] = [200, 201];
const OWNERS: [u8; 2] = [210, 211];
/// Enough that the list of any owner or mint is too long for the cache.
const TOKENS: u16 = 700;

fn token_key(n: u16) -> Pubkey {
    let mut bytes = [77; 32];
    bytes[..2].copy_from_slice(&n.to_le_bytes());
    Pubkey::new_from_array(bytes)
}

/// A write to one of few accounts: data of a program, a token account, a mint, or a deletion.
fn change(random: &mut Rng) -> Change<Account> {
    let tokens = spl_token_interface::id();
    let (at, account) = match random.u8(..8) {
        0 => (key(1 + random.u8(..5)), None),
        1 => (key(MINTS[random.usize(..2)]), Some(with_data(tokens, &mint(random.u8(..5), 9)))),
        2..5 => return holding(random.u16(..TOKENS), random),
        _ => {
            let data = vec![random.u8(..); 30_000 + random.usize(..30_000)];
            (key(1 + random.u8(..5)), Some(with_data(PROGRAM, &data)))
        }
    };
    account_change(at, account)
}

fn holding(n: u16, random: &mut Rng) -> Change<Account> {
    let (mint, owner) = (key(MINTS[random.usize(..2)]), key(OWNERS[random.usize(..2)]));
    let data = token(mint, owner, random.u64(..1_000), None);
    account_change(token_key(n), Some(with_data(spl_token_interface::id(), &data)))
}

fn account_change(at: Pubkey, account: Option<AccountSharedData>) -> Change<Account> {
    let record = account.and_then(|account| Account(account).into_record());
    Change { address: Address::from(at.to_bytes()), record }
}

/// A ledger with all these accounts.
fn ledger(random: &mut Rng) -> (Ledger<Account, chain_solana::BlockInfo>, chain_solana::Reader) {
    let (mut ledger, reader) = Ledger::new(LedgerConfig::new(10_000), block(100), bank(100));
    let mut all: Vec<_> = (0..TOKENS).map(|n| holding(n, random)).collect();
    let data = |n| with_data(PROGRAM, &vec![n; 40_000]);
    all.extend((1..=5).map(|n| account_change(key(n), Some(data(n)))));
    let tokens = spl_token_interface::id();
    all.extend(MINTS.map(|n| account_change(key(n), Some(with_data(tokens, &mint(2, 9))))));
    ledger.apply(block(100), all, bank(100)).expect("the root accepts accounts");
    ledger.publish();
    (ledger, reader)
}

/// One of some hundred requests, and its kind.
fn request(random: &mut Rng, tip: u64) -> (&'static str, String) {
    let mut one = |of: &[&str]| of[random.usize(..of.len())].to_owned();
    let commitment = one(&["processed", "confirmed", "finalized"]);
    let encoding = one(&["base64", "base64", "jsonParsed"]);
    let config = format!("commitment={commitment}&encoding={encoding}");
    let limit = one(&["", "", "&limit=2", "&changedSinceSlot=101"]);
    let kind = one(&["program", "tokens", "holders", "accounts", "supply", "block"]);
    let sure = one(&["confirmed", "finalized"]);
    let (owner, mint) = (key(OWNERS[random.usize(..2)]), key(MINTS[random.usize(..2)]));
    match kind.as_str() {
        "program" => ("program", format!("/v1/programs/{PROGRAM}/accounts?{config}{limit}")),
        "tokens" => ("tokens", format!("/v1/owners/{owner}/tokens?{config}{limit}")),
        "holders" => ("holders", format!("/v1/mints/{mint}/holders?{config}{limit}")),
        "supply" => ("supply", format!("/v1/supply?commitment={commitment}")),
        "block" => {
            let slot = tip - random.u64(..6).min(tip - 100);
            ("block", format!("/v1/blocks/{slot}?commitment={sure}"))
        }
        _ => {
            // Few addresses, each of which is tracked, and many, for which the block counts.
            let (kind, count) = if random.bool() { ("few", 4) } else { ("many", 40) };
            let all: Vec<_> = (1..=count).map(|n| key(n).to_string()).collect();
            (kind, format!("/v1/accounts?addresses={}&{config}", all.join(",")))
        }
    }
}

const KINDS: [&str; 7] = ["supply", "program", "tokens", "holders", "few", "many", "block"];

/// The number of responses that were started on the CPU pool.
fn tasks_started(node: &Node) -> u64 {
    let class = node.world.class(pool::Class::Medium);
    class.completed + class.cancelled + class.expired + (class.queued + class.active) as u64
}

/// What a client has cached of one request: the `ETag`s, and the bytes of each.
type CachedBodies = HashMap<String, Vec<u8>>;

/// A request whose response is compared with a fresh one.
struct ComparedRequest<'a> {
    path: &'a str,
    coding: &'a str,
    /// Whether it sends the `ETag`s that the client has.
    is_conditional: bool,
    /// Whether the node has a response cache.
    is_cached: bool,
}

/// Sends a request, and the same one to a node that computes all anew. Whether the response was 304.
fn send_compared(
    client: &mut Client,
    fresh: &mut Client,
    request: &ComparedRequest<'_>,
    cached: &mut CachedBodies,
) -> bool {
    let ComparedRequest { path, coding, is_conditional, is_cached } = *request;
    let tags: Vec<&str> = cached.keys().map(String::as_str).collect();
    let accept = format!("accept-encoding: {coding}\r\n");
    let headers = format!("{accept}if-none-match: {}\r\n", tags.join(", "));
    let headers = if is_conditional && !tags.is_empty() { &headers } else { &accept };
    let response = get(client, path, headers);
    let expected = get(fresh, path, &accept);
    if expected.status != 200 {
        assert_eq!(response.status, expected.status, "{path}: {}", response.body);
        return false;
    }
    for name in ["hydrant-slot", "cache-control"] {
        assert_eq!(response.header(name), expected.header(name), "{path}");
    }
    let etag = response.header("etag").unwrap_or_else(|| panic!("{path} has no ETag"));
    match response.status {
        304 => {}
        200 => {
            let first = cached.entry(etag.to_owned()).or_insert_with(|| response.bytes.clone());
            assert!(*first == response.bytes, "{path} {coding}: other bytes, the same ETag");
        }
        other => panic!("{path}: {other}"),
    }
    // A cached response is compressed in other blocks than a streamed one, but its decoded bytes are the same.
    let is_coded = expected.header("content-encoding").is_some();
    let decoded = |bytes: &[u8]| if is_coded { decode(coding, bytes) } else { bytes.to_vec() };
    let (actual, expected) = (&cached[etag], &expected.bytes);
    let is_same = actual == expected || (is_cached && decoded(actual) == decoded(expected));
    assert!(is_same, "{path} {coding}, {}: not the current response", response.status);
    response.status == 304
}

#[test]
fn a_304_is_sent_only_if_the_current_bytes_are_the_same() {
    let revalidated = compare(11, 0);
    assert!(KINDS.iter().all(|kind| revalidated.get(kind) > Some(&5)), "{revalidated:?}");
}

#[test]
fn a_304_is_right_alongside_the_cache_too() {
    let revalidated = compare(12, 1_000_000);
    // All totals are cached, and therefore hashed.
    assert!(KINDS[1..].iter().all(|kind| revalidated.get(kind) > Some(&5)), "{revalidated:?}");
}

/// Compares the responses of a node with those of another that computes all anew, under random writes. Returns how
/// often a client got 304 without a computation, by kind of request.
fn compare(seed: u64, cache_bytes_max: u64) -> HashMap<&'static str, u64> {
    let mut random = Rng::with_seed(seed);
    let (mut ledger, reader) = ledger(&mut random);
    // The first node computes ETags of streamed responses from dependencies. The other buffers and hashes everything.
    let node = Node::with_etag_buffer(reader.clone(), 64, cache_bytes_max);
    let is_cached = cache_bytes_max > 0;
    let fresh = Node::with_etag_buffer(reader, 1 << 20, 0);
    let (mut client, mut fresh_client) = (node.client(), fresh.client());
    let (mut slots, mut root) = (vec![100], 0);
    let mut caches: HashMap<(String, &str), CachedBodies> = HashMap::new();
    let mut revalidated: HashMap<&str, u64> = HashMap::new();
    for _ in 0..250 {
        match random.u8(..6) {
            0 => {
                let parent = slots[slots.len() - 1];
                let tip = parent + 1;
                slots.push(tip);
                ledger.open(block(tip), block(parent), bank(tip)).expect("open");
                let changes = (0..random.u8(..4)).map(|_| change(&mut random)).collect();
                ledger.apply(block(tip), changes, bank(tip)).expect("apply");
                ledger.publish();
                ledger.apply(block(tip), vec![change(&mut random)], bank(tip)).expect("apply");
                ledger.complete(block(tip), bank(tip)).expect("complete");
                ledger.confirm(block(tip)).expect("it is complete");
                for node in [&node, &fresh] {
                    let history = &node.world.node.api.history;
                    confirm_block(history, completed(tip, vec![executed(tip, 0, 2)]));
                    history.publish();
                }
            }
            1 if root < slots.len() - 1 => {
                root += 1 + random.usize(..slots.len() - 1 - root);
                for node in [&node, &fresh] {
                    node.world.node.api.history.finalize(block(slots[root]));
                    node.world.node.api.history.publish();
                }
                ledger.finalize(block(slots[root])).expect("finalize");
            }
            _ => {}
        }
        ledger.publish();
        for _ in 0..12 {
            let (kind, path) = request(&mut random, slots[slots.len() - 1]);
            let coding = ["identity", "gzip", "zstd"][random.usize(..3)];
            let cached = caches.entry((path.clone(), coding)).or_default();
            let before =
                (tasks_started(&node), node.world.node.context.response_cache.counters().hits);
            let is_conditional = random.u8(..4) > 0;
            let request = ComparedRequest { path: &path, coding, is_conditional, is_cached };
            if send_compared(&mut client, &mut fresh_client, &request, cached)
                && before
                    == (
                        tasks_started(&node),
                        node.world.node.context.response_cache.counters().hits,
                    )
            {
                *revalidated.entry(kind).or_default() += 1;
            }
        }
    }
    revalidated
}

#[test]
fn an_etag_without_bytes_belongs_to_one_process_instance() {
    let (_ledger, reader) = ledger(&mut Rng::with_seed(5));
    let nodes = [0, 1].map(|_| Node::with_etag_buffer(reader.clone(), 64, 0));
    let path = format!("/v1/programs/{PROGRAM}/accounts");
    let etags = nodes.each_ref().map(|node| {
        let response = get(&mut node.client(), &path, "");
        response.header("etag").expect("an ETag").to_owned()
    });
    assert_ne!(etags[0], etags[1]);
    for (node, etag) in nodes.iter().zip(&etags) {
        let before = tasks_started(node);
        for (tag, status) in [(&etags[0], 304), (&etags[1], 304), (&"*".to_owned(), 304)] {
            let status = if tag == etag || tag == "*" { status } else { 200 };
            let response = get(&mut node.client(), &path, &format!("if-none-match: {tag}\r\n"));
            assert_eq!((response.status, response.header("etag")), (status, Some(etag.as_str())));
        }
        // The node's own ETag needed no computation. The other one and `*` did.
        assert_eq!(tasks_started(node), before + 2);
    }
    // A response to POST is always computed.
    let response =
        crate::post(&mut nodes[0].client(), &path, &serde_json::json!({ "filters": [] }));
    assert_eq!(response.status, 200, "{}", response.body);
}
