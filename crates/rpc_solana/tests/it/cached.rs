//! Responses from the cache: the same bytes as a computation at that time would return, under concurrent writes.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use chain_solana::{Block, ExecutedTransaction, History};
use clients::ClientId;
use cpu_pool::Class;
use fastrand::Rng;
use hyper::header::HeaderName;
use jsonrpc::handle_blocking;
use ledger::{Address, Change};
use query::{IndexConfig, Ledger, LedgerConfig};
use rpc_solana::Config;
use serde_json::json;
use solana::Account;
use solana_hash::Hash;
use solana_message::{Message, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_system_interface::instruction::transfer;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_status::TransactionStatusMeta;

use crate::shared::pad_body;
use crate::streams::resident_bytes;
use testkit::raw_http_client::{Client, post};
use testkit::sample_ledger::{self, NOW, PROGRAM, bank, block, mint, token, with_data};
use testkit::solana_node::SolanaNode;
use testkit::test_ledger::empty_block;

pub(crate) fn key(n: u8) -> Pubkey {
    Pubkey::new_from_array([n; 32])
}

const MINTS: [u8; 2] = [200, 201];
const OWNERS: [u8; 3] = [210, 211, 212];

/// Makes a write to one of a few accounts: data of a program, a token account, a mint, or a removal.
fn change(random: &mut Rng) -> Change<Account> {
    let tokens = spl_token_interface::id();
    let pick = |random: &mut Rng, from: &[u8]| key(from[random.usize(..from.len())]);
    let (at, account) = match random.u64(..9) {
        0 => (1 + random.u8(..5), None),
        1 => {
            let data = mint(random.u8(..5), random.u64(..100));
            (MINTS[random.usize(..2)], Some(with_data(tokens, &data)))
        }
        2..6 => {
            let mint = pick(random, &MINTS);
            let owner = pick(random, &OWNERS);
            let delegate = (random.bool()).then(|| pick(random, &OWNERS));
            let data = token(mint, owner, random.u64(..1_000), delegate);
            (20 + random.u8(..6), Some(with_data(tokens, &data)))
        }
        _ => {
            let data = vec![random.u8(..); 1 + random.usize(..2_000)];
            (1 + random.u8(..5), Some(with_data(PROGRAM, &data)))
        }
    };
    let record = account.and_then(|account| Account(account).into_record());
    Change { address: Address::from(key(at).to_bytes()), record }
}

/// Makes one of some thousand requests. A few of them are invalid.
fn request(random: &mut Rng, id: u64, tip: u64) -> (&'static str, String) {
    let of =
        |random: &mut Rng, from: &[&str]| from[random.u64(..from.len() as u64) as usize].to_owned();
    let commitment = of(random, &["processed", "confirmed", "finalized"]);
    let encoding = of(random, &["base64", "jsonParsed", "base64", "base58"]);
    let mut config = json!({ "commitment": commitment, "encoding": encoding });
    let owner = key(OWNERS[random.u64(..3) as usize]).to_string();
    let mint = key(MINTS[random.u64(..2) as usize]).to_string();
    let tokens = spl_token_interface::id().to_string();
    let program = if random.u64(..2) == 0 { PROGRAM.to_string() } else { tokens.clone() };
    let any = |random: &mut Rng| {
        let data = key(1 + random.u64(..5) as u8);
        let token = key(20 + random.u64(..6) as u8);
        of(random, &[&data.to_string(), &token.to_string(), &mint])
    };
    let filter =
        if random.u64(..2) == 0 { json!({ "mint": mint }) } else { json!({ "programId": tokens }) };
    let method = METHODS[random.u64(..METHODS.len() as u64) as usize];
    if matches!(
        method,
        "getProgramAccountsV2" | "getTokenAccountsByMint" | "getTokenAccountsByOwnerV2"
    ) {
        config["limit"] = json!(1 + random.u64(..5));
        if random.u64(..3) == 0 {
            config["changedSinceSlot"] = json!(tip - random.u64(..3));
        }
    }
    let slot = tip.saturating_sub(random.u64(..6) * random.u64(..30)).max(1);
    let params = match method {
        "getProgramAccounts" if random.u64(..2) == 0 => {
            config["filters"] = json!([
                { "dataSize": 165 }, { "memcmp": { "offset": 32, "bytes": owner } },
            ]);
            json!([tokens, config])
        }
        "getProgramAccounts" | "getProgramAccountsV2" => {
            config["withContext"] = json!(random.u64(..2) == 0);
            json!([program, config])
        }
        "getTokenAccountsByMint" => json!([mint, config]),
        "getAccountInfo" => json!([any(random), config]),
        "getMultipleAccounts" => {
            let keys: Vec<_> = (0..random.u64(..5)).map(|_| any(random)).collect();
            json!([keys, config])
        }
        "getSupply" => json!([{ "commitment": commitment }]),
        "getLargestAccounts" => {
            let filter = of(random, &["circulating", "nonCirculating"]);
            json!([{ "commitment": commitment, "filter": filter }])
        }
        "getTokenLargestAccounts" => json!([mint, { "commitment": commitment }]),
        "getBlock" => {
            let details = of(random, &["full", "accounts", "signatures", "none"]);
            let commitment = of(random, &["confirmed", "finalized", "processed"]);
            json!([slot, { "commitment": commitment, "transactionDetails": details,
                "encoding": of(random, &["json", "jsonParsed", "base64"]) }])
        }
        "getTransaction" => {
            let commitment = of(random, &["confirmed", "finalized"]);
            json!([signature(slot).to_string(), { "commitment": commitment }])
        }
        _ => json!([owner, filter, config]),
    };
    let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    (method, body.to_string())
}

/// Makes a batch of up to 30 calls. Some are equal, some cheap, some invalid, some notifications.
fn batch(random: &mut Rng, id: u64, tip: u64) -> String {
    let mut calls: Vec<String> = Vec::new();
    let len_max = if random.bool() { 4 } else { 30 };
    for _ in 0..1 + random.u64(..len_max) {
        calls.push(match random.u8(..12) {
            0 => r#"{"jsonrpc":"2.0","id":"a","method":"getSlot"}"#.to_owned(),
            1 => r#"{"jsonrpc":"2.0","id":null,"method":"getEverything"}"#.to_owned(),
            2 => {
                r#"{"jsonrpc":"2.0","id":3,"method":"getProgramAccounts","params":[7]}"#.to_owned()
            }
            3 => r#"{"jsonrpc":"2.0","method":"getSupply"}"#.to_owned(),
            4 => r#"{"id":4,"method":"getSupply"}"#.to_owned(),
            5 | 6 if !calls.is_empty() => calls[random.usize(..calls.len())].clone(),
            _ => request(random, id, tip).1,
        });
    }
    format!("[{}]", calls.join(","))
}

/// All methods whose results are cached.
const METHODS: [&str; 14] = [
    "getProgramAccounts",
    "getProgramAccounts",
    "getTokenAccountsByOwner",
    "getTokenAccountsByDelegate",
    "getProgramAccountsV2",
    "getTokenAccountsByMint",
    "getTokenAccountsByOwnerV2",
    "getAccountInfo",
    "getMultipleAccounts",
    "getSupply",
    "getLargestAccounts",
    "getTokenLargestAccounts",
    "getBlock",
    "getTransaction",
];

/// Returns the signature of the only transaction of a slot.
fn signature(slot: u64) -> Signature {
    let mut bytes = [9; 64];
    bytes[..8].copy_from_slice(&slot.to_le_bytes());
    Signature::from(bytes)
}

/// Adds a block with one transfer to the history.
fn add_to_history(history: &History, slot: u64, parent_slot: u64) {
    let from = key(1);
    let to = key(2);
    let message = Message::new(&[transfer(&from, &to, slot)], Some(&from));
    let keys = message.account_keys.clone();
    let balances = vec![slot; keys.len()];
    let executed = Arc::new(ExecutedTransaction {
        slot,
        index: 0,
        block_time: NOW,
        transaction: VersionedTransaction {
            signatures: vec![signature(slot)],
            message: VersionedMessage::Legacy(message),
        },
        meta: TransactionStatusMeta {
            pre_balances: balances.clone(),
            post_balances: balances,
            ..TransactionStatusMeta::default()
        },
        account_keys: keys,
        is_vote: false,
        visibility: Default::default(),
    });
    history.record_transactions(block(slot), &[Arc::clone(&executed)]);
    history.record_block(&Block {
        previous_blockhash: Hash::default(),
        block_time: NOW,
        transaction_count: slot,
        transactions: vec![executed],
        ..empty_block(block(slot), block(parent_slot))
    });
    history.set_tip(block(slot));
    history.confirm(block(slot));
    history.publish();
}

pub(crate) fn post_decoded(client: &mut Client, body: &str, coding: &str) -> Vec<u8> {
    let head = format!("host: test\r\naccept-encoding: {coding}");
    client.send(post(body).replace("host: test", &head));
    let response = client.receive();
    match response.header("content-encoding") {
        Some("gzip") => {
            let mut plain = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(&response.bytes[..]);
            decoder.read_to_end(&mut plain).expect("gzip");
            plain
        }
        Some("zstd") => zstd::stream::decode_all(&response.bytes[..]).expect("zstd"),
        _ => response.bytes,
    }
}

#[test]
fn a_cached_response_is_what_would_be_computed_now() {
    let config = LedgerConfig::new(10_000);
    let (mut ledger, reader) = Ledger::new(config, block(100), bank(100));
    let mut random = Rng::with_seed(7);
    let first = (0..60).map(|_| change(&mut random)).collect();
    ledger.apply(block(100), first, bank(100)).expect("the root takes accounts");
    ledger.publish();
    // The accounts are small, so no call may be executed inline.
    let config = Config { inline_accounts_max: 0, inline_bytes_max: 0, ..Config::default() };
    let world = SolanaNode::builder(reader).config(config).serve();
    let mut client = world.client();
    let mut slots = vec![100];
    let mut root = 0;
    let mut requests = 0;
    let mut hits: HashMap<&str, u64> = HashMap::new();
    let hits_now = || world.server.context.response_cache.counters().hits;
    let mut check = |body: &str, coding: &str| {
        let cached = post_decoded(&mut client, body, coding);
        let fresh =
            handle_blocking(&world.server, body).map(|fresh| [fresh, b"\n".to_vec()].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(&cached), text(&fresh.unwrap_or_default()), "{coding} {body}");
    };
    for _ in 0..1_000 {
        match random.u64(..6) {
            0 => {
                let parent = slots[slots.len() - 1];
                let tip = parent + 1 + random.u64(..4);
                slots.push(tip);
                ledger.open(block(tip), block(parent), bank(tip)).expect("open");
                let changes = (0..random.u64(..4)).map(|_| change(&mut random)).collect();
                ledger.apply(block(tip), changes, bank(tip)).expect("apply");
                ledger.publish();
                let more = vec![change(&mut random)];
                ledger.apply(block(tip), more, bank(tip)).expect("apply");
                ledger.complete(block(tip), bank(tip)).expect("complete");
                ledger.confirm(block(tip)).expect("it is complete");
                add_to_history(&world.server.api.history, tip, parent);
            }
            1 if root < slots.len() - 1 => {
                root += 1 + random.usize(..slots.len() - 1 - root);
                world.server.api.history.finalize(block(slots[root]));
                world.server.api.history.publish();
                ledger.finalize(block(slots[root])).expect("finalize");
            }
            _ => {}
        }
        ledger.publish();
        for _ in 0..20 {
            requests += 1;
            let tip = slots[slots.len() - 1];
            let before = hits_now();
            let coding = ["identity", "gzip", "zstd"][random.usize(..3)];
            // Some bodies exceed the length that is parsed inline, so they are parsed on the pool.
            let is_long = random.u8(..5) == 0;
            let pad = |body: String| if is_long { pad_body(&body) } else { body };
            if random.u8(..5) == 0 {
                check(&pad(batch(&mut random, requests, tip)), coding);
                *hits.entry(if is_long { "long batch" } else { "batch" }).or_default() +=
                    hits_now() - before;
                continue;
            }
            let (method, body) = request(&mut random, requests, tip);
            check(&pad(body), coding);
            *hits.entry(method).or_default() += hits_now() - before;
            if is_long {
                *hits.entry("long").or_default() += hits_now() - before;
            }
        }
    }
    let is_enough = |kind| hits.get(kind).is_some_and(|hits| *hits > 500);
    assert!(["long", "batch", "long batch"].into_iter().all(is_enough), "{hits:?}");
    assert!(METHODS.iter().all(|method| hits.get(method) > Some(&0)), "{hits:?}");
    let first_retained = world.server.api.history.snapshot().first_slot();
    assert!(first_retained.is_some_and(|first| first > slots[1]), "the oldest blocks were removed");
    let counters = world.server.context.response_cache.counters();
    assert!(counters.hits > requests / 10 && counters.stale > 100, "{counters:?} of {requests}");
    // Some of these hits are found by the text of the request alone.
    let known = world.server.context.response_cache.memo_hits();
    assert!(known > 100 && known < counters.hits, "{known} of {counters:?}");
}

#[test]
fn equal_requests_at_once_are_computed_once() {
    let world = SolanaNode::builder(sample_ledger::ledger(IndexConfig::default())).serve();
    let release = world.occupy_pool();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "getProgramAccounts",
        "params": [PROGRAM.to_string(), { "encoding": "base64" }] })
    .to_string();
    // An equal request with other white space.
    let other = body.replace(r#""params":["#, r#""params": [ "#);
    assert_ne!(body, other);
    let mut clients: Vec<Client> = (0..20).map(|_| world.client()).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        client.send(post(if at % 2 == 0 { &body } else { &other }));
    }
    world.wait_response_cache(|cache| cache.coalesced == 19);
    drop(release);
    let replies: Vec<_> = clients.iter_mut().map(|client| client.receive().json()).collect();
    assert!(replies.iter().all(|reply| *reply == replies[0] && reply["result"].is_array()));
    assert_eq!(world.class(cpu_pool::Class::Medium).completed, 1);
}

/// Creates a ledger with a program of ten accounts of 2 MB, which are 27 MB in base64.
pub(crate) fn large_program() -> chain_solana::Reader {
    let config = LedgerConfig::new(10_000);
    let (mut ledger, reader) = Ledger::new(config, block(100), bank(100));
    let accounts = (1..=10).map(|n| Change {
        address: Address::from(key(n).to_bytes()),
        record: Account(with_data(PROGRAM, &vec![n; 2_000_000])).into_record(),
    });
    ledger.apply(block(100), accounts.collect(), bank(100)).expect("the root takes accounts");
    ledger.publish();
    reader
}

/// Returns a call for the program's accounts from `offset` on. `is_known`: the call can be classified as large in
/// advance.
pub(crate) fn from_byte(offset: usize, is_known: bool) -> String {
    let mut config = json!({ "encoding": "base64",
        "dataSlice": { "offset": offset, "length": 2_000_000 } });
    if !is_known {
        // Every account has this prefix, so all pass.
        config["filters"] = json!([{ "memcmp": { "offset": 0, "bytes": "" } }]);
    }
    json!({ "jsonrpc": "2.0", "id": 1, "method": "getProgramAccounts",
        "params": [PROGRAM.to_string(), config] })
    .to_string()
}

#[test]
fn unread_responses_use_no_more_memory_than_the_cache_may_collect() {
    const CACHE_BYTES: u64 = 256 << 20;
    let world = SolanaNode::builder(large_program()).cache_bytes_max(CACHE_BYTES).serve();
    let before = resident_bytes();
    let clients: Vec<Client> = (0..20)
        .map(|at| {
            let mut client = world.client();
            client.send(post(&from_byte(at, false)));
            client
        })
        .collect();
    world.wait_pool(|pool| pool.class(Class::Heavy).blocked == clients.len());
    let used = world.server.context.response_cache.used_bytes();
    assert!(used <= CACHE_BYTES / 4 + (1 << 20), "{used}");
    // Other tests of this process count too.
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 200 << 20, "{grown} bytes for 20 responses of 27 MB");
    drop(clients);
    world.wait_pool(|pool| pool.class(Class::Heavy).active == 0);
    let whole = world.client().post(&from_byte(0, false));
    let plain =
        handle_blocking(&world.server, &from_byte(0, false)).expect("a call has a response");
    assert_eq!(
        whole.bytes[..whole.bytes.len() - 1],
        plain,
        "complete after the others were cancelled"
    );
    assert_eq!(world.server.context.response_cache.used_bytes(), 0, "all of it is released");
}

#[test]
fn what_is_known_to_be_too_large_is_not_collected() {
    let world = SolanaNode::builder(large_program()).cache_bytes_max(256 << 20).serve();
    let mut client = world.client();
    client.send(post(&from_byte(0, true)));
    world.wait_pool(|pool| pool.class(Class::Heavy).blocked == 1);
    assert_eq!(world.server.context.response_cache.used_bytes(), 0);
    assert_eq!(world.server.context.response_cache.counters().misses, 0, "there is no lookup");
    let whole = client.receive();
    let plain = handle_blocking(&world.server, &from_byte(0, true)).expect("a call has a response");
    assert_eq!(whole.bytes[..whole.bytes.len() - 1], plain);
}

#[test]
fn no_slice_handles_more_than_a_chunk() {
    let pool = cpu_pool::Config { slice_us: 1, ..cpu_pool::Config::default() };
    for (coding, is_known) in [("gzip", false), ("gzip", true), ("identity", false)] {
        let world = SolanaNode::builder(large_program()).pool(pool.clone()).serve();
        let mut client = world.client();
        let bytes = post_decoded(&mut client, &from_byte(0, is_known), coding).len();
        assert!(bytes > 25 << 20);
        let slices = world.class(Class::Heavy).time_slices as usize;
        assert!(slices >= bytes / (256 << 10), "{slices} slices for {bytes} bytes, {coding}");
    }
}

/// Returns a request of a named client for the first `bytes` bytes of each account of the program.
fn request_from_client(name: &str, bytes: usize) -> String {
    let config = json!({ "encoding": "base64", "dataSlice": { "offset": 0, "length": bytes } });
    let params = json!([PROGRAM.to_string(), config]);
    let body =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "getProgramAccounts", "params": params });
    post(&body.to_string()).replace("host: test", &format!("host: test\r\nx-api-key: {name}"))
}

#[test]
fn no_client_waits_behind_another_clients_queue() {
    let config =
        Config { client_header: Some(HeaderName::from_static("x-api-key")), ..Config::default() };
    let world =
        SolanaNode::builder(sample_ledger::ledger(IndexConfig::default())).config(config).serve();
    let release = world.occupy_pool();
    let queued = |tasks| world.wait_pool(|pool| pool.class(Class::Medium).queued == tasks);
    let mut first = world.client();
    let mut same = world.client();
    let mut other = world.client();
    first.send(request_from_client("a", 1));
    queued(1);
    // The next task of the same client occupies its thread until it is released.
    let blocking = world.queue(Class::Medium, ClientId::from_name(b"a"));
    queued(2);
    same.send(request_from_client("a", 2));
    queued(3);
    other.send(request_from_client("b", 2));
    queued(4);
    drop(release);
    let response = other.receive();
    assert!(response.json()["result"].is_array(), "{}", response.body);
    queued(1); // the task that occupies the thread has started, the next one of the same client has not
    drop(blocking);
    assert_eq!(same.receive().json(), response.json());
    assert!(first.receive().json()["result"].is_array());
    let counters = world.server.context.response_cache.counters();
    assert_eq!((counters.misses, counters.coalesced, counters.entries), (3, 1, 2), "{counters:?}");
}

#[test]
fn a_client_that_waits_for_a_response_gets_an_error_when_its_deadline_is_over() {
    let mut pool = cpu_pool::Config::default();
    pool.medium.deadline_ms = 50;
    let world =
        SolanaNode::builder(sample_ledger::ledger(IndexConfig::default())).pool(pool).serve();
    let _release = world.occupy_pool();
    let mut leader = world.client();
    let mut follower = world.client();
    leader.send(request_from_client("a", 1));
    world.wait_pool(|pool| pool.class(Class::Medium).queued == 1);
    follower.send(request_from_client("a", 1));
    world.wait_response_cache(|cache| cache.coalesced == 1);
    // The pool has no free thread that could send the response.
    let response = follower.receive();
    assert_eq!((response.status, response.header("retry-after")), (429, Some("1")));
    assert!(response.body.contains("pool.medium.deadline_ms"), "{}", response.body);
    let metrics = crate::metrics::ScrapedMetrics::scrape(&mut follower);
    let rejected = metrics.get("hydrant_rejected_total{cause=\"deadline\",class=\"medium\"}");
    assert_eq!(rejected, 1.0, "{:?}", metrics.all());
}
