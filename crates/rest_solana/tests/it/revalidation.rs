//! A 304 is sent only if the client's bytes equal the current response, whatever was written in between, and equal
//! `ETag`s mean equal bytes.

use std::collections::HashMap;

use fastrand::Rng;
use ledger::{Address, Change};
use query::{Ledger, LedgerConfig};
use solana::Account;
use solana_account::AccountSharedData;
use solana_pubkey::Pubkey;

use crate::history::{completed_block, confirm_block, signature, transaction_with_balances};
use crate::{Node, decode, get};
use testkit::raw_http_client::Client;
use testkit::sample_ledger::{PROGRAM, WALLET, bank, block, mint, token, with_data};

pub(crate) fn key(n: u8) -> Pubkey {
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
    let mint = key(MINTS[random.usize(..2)]);
    let owner = key(OWNERS[random.usize(..2)]);
    let data = token(mint, owner, random.u64(..1_000), None);
    account_change(token_key(n), Some(with_data(spl_token_interface::id(), &data)))
}

pub(crate) fn account_change(at: Pubkey, account: Option<AccountSharedData>) -> Change<Account> {
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
    let kind = one(&KINDS[..KINDS.len() - 1]);
    let slice = one(&["", "&dataOffset=1&dataLength=8"]);
    let page = one(&["", "&limit=1", "&limit=3"]);
    let sure = one(&["confirmed", "finalized"]);
    let owner = key(OWNERS[random.usize(..2)]);
    let mint = key(MINTS[random.usize(..2)]);
    match kind.as_str() {
        "program" => ("program", format!("/v1/programs/{PROGRAM}/accounts?{config}{limit}")),
        "tokens" => ("tokens", format!("/v1/owners/{owner}/tokens?{config}{limit}")),
        "holders" => ("holders", format!("/v1/mints/{mint}/holders?{config}{limit}")),
        "supply" => ("supply", format!("/v1/supply?commitment={commitment}")),
        "account" => {
            ("account", format!("/v1/accounts/{}?{config}{slice}", key(1 + random.u8(..5))))
        }
        "mint" => ("mint", format!("/v1/mints/{mint}/supply?commitment={commitment}")),
        "node" => ("node", "/v1/node".to_owned()),
        "ledger" => ("ledger", format!("/v1/ledger?commitment={commitment}")),
        "signatures" => {
            let path = format!("/v1/accounts/{WALLET}/transactions?commitment={sure}{page}");
            ("signatures", path)
        }
        "transaction" => {
            let signature = signature(tip - random.u64(..6).min(tip - 100), 0);
            ("transaction", format!("/v1/transactions/{signature}?commitment={sure}"))
        }
        "status" => {
            let signature = signature(tip - random.u64(..6).min(tip - 100), 0);
            ("status", format!("/v1/transactions/{signature}/status"))
        }
        "block" => {
            let slot = tip - random.u64(..6).min(tip - 100);
            ("block", format!("/v1/blocks/{slot}?commitment={sure}"))
        }
        _ => {
            // Few addresses, which are all tracked, and many, for which the block counts.
            let (kind, count) = if random.bool() { ("few", 4) } else { ("many", 40) };
            let all: Vec<_> = (1..=count).map(|n| key(n).to_string()).collect();
            (kind, format!("/v1/accounts?addresses={}&{config}", all.join(",")))
        }
    }
}

const KINDS: [&str; 14] = [
    "supply",
    "program",
    "tokens",
    "holders",
    "block",
    "account",
    "mint",
    "node",
    "ledger",
    "signatures",
    "transaction",
    "status",
    "few",
    "many",
];

/// The number of responses that were started on the CPU pool.
pub(crate) fn tasks_started(node: &Node) -> u64 {
    let started = [cpu_pool::Class::Light, cpu_pool::Class::Medium].map(|class| {
        let class = node.world.class(class);
        class.completed + class.cancelled + class.expired + (class.queued + class.active) as u64
    });
    started.iter().sum()
}

/// The cache of a client for one request: the `ETag`s, and the bytes of each.
type CachedBodies = HashMap<String, Vec<u8>>;

/// A request. Its response is compared with a fresh one.
struct ComparedRequest<'a> {
    path: &'a str,
    coding: &'a str,
    /// Whether it sends the `ETag`s that the client has.
    is_conditional: bool,
    /// Whether the node has a response cache.
    is_cached: bool,
}

/// Sends a request, and the same one to a node that computes every response. Returns whether the response was 304.
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
    let actual = &cached[etag];
    let expected = &expected.bytes;
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

/// Compares the responses of a node with those of another that computes every response, under random writes. Returns
/// how often a client got 304 without a computation, by kind of request.
fn compare(seed: u64, cache_bytes_max: u64) -> HashMap<&'static str, u64> {
    let mut random = Rng::with_seed(seed);
    let (mut ledger, reader) = ledger(&mut random);
    // The first node computes ETags of streamed responses from dependencies. The other buffers and hashes everything.
    // A token's supply fits into the buffer; nothing else that has dependencies does.
    let node = Node::with_etag_buffer(reader.clone(), 90, cache_bytes_max);
    let is_cached = cache_bytes_max > 0;
    let fresh = Node::with_etag_buffer(reader, 1 << 20, 0);
    let mut client = node.client();
    let mut fresh_client = fresh.client();
    let mut slots = vec![100];
    let mut root = 0;
    let mut caches: HashMap<(String, &str), CachedBodies> = HashMap::new();
    let mut revalidated: HashMap<&str, u64> = HashMap::new();
    for _ in 0..400 {
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
                    let history = &node.world.server.api.history;
                    confirm_block(
                        history,
                        completed_block(tip, vec![transaction_with_balances(tip, 0, 2)]),
                    );
                    history.publish();
                }
            }
            1 if root < slots.len() - 1 => {
                root += 1 + random.usize(..slots.len() - 1 - root);
                for node in [&node, &fresh] {
                    node.world.server.api.history.finalize(block(slots[root]));
                    node.world.server.api.history.publish();
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
                (tasks_started(&node), node.world.server.context.response_cache.counters().hits);
            let is_conditional = random.u8(..4) > 0;
            let request = ComparedRequest { path: &path, coding, is_conditional, is_cached };
            if send_compared(&mut client, &mut fresh_client, &request, cached)
                && before
                    == (
                        tasks_started(&node),
                        node.world.server.context.response_cache.counters().hits,
                    )
            {
                *revalidated.entry(kind).or_default() += 1;
            }
        }
    }
    revalidated
}

/// Every route, requested by a client that has its response, and the class of its calls.
const ROUTES: [&str; 12] = [
    "/v1/node",
    "/v1/ledger",
    "/v1/supply",
    "/v1/accounts?addresses={key}",
    "/v1/accounts/{key}",
    "/v1/accounts/{wallet}/transactions",
    "/v1/owners/{owner}/tokens",
    "/v1/mints/{mint}/holders",
    "/v1/mints/{mint}/supply",
    "/v1/programs/{program}/accounts",
    "/v1/transactions/{signature}",
    "/v1/transactions/{signature}/status",
];

/// A node with a final block, and the path of each route.
pub(crate) struct EveryRoute {
    pub(crate) node: Node,
    pub(crate) ledger: Ledger<Account, chain_solana::BlockInfo>,
    pub(crate) paths: Vec<String>,
}

impl EveryRoute {
    pub(crate) fn new(cache_bytes_max: u64) -> Self {
        let (ledger, reader) = ledger(&mut Rng::with_seed(7));
        let node = Node::with_etag_buffer(reader, 1 << 20, cache_bytes_max);
        let mut paths: Vec<String> = ROUTES.map(Self::fill_path).to_vec();
        paths.push("/v1/blocks/101".to_owned());
        let mut world = Self { node, ledger, paths };
        world.confirm(101);
        world.finalize(101);
        world
    }

    fn fill_path(path: &str) -> String {
        let path = path.replace("{key}", &key(1).to_string());
        let path = path.replace("{wallet}", &WALLET.to_string());
        let path = path.replace("{owner}", &key(OWNERS[0]).to_string());
        let path = path.replace("{mint}", &key(MINTS[0]).to_string());
        let path = path.replace("{program}", &PROGRAM.to_string());
        path.replace("{signature}", &signature(101, 0).to_string())
    }

    /// Adds a confirmed block with a transaction.
    fn confirm(&mut self, slot: u64) {
        let history = &self.node.world.server.api.history;
        let confirmed = completed_block(slot, vec![transaction_with_balances(slot, 0, 2)]);
        confirmed.show_statuses();
        confirm_block(history, confirmed);
        history.publish();
        self.ledger.open(block(slot), block(slot - 1), bank(slot)).expect("open");
        self.ledger.complete(block(slot), bank(slot)).expect("complete");
        self.ledger.confirm(block(slot)).expect("it is complete");
        self.ledger.publish();
    }

    fn finalize(&mut self, slot: u64) {
        let history = &self.node.world.server.api.history;
        history.finalize(block(slot));
        history.publish();
        self.ledger.finalize(block(slot)).expect("it is confirmed");
        self.ledger.publish();
    }
}

#[test]
fn every_route_is_revalidated_without_a_task() {
    for cache_bytes_max in [0, 1 << 20] {
        let EveryRoute { node, paths, ledger: _ledger } = EveryRoute::new(cache_bytes_max);
        let mut client = node.client();
        for path in &paths {
            let first = get(&mut client, path, "");
            let etag = first.header("etag").unwrap_or_else(|| panic!("{path}: {}", first.body));
            let condition = format!("if-none-match: \"0\", W/{etag}\r\n");
            assert_eq!(get(&mut client, path, &condition).status, 304, "{path}");
            let before = tasks_started(&node);
            for condition in [condition, "if-none-match: *\r\n".to_owned()] {
                let again = get(&mut client, path, &condition);
                assert_eq!((again.status, again.header("etag")), (304, Some(etag)), "{path}");
                for name in ["hydrant-slot", "hydrant-commitment", "cache-control", "vary"] {
                    assert_eq!(again.header(name), first.header(name), "{path}");
                }
                assert!(again.bytes.is_empty());
            }
            let other = get(&mut client, path, "if-none-match: \"0\"\r\n");
            assert_eq!((other.status, other.bytes == first.bytes), (200, true), "{path}");
            let head = format!("if-none-match: {etag}\r\n");
            let head = crate::send_request(&mut client, "HEAD", path, &head);
            assert_eq!(head.status, 304, "{path}");
            assert!(tasks_started(&node) <= before + 1, "{path}: only the 200 had a task");
        }
    }
}

#[test]
fn a_304_is_of_the_same_media_type_and_coding() {
    let world = EveryRoute::new(0);
    let mut client = world.node.client();
    let path = format!("/v1/accounts/{}", key(1));
    let raw = "accept: application/octet-stream\r\n";
    let tag = |client: &mut Client, accept: &str| {
        get(client, &path, accept).header("etag").expect("an ETag").to_owned()
    };
    let json_tag = tag(&mut client, "");
    let raw_tag = tag(&mut client, raw);
    for _ in 0..3 {
        for (accept, sent, status) in
            [("", &json_tag, 304), ("", &raw_tag, 200), (raw, &raw_tag, 304), (raw, &json_tag, 200)]
        {
            let headers = format!("{accept}if-none-match: {sent}\r\n");
            assert_eq!(get(&mut client, &path, &headers).status, status, "{accept}");
        }
        // A parameter makes another response, whatever the client has.
        let sliced = format!("{path}?dataOffset=0&dataLength=1");
        let headers = format!("if-none-match: {json_tag}\r\n");
        assert_eq!(get(&mut client, &sliced, &headers).status, 200);
        let unreached = format!("{path}?minContextSlot=1000");
        assert_eq!(get(&mut client, &unreached, &headers).status, 409);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a wait is measured")]
fn a_request_that_waits_is_not_answered_from_its_tag() {
    let mut world = EveryRoute::new(0);
    let mut client = world.node.client();
    // Confirmed but not final: its status changes when it is.
    world.confirm(102);
    let path = format!("/v1/transactions/{}/status", signature(102, 0));
    let waiting = format!("{path}?waitMs=50&commitment=finalized");
    let first = get(&mut client, &waiting, "");
    assert_eq!(first.status, 200, "{}", first.body);
    let condition = format!("if-none-match: {}\r\n", first.header("etag").expect("an ETag"));
    let started = std::time::Instant::now();
    for _ in 0..2 {
        assert_eq!(get(&mut client, &waiting, &condition).status, 304, "after the wait");
    }
    assert!(started.elapsed() >= std::time::Duration::from_millis(100), "both waited");
    for _ in 0..2 {
        assert_eq!(get(&mut client, &path, &condition).status, 304);
    }
    world.finalize(102);
    for path in [waiting, path] {
        assert_eq!(get(&mut client, &path, &condition).status, 200);
    }
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
        // The node's own ETag needed no computation, and afterwards `*` did not either. The other ETag did.
        assert_eq!(tasks_started(node), before + 1);
    }
    // Without a cache, a response to POST is always computed.
    let response =
        crate::post(&mut nodes[0].client(), &path, &serde_json::json!({ "filters": [] }));
    assert_eq!(response.status, 200, "{}", response.body);
}
