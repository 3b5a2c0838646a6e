//! Answers from the cache: the same bytes as if they were made now, whatever was written meanwhile.

use std::io::Read;

use fastrand::Rng;
use ledger::{Address, Change};
use query::{Indices, Ledger, LedgerConfig};
use rpc::{Config, answer_here};
use serde_json::json;
use solana::Account;
use solana_pubkey::Pubkey;

use crate::wire::{Client, post};
use crate::world::{self, PROGRAM, World, bank, block, mint, token, with_data};

fn key(n: u8) -> Pubkey {
    Pubkey::new_from_array([n; 32])
}

const MINTS: [u8; 2] = [200, 201];
const OWNERS: [u8; 3] = [210, 211, 212];

/// A write to one of few accounts: data of a program, a token account, a mint, or its end.
fn change(random: &mut Rng) -> Change<Account> {
    let tokens = spl_token_interface::id();
    let of = |random: &mut Rng, from: &[u8]| key(from[random.usize(..from.len())]);
    let (at, account) = match random.u64(..9) {
        0 => (1 + random.u8(..5), None),
        1 => {
            let data = mint(random.u8(..5), random.u64(..100));
            (MINTS[random.usize(..2)], Some(with_data(tokens, &data)))
        }
        2..6 => {
            let (mint, owner) = (of(random, &MINTS), of(random, &OWNERS));
            let delegate = (random.bool()).then(|| of(random, &OWNERS));
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

/// Any of some hundred requests, a few of them wrong.
fn request(random: &mut Rng, id: u64) -> String {
    let of = |random: &mut Rng, from: &[&str]| from[random.usize(..from.len())].to_owned();
    let commitment = of(random, &["processed", "confirmed", "finalized"]);
    let encoding = of(random, &["base64", "jsonParsed", "base64", "base58"]);
    let mut config = json!({ "commitment": commitment, "encoding": encoding });
    let owner = key(OWNERS[random.usize(..3)]).to_string();
    let mint = key(MINTS[random.usize(..2)]).to_string();
    let tokens = spl_token_interface::id().to_string();
    let (method, params) = match random.u64(..6) {
        4 => {
            config["limit"] = json!(1 + random.u64(..8));
            config["withContext"] = json!(random.bool());
            let program = if random.bool() { PROGRAM.to_string() } else { tokens };
            ("getProgramAccountsV2", json!([program, config]))
        }
        5 if random.bool() => {
            config["limit"] = json!(1 + random.u64(..8));
            ("getTokenAccountsByMint", json!([mint, config]))
        }
        5 => ("getTokenAccountsByOwnerV2", json!([owner, { "mint": mint }, config])),
        0 => {
            config["withContext"] = json!(random.bool());
            let program = if random.bool() { PROGRAM.to_string() } else { tokens };
            ("getProgramAccounts", json!([program, config]))
        }
        1 => {
            config["filters"] = json!([
                { "dataSize": 165 }, { "memcmp": { "offset": 32, "bytes": owner } },
            ]);
            ("getProgramAccounts", json!([tokens, config]))
        }
        n => {
            let filter = if random.bool() {
                json!({ "mint": mint })
            } else {
                json!({ "programId": tokens })
            };
            let by = if n == 2 { "getTokenAccountsByOwner" } else { "getTokenAccountsByDelegate" };
            (by, json!([owner, filter, config]))
        }
    };
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

fn ask(client: &mut Client, body: &str, coding: &str) -> Vec<u8> {
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
fn an_answer_from_the_cache_is_what_would_be_made_now() {
    let config = LedgerConfig::new(10_000);
    let (mut ledger, reader) = Ledger::new(config, block(100), bank(100));
    let mut random = Rng::with_seed(7);
    let first = (0..60).map(|_| change(&mut random)).collect();
    ledger.apply(block(100), first, bank(100)).expect("the root takes accounts");
    ledger.publish();
    // Small accounts only, so that the lists are not inline.
    let config = Config { inline_accounts_max: 0, ..Config::default() };
    let world = World::on(reader, config, pool::Config::default());
    let mut client = world.client();
    let (mut tip, mut root, mut asked) = (100, 100, 0);
    for _ in 0..400 {
        match random.u64(..6) {
            0 => {
                tip += 1;
                ledger.open(block(tip), block(tip - 1), bank(tip)).expect("open");
                let changes = (0..random.u64(..4)).map(|_| change(&mut random)).collect();
                ledger.apply(block(tip), changes, bank(tip)).expect("apply");
                ledger.publish();
                let more = vec![change(&mut random)];
                ledger.apply(block(tip), more, bank(tip)).expect("apply");
                ledger.complete(block(tip), bank(tip)).expect("complete");
            }
            1 if root < tip => {
                root += 1 + random.u64(..tip - root);
                ledger.finalize(block(root)).expect("finalize");
            }
            _ => {}
        }
        ledger.publish();
        for _ in 0..20 {
            asked += 1;
            let body = request(&mut random, asked);
            let coding = ["identity", "gzip", "zstd"][random.usize(..3)];
            let cached = ask(&mut client, &body, coding);
            let mut fresh = answer_here(&world.node, &body).expect("a call is answered");
            fresh.push(b'\n');
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(text(&cached), text(&fresh), "{coding} {body}");
        }
    }
    let counters = world.node.answers.counters();
    assert!(counters.hits > asked / 8 && counters.stale > 100, "{counters:?} of {asked}");
}

#[test]
fn equal_requests_at_once_are_computed_once() {
    let world =
        World::on(world::ledger(Indices::default()), Config::default(), pool::Config::default());
    let release = world.occupy_pool();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "getProgramAccounts",
        "params": [PROGRAM.to_string(), { "encoding": "base64" }] })
    .to_string();
    // The same request, told otherwise.
    let other = body.replace(r#""params":["#, r#""params": [ "#);
    assert_ne!(body, other);
    let mut clients: Vec<Client> = (0..20).map(|_| world.client()).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        client.send(post(if at % 2 == 0 { &body } else { &other }));
    }
    world.wait_answers(|answers| answers.shared == 19);
    drop(release);
    let replies: Vec<_> = clients.iter_mut().map(|client| client.receive().json()).collect();
    assert!(replies.iter().all(|reply| *reply == replies[0] && reply["result"].is_array()));
    assert_eq!(world.class(pool::Class::Medium).done, 1);
}
