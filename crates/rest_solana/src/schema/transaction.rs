//! Transactions, the results of their execution, and simulations.

use rest::schema::*;
use serde_json::{Value, json};

use super::formats::{key, lamports, signature, slot};
use super::node::next_page;

pub(crate) const CONFIRMATIONS: &[&str] = &["processed", "confirmed", "finalized"];
pub(crate) const KEY_SOURCES: &[&str] = &["transaction", "lookupTable"];
/// Programs with parsed instructions. Those of the memo program are parsed to a string.
pub(crate) const PARSED_PROGRAMS: &[&str] = &[
    "address-lookup-table",
    "spl-associated-token-account",
    "spl-memo",
    "spl-token",
    "bpf-loader",
    "bpf-upgradeable-loader",
    "stake",
    "system",
    "vote",
];

pub(super) fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("Transaction", transaction()),
        ("TransactionBody", body()),
        ("EncodedTransaction", encoded_transaction()),
        ("TransactionContent", content()),
        ("Message", message()),
        ("MessageKey", message_key()),
        ("AccountKey", account_key()),
        ("MessageInstruction", message_instruction()),
        ("TransactionConfig", config()),
        ("TableLookup", lookup()),
        ("Instruction", instruction()),
        ("KnownInstruction", known_instruction()),
        ("KnownInstructionContent", known_instruction_content()),
        ("UnknownInstruction", unknown_instruction()),
        ("InnerInstructions", inner_instructions()),
        ("TransactionMeta", meta()),
        ("ExecutionStatus", execution_status()),
        (
            "ExecutionSucceeded",
            object("The transaction succeeded.", [("Ok", json!({ "type": "null" }))]),
        ),
        (
            "ExecutionFailed",
            object(
                "The transaction failed.",
                [("Err", reference("TransactionError", "The error."))],
            ),
        ),
        ("TokenBalance", token_balance()),
        ("LoadedAddresses", loaded_addresses()),
        ("ReturnData", return_data()),
        ("Status", status()),
        ("SignaturesPage", signatures_page()),
        ("Simulation", simulation()),
    ]
}

fn transaction() -> Value {
    object(
        "A transaction and the result of its execution.",
        [
            ("slot", slot("The slot of the block.")),
            ("transactionIndex", uint(32, "The index in the block, from 0.")),
            ("blockTime", unix_time("The time of the block.")),
            ("version", version()),
            ("transaction", reference("TransactionBody", "The transaction as it was sent.")),
            ("meta", reference("TransactionMeta", "The result of the execution.")),
        ],
    )
}

pub(super) fn version() -> Value {
    one_of(
        "The transaction's version.",
        [string_enum("No version.", &["legacy"]), uint(8, "Version 0 or later.")],
    )
}

fn body() -> Value {
    one_of(
        "The transaction as it was sent, in the requested `encoding`.",
        [
            reference("EncodedTransaction", "With `base58` and `base64`."),
            reference("TransactionContent", "With `json` and `jsonParsed`."),
        ],
    )
}

fn encoded_transaction() -> Value {
    let encodings = string_enum("The encoding.", &["base58", "base64"]);
    tuple("The bytes and their encoding.", [string("The bytes."), encodings])
}

fn content() -> Value {
    object(
        "The signatures and the message of a transaction.",
        [
            ("signatures", array("One of each signer, in order.", signature("A signature."))),
            ("message", reference("Message", "The message.")),
        ],
    )
}

fn message() -> Value {
    let header = [
        ("numRequiredSignatures", uint(8, "The number of keys that sign; they come first.")),
        (
            "numReadonlySignedAccounts",
            uint(8, "The number of signing keys that are read-only; the last of them."),
        ),
        (
            "numReadonlyUnsignedAccounts",
            uint(8, "The number of other keys that are read-only; the last of them."),
        ),
    ];
    object(
        "The message of a transaction: as it was sent, or with `encoding=jsonParsed` with all keys, and with \
         instructions that are parsed if their programs are known.",
        [
            (
                "header?",
                object(
                    "The numbers of keys that sign and that are read-only. With `json`.",
                    header,
                ),
            ),
            (
                "accountKeys",
                array(
                    "The keys in the transaction, the first of which pays; with `jsonParsed` also those of \
                     lookup tables, which are last.",
                    reference("MessageKey", "A key."),
                ),
            ),
            ("recentBlockhash", recent_blockhash()),
            (
                "instructions",
                array(
                    "The instructions, in order.",
                    reference("MessageInstruction", "An instruction."),
                ),
            ),
            ("addressTableLookups?", lookups()),
            ("transactionConfig?", reference("TransactionConfig", "Only in version 1 and later.")),
        ],
    )
}

fn message_key() -> Value {
    one_of(
        "A key of a message.",
        [key("With `json`."), reference("AccountKey", "With `jsonParsed`.")],
    )
}

fn message_instruction() -> Value {
    one_of(
        "An instruction of a message, or a call between programs.",
        [
            reference("Instruction", "With `json`."),
            reference("KnownInstruction", "With `jsonParsed`, and in a simulation."),
            reference("UnknownInstruction", "The same for a program without a parser."),
        ],
    )
}

fn recent_blockhash() -> Value {
    key("The recent blockhash, or the value of the durable nonce.")
}

/// Keys with their permissions.
pub(super) fn account_keys() -> Value {
    let key = reference("AccountKey", "A key.");
    array("All keys of the transaction, those of lookup tables last.", key)
}

fn account_key() -> Value {
    object(
        "A key and its permissions.",
        [
            ("pubkey", key("The address.")),
            ("signer", boolean("Whether the key signs.")),
            ("writable", boolean("Whether the account may be written.")),
            ("source", string_enum("The source of the key.", KEY_SOURCES)),
        ],
    )
}

fn lookups() -> Value {
    array(
        "Keys from lookup tables. Only in version 0.",
        reference("TableLookup", "Keys of one table."),
    )
}

fn lookup() -> Value {
    let index = || uint(8, "An index in the table.");
    object(
        "Keys from a lookup table.",
        [
            ("accountKey", key("The table.")),
            ("writableIndexes", array("The writable keys.", index())),
            ("readonlyIndexes", array("The read-only keys.", index())),
        ],
    )
}

fn config() -> Value {
    let bytes = "The limit of the bytes of all loaded accounts.";
    object(
        "The limits and the fee that a transaction of version 1 requests; null if not set.",
        [
            ("priorityFee", nullable(lamports("The fee in addition to that for signatures."))),
            ("computeUnitLimit", nullable(uint(32, "The limit of compute units."))),
            ("loadedAccountsDataSizeLimit", nullable(uint(32, bytes))),
            ("heapSize", nullable(uint(32, "The heap of each program, in bytes."))),
        ],
    )
}

fn stack_height() -> Value {
    nullable(uint(
        32,
        "The depth of the call: 1 for the transaction's own instructions; null if unknown.",
    ))
}

fn instruction() -> Value {
    object(
        "An instruction. Keys are indices in the list of all keys.",
        [
            ("programIdIndex", uint(8, "The index of the program.")),
            ("accounts", array("The accounts.", uint(8, "The index of a key."))),
            ("data", base58("The data, in base58.")),
            ("stackHeight", stack_height()),
        ],
    )
}

fn known_instruction() -> Value {
    let parsed = one_of(
        "The parsed instruction.",
        [string("A memo."), reference("KnownInstructionContent", "Any other instruction.")],
    );
    object(
        "An instruction of a known program.",
        [
            ("program", string_enum("The program's name.", PARSED_PROGRAMS)),
            ("programId", key("The program.")),
            ("parsed", parsed),
            ("stackHeight", stack_height()),
        ],
    )
}

fn known_instruction_content() -> Value {
    object(
        "The content of an instruction.",
        [
            ("type", string("The kind of the instruction, by the program's name for it.")),
            ("info?", any("The members, in Agave's shape.")),
        ],
    )
}

fn unknown_instruction() -> Value {
    object(
        "An instruction of a program without a parser.",
        [
            ("programId", key("The program.")),
            ("accounts", array("The accounts.", key("An address."))),
            ("data", base58("The data, in base58.")),
            ("stackHeight", stack_height()),
        ],
    )
}

fn inner_instructions() -> Value {
    object(
        "The calls that an instruction made.",
        [
            ("index", uint(8, "The index of the instruction, from 0.")),
            (
                "instructions",
                array("The calls, in order.", reference("MessageInstruction", "A call.")),
            ),
        ],
    )
}

fn balances(when: &str) -> Value {
    array(&format!("The balance of each key, {when}."), lamports("A balance."))
}

fn token_balances(when: &str) -> Value {
    array(
        &format!("The balance of each token account, {when}."),
        reference("TokenBalance", "A balance."),
    )
}

fn logs() -> Value {
    array("The log of the programs.", string("A line."))
}

fn execution_status() -> Value {
    one_of(
        "Whether a transaction succeeded, in the shape of older versions.",
        [
            reference("ExecutionSucceeded", "It succeeded."),
            reference("ExecutionFailed", "It failed."),
        ],
    )
}

fn meta() -> Value {
    let costs = "The cost that counts towards the limits of the block.";
    object(
        "The result of a transaction's execution.",
        [
            ("err", err()),
            ("status", reference("ExecutionStatus", "The same as `err`, in an older shape.")),
            ("fee", lamports("The fee that was paid.")),
            ("preBalances", balances("before the transaction")),
            ("postBalances", balances("after the transaction")),
            ("preTokenBalances", nullable(token_balances("before the transaction"))),
            ("postTokenBalances", nullable(token_balances("after the transaction"))),
            (
                "innerInstructions?",
                nullable(array(
                    "Calls between programs. Missing with `transactionDetails=accounts`.",
                    reference("InnerInstructions", "The calls of one instruction."),
                )),
            ),
            ("logMessages?", nullable(logs())),
            (
                "rewards?",
                nullable(array(
                    "The rewards; null or missing if not requested.",
                    reference("Reward", "A reward."),
                )),
            ),
            (
                "loadedAddresses?",
                reference(
                    "LoadedAddresses",
                    "Missing if the keys are returned with their sources.",
                ),
            ),
            ("returnData?", reference("ReturnData", "Missing if no program returned data.")),
            ("computeUnitsConsumed?", uint(64, "The compute units that were used.")),
            ("costUnits?", uint(64, costs)),
        ],
    )
}

fn err() -> Value {
    nullable(reference("TransactionError", "The error; null if the transaction succeeded."))
}

fn token_balance() -> Value {
    object(
        "The balance of a token account.",
        [
            ("accountIndex", uint(8, "The index of the account among the keys.")),
            ("mint", key("The mint.")),
            ("uiTokenAmount", reference("Amount", "The number of tokens.")),
            ("owner?", key("The owner of the tokens.")),
            ("programId?", key("The token program.")),
        ],
    )
}

fn loaded_addresses() -> Value {
    object(
        "The keys from lookup tables. They follow the transaction's own keys.",
        [
            ("writable", array("The writable keys, which come first.", key("An address."))),
            ("readonly", array("The read-only keys.", key("An address."))),
        ],
    )
}

fn return_data() -> Value {
    let data = [string("The bytes."), string_enum("The encoding.", &["base64"])];
    object(
        "The data of the last program that returned any.",
        [
            ("programId", key("The program.")),
            ("data", tuple("The bytes and their encoding.", data)),
        ],
    )
}

fn status() -> Value {
    let confirmations =
        "The number of complete blocks above the transaction's block; null once it is finalized.";
    object(
        "The status of a transaction.",
        [
            ("slot", slot("The slot of the block.")),
            ("confirmations", nullable(uint(64, confirmations))),
            ("status", reference("ExecutionStatus", "The same as `err`, in an older shape.")),
            ("err", err()),
            ("confirmationStatus", string_enum("The commitment level.", CONFIRMATIONS)),
        ],
    )
}

fn signatures_page() -> Value {
    let entry = object(
        "A transaction of the address.",
        [
            ("signature", signature("The first signature.")),
            ("slot", slot("The slot of the block.")),
            ("transactionIndex", uint(32, "The index in the block, from 0.")),
            ("err", err()),
            ("memo", nullable(string("The memos, `[length] text`, joined by `; `; null if none."))),
            ("blockTime", unix_time("The time of the block.")),
            ("confirmationStatus", string_enum("The commitment level.", &CONFIRMATIONS[1..])),
        ],
    );
    object(
        "A page of transactions.",
        [
            ("transactions", array("The transactions, newest first.", entry)),
            ("paginationKey", next_page()),
        ],
    )
}

fn simulation() -> Value {
    let loads = "The bytes of all accounts that were loaded.";
    let no_balances = "Null if the transaction was not executed.";
    object(
        "The result of a simulation.",
        [
            ("err", err()),
            ("logs", logs()),
            (
                "accounts",
                nullable(array(
                    "The requested accounts as they would be after the transaction; null if none were requested.",
                    nullable(reference(
                        "Account",
                        "Null if the account does not exist or the transaction failed.",
                    )),
                )),
            ),
            ("unitsConsumed", uint(64, "The compute units that were used.")),
            ("loadedAccountsDataSize", uint(32, loads)),
            ("returnData", nullable(reference("ReturnData", "Null if no program returned data."))),
            (
                "innerInstructions",
                nullable(array(
                    "Calls between programs; null unless `innerInstructions=true`.",
                    reference("InnerInstructions", "The calls of one instruction."),
                )),
            ),
            (
                "replacementBlockhash",
                nullable(reference(
                    "Blockhash",
                    "The blockhash that was used. With `replaceRecentBlockhash=true`.",
                )),
            ),
            ("fee", nullable(lamports("The fee that would be paid; null if none."))),
            ("preBalances", nullable(balances(&format!("before the transaction. {no_balances}")))),
            ("postBalances", nullable(balances(&format!("after the transaction. {no_balances}")))),
            (
                "preTokenBalances",
                nullable(token_balances(&format!("before the transaction. {no_balances}"))),
            ),
            (
                "postTokenBalances",
                nullable(token_balances(&format!("after the transaction. {no_balances}"))),
            ),
            ("loadedAddresses", reference("LoadedAddresses", "The keys from lookup tables.")),
        ],
    )
}
