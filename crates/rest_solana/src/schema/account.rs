//! Accounts and the encodings of their data.

use rest::schema::*;
use serde_json::Value;

use super::formats::{key, lamports};
use super::node::next_page;
use crate::formats::filters;

/// Token programs, as parsed data names them.
pub(crate) const TOKEN_PROGRAMS: &[&str] = &["spl-token", "spl-token-2022"];
/// The other programs with parsed accounts.
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
/// Extensions that Token-2022 may append to an account or a mint.
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
        ("EncodedData", encoded_data()),
        ("ParsedAccountData", parsed_account_data()),
        ("ParsedToken", parsed_token()),
        ("ParsedTokenAccount", parsed_account("A token account.", "account", "TokenAccount")),
        ("ParsedMint", parsed_account("A mint.", "mint", "Mint")),
        ("ParsedMultisig", parsed_account("A multisig account.", "multisig", "Multisig")),
        ("TokenAccount", token_account()),
        (
            "TokenState",
            string_enum(
                "The state of a token account; tokens of a frozen one cannot be moved.",
                TOKEN_STATES,
            ),
        ),
        ("Mint", mint()),
        ("Multisig", multisig()),
        ("TokenExtension", extension()),
        ("ParsedData", parsed_data()),
        ("Amount", amount()),
        (
            "Accounts",
            array(
                "The accounts, in the order of the request.",
                nullable(reference("Account", "The account; null if it does not exist.")),
            ),
        ),
        ("AccountsPage", page()),
        ("AccountFilter", filters::filter()),
        ("AccountFilterObject", filters::object_filter()),
        ("DataSizeFilter", filters::data_size()),
        ("MemcmpFilter", filters::memcmp()),
    ]
}

fn account() -> Value {
    object(
        "An account.",
        [
            ("lamports", lamports("The balance.")),
            ("owner", key("The program that owns the account.")),
            ("executable", boolean("Whether the account is a program.")),
            (
                "rentEpoch",
                uint(64, "The epoch in which the account owes rent; 2^64 - 1 for never."),
            ),
            (
                "space",
                uint(64, "Bytes of all the account's data, even if only a part is returned."),
            ),
            ("data", reference("AccountData", "The data, in the requested `encoding`.")),
        ],
    )
}

fn data() -> Value {
    one_of(
        "The bytes. With `encoding=jsonParsed` the parsed data, or base64 if no parser is known.",
        [
            reference("EncodedData", "The bytes."),
            reference("ParsedAccountData", "The parsed data."),
        ],
    )
}

fn encoded_data() -> Value {
    let encodings = &["base58", "base64", "base64+zstd"];
    let bytes = [string("The bytes."), string_enum("The encoding.", encodings)];
    tuple("The bytes and their encoding.", bytes)
}

fn parsed_account_data() -> Value {
    one_of(
        "Data whose program has a parser.",
        [
            reference("ParsedToken", "Data of a token program."),
            reference("ParsedData", "Data of another program."),
        ],
    )
}

/// The members of an account of this kind, with its name.
fn parsed_account(description: &str, kind: &str, name: &str) -> Value {
    let members = [
        ("type", string_enum("The kind of the data.", &[kind])),
        ("info", reference(name, "The members.")),
    ];
    object(description, members)
}

fn parsed_token() -> Value {
    let parsed = one_of(
        "The parsed data.",
        [
            reference("ParsedTokenAccount", "A token account."),
            reference("ParsedMint", "A mint."),
            reference("ParsedMultisig", "A multisig account."),
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
        "A token account: tokens of one mint and one owner.",
        [
            ("mint", key("The mint of the tokens.")),
            ("owner", key("The owner of the tokens.")),
            ("tokenAmount", reference("Amount", "The number of tokens.")),
            ("state", reference("TokenState", "The state of the account.")),
            ("isNative", boolean("Whether the tokens are wrapped lamports.")),
            (
                "rentExemptReserve?",
                reference(
                    "Amount",
                    "For wrapped lamports: the rent-exempt reserve, which cannot be moved.",
                ),
            ),
            ("delegate?", key("The delegate, which may also move tokens.")),
            (
                "delegatedAmount?",
                reference("Amount", "The number of tokens that the delegate may move."),
            ),
            (
                "closeAuthority?",
                key("The authority that may close the account, in addition to the owner."),
            ),
            ("extensions?", extensions()),
        ],
    )
}

fn mint() -> Value {
    object(
        "A mint: the definition of a token.",
        [
            (
                "mintAuthority",
                nullable(key("The authority that may mint more tokens; null if none.")),
            ),
            ("supply", integer_string("The supply, in the smallest unit.")),
            ("decimals", uint(8, "Decimal places of a token.")),
            ("isInitialized", boolean("Whether the account is initialized.")),
            (
                "freezeAuthority",
                nullable(key("The authority that may freeze token accounts; null if none.")),
            ),
            ("extensions?", extensions()),
        ],
    )
}

fn multisig() -> Value {
    object(
        "A multisig account: signers, some of which are enough.",
        [
            ("numRequiredSigners", uint(8, "The number of signers that must sign.")),
            ("numValidSigners", uint(8, "The number of signers.")),
            ("isInitialized", boolean("Whether the account is initialized.")),
            ("signers", array("The signers.", key("An address."))),
        ],
    )
}

fn extensions() -> Value {
    array("Extensions of Token-2022.", reference("TokenExtension", "An extension."))
}

fn extension() -> Value {
    object(
        "An extension of Token-2022.",
        [
            ("extension", string_enum("The name of the extension.", EXTENSIONS)),
            ("state?", any("The members, in Agave's shape; missing if the extension has none.")),
        ],
    )
}

fn parsed_data() -> Value {
    object(
        "Data of a program that is not a token program.",
        [
            ("program", string_enum("The program.", PARSED_PROGRAMS)),
            (
                "parsed",
                object(
                    "The parsed data.",
                    [
                        ("type", string("The kind of the data, by the program's name for it.")),
                        ("info?", any("The members, in Agave's shape.")),
                    ],
                ),
            ),
            ("space", uint(64, "Bytes of the data.")),
        ],
    )
}

fn amount() -> Value {
    object(
        "An amount of tokens.",
        [
            ("amount", integer_string("The amount in the smallest unit.")),
            ("decimals", uint(8, "Decimal places of a token.")),
            ("uiAmount", nullable(float("The amount in tokens, rounded to a double."))),
            ("uiAmountString", string("The exact amount in tokens.")),
        ],
    )
}

fn page() -> Value {
    let keyed = object(
        "An account with its address.",
        [("pubkey", key("The address.")), ("account", reference("Account", "The account."))],
    );
    object(
        "A page of accounts.",
        [
            ("accounts", array("The accounts, in no particular order.", keyed)),
            ("paginationKey", next_page()),
        ],
    )
}
