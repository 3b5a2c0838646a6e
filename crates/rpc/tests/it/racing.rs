//! Answers from the cache while the ledger is written by a thread of its own: each is what its slot had.
//!
//! Every third block writes its own number into all accounts of the program, so that the slot in an answer
//! says what must be in it, whoever made it, whenever it was kept, and whatever was written meanwhile.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chain_solana::BlockInfo;
use fastrand::Rng;
use ledger::{Address, Change};
use query::{Ledger, LedgerConfig};
use rpc::Config;
use serde_json::{Value, json};
use solana::Account;

use crate::cached::{key, post_decoded};
use crate::shared::padded;
use crate::wire::Client;
use crate::world::{PROGRAM, World, bank, block, with_data};

const ROOT: u64 = 300;
const BLOCKS: u64 = 600;
/// A block is the root once so many are above it.
const ROOT_AFTER: u64 = 5;
const WRITES_EVERY: u64 = 3;
const CLIENTS: u64 = 4;
/// Answers that clients get, all of them together, between two blocks at least.
const RESPONSES_PER_BLOCK: usize = 8;
const ACCOUNTS: u8 = 5;

/// The number that all accounts have at a slot.
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

/// Makes the blocks, each once clients have been answered some more.
fn write(mut ledger: Ledger<Account, BlockInfo>, answered: &Receiver<()>) {
    for slot in ROOT + 1..=ROOT + BLOCKS {
        for _ in 0..RESPONSES_PER_BLOCK {
            answered.recv().expect("clients ask for as long as blocks come");
        }
        ledger.open(block(slot), block(slot - 1), bank(slot)).expect("open");
        if slot == written_at(slot) {
            ledger.apply(block(slot), changes(slot), bank(slot)).expect("apply");
        }
        ledger.publish();
        ledger.complete(block(slot), bank(slot)).expect("complete");
        if slot > ROOT + ROOT_AFTER {
            ledger.finalize(block(slot - ROOT_AFTER)).expect("finalize");
        }
        ledger.publish();
    }
}

/// Asks until nobody counts answers any more; gives how many there were.
fn read(mut client: Client, mut random: Rng, answered: &SyncSender<()>) -> u64 {
    let mut asked = 0;
    loop {
        asked += 1;
        let coding = ["identity", "gzip", "zstd"][random.usize(..3)];
        // Some in batches, those of more than 16 among them.
        let is_batch = random.u8(..3) == 0;
        let calls = if is_batch { 1 + random.u64(..24) } else { 1 };
        let calls: Vec<_> = (0..calls).map(|n| call(&mut random, asked + n)).collect();
        let body = if is_batch { json!(calls) } else { calls[0].clone() }.to_string();
        let body = if random.u8(..4) == 0 { padded(&body) } else { body };
        let reply = post_decoded(&mut client, &body, coding);
        let reply: Value = serde_json::from_slice(&reply).expect("JSON");
        if is_batch {
            let replies = reply.as_array().expect("a batch");
            assert_eq!(replies.len(), calls.len());
            replies.iter().zip(asked..).for_each(|(reply, id)| check(reply, id));
        } else {
            check(&reply, asked);
        }
        if answered.send(()).is_err() {
            return asked;
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
    // Nothing is to be answered inline because it is small.
    let config = Config { inline_accounts_max: 0, inline_bytes_max: 0, ..Config::default() };
    let world = World::on(reader, config, pool::Config::default());
    let (sender, answered) = sync_channel(1);
    let asked: u64 = thread::scope(|threads| {
        let reading: Vec<_> = (0..CLIENTS)
            .map(|seed| {
                let (client, sender) = (world.client(), sender.clone());
                threads.spawn(move || read(client, Rng::with_seed(seed), &sender))
            })
            .collect();
        // So that the writer ends if all readers have.
        drop(sender);
        write(ledger, &answered);
        drop(answered);
        reading.into_iter().map(|reading| reading.join().expect("every answer is true")).sum()
    });
    let counters = world.node.response_cache.counters();
    assert!(asked >= BLOCKS * RESPONSES_PER_BLOCK as u64);
    assert!(counters.hits > 100 && counters.stale > 100, "{counters:?} of {asked}");
}
