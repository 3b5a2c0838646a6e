//! Blocks, and what was paid in them.

use serde_json::Value;

use super::builder::*;
use super::transaction;

pub(crate) const REWARD_TYPES: &[&str] = &["Fee", "Rent", "Staking", "Voting", "DeactivatedStake"];

pub(super) fn all() -> Vec<(&'static str, Value)> {
    vec![("Block", block()), ("BlockTransaction", block_transaction()), ("Reward", reward())]
}

fn block() -> Value {
    let parts = "In how many parts an epoch's rewards are paid, in the first block of one.";
    object(
        "A block. `transactionDetails` says which of `transactions` and `signatures` it has.",
        [
            ("blockhash", key("Its hash.")),
            ("previousBlockhash", key("Its parent's hash.")),
            ("parentSlot", slot("Its parent's slot.")),
            ("blockTime", unix_time("When it was made.")),
            ("blockHeight", uint(64, "Blocks below it.")),
            (
                "transactions?",
                array("With `full` and `accounts`.", reference("BlockTransaction", "One of them.")),
            ),
            ("signatures?", array("With `signatures`: each one's first.", signature("It."))),
            ("rewards?", array("Unless `rewards=false`.", reference("Reward", "One of them."))),
            ("numRewardPartitions?", uint(64, parts)),
        ],
    )
}

fn block_transaction() -> Value {
    let accounts = object(
        "With `transactionDetails=accounts`.",
        [
            ("signatures", array("Its signatures.", signature("One of them."))),
            ("accountKeys", transaction::account_keys()),
        ],
    );
    object(
        "A transaction of a block.",
        [
            (
                "transaction",
                any_of("What was sent.", [reference("TransactionBody", "With `full`."), accounts]),
            ),
            ("meta", reference("TransactionMeta", "What it did.")),
            ("version", transaction::version()),
        ],
    )
}

fn reward() -> Value {
    object(
        "What was paid to an account, or taken from it, beside transactions.",
        [
            ("pubkey", key("The account.")),
            ("lamports", int64("What was added; below 0 for what was taken.")),
            ("postBalance", lamports("The balance after it.")),
            ("rewardType", nullable(string_enum("What for.", REWARD_TYPES))),
            ("commission", nullable(uint(8, "Percent that a vote account keeps."))),
            ("commissionBps?", uint(16, "The same, in hundredths of a percent.")),
        ],
    )
}
