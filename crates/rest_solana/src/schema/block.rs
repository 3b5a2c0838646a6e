//! Blocks and their rewards.

use rest::schema::*;
use serde_json::Value;

use super::formats::{key, lamports, signature, slot};
use super::transaction;

pub(crate) const REWARD_TYPES: &[&str] = &["Fee", "Rent", "Staking", "Voting", "DeactivatedStake"];

pub(super) fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("Block", block()),
        ("BlockTransaction", block_transaction()),
        ("TransactionObject", transaction_object()),
        ("TransactionAccounts", transaction_accounts()),
        ("Reward", reward()),
    ]
}

fn block() -> Value {
    let parts = "The number of partitions in which the epoch's rewards are paid; only in an epoch's first block.";
    object(
        "A block. `transactionDetails` selects `transactions` or `signatures`.",
        [
            ("blockhash", key("The hash of the block.")),
            ("previousBlockhash", key("The hash of the parent.")),
            ("parentSlot", slot("The slot of the parent.")),
            ("blockTime", unix_time("The time of the block.")),
            ("blockHeight", uint(64, "The number of blocks below this one.")),
            (
                "transactions?",
                array(
                    "The transactions. With `full` and `accounts`.",
                    reference("BlockTransaction", "A transaction."),
                ),
            ),
            (
                "signatures?",
                array(
                    "The first signature of each transaction. With `signatures`.",
                    signature("A signature."),
                ),
            ),
            (
                "rewards?",
                array("The rewards. Unless `rewards=false`.", reference("Reward", "A reward.")),
            ),
            ("numRewardPartitions?", uint(64, parts)),
        ],
    )
}

fn transaction_object() -> Value {
    one_of(
        "A transaction whose bytes are decoded.",
        [
            reference("TransactionContent", "With `full`."),
            reference("TransactionAccounts", "With `accounts`."),
        ],
    )
}

fn transaction_accounts() -> Value {
    object(
        "The signatures and keys. With `transactionDetails=accounts`.",
        [
            ("signatures", array("The signatures.", signature("A signature."))),
            ("accountKeys", transaction::account_keys()),
        ],
    )
}

fn block_transaction() -> Value {
    object(
        "A transaction of a block.",
        [
            (
                "transaction",
                one_of(
                    "The transaction as it was sent.",
                    [
                        reference("EncodedTransaction", "With `full`."),
                        reference("TransactionObject", "With the other encodings and details."),
                    ],
                ),
            ),
            ("meta", reference("TransactionMeta", "The result of its execution.")),
            ("version", transaction::version()),
        ],
    )
}

fn reward() -> Value {
    object(
        "A reward or fee of an account, outside of transactions.",
        [
            ("pubkey", key("The account.")),
            (
                "lamports",
                int64("The lamports added to the balance; negative if they were deducted."),
            ),
            ("postBalance", lamports("The balance afterwards.")),
            ("rewardType", nullable(string_enum("The kind of the reward.", REWARD_TYPES))),
            ("commission", nullable(uint(8, "The commission of the vote account, in percent."))),
            ("commissionBps?", uint(16, "The commission in basis points.")),
        ],
    )
}
