//! Slot, block height, transaction count, blockhash.

use serde_json::{Value, json};

use super::world::{CONFIRMED, FINALIZED, PROCESSED, World, hash};

#[test]
fn each_commitment_reports_its_own_block() {
    let world = World::new();
    // Two slots are skipped below 80, one below 48. Every block has a vote.
    for (commitment, slot, height, count) in [
        (Value::Null, FINALIZED, 47, 47 + 7),
        (json!({"commitment": "finalized"}), FINALIZED, 47, 47 + 7),
        (json!({"commitment": "confirmed"}), CONFIRMED, 77, 77 + 8),
        (json!({"commitment": "processed", "minContextSlot": 80}), PROCESSED, 78, 78 + 10),
    ] {
        let params = || json!([commitment]);
        assert_eq!(world.ok("getSlot", params()), slot);
        assert_eq!(world.ok("getBlockHeight", params()), height);
        assert_eq!(world.ok("getTransactionCount", params()), count);
        // The open block names its parent's hash.
        let newest = slot.min(CONFIRMED);
        assert_eq!(
            world.value(slot, "getLatestBlockhash", params()),
            json!({"blockhash": hash(newest).to_string(), "lastValidBlockHeight": height + 150})
        );
    }
    assert_eq!(world.ok("getSlot", json!([])), FINALIZED);
}

#[test]
fn a_state_that_is_too_old_is_refused_with_its_slot() {
    let world = World::new();
    for method in ["getSlot", "getBlockHeight", "getTransactionCount", "getLatestBlockhash"] {
        let params = json!([{"commitment": "confirmed", "minContextSlot": 80}]);
        let message = "Minimum context slot has not been reached";
        let err = world.check_refusal(method, params, -32016, message);
        assert_eq!(err.data, Some(json!({"contextSlot": CONFIRMED})));
    }
}

#[test]
fn a_blockhash_is_valid_where_it_is_known() {
    let world = World::new();
    let valid = |slot, params| world.value(slot, "isBlockhashValid", params);
    let newest = hash(CONFIRMED).to_string();
    assert_eq!(valid(FINALIZED, json!([newest])), false);
    assert_eq!(valid(PROCESSED, json!([newest, {"commitment": "processed"}])), true);
    assert_eq!(valid(FINALIZED, json!([hash(3).to_string()])), true);
    assert_eq!(valid(FINALIZED, json!([hash(999).to_string()])), false);
    world.check_refusal("isBlockhashValid", json!(["x"]), -32602, "WrongSize");
    world.check_refusal("isBlockhashValid", json!(["0"]), -32602, "Invalid");
    let params = json!([newest, {"minContextSlot": 49}]);
    world.check_refusal(
        "isBlockhashValid",
        params,
        -32016,
        "Minimum context slot has not been reached",
    );
}

#[test]
fn wrong_parameters_are_named() {
    let world = World::new();
    let message = "Invalid parameters: Expected from 0 to 1 parameters.";
    for method in ["getSlot", "getBlockHeight", "getTransactionCount", "getLatestBlockhash"] {
        world.check_refusal(method, json!([null, null]), -32602, message);
        world.check_refusal(method, json!({}), -32602, "`params` should be an array");
    }
}
