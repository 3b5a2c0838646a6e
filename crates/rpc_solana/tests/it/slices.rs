//! Tasks on the CPU pool run in time slices, and large ones are heavy.

use std::sync::Arc;

use cpu_pool::Class;
use ledger::{Address, Change};
use query::{IndexConfig, IndexKeyFilter, Ledger, LedgerConfig};
use serde_json::{Value, json};
use solana::{Account, key_kind};
use solana_account::AccountSharedData;
use solana_pubkey::Pubkey;

use testkit::sample_ledger::{
    DATA, MINT, PROGRAM, TOKEN, WALLET, bank, block, mint, token, with_data,
};
use testkit::solana_node::SolanaNode;
use testkit::test_ledger::{TestLedger, TestLedgerConfig, block_info};

/// Number of token accounts, and of accounts of a program.
const ACCOUNTS: u32 = 20_000;

fn change(key: Pubkey, account: AccountSharedData) -> Change<Account> {
    Change { address: Address::from(key.to_bytes()), record: Account(account).into_record() }
}

fn key(kind: u8, n: u32) -> Pubkey {
    let mut key = [kind; 32];
    key[..4].copy_from_slice(&n.to_be_bytes());
    Pubkey::new_from_array(key)
}

/// Starts a node with the shortest time slices, without an index by mint.
fn world() -> SolanaNode {
    let tokens = spl_token_interface::id();
    let mut config = LedgerConfig::new(100_000);
    let root = block(100);
    config.indices = IndexConfig::default().with(key_kind::MINT, IndexKeyFilter::Off);
    let (mut ledger, reader) = Ledger::new(config, root, bank(100));
    let of_token =
        |n| change(key(1, n), with_data(tokens, &token(MINT, WALLET, u64::from(n), None)));
    let of_program = |n| change(key(2, n), with_data(PROGRAM, &[1]));
    let mut changes: Vec<_> = (0..ACCOUNTS).flat_map(|n| [of_token(n), of_program(n)]).collect();
    changes.push(change(MINT, with_data(tokens, &mint(2, 1_000))));
    changes.extend((0..20).map(|n| change(key(3, n), with_data(key(9, 9), &vec![1; 100_000]))));
    ledger.apply(root, changes, bank(100)).expect("the root takes accounts");
    ledger.publish();
    SolanaNode::builder(reader)
        .pool(cpu_pool::Config { slice_us: 1, ..cpu_pool::Config::default() })
        .serve()
}

/// Returns the result, its class, and the number of time slices that it took.
fn call_counting_slices(world: &SolanaNode, method: &str, params: Value) -> (Value, Class, u64) {
    let classes = [Class::Light, Class::Medium, Class::Heavy];
    let before = classes.map(|class| world.class(class).time_slices);
    let result = world.client().result(method, params);
    // The last counters of a task change after its response was sent.
    world.wait_pool(|pool| classes.iter().all(|class| pool.class(*class).active == 0));
    let slices = |index: usize| world.class(classes[index]).time_slices - before[index];
    let index = (0..3).find(|index| slices(*index) > 0).expect("it ran on the pool");
    (result, classes[index], slices(index))
}

#[test]
fn every_scan_yields() {
    let world = world();
    let none = json!([{ "memcmp": { "offset": 0, "bytes": "3" } }]);
    let config = json!({ "encoding": "base64", "filters": none });
    let page = json!([PROGRAM.to_string(), config]);
    let (found, _, slices) = call_counting_slices(&world, "getProgramAccountsV2", page);
    assert_eq!(found["accounts"], json!([]));
    assert!(slices > 100, "{slices} slices for a page");
    let (found, class, slices) =
        call_counting_slices(&world, "getTokenLargestAccounts", json!([MINT.to_string()]));
    let largest: Vec<_> = found["value"].as_array().into_iter().flatten().collect();
    assert_eq!((largest.len(), &largest[0]["amount"]), (20, &json!("19999")));
    assert_eq!(largest[0]["address"], json!(key(1, ACCOUNTS - 1).to_string()));
    assert!(class == Class::Heavy && slices > 100, "{slices} slices for the largest");
}

#[test]
fn many_bytes_in_few_accounts_are_heavy() {
    let world = world();
    let owner = key(9, 9).to_string();
    let of_program =
        |config| call_counting_slices(&world, "getProgramAccounts", json!([owner, config])).1;
    assert_eq!(of_program(json!({ "encoding": "base64" })), Class::Heavy);
    let slice = json!({ "offset": 0, "length": 100 });
    assert_eq!(of_program(json!({ "encoding": "base64", "dataSlice": slice })), Class::Medium);
    let several = |n| -> Class {
        let keys: Vec<_> = (0..n).map(|n| key(3, n).to_string()).collect();
        let config = json!({ "encoding": "base64" });
        call_counting_slices(&world, "getMultipleAccounts", json!([keys, config])).1
    };
    assert_eq!((several(2), several(20)), (Class::Medium, Class::Heavy));
}

#[test]
fn what_a_batch_encodes_inline_has_one_bound() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let slices = || [Class::Light, Class::Medium].map(|class| world.class(class).time_slices);
    let before = slices();
    let call = |method: &str, params: &Value| -> String {
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
    };
    let slice = json!({ "offset": 0, "length": 30_000 });
    let config = json!({ "encoding": "base64", "dataSlice": slice });
    let long = call("getAccountInfo", &json!([DATA[2].to_string(), config]));
    let short = call("getAccountInfo", &json!([DATA[0].to_string(), { "encoding": "base64" }]));
    let parsed = |n| {
        let keys = vec![TOKEN.to_string(); n];
        call("getMultipleAccounts", &json!([keys, { "encoding": "jsonParsed" }]))
    };
    let batch = |calls: &[&str]| format!("[{}]", calls.join(","));
    let inline = [long.clone(), parsed(6), batch(&[&long, &short]), batch(&[&parsed(3), &short])];
    for body in inline {
        client.post(&body);
        assert_eq!(slices(), before, "{body}");
    }
    let mut before = before;
    for body in [parsed(7), batch(&[&long, &long]), batch(&[&parsed(4), &parsed(4)])] {
        let reply = client.post(&body);
        // The last counters of a task change after its response was sent.
        world.wait_pool(|pool| Class::ALL.iter().all(|class| pool.class(*class).active == 0));
        assert!(slices() > before, "{body}");
        let expected = jsonrpc::handle_blocking(&world.server, &body).expect("there is a response");
        assert_eq!(reply.bytes[..reply.bytes.len() - 1], expected);
        before = slices();
    }
}

/// Serves confirmed blocks of slots 1 to 600, without 300.
fn node_with_blocks() -> SolanaNode {
    let mut ledger = TestLedger::new(block_info(0), Vec::new(), TestLedgerConfig::default());
    for slot in (1..=600).filter(|slot| *slot != 300) {
        ledger.open(slot);
        ledger.complete();
        ledger.confirm();
        if ledger.unrooted() > 31 {
            ledger.finalize();
        }
    }
    SolanaNode::builder(ledger.reader().clone()).history(Arc::clone(ledger.history())).serve()
}

#[test]
fn short_lists_of_slots_are_inline() {
    let world = node_with_blocks();
    let confirmed = json!({ "commitment": "confirmed" });
    let slots = |first: u64, last: u64| -> Vec<u64> {
        (first..=last).filter(|slot| *slot != 300).collect()
    };
    let before = Class::ALL.map(|class| world.class(class).time_slices);
    for (method, params, expected) in [
        ("getBlocks", json!([1, 512, confirmed]), slots(1, 512)),
        // Nothing is below the first block or above the newest.
        ("getBlocks", json!([0, 512, confirmed]), slots(1, 512)),
        ("getBlocks", json!([100, null, confirmed]), slots(100, 600)),
        ("getBlocksWithLimit", json!([1, 512, confirmed]), slots(1, 513)),
        ("getBlocksWithLimit", json!([590, 5_000, confirmed]), slots(590, 600)),
        ("getBlocks", json!([7, 6, confirmed]), Vec::new()),
    ] {
        let found = world.client().result(method, params.clone());
        assert_eq!(found, json!(expected), "{method} {params}");
    }
    assert_eq!(Class::ALL.map(|class| world.class(class).time_slices), before);
    for (method, params, expected) in [
        ("getBlocks", json!([1, 513, confirmed]), slots(1, 513)),
        ("getBlocks", json!([0, 500_000, confirmed]), slots(1, 600)),
        ("getBlocksWithLimit", json!([1, 513, confirmed]), slots(1, 514)),
    ] {
        let (found, class, _) = call_counting_slices(&world, method, params.clone());
        assert_eq!((found, class), (json!(expected), Class::Medium), "{method} {params}");
    }
}
