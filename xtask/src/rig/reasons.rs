//! Methods with a reason for different responses, as in docs/methods.md, and the parts of responses that are not
//! compared. A replica may also differ where two replicas may (`replica_differences`).

use serde_json::Value;

use crate::rig::known_slots::KnownSlots;
use crate::rig::nodes::FollowerKind;
use crate::rig::replica_differences;

/// Number of final slots for which fees are compared: a node has those of 150 blocks, up to its newest one.
const FEES_SLOTS: u64 = 100;

/// Methods about the node itself, and the reason for the difference of their responses.
const REASONS: [(&str, &str); 9] = [
    (
        "getBlockCommitment",
        "it counts votes in the processed state, which is another slot for a moment",
    ),
    ("getClusterNodes", "the validator reads its own gossip; the follower reads it every 30 s"),
    ("getFirstAvailableBlock", "the follower's history begins at its archive"),
    ("getHighestSnapshotSlot", "the validator makes archives meanwhile"),
    ("getIdentity", "a follower is no member of the cluster, and has a key of its own"),
    (
        "getMaxRetransmitSlot",
        "about the node: the newest slot of which the source has said something",
    ),
    (
        "getMaxShredInsertSlot",
        "about the node: the newest slot of which the source has said something",
    ),
    ("getRecentPerformanceSamples", "the validator counts minutes since its start"),
    ("minimumLedgerSlot", "the follower's history begins at its archive"),
];

/// Returns the reason for different responses of the validator and a follower to a method; `None` if they must be
/// equal.
pub(crate) fn reason(kind: FollowerKind, method: &str) -> Option<&'static str> {
    let reason = REASONS.iter().find(|(name, _)| *name == method).map(|(_, reason)| *reason);
    match kind {
        FollowerKind::Follow | FollowerKind::Ingest => reason,
        FollowerKind::Replica => reason.or_else(|| replica_differences::own_reason(method)),
    }
}

/// Removes parts about the node or the time of the call from a response about a final slot: signatures below the
/// follower's last gap, the processed slot that statuses are read at, and the fees of blocks that a node lacks or that
/// are not final, with as many of the oldest ones. Lists in the order of a hash map are sorted. The lists of a replica
/// are in the order of its snapshot's parts, so all that have no order are sorted for it.
pub(crate) fn normalize_response(
    kind: FollowerKind,
    method: &str,
    known: &KnownSlots,
    final_slot: Option<u64>,
    mut response: Value,
) -> Value {
    match method {
        "getSignaturesForAddress" => {
            let first = known.first_in_history();
            if let Some(all) = response.pointer_mut("/result").and_then(Value::as_array_mut) {
                all.retain(|it| it["slot"].as_u64().is_none_or(|slot| slot >= first));
            }
        }
        "getBlock" => sort_rewards(&mut response),
        "getVoteAccounts" => {
            for list in ["/result/current", "/result/delinquent"] {
                sort(&mut response, list, "votePubkey");
            }
        }
        "getProgramAccounts" => {
            // The second one is that of a response with its context.
            for list in ["/result", "/result/value"] {
                sort(&mut response, list, "pubkey");
            }
        }
        "getSignatureStatuses" => {
            if let Some(context) =
                response.pointer_mut("/result/context").and_then(Value::as_object_mut)
            {
                context.remove("slot");
            }
        }
        "getRecentPrioritizationFees" => {
            let newest = final_slot.unwrap_or(u64::MAX);
            let slots = known.first_known().max(newest.saturating_sub(FEES_SLOTS))..=newest;
            if let Some(all) = response.pointer_mut("/result").and_then(Value::as_array_mut) {
                all.retain(|it| it["slot"].as_u64().is_some_and(|slot| slots.contains(&slot)));
            }
        }
        _ => {}
    }
    match kind {
        FollowerKind::Follow | FollowerKind::Ingest => response,
        FollowerKind::Replica => replica_differences::normalize_response(method, response),
    }
}

/// Sorts the rewards of a block. Those of stakes are in the order of a hash map, and a validator that was restarted stores
/// those of blocks that it replays in another order than before.
fn sort_rewards(response: &mut Value) {
    if let Some(all) = response.pointer_mut("/result/rewards").and_then(Value::as_array_mut) {
        let key = |reward: &Value| {
            ["pubkey", "rewardType"].map(|field| reward[field].as_str().map(str::to_owned))
        };
        all.sort_by_cached_key(key);
    }
}

/// Sorts a list by the text of a key that each of its elements has. Agave's lists are in the order of a hash map, which
/// differs from run to run.
fn sort(response: &mut Value, list: &str, key: &str) {
    if let Some(all) = response.pointer_mut(list).and_then(Value::as_array_mut) {
        all.sort_by(|one, two| one[key].as_str().cmp(&two[key].as_str()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn normalize(method: &str, first: u64, final_slot: Option<u64>, response: Value) -> Value {
        let mut known = KnownSlots::default();
        known.start_at(first);
        super::normalize_response(FollowerKind::Follow, method, &known, final_slot, response)
    }

    #[test]
    fn lists_in_the_order_of_a_hash_map_are_sorted() {
        let votes = |current: [&str; 3]| {
            let list = current.map(|key| json!({"votePubkey": key}));
            json!({"result": {"current": list, "delinquent": list}})
        };
        let sorted = |current| normalize("getVoteAccounts", 5, None, votes(current));
        assert_eq!(sorted(["b", "c", "a"]), votes(["a", "b", "c"]));
        assert_ne!(sorted(["b", "c", "d"]), votes(["a", "b", "c"]));
        let accounts = |keys: [&str; 2]| json!(keys.map(|key| json!({"pubkey": key})));
        for form in [
            |list: Value| json!({"result": list}),
            |list: Value| json!({"result": {"context": {"slot": 7}, "value": list}}),
        ] {
            let response = form(accounts(["b", "a"]));
            let expected = form(accounts(["a", "b"]));
            assert_eq!(normalize("getProgramAccounts", 5, None, response.clone()), expected);
            assert_eq!(normalize("getLargestAccounts", 5, None, response.clone()), response);
        }
    }

    #[test]
    fn the_rewards_of_a_block_are_sorted() {
        let block = |kinds: [[&str; 2]; 3]| {
            let rewards = kinds.map(|[pubkey, kind]| json!({"pubkey": pubkey, "rewardType": kind}));
            json!({"result": {"rewards": rewards}})
        };
        let response = block([["b", "Staking"], ["b", "Fee"], ["a", "Staking"]]);
        let expected = block([["a", "Staking"], ["b", "Fee"], ["b", "Staking"]]);
        assert_eq!(normalize("getBlock", 5, None, response), expected);
        let missing = json!({"result": null});
        assert_eq!(normalize("getBlock", 5, None, missing.clone()), missing);
    }

    #[test]
    fn only_what_is_below_the_archive_is_removed() {
        let response = json!({"result": [{"slot": 9}, {"slot": 5}, {"slot": 4}]});
        let expected = json!({"result": [{"slot": 9}, {"slot": 5}]});
        assert_eq!(normalize("getSignaturesForAddress", 5, None, response.clone()), expected);
        assert_eq!(normalize("getProgramAccounts", 5, None, response.clone()), response);
    }

    #[test]
    fn fees_before_finality_are_not_compared() {
        let response =
            json!({"result": [{"slot": 99}, {"slot": 100}, {"slot": 200}, {"slot": 201}]});
        let expected = json!({"result": [{"slot": 100}, {"slot": 200}]});
        assert_eq!(normalize("getRecentPrioritizationFees", 5, Some(200), response), expected);
    }

    #[test]
    fn accounts_and_blocks_must_be_equal() {
        for method in ["getAccountInfo", "getBlock", "getTransaction", "getSupply"] {
            for kind in [FollowerKind::Follow, FollowerKind::Ingest, FollowerKind::Replica] {
                assert_eq!(reason(kind, method), None);
            }
        }
    }

    #[test]
    fn a_replica_differs_where_two_replicas_may() {
        let replica = FollowerKind::Replica;
        assert_eq!(reason(replica, "getHealth"), Some("it is about the node"));
        assert_eq!(reason(FollowerKind::Ingest, "getHealth"), None);
        // The reason of the rig comes first.
        let identity = reason(FollowerKind::Follow, "getIdentity");
        assert_eq!(reason(replica, "getIdentity"), identity);
        let tokens =
            |keys: [&str; 2]| json!({"result": {"value": keys.map(|key| json!({"pubkey": key}))}});
        let known = KnownSlots::default();
        let sorted = |kind| {
            let response = tokens(["b", "a"]);
            super::normalize_response(kind, "getTokenAccountsByOwner", &known, None, response)
        };
        assert_eq!(sorted(replica), tokens(["a", "b"]));
        assert_eq!(sorted(FollowerKind::Follow), tokens(["b", "a"]));
    }
}
