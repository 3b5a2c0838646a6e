//! Responses as JSON Schema: every member, its type, its unit and its meaning.

use rest::schema::{
    any, array, boolean, integer_string, nullable, object, reference, string, string_enum, text,
    uint,
};
use serde_json::Value;

use crate::formats::{ADDRESS, HASH};

/// Every schema by name: those of the routes, and those that they refer to.
pub(crate) fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("Balance", balance()),
        ("Balances", array("Balances, in the order of the request.", reference("Balance", "One."))),
        ("Utxo", utxo()),
        ("Utxos", array("UTXOs, in no order.", reference("Utxo", "One."))),
        ("TransactionInput", input()),
        ("TransactionOutput", output()),
        ("Transaction", transaction()),
        ("Transactions", array("Transactions.", reference("Transaction", "One."))),
        ("CoinSupply", coin_supply()),
        ("Coins", string("A number of coins, or of billions of them.")),
        ("BlockDag", block_dag()),
        ("BlueScore", object("A score.", [("blueScore", uint(64, "The blue score of the sink."))])),
        ("Health", health()),
    ]
}

fn balance() -> Value {
    let balance = uint(64, "The balance in sompi.");
    object("A balance.", [("address", text(&ADDRESS, "The address.")), ("balance", balance)])
}

fn hash(description: &str) -> Value {
    text(&HASH, description)
}

fn utxo() -> Value {
    let outpoint = object(
        "The name of the output.",
        [
            ("transactionId", hash("The transaction that made it.")),
            ("index", uint(32, "The index among the outputs of the transaction.")),
        ],
    );
    let script = object(
        "The script that spends it.",
        [("scriptPublicKey", string("The script without its version, in hexadecimal digits."))],
    );
    let entry = object(
        "The output.",
        [
            ("amount", integer_string("The amount in sompi.")),
            ("scriptPublicKey", script),
            ("blockDaaScore", integer_string("The DAA score of the block that accepted it.")),
            ("isCoinbase", boolean("Whether the reward of a block made it.")),
            ("covenantId?", hash("The covenant that it belongs to.")),
        ],
    );
    let address = text(&ADDRESS, "The address that it pays to.");
    object("A UTXO.", [("address", address), ("outpoint", outpoint), ("utxoEntry", entry)])
}

fn input() -> Value {
    object(
        "An input.",
        [
            ("transaction_id", hash("The transaction of the input.")),
            ("index", uint(32, "The index among the inputs.")),
            ("previous_outpoint_hash", hash("The transaction that made the spent output.")),
            ("previous_outpoint_index", integer_string("The index of the spent output.")),
            (
                "previous_outpoint_resolved",
                nullable(reference(
                    "TransactionOutput",
                    "The spent output, if resolve_previous_outpoints is full.",
                )),
            ),
            (
                "previous_outpoint_address",
                nullable(string("The address of the spent output, if it is resolved.")),
            ),
            (
                "previous_outpoint_amount",
                nullable(uint(64, "The amount of the spent output in sompi, if it is resolved.")),
            ),
            ("signature_script", string("The script that unlocks it, in hexadecimal digits.")),
            ("sig_op_count", integer_string("The number of signature operations.")),
        ],
    )
}

fn output() -> Value {
    object(
        "An output.",
        [
            ("transaction_id", hash("The transaction of the output.")),
            ("index", uint(32, "The index among the outputs.")),
            ("amount", uint(64, "The amount in sompi.")),
            ("script_public_key", string("The script without its version, in hexadecimal digits.")),
            (
                "script_public_key_address",
                nullable(text(&ADDRESS, "The address of the script. Null if it has none.")),
            ),
            (
                "script_public_key_type",
                string_enum(
                    "The kind of the script.",
                    &["pubkey", "pubkeyecdsa", "scripthash", "nonstandard"],
                ),
            ),
        ],
    )
}

fn transaction() -> Value {
    let reference_list =
        |name: &str, description: &str| array(description, reference(name, "One."));
    object(
        "A transaction that the selected chain accepted.",
        [
            ("subnetwork_id?", string("The subnetwork: 40 hexadecimal digits.")),
            ("transaction_id?", hash("The id.")),
            ("hash?", hash("The hash over the transaction with its signatures.")),
            ("mass?", nullable(string("Always null: the chain does not have it."))),
            ("payload?", nullable(string("The payload in hexadecimal digits. Null if empty."))),
            ("block_hash?", array("A block that contains it.", hash("The block."))),
            ("block_time?", uint(64, "The time of that block, in Unix milliseconds.")),
            ("is_accepted?", boolean("Always true.")),
            ("accepting_block_hash?", hash("The chain block that accepted it.")),
            ("accepting_block_blue_score?", uint(64, "The blue score of that chain block.")),
            (
                "accepting_block_time?",
                uint(64, "The time of that chain block, in Unix milliseconds."),
            ),
            (
                "inputs?",
                nullable(reference_list(
                    "TransactionInput",
                    "The inputs. Null for the reward of a block, and if they were not requested.",
                )),
            ),
            (
                "outputs?",
                nullable(reference_list(
                    "TransactionOutput",
                    "The outputs. Null if they were not requested.",
                )),
            ),
        ],
    )
}

fn coin_supply() -> Value {
    object(
        "The coins, in sompi.",
        [
            ("circulatingSupply", integer_string("The sum of all UTXOs.")),
            ("totalSupply", integer_string("The sum of all UTXOs.")),
            ("maxSupply", integer_string("The coins that will ever exist.")),
        ],
    )
}

fn block_dag() -> Value {
    object(
        "The network. Members that only a kaspad knows are missing.",
        [
            ("networkName", string("The network: kaspa-mainnet.")),
            ("virtualDaaScore", integer_string("The DAA score of the virtual block.")),
            ("sink", hash("The newest chain block.")),
            ("pruningPointHash", hash("The pruning point of the sink's header.")),
        ],
    )
}

fn health() -> Value {
    let unknown = || nullable(uint(64, "Always null: the chain does not know it."));
    let database = object(
        "The chain.",
        [
            ("isSynced", boolean("Whether the node is in sync and refused no block.")),
            ("blueScore", uint(64, "The blue score of the sink.")),
            ("blueScoreDiff", unknown()),
            ("acceptedTxBlockTime", unknown()),
            ("acceptedTxBlockTimeDiff", unknown()),
            ("sinkTime", uint(64, "The time of the sink, in Unix milliseconds.")),
            ("refused?", string("The block that was refused, and the reason.")),
        ],
    );
    let servers = array("Always empty.", any("A kaspad."));
    object("The health.", [("kaspadServers", servers), ("database", database)])
}
