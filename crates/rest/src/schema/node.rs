//! What the node is, where its ledger stands, and what is told of all of it.

use serde_json::{Value, json};

use super::builder::*;

pub(super) fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("Node", node()),
        ("EpochSchedule", epoch_schedule()),
        ("ClusterNode", cluster_node()),
        ("Ledger", ledger()),
        ("Blockhash", blockhash()),
        ("Supply", supply()),
    ]
}

fn node() -> Value {
    object(
        "What the node is: the same for as long as it runs.",
        [
            (
                "version",
                object(
                    "Whose shapes are served.",
                    [
                        ("solana-core", string("The release of Agave.")),
                        ("feature-set", uint(32, "The first 4 bytes of its feature set's id.")),
                    ],
                ),
            ),
            ("identity", object("Who it is.", [("identity", key("The node's address."))])),
            ("genesisHash", key("The hash that names the ledger.")),
            ("epochSchedule", reference("EpochSchedule", "How slots are divided into epochs.")),
            (
                "clusterNodes",
                array("The nodes of the cluster.", reference("ClusterNode", "One of them.")),
            ),
        ],
    )
}

fn epoch_schedule() -> Value {
    object(
        "How slots are divided into epochs.",
        [
            ("slotsPerEpoch", uint(64, "Slots of an epoch, once they are as long as they get.")),
            (
                "leaderScheduleSlotOffset",
                uint(64, "So many slots before an epoch its leaders are known."),
            ),
            ("warmup", boolean("Whether epochs began short and grew.")),
            ("firstNormalEpoch", uint(64, "The first epoch of full length.")),
            ("firstNormalSlot", slot("The first slot of that.")),
        ],
    )
}

fn cluster_node() -> Value {
    let socket =
        |told: &str| nullable(string(&format!("{told} IP and port; null if it has none.")));
    object(
        "A node and where it listens.",
        [
            ("pubkey", key("Its identity.")),
            ("gossip", socket("Gossip.")),
            ("tvu", socket("Shreds, over UDP.")),
            ("tpu", socket("Transactions, over UDP.")),
            ("tpuQuic", socket("Transactions, over QUIC.")),
            ("tpuForwards", socket("Forwarded transactions, over UDP.")),
            ("tpuForwardsQuic", socket("Forwarded transactions, over QUIC.")),
            ("tpuVote", socket("Votes, over UDP.")),
            ("serveRepair", socket("Repair, over UDP.")),
            ("rpc", socket("JSON-RPC and this API, over HTTP.")),
            ("pubsub", socket("Subscriptions, over WebSocket.")),
            ("version", nullable(string("The release of Agave whose shapes it serves."))),
            ("clientId", nullable(string("The software."))),
            ("featureSet", nullable(uint(32, "The first 4 bytes of its feature set's id."))),
            ("shredVersion", nullable(uint(16, "The version of its shreds."))),
        ],
    )
}

fn ledger() -> Value {
    let count = "Transactions that were executed without an error since genesis.";
    let epoch = [
        ("epoch", uint(64, "The epoch.")),
        ("slotIndex", uint(64, "Slots of it that were before this one.")),
        ("slotsInEpoch", uint(64, "Slots of it.")),
        ("absoluteSlot", slot("The slot, counted from genesis.")),
        ("blockHeight", uint(64, "Blocks below this one: slots that have no block do not count.")),
        ("transactionCount", uint(64, count)),
    ];
    object(
        "Where the ledger stands, all of one moment.",
        [
            ("epochInfo", object("Of the commitment that was asked for.", epoch)),
            ("latestBlockhash", reference("Blockhash", "What a transaction is to name.")),
            ("firstAvailableBlock", slot("The oldest slot whose block is kept.")),
            ("processedSlot", slot("The slot that is being executed.")),
            ("confirmedSlot", slot("The newest slot that is confirmed.")),
            ("finalizedSlot", slot("The newest slot that is finalized.")),
        ],
    )
}

fn blockhash() -> Value {
    let valid = "The last block height at which a transaction may name it.";
    object(
        "A blockhash, and for how long it is good.",
        [("blockhash", key("The hash.")), ("lastValidBlockHeight", uint(64, valid))],
    )
}

fn supply() -> Value {
    object(
        "Lamports that there are.",
        [
            ("total", lamports("All of them.")),
            ("circulating", lamports("All that are not locked up.")),
            ("nonCirculating", lamports("Those that are locked up, in stake accounts.")),
            ("nonCirculatingAccounts", array("Where those are.", key("An address."))),
        ],
    )
}

/// What a submitted transaction is answered with.
pub(super) fn submitted() -> Value {
    let signature = signature("The transaction's first signature, by which its status is found.");
    object("The transaction is queued.", [("signature", signature)])
}

/// The key of the next page.
pub(super) fn next_page() -> Value {
    let mut key = nullable(base58("`cursor` of the next page; null on the last one."));
    key["minLength"] = json!(1);
    key
}
