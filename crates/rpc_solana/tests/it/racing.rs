//! Responses from the cache while another thread writes the ledger: each is true at its slot.
//!
//! Every third block writes its own slot into all accounts of the program. So the slot of a response determines its
//! data, whichever client computed it, whenever it was cached, and whatever was written meanwhile.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chain_solana::BlockInfo;
use fastrand::Rng;
use ledger::{Address, Change};
use query::{Ledger, LedgerConfig};
use rpc_solana::Config;
use serde_json::{Value, json};
use solana::Account;

use crate::cached::{key, post_decoded};
use crate::shared::pad_body;
use testkit::raw_http_client::Client;
use testkit::sample_ledger::{PROGRAM, bank, block, with_data};
use testkit::solana_node::SolanaNode;

const ROOT: u64 = 300;
const BLOCKS: u64 = 600;
/// A block becomes the root once this many blocks are above it.
const ROOT_AFTER: u64 = 5;
const WRITES_EVERY: u64 = 3;
const CLIENTS: u64 = 4;
/// Minimum number of responses, over all clients, between two blocks.
const RESPONSES_PER_BLOCK: usize = 8;
const ACCOUNTS: u8 = 5;

/// Returns the number that all accounts have at a slot.
fn written_at(slot: u64) -> u64 {
    slot - slot % WRITES_EVERY
}

fn changes(slot: u64) -> Vec<Change<Account>> {
    let change = |n| {
        let account = with_data(PROGRAM, &written_at(slot).to_le_bytes());
        Change { address: Address::from(key(n).to_bytes()), record: Account(account).into_record() }
    };
    (1..=ACCOUNTS).map(change).collect()
}

/// Writes the blocks. Each waits for [`RESPONSES_PER_BLOCK`] responses.
fn write(mut ledger: Ledger<Account, BlockInfo>, answered: &Receiver<()>) {
    for slot in ROOT + 1..=ROOT + BLOCKS {
        for _ in 0..RESPONSES_PER_BLOCK {
            answered.recv().expect("clients send requests until the last block");
        }
        ledger.open(block(slot), block(slot - 1), bank(slot)).expect("open");
        if slot == written_at(slot) {
            ledger.apply(block(slot), changes(slot), bank(slot)).expect("apply");
        }
        ledger.publish();
        ledger.complete(block(slot), bank(slot)).expect("complete");
        ledger.confirm(block(slot)).expect("it is complete");
        if slot > ROOT + ROOT_AFTER {
            ledger.finalize(block(slot - ROOT_AFTER)).expect("finalize");
        }
        ledger.publish();
    }
}

/// Sends requests until the writer has ended. Returns their number.
fn read(mut client: Client, mut random: Rng, answered: &SyncSender<()>) -> u64 {
    let mut requests = 0;
    loop {
        requests += 1;
        let coding = ["identity", "gzip", "zstd"][random.usize(..3)];
        // Some requests are batches, some of them of more than 16 calls.
        let is_batch = random.u8(..3) == 0;
        let calls = if is_batch { 1 + random.u64(..24) } else { 1 };
        let calls: Vec<_> = (0..calls).map(|n| call(&mut random, requests + n)).collect();
        let body = if is_batch { json!(calls) } else { calls[0].clone() }.to_string();
        let body = if random.u8(..4) == 0 { pad_body(&body) } else { body };
        let reply = post_decoded(&mut client, &body, coding);
        let reply: Value = serde_json::from_slice(&reply).expect("JSON");
        if is_batch {
            let replies = reply.as_array().expect("a batch");
            assert_eq!(replies.len(), calls.len());
            replies.iter().zip(requests..).for_each(|(reply, id)| check(reply, id));
        } else {
            check(&reply, requests);
        }
        if answered.send(()).is_err() {
            return requests;
        }
    }
}

fn call(random: &mut Rng, id: u64) -> Value {
    let commitment = ["processed", "confirmed", "finalized"][random.usize(..3)];
    let config = json!({ "commitment": commitment, "encoding": "base64", "withContext": true });
    let (method, params) = match random.u8(..3) {
        0 => {
            let keys: Vec<_> = (1..=ACCOUNTS).map(|n| key(n).to_string()).collect();
            ("getMultipleAccounts", json!([keys, config]))
        }
        1 => ("getAccountInfo", json!([key(1 + random.u8(..ACCOUNTS)).to_string(), config])),
        _ => ("getProgramAccounts", json!([PROGRAM.to_string(), config])),
    };
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn check(reply: &Value, id: u64) {
    assert_eq!(reply["id"], id, "{reply}");
    let slot = reply["result"]["context"]["slot"].as_u64().expect("a slot");
    let value = &reply["result"]["value"];
    let accounts = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
    assert!(accounts.len() == 1 || accounts.len() == usize::from(ACCOUNTS), "{reply}");
    let expected = BASE64_STANDARD.encode(written_at(slot).to_le_bytes());
    for account in accounts {
        let account = account.get("account").unwrap_or(&account);
        assert_eq!(account["data"][0], expected, "at slot {slot}: {reply}");
    }
}

#[test]
fn a_response_is_true_at_its_slot_whatever_is_written_meanwhile() {
    let (mut ledger, reader) = Ledger::new(LedgerConfig::new(10_000), block(ROOT), bank(ROOT));
    ledger.apply(block(ROOT), changes(ROOT), bank(ROOT)).expect("the root takes accounts");
    ledger.publish();
    // The accounts are small, so no call may be executed inline.
    let config = Config { inline_accounts_max: 0, inline_bytes_max: 0, ..Config::default() };
    let world = SolanaNode::builder(reader).config(config).serve();
    let (sender, answered) = sync_channel(1);
    let requests: u64 = thread::scope(|threads| {
        let readers: Vec<_> = (0..CLIENTS)
            .map(|seed| {
                let client = world.client();
                let sender = sender.clone();
                threads.spawn(move || read(client, Rng::with_seed(seed), &sender))
            })
            .collect();
        // Then the writer ends if all readers have ended.
        drop(sender);
        write(ledger, &answered);
        drop(answered);
        readers.into_iter().map(|reader| reader.join().expect("every response is true")).sum()
    });
    let counters = world.server.context.response_cache.counters();
    assert!(requests >= BLOCKS * RESPONSES_PER_BLOCK as u64);
    assert!(counters.hits > 100 && counters.stale > 100, "{counters:?} of {requests}");
}
