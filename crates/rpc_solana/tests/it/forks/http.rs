//! The responses over HTTP on a forked chain, at every commitment: each call is made twice, so that the second response
//! may come from the cache.

use std::collections::BTreeMap;

use fastrand::Rng;
use ledger::{Address, Commitment};
use serde_json::{Value, json};
use testkit::forked_chain::{ForkedChain, OWNER, keys, signature};

use testkit::raw_http_client::Client;
use testkit::solana_node::SolanaNode;

/// Slots below the newest one whose blocks are requested.
const SLOTS: u64 = 12;

pub(super) fn name(commitment: Commitment) -> &'static str {
    match commitment {
        Commitment::Processed => "processed",
        Commitment::Confirmed => "confirmed",
        Commitment::Finalized => "finalized",
    }
}

/// Returns the result of a call, which must not change when it is made again.
fn twice(client: &mut Client, method: &str, params: Value) -> Value {
    let first = client.result(method, params.clone());
    let second = client.result(method, params.clone());
    assert_eq!(first, second, "{method} {params}");
    first
}

/// Compares everything that a client may read with the model.
pub(super) fn check(chain: &ForkedChain, world: &SolanaNode, client: &mut Client, rng: &mut Rng) {
    for commitment in Commitment::ALL {
        check_accounts(chain, client, commitment);
    }
    // Blocks that the limits have removed are not expected.
    let first = world.server.api.history.snapshot().first_slot().unwrap_or(u64::MAX);
    check_statuses(chain, client, first);
    for commitment in [Commitment::Confirmed, Commitment::Finalized] {
        check_blocks(chain, client, commitment, first);
        check_transactions(chain, client, commitment, first, rng);
    }
}

fn check_accounts(chain: &ForkedChain, client: &mut Client, commitment: Commitment) {
    let tip = chain.model.tip(commitment);
    let config = json!({ "commitment": name(commitment), "encoding": "base64" });
    let expected: BTreeMap<Address, u64> = chain
        .model
        .records(tip)
        .into_iter()
        .map(|(address, account)| (address, solana_account::ReadableAccount::lamports(&account.0)))
        .collect();
    for key in keys() {
        let found = twice(client, "getAccountInfo", json!([key.to_string(), config]));
        assert_eq!(found["context"]["slot"], tip.slot, "{commitment:?}");
        let lamports = expected.get(&Address::from(key.to_bytes())).copied();
        assert_eq!(found["value"]["lamports"].as_u64(), lamports, "{commitment:?} {key}");
    }
    let all = twice(client, "getProgramAccounts", json!([OWNER.to_string(), config]));
    let mut lamports: Vec<u64> = all
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["account"]["lamports"].as_u64().expect("a number"))
        .collect();
    lamports.sort_unstable();
    let mut expected: Vec<u64> = expected.into_values().collect();
    expected.sort_unstable();
    assert_eq!(lamports, expected, "{commitment:?}");
}

/// Checks the slot and the commitment of each transaction on the processed chain.
fn check_statuses(chain: &ForkedChain, client: &mut Client, first: u64) {
    let newest = chain.signatures();
    let numbers: Vec<u64> = (newest.saturating_sub(100)..newest).collect();
    let texts: Vec<String> = numbers.iter().map(|n| signature(*n).to_string()).collect();
    let config = json!({ "searchTransactionHistory": true });
    let found = twice(client, "getSignatureStatuses", json!([texts, config]));
    let processed = chain.chain(Commitment::Processed);
    for (n, status) in numbers.iter().zip(found["value"].as_array().expect("a list")) {
        let block = processed.iter().find(|block| {
            block.id.slot >= first
                && block.transactions.iter().any(|one| one.signature() == signature(*n))
        });
        let commitment = block.map(|block| {
            let has = |commitment: &&Commitment| {
                chain.chain(**commitment).iter().any(|other| other.id == block.id)
            };
            name(*Commitment::ALL.iter().rev().find(has).expect("it is processed"))
        });
        assert_eq!(status["slot"].as_u64(), block.map(|block| block.id.slot), "{n}: {status}");
        assert_eq!(status["confirmationStatus"].as_str(), commitment, "{n}: {status}");
    }
}

fn check_blocks(chain: &ForkedChain, client: &mut Client, commitment: Commitment, first: u64) {
    let mut blocks = chain.chain(commitment);
    blocks.retain(|block| block.id.slot >= first);
    let newest = chain.model.tip(Commitment::Processed).slot;
    let oldest = newest.saturating_sub(SLOTS);
    let config = json!({ "commitment": name(commitment) });
    let slots = twice(client, "getBlocks", json!([oldest, null, config]));
    let in_range = blocks.iter().map(|block| block.id.slot).filter(|slot| *slot >= oldest);
    assert_eq!(slots, json!(in_range.collect::<Vec<_>>()), "{commitment:?}");
    for slot in oldest..=newest + 1 {
        let config = json!({ "commitment": name(commitment), "transactionDetails": "signatures",
                             "rewards": false });
        let found = client.call("getBlock", json!([slot, config]));
        assert_eq!(found, client.call("getBlock", json!([slot, config])));
        let Some(block) = blocks.iter().find(|block| block.id.slot == slot) else {
            let code = found["error"]["code"].as_i64();
            assert!(matches!(code, Some(-32001 | -32004 | -32007)), "{commitment:?} {found}");
            continue;
        };
        let found = &found["result"];
        assert_eq!(found["blockhash"], block.blockhash.to_string(), "{commitment:?} {slot}");
        assert_eq!(found["previousBlockhash"], block.previous_blockhash.to_string());
        let signatures = block.transactions.iter().map(|one| one.signature().to_string());
        assert_eq!(found["signatures"], json!(signatures.collect::<Vec<_>>()));
    }
}

fn check_transactions(
    chain: &ForkedChain,
    client: &mut Client,
    commitment: Commitment,
    first: u64,
    rng: &mut Rng,
) {
    let mut blocks = chain.chain(commitment);
    blocks.retain(|block| block.id.slot >= first);
    let config = json!({ "commitment": name(commitment) });
    for _ in 0..6 {
        let newest = chain.signatures();
        let n = rng.u64(newest.saturating_sub(30)..newest.max(1));
        let found = twice(client, "getTransaction", json!([signature(n).to_string(), config]));
        let has = |one: &std::sync::Arc<chain_solana::ExecutedTransaction>| {
            one.signature() == signature(n)
        };
        let block = blocks.iter().find(|block| block.transactions.iter().any(has));
        let slot = block.map(|block| block.id.slot);
        assert_eq!(found["slot"].as_u64(), slot, "{commitment:?} {n}");
    }
    for key in keys() {
        let method = "getSignaturesForAddress";
        let found = twice(client, method, json!([key.to_string(), config]));
        let found = found.as_array().expect("a list").iter();
        let found: Vec<_> =
            found.map(|one| (one["slot"].clone(), one["signature"].clone())).collect();
        let all = blocks.iter().rev().flat_map(|block| block.transactions.iter().rev());
        let named = all.filter(|one| one.account_keys.contains(&key));
        let expected: Vec<_> =
            named.map(|one| (json!(one.slot), json!(one.signature().to_string()))).collect();
        assert_eq!(found, expected, "{commitment:?} {key}");
    }
}
