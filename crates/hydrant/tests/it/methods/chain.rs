//! Methods about the chain: slots, epochs, leaders, blockhashes, inflation, fees.

use serde_json::{Value, json};

use super::stage::{SLOTS_PER_EPOCH, error, number, ok, stage, value};
use crate::world::{WAIT_TIMEOUT, wait_until};

fn at(commitment: &str) -> Value {
    json!([{ "commitment": commitment }])
}

#[test]
fn method_getSlot() {
    let processed = number(&ok("getSlot", at("processed")));
    let finalized = number(&ok("getSlot", json!([])));
    assert!(finalized < processed + 5, "{finalized} is not below {processed}");
    assert!(finalized >= stage().slot);
    let refused = error("getSlot", json!([{"minContextSlot": 1u64 << 40}]));
    assert_eq!(refused["code"], -32016);
    assert!(refused["data"]["contextSlot"].is_u64(), "{refused}");
}

#[test]
fn method_getBlockHeight() {
    let height = number(&ok("getBlockHeight", json!([])));
    assert!(height > 0 && height <= number(&ok("getSlot", json!([]))));
}

#[test]
fn method_getTransactionCount() {
    let finalized = number(&ok("getTransactionCount", json!([])));
    assert!(finalized > 5);
    assert!(number(&ok("getTransactionCount", at("processed"))) >= finalized);
}

#[test]
fn method_getEpochInfo() {
    let info = ok("getEpochInfo", json!([]));
    let absolute = number(&info["absoluteSlot"]);
    assert_eq!(number(&info["epoch"]), absolute / SLOTS_PER_EPOCH);
    assert_eq!(number(&info["slotIndex"]), absolute % SLOTS_PER_EPOCH);
    assert_eq!(number(&info["slotsInEpoch"]), SLOTS_PER_EPOCH);
    assert!(info["blockHeight"].is_u64() && info["transactionCount"].is_u64(), "{info}");
}

#[test]
fn method_getEpochSchedule() {
    let schedule = ok("getEpochSchedule", json!([]));
    let expected = json!({
        "slotsPerEpoch": SLOTS_PER_EPOCH,
        "leaderScheduleSlotOffset": SLOTS_PER_EPOCH,
        "warmup": false,
        "firstNormalEpoch": 0,
        "firstNormalSlot": 0,
    });
    assert_eq!(schedule, expected);
}

#[test]
fn method_getSlotLeader() {
    assert_eq!(ok("getSlotLeader", json!([])), stage().identity);
}

#[test]
fn method_getSlotLeaders() {
    let slot = number(&ok("getSlot", json!([])));
    assert_eq!(
        ok("getSlotLeaders", json!([slot, 3])),
        json!([stage().identity, stage().identity, stage().identity])
    );
    assert_eq!(error("getSlotLeaders", json!([slot, 5_001]))["code"], -32602);
}

#[test]
fn method_getLeaderSchedule() {
    let every: Vec<u64> = (0..SLOTS_PER_EPOCH).collect();
    assert_eq!(ok("getLeaderSchedule", json!([])), json!({ stage().identity.as_str(): every }));
    let other = stage().mint.to_string();
    assert_eq!(ok("getLeaderSchedule", json!([null, {"identity": other}])), json!({}));
    assert_eq!(ok("getLeaderSchedule", json!([1u64 << 40])), json!(null));
}

#[test]
fn method_getBlockProduction() {
    let produced = value("getBlockProduction", json!([{"identity": stage().identity}]));
    let [slots, blocks] =
        [0, 1].map(|place| number(&produced["byIdentity"][&stage().identity][place]));
    assert!(blocks > 0 && slots >= blocks, "{produced}");
    assert!(number(&produced["range"]["lastSlot"]) >= number(&produced["range"]["firstSlot"]));
}

#[test]
fn method_getBlockCommitment() {
    let slot = number(&ok("getSlot", at("confirmed")));
    let commitment = ok("getBlockCommitment", json!([slot]));
    assert!(number(&commitment["totalStake"]) > 0, "{commitment}");
    let depths = commitment["commitment"].as_array().expect("an array of stakes");
    assert_eq!(
        depths.iter().map(number).sum::<u64>(),
        number(&commitment["totalStake"]),
        "{commitment}"
    );
}

#[test]
fn method_getLatestBlockhash() {
    let latest = value("getLatestBlockhash", at("confirmed"));
    assert!(
        latest["blockhash"].as_str().is_some_and(|hash| hash.parse::<solana_hash::Hash>().is_ok())
    );
    let height = number(&ok("getBlockHeight", at("confirmed")));
    let last_valid = number(&latest["lastValidBlockHeight"]);
    assert!((height..=height + 150).contains(&last_valid), "{last_valid} at height {height}");
}

#[test]
fn method_isBlockhashValid() {
    let latest = value("getLatestBlockhash", json!([]));
    assert_eq!(value("isBlockhashValid", json!([latest["blockhash"]])), true);
    assert_eq!(value("isBlockhashValid", json!([stage().mint.to_string()])), false);
}

#[test]
fn method_getInflationGovernor() {
    let governor = ok("getInflationGovernor", json!([]));
    for part in ["initial", "terminal", "taper", "foundation", "foundationTerm"] {
        assert!(governor[part].as_f64().is_some_and(|part| part > 0.0), "{part} of {governor}");
    }
}

#[test]
fn method_getInflationRate() {
    let rate = ok("getInflationRate", json!([]));
    for part in ["total", "validator", "foundation"] {
        assert!(rate[part].as_f64().is_some_and(|part| part > 0.0), "{part} of {rate}");
    }
    assert!(rate["epoch"].is_u64(), "{rate}");
}

#[test]
fn method_getInflationReward() {
    wait_until("the second epoch", WAIT_TIMEOUT, || {
        Ok((number(&ok("getEpochInfo", json!([]))["epoch"]) >= 2).then_some(()))
    })
    .expect("epochs of 6 s");
    let vote = ok("getVoteAccounts", json!([]))["current"][0]["votePubkey"].clone();
    let program = "Stake11111111111111111111111111111111111111";
    let stakes = ok("getProgramAccounts", json!([program, {"encoding": "base64"}]));
    let keys = json!([vote, stakes[0]["pubkey"], stage().mint.to_string()]);
    let rewards = ok("getInflationReward", json!([keys, {"epoch": 0}]));
    // The commission is 0.
    assert_eq!((&rewards[0]["epoch"], &rewards[0]["amount"]), (&json!(0), &json!(0)), "{rewards}");
    assert_eq!(rewards[0]["effectiveSlot"], SLOTS_PER_EPOCH, "{rewards}");
    assert!(number(&rewards[1]["amount"]) > 0, "{rewards}");
    assert_eq!(rewards[1]["effectiveSlot"], SLOTS_PER_EPOCH + 1, "{rewards}");
    assert_eq!(rewards[2], json!(null));
    assert_eq!(
        error("getInflationReward", json!([[stage().mint.to_string()], {"epoch": 1u64 << 40}]))["code"],
        -32004
    );
}

#[test]
fn method_getMinimumBalanceForRentExemption() {
    assert_eq!(ok("getMinimumBalanceForRentExemption", json!([0])), 890_880);
    assert_eq!(ok("getMinimumBalanceForRentExemption", json!([165])), 2_039_280);
}

#[test]
fn method_getStakeMinimumDelegation() {
    assert!(number(&value("getStakeMinimumDelegation", json!([]))) >= 1);
}

#[test]
fn method_getRecentPerformanceSamples() {
    let samples = ok("getRecentPerformanceSamples", json!([3]));
    let samples = samples.as_array().expect("a list");
    assert!(samples.len() <= 3);
    for sample in samples {
        assert!(sample["numSlots"].is_u64() && sample["samplePeriodSecs"].is_u64(), "{sample}");
    }
    assert_eq!(error("getRecentPerformanceSamples", json!([721]))["code"], -32602);
}

#[test]
fn method_getRecentPrioritizationFees() {
    let fees = ok("getRecentPrioritizationFees", json!([[stage().alices.to_string()]]));
    let fees = fees.as_array().expect("a list");
    assert!(
        fees.iter().any(|fee| fee["slot"] == stage().slot && fee["prioritizationFee"] == 0),
        "{fees:?}"
    );
}
