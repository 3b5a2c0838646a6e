//! Transactions: what was sent, what they did, what they would do.

use serde_json::{Value, json};

use super::builder::*;
use super::node::next_page;

pub(crate) const CONFIRMATIONS: &[&str] = &["processed", "confirmed", "finalized"];
pub(crate) const KEY_SOURCES: &[&str] = &["transaction", "lookupTable"];
/// Programs whose instructions are parsed, but for the memo program, whose are text.
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
        ("Message", message()),
        ("ParsedMessage", parsed_message()),
        ("TransactionConfig", config()),
        ("TableLookup", lookup()),
        ("Instruction", instruction()),
        ("ParsedInstruction", parsed_instruction()),
        ("InnerInstructions", inner_instructions()),
        ("TransactionMeta", meta()),
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
        "A transaction, and what it did.",
        [
            ("slot", slot("The slot of its block.")),
            ("transactionIndex", uint(32, "Its place in the block, from 0.")),
            ("blockTime", unix_time("When the block was made.")),
            ("version", version()),
            ("transaction", reference("TransactionBody", "What was sent.")),
            ("meta", reference("TransactionMeta", "What it did.")),
        ],
    )
}

pub(super) fn version() -> Value {
    any_of(
        "Its version.",
        [string_enum("Before there were any.", &["legacy"]), uint(8, "0 or later.")],
    )
}

fn body() -> Value {
    let encodings = string_enum("How they are encoded.", &["base58", "base64"]);
    let message = any_of(
        "What it asks for.",
        [
            reference("Message", "With `encoding=json`."),
            reference("ParsedMessage", "With `encoding=jsonParsed`."),
        ],
    );
    any_of(
        "What was sent, as `encoding` asks for it.",
        [
            tuple("Its bytes and their encoding.", [string("The bytes."), encodings]),
            object(
                "With `json` and `jsonParsed`.",
                [
                    ("signatures", array("One of each signer, in their order.", signature("It."))),
                    ("message", message),
                ],
            ),
        ],
    )
}

fn message() -> Value {
    let header = [
        ("numRequiredSignatures", uint(8, "The first so many keys sign.")),
        ("numReadonlySignedAccounts", uint(8, "The last so many of those are only read.")),
        ("numReadonlyUnsignedAccounts", uint(8, "The last so many of the others are only read.")),
    ];
    object(
        "What a transaction asks for, as it was sent.",
        [
            ("header", object("Which keys sign, and which are only read.", header)),
            ("accountKeys", array("The keys that it brings; the first one pays.", key("It."))),
            ("recentBlockhash", recent_blockhash()),
            (
                "instructions",
                array("In their order.", reference("Instruction", "Keys by their place.")),
            ),
            ("addressTableLookups?", lookups()),
            ("transactionConfig?", reference("TransactionConfig", "Of version 1 and later.")),
        ],
    )
}

fn parsed_message() -> Value {
    object(
        "What a transaction asks for, in words where its programs are known.",
        [
            ("accountKeys", account_keys()),
            ("recentBlockhash", recent_blockhash()),
            (
                "instructions",
                array("In their order.", reference("ParsedInstruction", "One of them.")),
            ),
            ("addressTableLookups?", lookups()),
            ("transactionConfig?", reference("TransactionConfig", "Of version 1 and later.")),
        ],
    )
}

fn recent_blockhash() -> Value {
    key("The blockhash that it was made for; of a durable nonce its value.")
}

/// Keys with what may be done with them.
pub(super) fn account_keys() -> Value {
    let key = object(
        "A key, and what the transaction may do with it.",
        [
            ("pubkey", key("The address.")),
            ("signer", boolean("Whether it signs.")),
            ("writable", boolean("Whether it may be written.")),
            ("source", string_enum("Where it stands.", KEY_SOURCES)),
        ],
    );
    array("All its keys, those of lookup tables last.", key)
}

fn lookups() -> Value {
    array("Of version 0: keys that lookup tables bring.", reference("TableLookup", "Of one table."))
}

fn lookup() -> Value {
    let place = || uint(8, "A place in it.");
    object(
        "Keys that a lookup table brings.",
        [
            ("accountKey", key("The table.")),
            ("writableIndexes", array("Keys to be written.", place())),
            ("readonlyIndexes", array("Keys that are only read.", place())),
        ],
    )
}

fn config() -> Value {
    let bytes = "Bytes of all accounts that it may load.";
    object(
        "What a transaction of version 1 asks of the runtime; null for what it does not say.",
        [
            ("priorityFee", nullable(lamports("What it pays beside the signatures."))),
            ("computeUnitLimit", nullable(uint(32, "Compute units that it may use."))),
            ("loadedAccountsDataSizeLimit", nullable(uint(32, bytes))),
            ("heapSize", nullable(uint(32, "Bytes of heap for each program."))),
        ],
    )
}

fn stack_height() -> Value {
    nullable(uint(32, "How deep the call is: 1 for the transaction's own; null if not known."))
}

fn instruction() -> Value {
    object(
        "An instruction. Keys are places in the list of all keys.",
        [
            ("programIdIndex", uint(8, "The program.")),
            ("accounts", array("What it is given.", uint(8, "A key."))),
            ("data", base58("Its bytes, in base58.")),
            ("stackHeight", stack_height()),
        ],
    )
}

fn parsed_instruction() -> Value {
    let words = object(
        "Of all other programs.",
        [
            ("type", string("What it does, in the program's words.")),
            ("info?", any("What with, as Agave tells it.")),
        ],
    );
    any_of(
        "An instruction with its keys; in words if its program is known.",
        [
            object(
                "Of a known program.",
                [
                    ("program", string_enum("The program's name.", PARSED_PROGRAMS)),
                    ("programId", key("The program.")),
                    ("parsed", any_of("What it does.", [string("A memo."), words])),
                    ("stackHeight", stack_height()),
                ],
            ),
            object(
                "Of any other program.",
                [
                    ("programId", key("The program.")),
                    ("accounts", array("What it is given.", key("An address."))),
                    ("data", base58("Its bytes, in base58.")),
                    ("stackHeight", stack_height()),
                ],
            ),
        ],
    )
}

fn inner_instructions() -> Value {
    let one = any_of(
        "One of them.",
        [
            reference("Instruction", "Unless they are parsed."),
            reference("ParsedInstruction", "With `encoding=jsonParsed`, and of a simulation."),
        ],
    );
    object(
        "What an instruction called.",
        [
            ("index", uint(8, "The instruction, from 0.")),
            ("instructions", array("In the order of the calls.", one)),
        ],
    )
}

fn balances(when: &str) -> Value {
    array(&format!("Of each key, {when}."), lamports("A balance."))
}

fn token_balances(when: &str) -> Value {
    array(&format!("Of each token account, {when}."), reference("TokenBalance", "One of them."))
}

fn logs() -> Value {
    array("What the programs logged.", string("A line."))
}

fn meta() -> Value {
    let result = any_of(
        "As `err`, in an older shape.",
        [
            object("It did what it was to do.", [("Ok", json!({ "type": "null" }))]),
            object("It failed.", [("Err", reference("TransactionError", "Why."))]),
        ],
    );
    let costs = "What it counted for the limits of its block.";
    object(
        "What a transaction did.",
        [
            ("err", err()),
            ("status", result),
            ("fee", lamports("What it paid.")),
            ("preBalances", balances("before it")),
            ("postBalances", balances("after it")),
            ("preTokenBalances", nullable(token_balances("before it"))),
            ("postTokenBalances", nullable(token_balances("after it"))),
            (
                "innerInstructions?",
                nullable(array(
                    "Calls between programs. Missing with `transactionDetails=accounts`.",
                    reference("InnerInstructions", "Those of one instruction."),
                )),
            ),
            ("logMessages?", nullable(logs())),
            (
                "rewards?",
                nullable(array(
                    "Null or missing if not asked for.",
                    reference("Reward", "One of them."),
                )),
            ),
            (
                "loadedAddresses?",
                reference("LoadedAddresses", "Unless its keys are told with their sources."),
            ),
            ("returnData?", reference("ReturnData", "If a program returned any.")),
            ("computeUnitsConsumed?", uint(64, "Compute units that it used.")),
            ("costUnits?", uint(64, costs)),
        ],
    )
}

fn err() -> Value {
    nullable(reference("TransactionError", "Why it failed; null if it did not."))
}

fn token_balance() -> Value {
    object(
        "What a token account holds.",
        [
            ("accountIndex", uint(8, "The key.")),
            ("mint", key("The mint.")),
            ("uiTokenAmount", reference("Amount", "How many.")),
            ("owner?", key("Whose they are.")),
            ("programId?", key("The token program.")),
        ],
    )
}

fn loaded_addresses() -> Value {
    object(
        "Keys that lookup tables brought. They stand behind the transaction's own.",
        [
            ("writable", array("Those that may be written, first.", key("An address."))),
            ("readonly", array("Those that are only read.", key("An address."))),
        ],
    )
}

fn return_data() -> Value {
    let data = [string("The bytes."), string_enum("How they are encoded.", &["base64"])];
    object(
        "What the last program that returned something returned.",
        [
            ("programId", key("The program.")),
            ("data", tuple("Its bytes and their encoding.", data)),
        ],
    )
}

fn status() -> Value {
    let confirmations = "Complete blocks above its own; null once it is finalized.";
    let result = any_of(
        "As `err`, in an older shape.",
        [
            object("It did what it was to do.", [("Ok", json!({ "type": "null" }))]),
            object("It failed.", [("Err", reference("TransactionError", "Why."))]),
        ],
    );
    object(
        "What became of a transaction.",
        [
            ("slot", slot("The slot of its block.")),
            ("confirmations", nullable(uint(64, confirmations))),
            ("status", result),
            ("err", err()),
            ("confirmationStatus", string_enum("How sure it is.", CONFIRMATIONS)),
        ],
    )
}

fn signatures_page() -> Value {
    let one = object(
        "A transaction that names the address.",
        [
            ("signature", signature("Its first signature.")),
            ("slot", slot("The slot of its block.")),
            ("transactionIndex", uint(32, "Its place in the block, from 0.")),
            ("err", err()),
            ("memo", nullable(string("Its memos, `[length] text`, joined by `; `; null if none."))),
            ("blockTime", unix_time("When the block was made.")),
            ("confirmationStatus", string_enum("How sure it is.", &CONFIRMATIONS[1..])),
        ],
    );
    object(
        "A page of transactions.",
        [("transactions", array("The newest first.", one)), ("paginationKey", next_page())],
    )
}

fn simulation() -> Value {
    let loads = "Bytes of all accounts that it loaded.";
    let keys = "Null if it did not run.";
    object(
        "What a transaction would do.",
        [
            ("err", err()),
            ("logs", logs()),
            (
                "accounts",
                nullable(array(
                    "Those that were asked for, as they would be after it; null if none were.",
                    nullable(reference("Account", "Null if there is none, or it failed.")),
                )),
            ),
            ("unitsConsumed", uint(64, "Compute units that it used.")),
            ("loadedAccountsDataSize", uint(32, loads)),
            ("returnData", nullable(reference("ReturnData", "Null if no program returned any."))),
            (
                "innerInstructions",
                nullable(array(
                    "Calls between programs; null unless `innerInstructions=true`.",
                    reference("InnerInstructions", "Those of one instruction."),
                )),
            ),
            (
                "replacementBlockhash",
                nullable(reference(
                    "Blockhash",
                    "What it ran with if `replaceRecentBlockhash=true`.",
                )),
            ),
            ("fee", nullable(lamports("What it would pay; null if nothing."))),
            ("preBalances", nullable(balances(&format!("before it. {keys}")))),
            ("postBalances", nullable(balances(&format!("after it. {keys}")))),
            ("preTokenBalances", nullable(token_balances(&format!("before it. {keys}")))),
            ("postTokenBalances", nullable(token_balances(&format!("after it. {keys}")))),
            ("loadedAddresses", reference("LoadedAddresses", "Keys that lookup tables bring.")),
        ],
    )
}
