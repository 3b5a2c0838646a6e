//! The table of routes. A path without variables comes before a path with variables that would match it too.
//!
//! To add a route, add an entry to [`ROUTES`] and a function that builds its call: matching, checks and OpenAPI follow.

use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::params::Params;
use crate::route::ParamLocation::{Body as InBody, Path, Query};
use crate::route::ParamType::{
    Address, Addresses, Base58, Base64, Bool, Filters, Number, OneOf, Signature,
};
use crate::route::{
    HttpMethod, MaxItems, MethodCall, Param, ParamLocation, ParamType, RequestBody, ResponseKind,
    Route, Tag,
};
use crate::transaction_status::WAIT_MS_MAX;

/// Entries of a page, as providers of Solana RPC allow.
const PAGE_MAX: u64 = 10_000;
/// Entries of a list of signatures, as Agave allows.
const SIGNATURES_MAX: u64 = 1_000;
/// A page's key is 16 bytes; a signature in base58 is longer.
const CURSOR_CHARS_MAX: usize = 88;
/// Keys that the one-byte indices of a transaction can address.
const TRANSACTION_KEYS_MAX: MaxItems = MaxItems::Fixed(256);
/// The default token program.
const TOKEN_PROGRAM: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";

const fn param(
    name: &'static str,
    location: ParamLocation,
    kind: ParamType,
    doc: &'static str,
) -> Param {
    let is_required = matches!(location, Path);
    Param { name, location, kind, is_required, doc }
}

const fn required(
    name: &'static str,
    location: ParamLocation,
    kind: ParamType,
    doc: &'static str,
) -> Param {
    Param { name, location, kind, is_required: true, doc }
}

const ADDRESS: Param = param("address", Path, Address, "The account's address.");
const SIGNATURE: Param = param("signature", Path, Signature, "The transaction's first signature.");
const COMMITMENT: Param = param(
    "commitment",
    Query,
    OneOf(&["processed", "confirmed", "finalized"]),
    "Commitment level. Default: finalized.",
);
const TARGET_COMMITMENT: Param = param(
    "commitment",
    Query,
    OneOf(&["confirmed", "finalized"]),
    "Commitment level. Default: finalized.",
);
const MIN_CONTEXT_SLOT: Param = param(
    "minContextSlot",
    Query,
    Number(0, u64::MAX),
    "Minimum slot of the state; 409 if the state has not reached it.",
);
const ENCODING: Param = param(
    "encoding",
    Query,
    OneOf(&["base58", "base64", "base64+zstd", "jsonParsed"]),
    "Encoding of account data. Default: base64.",
);
const OFFSET: Param = param(
    "dataOffset",
    Query,
    Number(0, u32::MAX as u64),
    "First byte of the data to return; requires dataLength.",
);
const LENGTH: Param = param(
    "dataLength",
    Query,
    Number(0, u32::MAX as u64),
    "Number of bytes of the data to return; requires dataOffset.",
);
const LIMIT: Param =
    param("limit", Query, Number(1, PAGE_MAX), "Maximum number of accounts. Default: 1,000.");
const CURSOR: Param = param(
    "cursor",
    Query,
    Base58(CURSOR_CHARS_MAX),
    "The paginationKey of the previous page; leave out for the first page.",
);
const CHANGED_SINCE_SLOT: Param = param(
    "changedSinceSlot",
    Query,
    Number(0, u64::MAX),
    "Only accounts that were written at this slot or later.",
);
const TX_ENCODING: Param = param(
    "encoding",
    Query,
    OneOf(&["json", "jsonParsed", "base64", "base58"]),
    "Encoding of transactions. Default: json.",
);
const VERSION: Param = param(
    "maxSupportedTransactionVersion",
    Query,
    Number(0, 255),
    "Maximum transaction version; 422 for a later one. Default: 1.",
);
const TRANSACTION: Param =
    required("transaction", InBody, Base64, "The signed transaction, in base64.");

/// Every tag, in the order of the page.
pub(crate) const TAGS: &[Tag] = &[
    Tag { name: "Node and ledger", segments: &["node", "ledger", "supply"] },
    Tag { name: "Accounts", segments: &["accounts"] },
    Tag { name: "Tokens", segments: &["owners", "mints"] },
    Tag { name: "Programs", segments: &["programs"] },
    Tag { name: "Transactions", segments: &["transactions"] },
    Tag { name: "Blocks", segments: &["blocks"] },
];

/// Every route.
pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: HttpMethod::Get,
        path: "/v1/node",
        id: "getNode",
        summary: "Get the node's version, identity and cluster",
        params: &[],
        body: RequestBody::None,
        schema: "Node",
        response: ResponseKind::Composite,
        build_call: node,
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/ledger",
        id: "getLedger",
        summary: "Get the ledger's epoch, latest blockhash and slots",
        params: &[COMMITMENT],
        body: RequestBody::None,
        schema: "Ledger",
        response: ResponseKind::Composite,
        build_call: ledger,
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/supply",
        id: "getSupply",
        summary: "Get the supply",
        params: &[COMMITMENT],
        body: RequestBody::None,
        schema: "Supply",
        response: ResponseKind::State,
        build_call: |params| Ok(call("getSupply", [commitment(params)])),
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/accounts",
        id: "getAccounts",
        summary: "Get several accounts",
        params: &[
            required(
                "addresses",
                Query,
                Addresses(MaxItems::Accounts),
                "Addresses, separated by commas.",
            ),
            COMMITMENT,
            MIN_CONTEXT_SLOT,
            ENCODING,
            OFFSET,
            LENGTH,
        ],
        body: RequestBody::None,
        schema: "Accounts",
        response: ResponseKind::State,
        build_call: accounts,
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/accounts",
        id: "postAccounts",
        summary: "Get several accounts, with the addresses in the body",
        params: &[
            required(
                "addresses",
                InBody,
                Addresses(MaxItems::Accounts),
                "Addresses, in the order of the response.",
            ),
            COMMITMENT,
            MIN_CONTEXT_SLOT,
            ENCODING,
            OFFSET,
            LENGTH,
        ],
        body: RequestBody::Json,
        schema: "Accounts",
        response: ResponseKind::State,
        build_call: accounts,
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/accounts/{address}",
        id: "getAccount",
        summary: "Get an account",
        params: &[ADDRESS, COMMITMENT, MIN_CONTEXT_SLOT, ENCODING, OFFSET, LENGTH],
        body: RequestBody::None,
        schema: "Account",
        response: ResponseKind::Account,
        build_call: account,
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/accounts/{address}/transactions",
        id: "getAccountTransactions",
        summary: "List the transactions of an address, newest first",
        params: &[
            ADDRESS,
            TARGET_COMMITMENT,
            MIN_CONTEXT_SLOT,
            param(
                "limit",
                Query,
                Number(1, SIGNATURES_MAX),
                "Maximum number of transactions. Default: 1,000.",
            ),
            param("cursor", Query, Signature, "The paginationKey of the previous page."),
            param("until", Query, Signature, "Only transactions newer than this one."),
        ],
        body: RequestBody::None,
        schema: "SignaturesPage",
        response: ResponseKind::Signatures,
        build_call: transactions_of,
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/owners/{address}/tokens",
        id: "getOwnerTokens",
        summary: "List the token accounts of an owner",
        params: &[
            ADDRESS,
            param(
                "mint",
                Query,
                Address,
                "Only token accounts of this mint; not together with program.",
            ),
            param(
                "program",
                Query,
                Address,
                "Only token accounts of this token program. Default: SPL Token.",
            ),
            COMMITMENT,
            MIN_CONTEXT_SLOT,
            ENCODING,
            OFFSET,
            LENGTH,
            LIMIT,
            CURSOR,
            CHANGED_SINCE_SLOT,
        ],
        body: RequestBody::None,
        schema: "AccountsPage",
        response: ResponseKind::State,
        build_call: tokens_of,
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/mints/{address}/holders",
        id: "getMintHolders",
        summary: "List the token accounts of a mint",
        params: &[
            ADDRESS,
            COMMITMENT,
            MIN_CONTEXT_SLOT,
            ENCODING,
            OFFSET,
            LENGTH,
            LIMIT,
            CURSOR,
            CHANGED_SINCE_SLOT,
        ],
        body: RequestBody::None,
        schema: "AccountsPage",
        response: ResponseKind::State,
        build_call: |params| {
            Ok(call("getTokenAccountsByMint", [params.json("address"), page_config(params)?]))
        },
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/mints/{address}/supply",
        id: "getMintSupply",
        summary: "Get the supply of a token",
        params: &[ADDRESS, COMMITMENT],
        body: RequestBody::None,
        schema: "Amount",
        response: ResponseKind::State,
        build_call: |params| {
            Ok(call("getTokenSupply", [params.json("address"), commitment(params)]))
        },
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/programs/{address}/accounts",
        id: "getProgramAccounts",
        summary: "List the accounts of a program",
        params: &[
            ADDRESS,
            param(
                "dataSize",
                Query,
                Number(0, u32::MAX as u64),
                "Only accounts with data of this length, in bytes.",
            ),
            param(
                "memcmpOffset",
                Query,
                Number(0, u32::MAX as u64),
                "Offset in the data at which memcmpBytes must match.",
            ),
            param(
                "memcmpBytes",
                Query,
                Base58(175),
                "Only accounts with these bytes at memcmpOffset.",
            ),
            COMMITMENT,
            MIN_CONTEXT_SLOT,
            ENCODING,
            OFFSET,
            LENGTH,
            LIMIT,
            CURSOR,
            CHANGED_SINCE_SLOT,
        ],
        body: RequestBody::None,
        schema: "AccountsPage",
        response: ResponseKind::State,
        build_call: program_accounts,
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/programs/{address}/accounts",
        id: "postProgramAccounts",
        summary: "List the accounts of a program that match filters",
        params: &[
            ADDRESS,
            required("filters", InBody, Filters, "Filters, as for getProgramAccounts."),
            COMMITMENT,
            MIN_CONTEXT_SLOT,
            ENCODING,
            OFFSET,
            LENGTH,
            LIMIT,
            CURSOR,
            CHANGED_SINCE_SLOT,
        ],
        body: RequestBody::Json,
        schema: "AccountsPage",
        response: ResponseKind::State,
        build_call: program_accounts,
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/transactions",
        id: "postTransaction",
        summary: "Submit a transaction",
        params: &[
            TRANSACTION,
            param("skipPreflight", Query, Bool, "Skip the preflight simulation."),
            param(
                "preflightCommitment",
                Query,
                OneOf(&["processed", "confirmed", "finalized"]),
                "Commitment level of the preflight simulation.",
            ),
            MIN_CONTEXT_SLOT,
        ],
        body: RequestBody::JsonOrTransaction,
        schema: "Sent",
        response: ResponseKind::Submitted,
        build_call: send,
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/transactions/simulate",
        id: "simulateTransaction",
        summary: "Simulate a transaction",
        params: &[
            TRANSACTION,
            param(
                "accounts",
                InBody,
                Addresses(TRANSACTION_KEYS_MAX),
                "Accounts to return as they would be after the transaction.",
            ),
            COMMITMENT,
            MIN_CONTEXT_SLOT,
            param("sigVerify", Query, Bool, "Verify the signatures."),
            param(
                "replaceRecentBlockhash",
                Query,
                Bool,
                "Replace its blockhash with the latest one.",
            ),
            param("innerInstructions", Query, Bool, "Return inner instructions."),
        ],
        body: RequestBody::JsonOrTransaction,
        schema: "Simulation",
        response: ResponseKind::State,
        build_call: simulate,
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/transactions/{signature}",
        id: "getTransaction",
        summary: "Get a transaction",
        params: &[SIGNATURE, TARGET_COMMITMENT, TX_ENCODING, VERSION],
        body: RequestBody::None,
        schema: "Transaction",
        response: ResponseKind::Transaction,
        build_call: |params| {
            let config = config(params, &["commitment", "encoding"], versions(params));
            Ok(call("getTransaction", [params.json("signature"), config]))
        },
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/transactions/{signature}/status",
        id: "getTransactionStatus",
        summary: "Wait for a transaction's status",
        params: &[
            SIGNATURE,
            param(
                "waitMs",
                Query,
                Number(0, WAIT_MS_MAX),
                "Milliseconds to wait until the transaction reaches the commitment. Default: 0.",
            ),
            param(
                "commitment",
                Query,
                OneOf(&["processed", "confirmed", "finalized"]),
                "Commitment to wait for. Default: confirmed.",
            ),
        ],
        body: RequestBody::None,
        schema: "Status",
        response: ResponseKind::Status,
        build_call: |params| {
            let search = json!({ "searchTransactionHistory": true });
            Ok(call("getSignatureStatuses", [json!([params.json("signature")]), search]))
        },
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/blocks/{slot}",
        id: "getBlock",
        summary: "Get a block",
        params: &[
            param("slot", Path, Number(0, u64::MAX), "The block's slot."),
            TARGET_COMMITMENT,
            TX_ENCODING,
            VERSION,
            param(
                "transactionDetails",
                Query,
                OneOf(&["full", "accounts", "signatures", "none"]),
                "Details of transactions to return. Default: full.",
            ),
            param("rewards", Query, Bool, "Return rewards. Default: true."),
        ],
        body: RequestBody::None,
        schema: "Block",
        response: ResponseKind::Block,
        build_call: |params| {
            let names = ["commitment", "encoding", "transactionDetails", "rewards"];
            Ok(call("getBlock", [params.json("slot"), config(params, &names, versions(params))]))
        },
    },
];

fn call<const N: usize>(method: &'static str, params: [Value; N]) -> MethodCall {
    MethodCall::Single(method, Value::from(params.to_vec()))
}

/// `fixed`, with the request's parameters of these names added.
fn config(params: &Params, names: &[&str], mut fixed: Map<String, Value>) -> Value {
    for name in names {
        if let Some(value) = params.get(name) {
            fixed.insert((*name).to_owned(), value.clone());
        }
    }
    fixed.into()
}

fn commitment(params: &Params) -> Value {
    // Always present: some methods accept no config without it.
    json!({ "commitment": params.text("commitment").unwrap_or("finalized") })
}

fn versions(params: &Params) -> Map<String, Value> {
    let version = params.number("maxSupportedTransactionVersion").unwrap_or(1);
    Map::from_iter([("maxSupportedTransactionVersion".to_owned(), version.into())])
}

fn account_config(params: &Params) -> Result<Map<String, Value>, ApiError> {
    let mut config = Map::new();
    config.insert("encoding".to_owned(), params.text("encoding").unwrap_or("base64").into());
    match (params.number("dataOffset"), params.number("dataLength")) {
        (None, None) => {}
        (Some(offset), Some(length)) => {
            config.insert("dataSlice".to_owned(), json!({ "offset": offset, "length": length }));
        }
        _ => return Err(ApiError::invalid("dataOffset and dataLength require each other")),
    }
    for name in ["commitment", "minContextSlot"] {
        if let Some(value) = params.get(name) {
            config.insert(name.to_owned(), value.clone());
        }
    }
    Ok(config)
}

fn page_config(params: &Params) -> Result<Value, ApiError> {
    let mut config = account_config(params)?;
    config.insert("withContext".to_owned(), true.into());
    for (name, method_name) in [
        ("limit", "limit"),
        ("cursor", "paginationKey"),
        ("changedSinceSlot", "changedSinceSlot"),
        ("filters", "filters"),
    ] {
        if let Some(value) = params.get(name) {
            config.insert(method_name.to_owned(), value.clone());
        }
    }
    Ok(config.into())
}

fn node(_: &Params) -> Result<MethodCall, ApiError> {
    Ok(MethodCall::Composite(vec![
        ("version", "getVersion", json!([])),
        ("identity", "getIdentity", json!([])),
        ("genesisHash", "getGenesisHash", json!([])),
        ("epochSchedule", "getEpochSchedule", json!([])),
        ("clusterNodes", "getClusterNodes", json!([])),
    ]))
}

fn ledger(params: &Params) -> Result<MethodCall, ApiError> {
    Ok(MethodCall::Composite(vec![
        ("epochInfo", "getEpochInfo", json!([commitment(params)])),
        ("latestBlockhash", "getLatestBlockhash", json!([commitment(params)])),
        ("firstAvailableBlock", "getFirstAvailableBlock", json!([])),
        ("processedSlot", "getSlot", json!([{ "commitment": "processed" }])),
        ("confirmedSlot", "getSlot", json!([{ "commitment": "confirmed" }])),
        ("finalizedSlot", "getSlot", json!([{ "commitment": "finalized" }])),
    ]))
}

fn account(params: &Params) -> Result<MethodCall, ApiError> {
    Ok(call("getAccountInfo", [params.json("address"), account_config(params)?.into()]))
}

fn accounts(params: &Params) -> Result<MethodCall, ApiError> {
    Ok(call("getMultipleAccounts", [params.json("addresses"), account_config(params)?.into()]))
}

fn transactions_of(params: &Params) -> Result<MethodCall, ApiError> {
    let before = params.get("cursor").map(|cursor| ("before".to_owned(), cursor.clone()));
    let names = ["commitment", "minContextSlot", "limit", "until"];
    let config = config(params, &names, before.into_iter().collect());
    Ok(call("getSignaturesForAddress", [params.json("address"), config]))
}

fn tokens_of(params: &Params) -> Result<MethodCall, ApiError> {
    let filter = match (params.text("mint"), params.text("program")) {
        (Some(_), Some(_)) => return Err(ApiError::invalid("mint and program exclude each other")),
        (Some(mint), None) => json!({ "mint": mint }),
        (None, program) => json!({ "programId": program.unwrap_or(TOKEN_PROGRAM) }),
    };
    let config = page_config(params)?;
    Ok(call("getTokenAccountsByOwnerV2", [params.json("address"), filter, config]))
}

fn program_accounts(params: &Params) -> Result<MethodCall, ApiError> {
    let mut filters = Vec::new();
    if let Some(size) = params.number("dataSize") {
        filters.push(json!({ "dataSize": size }));
    }
    match (params.number("memcmpOffset"), params.text("memcmpBytes")) {
        (None, None) => {}
        (Some(offset), Some(bytes)) => {
            filters.push(json!({ "memcmp": { "offset": offset, "bytes": bytes } }));
        }
        _ => return Err(ApiError::invalid("memcmpOffset and memcmpBytes require each other")),
    }
    let mut config = page_config(params)?;
    if !filters.is_empty() {
        config["filters"] = filters.into();
    }
    Ok(call("getProgramAccountsV2", [params.json("address"), config]))
}

fn send(params: &Params) -> Result<MethodCall, ApiError> {
    let base64 = Map::from_iter([("encoding".to_owned(), "base64".into())]);
    let names = ["skipPreflight", "preflightCommitment", "minContextSlot"];
    Ok(call("sendTransaction", [params.json("transaction"), config(params, &names, base64)]))
}

fn simulate(params: &Params) -> Result<MethodCall, ApiError> {
    let mut fixed = Map::from_iter([("encoding".to_owned(), "base64".into())]);
    if let Some(addresses) = params.get("accounts") {
        let accounts = json!({ "encoding": "base64", "addresses": addresses });
        fixed.insert("accounts".to_owned(), accounts);
    }
    let names = [
        "commitment",
        "minContextSlot",
        "sigVerify",
        "replaceRecentBlockhash",
        "innerInstructions",
    ];
    Ok(call("simulateTransaction", [params.json("transaction"), config(params, &names, fixed)]))
}
