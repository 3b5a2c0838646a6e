//! The verification of the ledger's bank hashes.

use chain_solana::{MISMATCH_ACCOUNTS_MAX, ResultField};
use rest::schema::*;
use serde_json::Value;
use solana::{TransactionCheck, TransactionProof, VerificationLevel};

use super::formats::{key, lamports, signature, slot};

pub(super) fn summary() -> Value {
    object(
        "How far the bank hashes are verified.",
        [
            (
                "requiredLevel",
                nullable(level(
                    "The level that a bank needs to be shown as confirmed; null if banks are not verified.",
                )),
            ),
            (
                "verifiedSlot",
                nullable(slot("The newest slot whose bank has that level; null before the first.")),
            ),
            (
                "mismatchedBanks",
                uint(64, "Banks whose hash is not the reported one, after a repair."),
            ),
            (
                "repairs",
                uint(
                    64,
                    "Banks that were requested again because their hash was not the reported one.",
                ),
            ),
            (
                "firstMismatch",
                nullable(reference(
                    "BankMismatch",
                    "The first bank whose hash is not the reported one.",
                )),
            ),
            (
                "sources",
                array(
                    "The independent sources that must agree.",
                    reference("AgreementSource", "A source."),
                ),
            ),
            (
                "limitation",
                nullable(string(
                    "Why no newer bank can have the level; null if nothing is in the way.",
                )),
            ),
            (
                "trustRoot",
                nullable(string(
                    "The start of the proof, and whose word it is; null if banks are not verified, or are made here.",
                )),
            ),
            ("execution", nullable(execution())),
            (
                "bank",
                nullable(reference(
                    "VerifiedBank",
                    "The bank of that slot; null if it is not retained.",
                )),
            ),
        ],
    )
}

fn execution() -> Value {
    let difference = object(
        "The first result that is not the one that the source reported.",
        [
            ("slot", slot("The slot.")),
            ("field", string_enum("What differs.", &ResultField::ALL.map(ResultField::name))),
            (
                "index",
                nullable(uint(32, "Index of the transaction; null if it is the bank's result.")),
            ),
            ("signature", nullable(signature("The first signature of the transaction."))),
            ("account", nullable(key("The account that differs."))),
        ],
    );
    object(
        "The execution of the chain's transactions by this node; null if it does not execute them.",
        [
            (
                "transactionsPerSecond",
                nullable(uint(64, "Transactions of the sample in a second; null for all.")),
            ),
            ("equalBanks", uint(64, "Banks that were executed with equal results.")),
            ("differingBanks", uint(64, "Banks with a result that differs.")),
            (
                "partialBanks",
                uint(
                    64,
                    "Banks without a difference of which some transactions were not executed.",
                ),
            ),
            ("skippedBanks", uint(64, "Banks that were not executed.")),
            ("executedTransactions", uint(64, "Transactions whose results were compared.")),
            (
                "skippedTransactions",
                uint(64, "Transactions of executed banks that were not executed."),
            ),
            ("firstDifference", nullable(difference)),
            (
                "lastSkip",
                nullable(string("Why the newest transaction that was not executed was not.")),
            ),
        ],
    )
}

pub(super) fn bank() -> Value {
    let votes = object(
        "The votes that decided.",
        [
            ("slot", slot("The slot that they are for: the bank's own, or that of a descendant.")),
            ("votedStake", lamports("The stake of the votes that were counted.")),
            ("totalStake", lamports("The stake of all vote accounts of the epoch.")),
        ],
    );
    object(
        "A bank and its hash.",
        [
            ("slot", slot("The slot.")),
            ("parentSlot", slot("The slot of the parent.")),
            ("bankHash", nullable(key("The hash; null if banks are not verified."))),
            ("parentBankHash", nullable(key("The hash of the parent."))),
            (
                "signatureCount",
                nullable(uint(
                    64,
                    "Signatures that its transactions require, failed ones included.",
                )),
            ),
            ("blockhash", key("The blockhash.")),
            (
                "ltHashChecksum",
                nullable(key("The checksum of the lattice hash over all accounts.")),
            ),
            ("components", components()),
            ("level", nullable(level("The level that the bank reached; null if it is unknown."))),
            ("votes", nullable(votes)),
        ],
    )
}

fn components() -> Value {
    let mut levels = VerificationLevel::ALL.map(VerificationLevel::name).to_vec();
    levels.push(TransactionProof::Unproven.name());
    let compared = ["source", "compared", "executed"];
    let unchecked = ["source", "executed"];
    object(
        "What is proven of each part of the bank, and what is only the source's word.",
        [
            ("accounts", string_enum("The level of the accounts.", &levels)),
            (
                "transactions",
                string_enum(
                    "The set and the order: proven by entries, or only counted by the bank hash.",
                    &TransactionProof::ALL.map(TransactionProof::name),
                ),
            ),
            ("signatures", string_enum("Whether each is valid.", &["unproven", "proven"])),
            ("status", string_enum("Success or failure of transactions.", &compared)),
            ("balances", string_enum("Balances of transactions.", &compared)),
            ("logs", string_enum("Logs, inner instructions and return data.", &unchecked)),
            ("rewards", string_enum("Rewards of the block.", &unchecked)),
        ],
    )
}

pub(super) fn mismatch() -> Value {
    let accounts = format!("The first {MISMATCH_ACCOUNTS_MAX} accounts that the bank wrote.");
    let fault = object(
        "The contradiction that a check of the transactions found.",
        [
            (
                "check",
                string_enum(
                    "The check that failed.",
                    &TransactionCheck::ALL.map(TransactionCheck::name),
                ),
            ),
            ("index", nullable(uint(32, "Index of the transaction in the block."))),
            ("account", nullable(key("The account that contradicts the transaction."))),
        ],
    );
    object(
        "A bank whose hash is not the reported one.",
        [
            ("slot", slot("The slot.")),
            ("computedHash", key("The hash that follows from what the bank wrote.")),
            ("reportedHash", key("The reported hash.")),
            (
                "reporter",
                string_enum(
                    "Where the reported hash comes from; transactions: they contradict the bank, whose hash is the reported one.",
                    &["child", "sources", "votes", "transactions"],
                ),
            ),
            ("fault", nullable(fault)),
            ("accountsWritten", array(&accounts, key("An address."))),
            ("accountsWrittenCount", uint(64, "Number of accounts that the bank wrote.")),
        ],
    )
}

pub(super) fn source() -> Value {
    let disagreement = object(
        "A hash that is not that of this node.",
        [("slot", slot("The slot.")), ("reportedHash", key("The hash that the source lists."))],
    );
    object(
        "An independent source.",
        [
            ("url", string("Its URL.")),
            ("isConnected", boolean("Whether its stream is open.")),
            ("newestSlot", nullable(slot("The newest slot whose hash it listed."))),
            ("disagreements", uint(64, "Banks of this node for whose slot it lists another hash.")),
            ("firstDisagreement", nullable(disagreement)),
        ],
    )
}

fn level(description: &str) -> Value {
    string_enum(description, &VerificationLevel::ALL.map(VerificationLevel::name))
}
