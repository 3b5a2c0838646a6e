//! Fees of messages, and recent prioritization fees.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chain_solana::{ClusterInfo, InflationSchedule, OneNodeCluster};
use serde_json::{Value, json};
use solana_feature_set::{FeatureSet, bls_pubkey_management_in_vote_account};
use solana_hash::Hash;
use solana_instruction::Instruction;
use solana_message::{Message, VersionedMessage};
use solana_nonce::state::DurableNonce;
use solana_sdk_ids::vote;
use solana_signer::Signer;
use solana_system_interface::instruction::{advance_nonce_account, transfer};

use super::world::{
    FINALIZED, PROCESSED, PROCESSED_RENT, World, hash, keypair, unit_price, units, with_lookup,
};

fn encode_message(message: &VersionedMessage) -> String {
    BASE64_STANDARD.encode(wincode::serialize(message).expect("a message has a size"))
}

fn legacy(instructions: &[Instruction], blockhash: Hash) -> VersionedMessage {
    let payer = keypair(10).pubkey();
    VersionedMessage::Legacy(Message::new_with_blockhash(instructions, Some(&payer), &blockhash))
}

#[test]
fn a_message_costs_its_signatures_and_its_priority() {
    let world = World::new();
    let pay = || transfer(&keypair(10).pubkey(), &keypair(11).pubkey(), 1);
    let two_payers = [pay(), transfer(&keypair(12).pubkey(), &keypair(11).pubkey(), 1)];
    // 200,000 units at 1,000 microlamports are 200 lamports.
    let prioritized = [units(200_000), unit_price(1_000), pay()];
    let nonce = DurableNonce::from_blockhash(&hash(77));
    let advance = [advance_nonce_account(&keypair(21).pubkey(), &keypair(10).pubkey()), pay()];
    for (message, expected) in [
        (legacy(&[pay()], hash(40)), json!(5_000)),
        (legacy(&two_payers, hash(40)), json!(10_000)),
        (legacy(&prioritized, hash(40)), json!(5_200)),
        (with_lookup(&keypair(10), hash(40)).0.message, json!(5_000)),
        (legacy(&[pay()], hash(999)), Value::Null),
        (legacy(&advance, *nonce.as_hash()), json!(5_000)),
        (legacy(&advance, hash(999)), Value::Null),
    ] {
        let params = json!([encode_message(&message)]);
        assert_eq!(world.value(FINALIZED, "getFeeForMessage", params), expected);
    }
    // A blockhash that the finalized state does not know yet is known to the processed one.
    let params = json!([encode_message(&legacy(&[pay()], hash(79))), {"commitment": "processed"}]);
    assert_eq!(world.value(PROCESSED, "getFeeForMessage", params), 5_000);
}

#[test]
fn fees_follow_the_features_of_the_cluster() {
    let mut world = World::new();
    // Without a limit of units the programs determine them; the feature makes the vote program one like any other.
    let vote = Instruction::new_with_bytes(vote::ID, &[], Vec::new());
    let message = legacy(&[unit_price(1_000_000), vote], hash(40));
    let fee = |world: &World| {
        world.value(FINALIZED, "getFeeForMessage", json!([encode_message(&message)]))
    };
    assert_eq!(fee(&world), 5_000 + 6_000);
    let mut features = FeatureSet::default();
    features.activate(&bls_pubkey_management_in_vote_account::ID, 32);
    let info =
        ClusterInfo { features: Arc::new(features), ..ClusterInfo::clone(&world.api.cluster_info) };
    let cluster = OneNodeCluster::new(Arc::new(info), InflationSchedule::default());
    world.api.cluster = Arc::new(cluster);
    assert_eq!(fee(&world), 5_000 + 203_000);
}

#[test]
fn the_minimum_balance_follows_the_rent_sysvar() {
    let world = World::new();
    let minimum = |commitment: &str| {
        let params = json!([72, {"commitment": commitment}]);
        world.ok("getMinimumBalanceForRentExemption", params)
    };
    assert_eq!(minimum("finalized"), 200 * 6_960);
    assert_eq!(minimum("processed"), 200 * PROCESSED_RENT);
}

#[test]
fn a_message_that_is_none_is_refused() {
    let world = World::new();
    let message = "invalid base64 encoding: InvalidByte(0, 33)";
    world.check_refusal("getFeeForMessage", json!(["!!!!"]), -32602, message);
    let VersionedMessage::Legacy(mut unsound) = legacy(&[], hash(40)) else {
        panic!("it is legacy");
    };
    unsound.header.num_required_signatures = 9;
    let params = json!([encode_message(&VersionedMessage::Legacy(unsound))]);
    let err = world.call("getFeeForMessage", &params).err();
    assert_eq!(
        err.map(|err| (err.code, err.message)),
        Some((-32602, "invalid transaction message: index out of bounds".into()))
    );
    let params = json!([encode_message(&legacy(&[], hash(40))), {"minContextSlot": 49}]);
    let message = "Minimum context slot has not been reached";
    world.check_refusal("getFeeForMessage", params, -32016, message);
}

#[test]
fn fees_are_reported_for_blocks_with_more_than_votes() {
    let world = World::new();
    let fees = |params: Value| -> Vec<(u64, u64)> {
        let fees = world.ok("getRecentPrioritizationFees", params);
        let fees = fees.as_array().expect("a list").clone();
        let number = |entry: &Value, key: &str| entry[key].as_u64().expect("a number");
        fees.iter()
            .map(|entry| (number(entry, "slot"), number(entry, "prioritizationFee")))
            .collect()
    };
    let all = vec![(42, 0), (43, 0), (44, 0), (45, 1_000), (47, 0), (60, 0)];
    assert_eq!(fees(json!([])), all);
    assert_eq!(fees(json!([[keypair(11).pubkey().to_string()]])), all);
    let keys = vec![keypair(10).pubkey().to_string(); 128];
    assert_eq!(fees(json!([keys])), all);
    // A transaction that writes to 15 in slot 47 pays more than the lowest price of the block. No transaction writes to
    // a program.
    let keys = [keypair(15).pubkey(), solana_sdk_ids::system_program::ID];
    let fees_to = fees(json!([keys.map(|key| key.to_string())]));
    assert_eq!(fees_to[4], (47, 2_000));
    let message = "Too many inputs provided; max 128";
    let keys = vec![keypair(10).pubkey().to_string(); 129];
    world.check_refusal("getRecentPrioritizationFees", json!([keys]), -32602, message);
    let message = "Invalid param: WrongSize";
    world.check_refusal("getRecentPrioritizationFees", json!([["x"]]), -32602, message);
}
