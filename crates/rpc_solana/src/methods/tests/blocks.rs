//! Blocks, their times, and the samples counted from them.

use serde_json::{Value, json};

use super::world::{GENESIS_TIME, World, hash, keypair};
use solana_signer::Signer;

#[test]
fn a_block_has_the_requested_details() {
    let world = World::new();
    let block = |config: Value| world.ok("getBlock", json!([42, config]));
    let full = block(json!({}));
    let head = json!({
        "blockHeight": 42, "blockTime": GENESIS_TIME + 168, "blockhash": hash(42).to_string(),
        "parentSlot": 41, "previousBlockhash": hash(41).to_string(), "rewards": full["rewards"],
    });
    assert_eq!(full["rewards"].as_array().map(Vec::len), Some(1), "{full}");
    let fee = &full["rewards"][0];
    assert_eq!(fee["pubkey"], keypair(1).pubkey().to_string());
    assert_eq!((&fee["rewardType"], &fee["lamports"]), (&json!("Fee"), &json!(2_500)));
    assert_eq!(full.get("numRewardPartitions"), None);
    let without_transactions = |mut block: Value| {
        let object = block.as_object_mut().expect("a block is an object");
        object.remove("transactions");
        block
    };
    assert_eq!(without_transactions(full.clone()), head);
    let memo = &full["transactions"][1];
    assert_eq!(memo["transaction"]["signatures"], json!([world.signature("memo")]));
    assert_eq!(memo["meta"]["fee"], 5_000);
    assert_eq!(memo.get("version"), None);

    assert_eq!(block(json!({"transactionDetails": "none"})), head);
    let signatures = block(json!({"transactionDetails": "signatures", "rewards": false}));
    assert_eq!(signatures["signatures"][1], world.signature("memo"));
    assert_eq!(signatures.get("rewards"), None);
    assert_eq!(signatures.get("transactions"), None);
    let accounts = block(json!({"transactionDetails": "accounts"}));
    assert_eq!(
        accounts["transactions"][1]["transaction"]["accountKeys"][0],
        json!({"pubkey": keypair(10).pubkey().to_string(), "signer": true, "writable": true,
               "source": "transaction"})
    );
}

#[test]
fn a_block_in_each_encoding() {
    let world = World::new();
    let transaction =
        |params: Value| world.ok("getBlock", params)["transactions"][1]["transaction"].clone();
    let wire = wincode::serialize(&world.tx("memo").transaction).expect("it has a size");
    let base58 = bs58::encode(&wire).into_string();
    let base64 = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, &wire);
    assert_eq!(transaction(json!([42, "binary"])), json!(base58));
    assert_eq!(transaction(json!([42, {"encoding": "base58"}])), json!([base58, "base58"]));
    assert_eq!(transaction(json!([42, {"encoding": "base64"}])), json!([base64, "base64"]));
    let parsed = transaction(json!([42, {"encoding": "jsonParsed"}]));
    assert_eq!(parsed["message"]["instructions"][0]["parsed"]["info"]["lamports"], 42);
    assert_eq!(parsed["message"]["instructions"][1]["parsed"], "hello");
    let json = transaction(json!([42]));
    assert_eq!(json["message"]["accountKeys"][0], keypair(10).pubkey().to_string());
}

#[test]
fn a_versioned_transaction_must_be_requested() {
    let world = World::new();
    let message = "Transaction version (0) is not supported by the requesting client. Please try \
                   the request again with the following configuration parameter: \
                   \"maxSupportedTransactionVersion\": 0";
    for details in ["full", "accounts"] {
        let config = json!({"transactionDetails": details});
        world.check_refusal("getBlock", json!([44, config]), -32015, message);
    }
    let config = json!({"maxSupportedTransactionVersion": 0});
    let block = world.ok("getBlock", json!([44, config]));
    assert_eq!(block["transactions"][0]["version"], "legacy");
    assert_eq!(block["transactions"][1]["version"], 0);
    assert_eq!(
        block["transactions"][1]["meta"]["loadedAddresses"]["writable"],
        json!([keypair(30).pubkey().to_string()])
    );
    world.ok("getBlock", json!([44, {"transactionDetails": "signatures"}]));
}

#[test]
fn a_slot_without_a_block_says_why() {
    let world = World::new();
    let confirmed = || json!({"commitment": "confirmed"});
    for (slot, config, code, message) in [
        (
            39,
            json!({}),
            -32001,
            "Block 39 cleaned up, does not exist on node. First available block: 40",
        ),
        (
            46,
            json!({}),
            -32007,
            "Slot 46 was skipped, or missing due to ledger jump to recent snapshot",
        ),
        (49, json!({}), -32004, "Block not available for slot 49"),
        (64, confirmed(), -32004, "Block not available for slot 64"),
        (80, confirmed(), -32004, "Block not available for slot 80"),
        (
            42,
            json!({"commitment": "processed"}),
            -32602,
            "Method does not support commitment below `confirmed`",
        ),
    ] {
        world.check_refusal("getBlock", json!([slot, config]), code, message);
    }
    assert_eq!(world.ok("getBlock", json!([79, confirmed()]))["parentSlot"], 78);
    let message = "Invalid params: invalid type: string \"1\", expected u64.";
    world.check_refusal("getBlock", json!(["1"]), -32602, message);
}

#[test]
fn a_retained_block_has_a_time() {
    let world = World::new();
    let time = |slot: u64| world.ok("getBlockTime", json!([slot]));
    assert_eq!(time(0), GENESIS_TIME);
    assert_eq!(time(42), GENESIS_TIME + 168);
    assert_eq!(time(79), GENESIS_TIME + 316);
    assert_eq!(time(80), GENESIS_TIME + 320);
    for (slot, code, message) in [
        (3, -32001, "Block 3 cleaned up, does not exist on node. First available block: 40"),
        (46, -32007, "Slot 46 was skipped, or missing due to ledger jump to recent snapshot"),
        (64, -32004, "Block not available for slot 64"),
        (81, -32004, "Block not available for slot 81"),
    ] {
        world.check_refusal("getBlockTime", json!([slot]), code, message);
    }
}

#[test]
fn which_slots_have_blocks() {
    let world = World::new();
    let confirmed = || json!({"commitment": "confirmed"});
    for (method, params, expected) in [
        ("getBlocks", json!([38]), json!([40, 41, 42, 43, 44, 45, 47, 48])),
        ("getBlocks", json!([44, 47]), json!([44, 45, 47])),
        ("getBlocks", json!([62, 66, confirmed()]), json!([62, 63, 65, 66])),
        ("getBlocks", json!([77, confirmed()]), json!([77, 78, 79])),
        ("getBlocks", json!([78, null, confirmed()]), json!([78, 79])),
        ("getBlocks", json!([0, 600_000]), json!([40, 41, 42, 43, 44, 45, 47, 48])),
        ("getBlocks", json!([49]), json!([])),
        ("getBlocks", json!([47, 46]), json!([])),
        ("getBlocksWithLimit", json!([45, 2]), json!([45, 47])),
        ("getBlocksWithLimit", json!([45, 9]), json!([45, 47, 48])),
        ("getBlocksWithLimit", json!([63, 3, confirmed()]), json!([63, 65, 66])),
        ("getBlocksWithLimit", json!([49, 3]), json!([])),
        ("getBlocksWithLimit", json!([45, 0]), json!([])),
        ("getFirstAvailableBlock", json!([]), json!(40)),
        ("minimumLedgerSlot", json!([]), json!(40)),
    ] {
        assert_eq!(world.ok(method, params.clone()), expected, "{method} {params}");
    }
    let processed = "Method does not support commitment below `confirmed`";
    let too_old = "Minimum context slot has not been reached";
    for (method, params, code, message) in [
        ("getBlocks", json!([1, {"commitment": "processed"}]), -32602, processed),
        ("getBlocks", json!([1, 2, {"minContextSlot": 49}]), -32016, too_old),
        ("getBlocksWithLimit", json!([1, 2, {"commitment": "processed"}]), -32602, processed),
        ("getBlocksWithLimit", json!([1, 2, {"minContextSlot": 49}]), -32016, too_old),
        ("getBlocksWithLimit", json!([1, 500_001]), -32602, "Limit too large; max 500000"),
    ] {
        world.check_refusal(method, params, code, message);
    }
}

#[test]
fn samples_cover_whole_minutes_newest_first() {
    let world = World::new();
    // A minute is 15 slots. The minute from slot 75 is not over. The start of the minute of slot 40 is unknown.
    let minutes = json!([
        {"slot": 74, "numTransactions": 15, "numNonVoteTransactions": 1, "numSlots": 15,
         "samplePeriodSecs": 60},
        {"slot": 59, "numTransactions": 17, "numNonVoteTransactions": 3, "numSlots": 15,
         "samplePeriodSecs": 60},
    ]);
    let samples = |params| world.ok("getRecentPerformanceSamples", params);
    assert_eq!(samples(json!([])), minutes);
    assert_eq!(samples(json!([1])), json!([minutes[0]]));
    assert_eq!(samples(json!([0])), json!([]));
    let message = "Invalid limit; max 720";
    world.check_refusal("getRecentPerformanceSamples", json!([721]), -32602, message);
}
