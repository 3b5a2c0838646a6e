//! Epochs, leaders, block production, inflation.

use serde_json::{Value, json};
use solana_signer::Signer;

use super::world::{FINALIZED, PROCESSED, World, keypair, pays};

fn identity() -> String {
    keypair(1).pubkey().to_string()
}

#[test]
fn each_commitment_has_its_epoch() {
    let world = World::new();
    let info = |params| world.ok("getEpochInfo", params);
    assert_eq!(
        info(json!([])),
        json!({"epoch": 1, "slotIndex": 16, "slotsInEpoch": 32, "absoluteSlot": 48,
               "blockHeight": 47, "transactionCount": 54})
    );
    assert_eq!(info(json!([{"commitment": "processed"}]))["epoch"], 2);
    let message = "Minimum context slot has not been reached";
    world.check_refusal("getEpochInfo", json!([{"minContextSlot": 49}]), -32016, message);
    assert_eq!(
        world.ok("getEpochSchedule", json!([])),
        json!({"slotsPerEpoch": 32, "leaderScheduleSlotOffset": 32, "warmup": false,
               "firstNormalEpoch": 0, "firstNormalSlot": 0})
    );
}

#[test]
fn this_node_leads_every_slot_that_has_a_schedule() {
    let world = World::new();
    assert_eq!(world.ok("getSlotLeader", json!([])), identity());
    let message = "Minimum context slot has not been reached";
    world.check_refusal("getSlotLeader", json!([{"minContextSlot": 49}]), -32016, message);

    let leaders = |params| world.ok("getSlotLeaders", params);
    assert_eq!(leaders(json!([94, 2])), json!([identity(), identity()]));
    assert_eq!(leaders(json!([0, 96])).as_array().map(Vec::len), Some(96));
    assert_eq!(leaders(json!([1_000, 0])), json!([]));
    let unknown = "Invalid slot range: leader schedule for epoch 3 is unavailable";
    world.check_refusal("getSlotLeaders", json!([95, 2]), -32602, unknown);
    let unknown = "Invalid slot range: leader schedule for epoch 31 is unavailable";
    world.check_refusal("getSlotLeaders", json!([1_000, 2]), -32602, unknown);
    world.check_refusal("getSlotLeaders", json!([0, 5_001]), -32602, "Invalid limit; max 5000");

    let schedule = |params| world.ok("getLeaderSchedule", params);
    let epoch = || json!({identity(): (0..32).collect::<Vec<_>>()});
    assert_eq!(schedule(json!([])), epoch());
    assert_eq!(schedule(json!([95])), epoch());
    assert_eq!(schedule(json!([96])), Value::Null);
    assert_eq!(schedule(json!([null, {"identity": identity()}])), epoch());
    assert_eq!(schedule(json!([{"identity": identity()}])), epoch());
    assert_eq!(schedule(json!([40, {"identity": keypair(9).pubkey().to_string()}])), json!({}));
    let wrong = json!([null, {"identity": "x"}]);
    world.check_refusal("getLeaderSchedule", wrong, -32602, "Invalid param: WrongSize");
}

#[test]
fn production_counts_leader_slots_and_blocks() {
    let world = World::new();
    let production = |slot, params| world.value(slot, "getBlockProduction", params);
    // Slot 46 has no block.
    assert_eq!(
        production(FINALIZED, json!([])),
        json!({"byIdentity": {identity(): [17, 16]}, "range": {"firstSlot": 32, "lastSlot": 48}})
    );
    // The open slot counts: its block is in production.
    assert_eq!(
        production(PROCESSED, json!([{"commitment": "processed", "range": {"firstSlot": 64}}])),
        json!({"byIdentity": {identity(): [17, 16]}, "range": {"firstSlot": 64, "lastSlot": 80}})
    );
    let range = json!([{"identity": keypair(9).pubkey().to_string(),
                        "range": {"firstSlot": 1, "lastSlot": 3}}]);
    assert_eq!(
        production(FINALIZED, range),
        json!({"byIdentity": {}, "range": {"firstSlot": 1, "lastSlot": 3}})
    );
    for (config, message) in [
        (
            json!({"range": {"firstSlot": 9, "lastSlot": 8}}),
            "lastSlot, 8, cannot be less than firstSlot, 9",
        ),
        (json!({"range": {"firstSlot": 9, "lastSlot": 49}}), "lastSlot, 49, is too large; max 48"),
        (json!({"identity": "x"}), "Invalid param: WrongSize"),
    ] {
        world.check_refusal("getBlockProduction", json!([config]), -32602, message);
    }
}

#[test]
fn inflation_has_a_new_clusters_parameters() {
    let world = World::new();
    assert_eq!(
        world.ok("getInflationGovernor", json!([])),
        json!({"initial": 0.08, "terminal": 0.015, "taper": 0.15, "foundation": 0.05,
               "foundationTerm": 7.0})
    );
    let rate = world.ok("getInflationRate", json!([]));
    assert_eq!(rate["epoch"], 1);
    let part = |name: &str| rate[name].as_f64().expect("a rate");
    assert!((0.0799..=0.08).contains(&part("total")), "{rate}");
    assert!((part("validator") - part("total") * 0.95).abs() < 1e-9, "{rate}");
    assert!((part("foundation") - part("total") * 0.05).abs() < 1e-9, "{rate}");
}

#[test]
fn an_epoch_pays_vote_accounts_in_its_next_block_and_stake_accounts_after_it() {
    let world = World::new();
    // Epoch 1 ends with slot 63; 64 is skipped; 65 is the first block after it.
    let config = json!({"epoch": 1, "commitment": "confirmed"});
    let keys: Vec<_> = [2, 60, 61, 62, 63, 1, 5].map(|number| keypair(number).pubkey()).to_vec();
    let texts: Vec<String> = keys.iter().map(|key| key.to_string()).collect();
    let rewards = world.ok("getInflationReward", json!([texts, config]));
    assert_eq!(
        rewards[0],
        json!({"epoch": 1, "effectiveSlot": 65, "amount": 7, "postBalance": 1_007,
               "commission": null, "commissionBps": 500})
    );
    let mut slots = Vec::new();
    for (index, number) in (1..5).zip(60..) {
        assert_eq!(rewards[index]["amount"], 100 + number);
        assert_eq!(rewards[index]["effectiveSlot"], pays(&keys[index]));
        slots.push(pays(&keys[index]));
    }
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(slots, [66, 67], "both blocks pay rewards");
    // Fees are not rewards of an epoch.
    assert_eq!(rewards[5], Value::Null);
    assert_eq!(rewards[6], Value::Null);
    assert_eq!(world.ok("getInflationReward", json!([[], config])), json!([]));
    let block = world.ok("getBlock", json!([65, {"commitment": "confirmed"}]));
    assert_eq!(block["numRewardPartitions"], 2);
    assert_eq!(block["rewards"][0]["rewardType"], "Voting");
    assert_eq!(block["rewards"][1]["rewardType"], "Fee");
}

#[test]
fn an_epoch_that_is_not_known_has_no_rewards() {
    let world = World::new();
    let one = keypair(4).pubkey().to_string();
    for (config, code, message) in [
        (
            json!({}),
            -32001,
            "Block 32 cleaned up, does not exist on node. First available block: 40",
        ),
        (json!({"epoch": 1}), -32004, "Block not available for slot 64"),
        (json!({"epoch": 2, "commitment": "confirmed"}), -32004, "Block not available for slot 96"),
        (
            json!({"epoch": 1, "commitment": "processed"}),
            -32602,
            "Method does not support commitment below `confirmed`",
        ),
        (
            json!({"epoch": 1, "commitment": "confirmed", "minContextSlot": 80}),
            -32016,
            "Minimum context slot has not been reached",
        ),
    ] {
        world.check_refusal("getInflationReward", json!([[one], config]), code, message);
    }
    let message = "Invalid param: WrongSize";
    world.check_refusal("getInflationReward", json!([["x"]]), -32602, message);
}
