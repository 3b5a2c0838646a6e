//! The node, its ledger, the supply, and members that several schemas share.

use rest::schema::*;
use serde_json::{Value, json};

use super::formats::{key, lamports, signature, slot};
use super::verification;

pub(super) fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("Node", node()),
        ("EpochSchedule", epoch_schedule()),
        ("ClusterNode", cluster_node()),
        ("Ledger", ledger()),
        ("Verification", verification::summary()),
        ("VerifiedBank", verification::bank()),
        ("BankMismatch", verification::mismatch()),
        ("AgreementSource", verification::source()),
        ("Blockhash", blockhash()),
        ("Supply", supply()),
    ]
}

fn node() -> Value {
    object(
        "The node. The value does not change while the node runs.",
        [
            (
                "version",
                object(
                    "The version of Agave whose API is served.",
                    [
                        ("solana-core", string("The release of Agave.")),
                        ("feature-set", uint(32, "The first 4 bytes of the feature set's id.")),
                    ],
                ),
            ),
            (
                "identity",
                object("The identity of the node.", [("identity", key("The node's address."))]),
            ),
            ("genesisHash", key("The hash that identifies the ledger.")),
            ("epochSchedule", reference("EpochSchedule", "How slots are divided into epochs.")),
            (
                "clusterNodes",
                array("The nodes of the cluster.", reference("ClusterNode", "A node.")),
            ),
        ],
    )
}

fn epoch_schedule() -> Value {
    object(
        "How slots are divided into epochs.",
        [
            ("slotsPerEpoch", uint(64, "Slots of an epoch after the warm-up.")),
            (
                "leaderScheduleSlotOffset",
                uint(64, "The number of slots before an epoch at which its leaders are known."),
            ),
            ("warmup", boolean("Whether the first epochs are shorter.")),
            ("firstNormalEpoch", uint(64, "The first epoch of full length.")),
            ("firstNormalSlot", slot("The first slot of that epoch.")),
        ],
    )
}

fn cluster_node() -> Value {
    let socket =
        |description: &str| nullable(string(&format!("{description} IP and port; null if none.")));
    object(
        "A node and its addresses.",
        [
            ("pubkey", key("The identity of the node.")),
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
            ("version", nullable(string("The release of Agave whose API the node serves."))),
            ("clientId", nullable(string("The name of the software."))),
            ("featureSet", nullable(uint(32, "The first 4 bytes of the feature set's id."))),
            ("shredVersion", nullable(uint(16, "The version of its shreds."))),
        ],
    )
}

fn ledger() -> Value {
    let count = "Transactions since genesis that succeeded.";
    let epoch = [
        ("epoch", uint(64, "The epoch.")),
        ("slotIndex", uint(64, "The index of the slot in its epoch.")),
        ("slotsInEpoch", uint(64, "Slots of the epoch.")),
        ("absoluteSlot", slot("The slot, counted from genesis.")),
        (
            "blockHeight",
            uint(64, "The number of blocks below this one. Slots without a block do not count."),
        ),
        ("transactionCount", uint(64, count)),
    ];
    object(
        "The ledger's epoch, blockhash and slots, all of one version of the state.",
        [
            ("epochInfo", object("The epoch and slot at the requested commitment.", epoch)),
            ("latestBlockhash", reference("Blockhash", "The blockhash for new transactions.")),
            ("firstAvailableBlock", slot("The oldest slot whose block is retained.")),
            ("processedSlot", slot("The slot that is being executed.")),
            ("confirmedSlot", slot("The newest slot that is confirmed.")),
            ("finalizedSlot", slot("The newest slot that is finalized.")),
            ("verification", reference("Verification", "How far the bank hashes are verified.")),
        ],
    )
}

fn blockhash() -> Value {
    let valid = "The last block height at which a transaction with this blockhash is valid.";
    object(
        "A blockhash and its validity.",
        [("blockhash", key("The hash.")), ("lastValidBlockHeight", uint(64, valid))],
    )
}

fn supply() -> Value {
    object(
        "The supply of lamports.",
        [
            ("total", lamports("The total supply.")),
            ("circulating", lamports("The supply that is not locked up.")),
            ("nonCirculating", lamports("The supply that is locked up in stake accounts.")),
            (
                "nonCirculatingAccounts",
                array("The accounts with the locked supply.", key("An address.")),
            ),
        ],
    )
}

/// The response to a submitted transaction.
pub(super) fn sent_schema() -> Value {
    let signature = signature("The transaction's first signature, which identifies it.");
    object("The transaction is queued.", [("signature", signature)])
}

/// The key of the next page.
pub(super) fn next_page() -> Value {
    let mut key = nullable(base58("`cursor` of the next page; null on the last one."));
    key["minLength"] = json!(1);
    key
}
