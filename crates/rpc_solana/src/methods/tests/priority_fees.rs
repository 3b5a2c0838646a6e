//! Estimates of priority fees.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use solana_signer::Signer;

use super::world::{World, keypair};

const METHOD: &str = "getPriorityFeeEstimate";

/// Calls the method. The confirmed blocks have seven transactions besides votes: that of 45 pays 1,000, `dear` pays
/// 2,000, the others 0.
fn estimate(world: &World, account: u8, options: Value) -> Value {
    let keys = [keypair(account).pubkey().to_string()];
    world.ok(METHOD, json!([{"accountKeys": keys, "options": options}]))
}

#[test]
fn an_estimate_is_a_percentile_of_recent_prices() {
    let world = World::new();
    let levels = json!({"includeAllPriorityFeeLevels": true});
    // No transaction writes to 99, so all transactions count: 0, 0, 0, 0, 0, 1000, 2000.
    let all = json!({"min": 0.0, "low": 0.0, "medium": 0.0, "high": 1_000.0, "veryHigh": 2_000.0,
                     "unsafeMax": 2_000.0});
    assert_eq!(estimate(&world, 99, levels.clone()), json!({"priorityFeeLevels": all}));
    // One transaction writes to 15.
    let dear = json!({"min": 2_000.0, "low": 2_000.0, "medium": 2_000.0, "high": 2_000.0,
                      "veryHigh": 2_000.0, "unsafeMax": 2_000.0});
    assert_eq!(estimate(&world, 15, levels), json!({"priorityFeeLevels": dear}));
    for (account, options, expected) in [
        (99, json!({}), 0.0),
        (99, json!({"priorityLevel": "High"}), 1_000.0),
        (99, json!({"priorityLevel": "UnsafeMax", "lookbackSlots": 30}), 0.0),
        (99, json!({"recommended": true}), 10_000.0),
        (15, json!({"priorityLevel": "Min"}), 2_000.0),
        (15, json!({"priorityLevel": "Min", "evaluateEmptySlotAsZero": true}), 0.0),
        (99, json!({"priorityLevel": "High", "includeVote": true}), 0.0),
    ] {
        let found = estimate(&world, account, options.clone());
        assert_eq!(found, json!({"priorityFeeEstimate": expected}), "{account} {options}");
    }
}

#[test]
fn a_transactions_estimate_counts_the_accounts_it_writes() {
    let world = World::new();
    let bytes =
        wincode::serialize(&world.tx("dear").transaction).expect("a transaction has a size");
    let of = |text: String, encoding: &str| {
        let options = json!({"transactionEncoding": encoding, "priorityLevel": "Min"});
        world.ok(METHOD, json!([{"transaction": text, "options": options}]))
    };
    let expected = json!({"priorityFeeEstimate": 2_000.0});
    assert_eq!(of(BASE64_STANDARD.encode(&bytes), "Base64"), expected);
    assert_eq!(of(bs58::encode(&bytes).into_string(), "Base58"), expected);
}

#[test]
fn an_estimate_is_refused_with_a_reason() {
    let world = World::new();
    let keys = vec![keypair(10).pubkey().to_string(); 129];
    let one = [keypair(10).pubkey().to_string()];
    let neither = "Invalid param: either transaction or accountKeys is required";
    for (request, message) in [
        (json!({}), neither),
        (json!({"accountKeys": one, "transaction": "x"}), neither),
        (json!({"accountKeys": keys}), "Too many inputs provided; max 128"),
        (json!({"accountKeys": ["x"]}), "Invalid param: WrongSize"),
        (
            json!({"accountKeys": one, "options": {"lookbackSlots": 0}}),
            "Invalid param: lookbackSlots 0 is not from 1 to 150",
        ),
        (
            json!({"accountKeys": one, "options": {"lookbackSlots": 151}}),
            "Invalid param: lookbackSlots 151 is not from 1 to 150",
        ),
        (
            json!({"transaction": "0"}),
            "invalid base58 encoding: InvalidCharacter { character: '0', index: 0 }",
        ),
    ] {
        world.check_refusal(METHOD, json!([request]), -32602, message);
    }
    let request = json!({"accountKeys": one, "options": {"level": "High"}});
    let err = world.call(METHOD, &json!([request])).expect_err("there is no such option");
    assert_eq!(err.code, -32602);
    let request = json!({"accountKeys": one, "option": {}});
    let err = world.call(METHOD, &json!([request])).expect_err("there is no such member");
    assert!(err.message.contains("unknown field `option`"), "{}", err.message);
}
