//! Accounts: what they hold, and how their data is told.

use serde_json::Value;

use super::builder::*;
use super::node::next_page;

/// Token programs, as parsed data names them.
pub(crate) const TOKEN_PROGRAMS: &[&str] = &["spl-token", "spl-token-2022"];
/// The other programs whose accounts are parsed.
pub(crate) const PARSED_PROGRAMS: &[&str] = &[
    "address-lookup-table",
    "bpf-upgradeable-loader",
    "config",
    "nonce",
    "stake",
    "sysvar",
    "vote",
];
pub(crate) const TOKEN_STATES: &[&str] = &["uninitialized", "initialized", "frozen"];
/// What Token-2022 may have put behind an account or a mint.
pub(crate) const EXTENSIONS: &[&str] = &[
    "uninitialized",
    "transferFeeConfig",
    "transferFeeAmount",
    "mintCloseAuthority",
    "confidentialTransferMint",
    "confidentialTransferAccount",
    "defaultAccountState",
    "immutableOwner",
    "memoTransfer",
    "nonTransferable",
    "interestBearingConfig",
    "cpiGuard",
    "permanentDelegate",
    "nonTransferableAccount",
    "confidentialTransferFeeConfig",
    "confidentialTransferFeeAmount",
    "transferHook",
    "transferHookAccount",
    "metadataPointer",
    "tokenMetadata",
    "groupPointer",
    "groupMemberPointer",
    "tokenGroup",
    "tokenGroupMember",
    "confidentialMintBurn",
    "unparseableExtension",
    "scaledUiAmountConfig",
    "pausableConfig",
    "pausableAccount",
    "permissionedBurnConfig",
];

pub(super) fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("Account", account()),
        ("AccountData", data()),
        ("ParsedToken", parsed_token()),
        ("TokenAccount", token_account()),
        ("Mint", mint()),
        ("Multisig", multisig()),
        ("TokenExtension", extension()),
        ("ParsedData", parsed()),
        ("Amount", amount()),
        (
            "Accounts",
            array(
                "In the order of the request.",
                nullable(reference("Account", "The account; null if there is none.")),
            ),
        ),
        ("AccountsPage", page()),
    ]
}

fn account() -> Value {
    object(
        "An account.",
        [
            ("lamports", lamports("Its balance.")),
            ("owner", key("The program that it belongs to.")),
            ("executable", boolean("Whether it is a program.")),
            ("rentEpoch", uint(64, "When it owes rent; 2^64 - 1 if never.")),
            ("space", uint(64, "Bytes of all its data, whatever part of it is told.")),
            ("data", reference("AccountData", "Its data, as `encoding` asks for it.")),
        ],
    )
}

fn data() -> Value {
    let encodings = &["base58", "base64", "base64+zstd"];
    let bytes = [string("The bytes."), string_enum("How they are encoded.", encodings)];
    any_of(
        "Its bytes; with `encoding=jsonParsed` what they mean, or base64 where that is not known.",
        [
            tuple("Its bytes and their encoding.", bytes),
            reference("ParsedToken", "Of a token program."),
            reference("ParsedData", "Of another program."),
        ],
    )
}

fn parsed_token() -> Value {
    let of = |told: &str, kind: &str, name: &str| {
        let members = [
            ("type", string_enum("What it is.", &[kind])),
            ("info", reference(name, "Its members.")),
        ];
        object(told, members)
    };
    let parsed = any_of(
        "What the data means.",
        [
            of("A token account.", "account", "TokenAccount"),
            of("A mint.", "mint", "Mint"),
            of("Several signers.", "multisig", "Multisig"),
        ],
    );
    object(
        "Data of a token program.",
        [
            ("program", string_enum("The program.", TOKEN_PROGRAMS)),
            ("parsed", parsed),
            ("space", uint(64, "Bytes of the data.")),
        ],
    )
}

fn token_account() -> Value {
    object(
        "Tokens of one mint that belong to one owner.",
        [
            ("mint", key("Their mint.")),
            ("owner", key("Whose they are.")),
            ("tokenAmount", reference("Amount", "How many.")),
            ("state", string_enum("Whether they can be moved.", TOKEN_STATES)),
            ("isNative", boolean("Whether they stand for lamports.")),
            (
                "rentExemptReserve?",
                reference("Amount", "Of native ones: what is not theirs to move."),
            ),
            ("delegate?", key("Who else may move some.")),
            ("delegatedAmount?", reference("Amount", "How many he may move.")),
            ("closeAuthority?", key("Who else may close the account.")),
            ("extensions?", extensions()),
        ],
    )
}

fn mint() -> Value {
    object(
        "A kind of token.",
        [
            ("mintAuthority", nullable(key("Who may make more; null if nobody."))),
            ("supply", integer_string("How many there are, in the smallest unit.")),
            ("decimals", uint(8, "Digits after the point of a whole token.")),
            ("isInitialized", boolean("Whether it is in use.")),
            ("freezeAuthority", nullable(key("Who may freeze accounts; null if nobody."))),
            ("extensions?", extensions()),
        ],
    )
}

fn multisig() -> Value {
    object(
        "Several signers, of whom some are enough.",
        [
            ("numRequiredSigners", uint(8, "How many are to sign.")),
            ("numValidSigners", uint(8, "How many there are.")),
            ("isInitialized", boolean("Whether it is in use.")),
            ("signers", array("They.", key("An address."))),
        ],
    )
}

fn extensions() -> Value {
    array("What Token-2022 has put behind it.", reference("TokenExtension", "One of them."))
}

fn extension() -> Value {
    object(
        "An extension of Token-2022.",
        [
            ("extension", string_enum("Which one.", EXTENSIONS)),
            ("state?", any("Its members, as Agave tells them; missing if it has none.")),
        ],
    )
}

fn parsed() -> Value {
    object(
        "Data of a program that is no token program.",
        [
            ("program", string_enum("The program.", PARSED_PROGRAMS)),
            (
                "parsed",
                object(
                    "What the data means.",
                    [
                        ("type", string("What it is, in the program's words.")),
                        ("info?", any("Its members, as Agave tells them.")),
                    ],
                ),
            ),
            ("space", uint(64, "Bytes of the data.")),
        ],
    )
}

fn amount() -> Value {
    object(
        "How many tokens.",
        [
            ("amount", integer_string("In the smallest unit.")),
            ("decimals", uint(8, "Digits after the point of a whole token.")),
            ("uiAmount", nullable(float("Whole tokens, rounded to what a double holds."))),
            ("uiAmountString", string("Whole tokens, exactly.")),
        ],
    )
}

fn page() -> Value {
    let keyed = object(
        "An account by its address.",
        [("pubkey", key("Its address.")), ("account", reference("Account", "What it holds."))],
    );
    object(
        "A page of accounts.",
        [
            ("accounts", array("In no order but the pages' own.", keyed)),
            ("paginationKey", next_page()),
        ],
    )
}
