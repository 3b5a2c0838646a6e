//! The table of routes: a path without variables stands before one with them that it could be taken for.
//!
//! To add a route, add a line to [`ROUTES`] and what it calls below: matching, checks and OpenAPI follow.

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

/// What providers of Solana RPC allow a page.
const PAGE_MAX: u64 = 10_000;
/// What Agave allows a list of signatures.
const SIGNATURES_MAX: u64 = 1_000;
/// A page's key is 16 bytes; a signature in base58 is longer.
const CURSOR_CHARS_MAX: usize = 88;
/// What the one-byte indices of a transaction can name.
const TRANSACTION_KEYS_MAX: MaxItems = MaxItems::Fixed(256);
/// The token program, whose accounts are meant if a request says nothing.
const TOKEN_PROGRAM: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";

const fn param(
    name: &'static str,
    place: ParamLocation,
    kind: ParamType,
    doc: &'static str,
) -> Param {
    let is_required = matches!(place, Path);
    Param { name, location: place, kind, is_required, doc }
}

const fn required(
    name: &'static str,
    place: ParamLocation,
    kind: ParamType,
    doc: &'static str,
) -> Param {
    Param { name, location: place, kind, is_required: true, doc }
}

const ADDRESS: Param = param("address", Path, Address, "The account's address.");
const SIGNATURE: Param = param("signature", Path, Signature, "The transaction's first signature.");
const COMMITMENT: Param = param(
    "commitment",
    Query,
    OneOf(&["processed", "confirmed", "finalized"]),
    "Of which state; finalized if it is not given.",
);
const TARGET_COMMITMENT: Param = param(
    "commitment",
    Query,
    OneOf(&["confirmed", "finalized"]),
    "How sure it is to be; finalized if it is not given.",
);
const MIN_CONTEXT_SLOT: Param = param(
    "minContextSlot",
    Query,
    Number(0, u64::MAX),
    "Refused with 409 as long as the state has not reached that slot.",
);
const ENCODING: Param = param(
    "encoding",
    Query,
    OneOf(&["base58", "base64", "base64+zstd", "jsonParsed"]),
    "Of account data; base64 if it is not given.",
);
const OFFSET: Param = param(
    "dataOffset",
    Query,
    Number(0, u32::MAX as u64),
    "Of the data only what begins here; goes with dataLength.",
);
const LENGTH: Param = param(
    "dataLength",
    Query,
    Number(0, u32::MAX as u64),
    "So many bytes of the data; goes with dataOffset.",
);
const LIMIT: Param =
    param("limit", Query, Number(1, PAGE_MAX), "At most so many accounts; 1,000 if not given.");
const CURSOR: Param = param(
    "cursor",
    Query,
    Base58(CURSOR_CHARS_MAX),
    "The paginationKey of the page before; the first page has none.",
);
const CHANGED_SINCE_SLOT: Param = param(
    "changedSinceSlot",
    Query,
    Number(0, u64::MAX),
    "Only accounts that were written at that slot or later.",
);
const TX_ENCODING: Param = param(
    "encoding",
    Query,
    OneOf(&["json", "jsonParsed", "base64", "base58"]),
    "Of transactions; json if it is not given.",
);
const VERSION: Param = param(
    "maxSupportedTransactionVersion",
    Query,
    Number(0, 255),
    "Transactions of later versions are refused with 422; 1 if it is not given.",
);
const TRANSACTION: Param =
    required("transaction", InBody, Base64, "The signed transaction, in base64.");

/// Every subject, in the order of the page.
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
        summary: "What the node is",
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
        summary: "Where the ledger stands",
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
        summary: "Lamports that there are",
        params: &[COMMITMENT],
        body: RequestBody::None,
        schema: "Supply",
        response: ResponseKind::State,
        build_call: |args| Ok(call("getSupply", [commitment(args)])),
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/accounts",
        id: "getAccounts",
        summary: "Several accounts, null for those that are not there",
        params: &[
            required("addresses", Query, Addresses(MaxItems::Accounts), "Between commas."),
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
        summary: "Several accounts, for lists that are too long for a URI",
        params: &[
            required(
                "addresses",
                InBody,
                Addresses(MaxItems::Accounts),
                "In the order of the answer.",
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
        summary: "An account",
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
        summary: "Signatures of the transactions that name an address, the newest first",
        params: &[
            ADDRESS,
            TARGET_COMMITMENT,
            MIN_CONTEXT_SLOT,
            param(
                "limit",
                Query,
                Number(1, SIGNATURES_MAX),
                "At most so many; 1,000 if not given.",
            ),
            param("cursor", Query, Signature, "The paginationKey of the page before."),
            param("until", Query, Signature, "Only transactions after this one."),
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
        summary: "Token accounts of an owner",
        params: &[
            ADDRESS,
            param("mint", Query, Address, "Only those of a mint; not with program."),
            param("program", Query, Address, "Of that token program; SPL Token if not given."),
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
        summary: "Token accounts of a mint",
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
        build_call: |args| {
            Ok(call("getTokenAccountsByMint", [args.json("address"), page_config(args)?]))
        },
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/mints/{address}/supply",
        id: "getMintSupply",
        summary: "How much of a token there is",
        params: &[ADDRESS, COMMITMENT],
        body: RequestBody::None,
        schema: "Amount",
        response: ResponseKind::State,
        build_call: |args| Ok(call("getTokenSupply", [args.json("address"), commitment(args)])),
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/programs/{address}/accounts",
        id: "getProgramAccounts",
        summary: "Accounts that a program owns",
        params: &[
            ADDRESS,
            param("dataSize", Query, Number(0, u32::MAX as u64), "Only accounts of so many bytes."),
            param("memcmpOffset", Query, Number(0, u32::MAX as u64), "Where memcmpBytes stand."),
            param("memcmpBytes", Query, Base58(175), "Only accounts that have them there."),
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
        summary: "Accounts that a program owns and filters let through",
        params: &[
            ADDRESS,
            required("filters", InBody, Filters, "As getProgramAccounts has them."),
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
            param("skipPreflight", Query, Bool, "Do not try it before."),
            param(
                "preflightCommitment",
                Query,
                OneOf(&["processed", "confirmed", "finalized"]),
                "On which state it is tried.",
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
        summary: "What a transaction would do",
        params: &[
            TRANSACTION,
            param(
                "accounts",
                InBody,
                Addresses(TRANSACTION_KEYS_MAX),
                "Tell these as they would be after it.",
            ),
            COMMITMENT,
            MIN_CONTEXT_SLOT,
            param("sigVerify", Query, Bool, "Look at its signatures."),
            param("replaceRecentBlockhash", Query, Bool, "Give it the latest blockhash."),
            param("innerInstructions", Query, Bool, "Tell them."),
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
        summary: "A transaction",
        params: &[SIGNATURE, TARGET_COMMITMENT, TX_ENCODING, VERSION],
        body: RequestBody::None,
        schema: "Transaction",
        response: ResponseKind::Transaction,
        build_call: |args| {
            let config = config(args, &["commitment", "encoding"], versions(args));
            Ok(call("getTransaction", [args.json("signature"), config]))
        },
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/transactions/{signature}/status",
        id: "getTransactionStatus",
        summary: "What became of a transaction, waited for",
        params: &[
            SIGNATURE,
            param(
                "waitMs",
                Query,
                Number(0, WAIT_MS_MAX),
                "Wait so long for it to be as sure as commitment says; 0 if it is not given.",
            ),
            param(
                "commitment",
                Query,
                OneOf(&["processed", "confirmed", "finalized"]),
                "How sure is waited for; confirmed if it is not given.",
            ),
        ],
        body: RequestBody::None,
        schema: "Status",
        response: ResponseKind::Status,
        build_call: |args| {
            let search = json!({ "searchTransactionHistory": true });
            Ok(call("getSignatureStatuses", [json!([args.json("signature")]), search]))
        },
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/blocks/{slot}",
        id: "getBlock",
        summary: "A block",
        params: &[
            param("slot", Path, Number(0, u64::MAX), "The block's slot."),
            TARGET_COMMITMENT,
            TX_ENCODING,
            VERSION,
            param(
                "transactionDetails",
                Query,
                OneOf(&["full", "accounts", "signatures", "none"]),
                "What is told of transactions; full if it is not given.",
            ),
            param("rewards", Query, Bool, "Tell rewards; true if it is not given."),
        ],
        body: RequestBody::None,
        schema: "Block",
        response: ResponseKind::Block,
        build_call: |args| {
            let given = ["commitment", "encoding", "transactionDetails", "rewards"];
            Ok(call("getBlock", [args.json("slot"), config(args, &given, versions(args))]))
        },
    },
];

fn call<const N: usize>(method: &'static str, params: [Value; N]) -> MethodCall {
    MethodCall::Single(method, Value::from(params.to_vec()))
}

/// A config of the parameters of these names that were given, besides `fixed`.
fn config(args: &Params, names: &[&str], mut fixed: Map<String, Value>) -> Value {
    for name in names {
        if let Some(value) = args.get(name) {
            fixed.insert((*name).to_owned(), value.clone());
        }
    }
    fixed.into()
}

fn commitment(args: &Params) -> Value {
    // Always named: some methods take no config without one.
    json!({ "commitment": args.text("commitment").unwrap_or("finalized") })
}

fn versions(args: &Params) -> Map<String, Value> {
    let version = args.number("maxSupportedTransactionVersion").unwrap_or(1);
    Map::from_iter([("maxSupportedTransactionVersion".to_owned(), version.into())])
}

fn account_config(args: &Params) -> Result<Map<String, Value>, ApiError> {
    let mut config = Map::new();
    config.insert("encoding".to_owned(), args.text("encoding").unwrap_or("base64").into());
    match (args.number("dataOffset"), args.number("dataLength")) {
        (None, None) => {}
        (Some(offset), Some(length)) => {
            config.insert("dataSlice".to_owned(), json!({ "offset": offset, "length": length }));
        }
        _ => return Err(ApiError::invalid("dataOffset and dataLength go together")),
    }
    for name in ["commitment", "minContextSlot"] {
        if let Some(value) = args.get(name) {
            config.insert(name.to_owned(), value.clone());
        }
    }
    Ok(config)
}

fn page_config(args: &Params) -> Result<Value, ApiError> {
    let mut config = account_config(args)?;
    config.insert("withContext".to_owned(), true.into());
    for (name, of_method) in [
        ("limit", "limit"),
        ("cursor", "paginationKey"),
        ("changedSinceSlot", "changedSinceSlot"),
        ("filters", "filters"),
    ] {
        if let Some(value) = args.get(name) {
            config.insert(of_method.to_owned(), value.clone());
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

fn ledger(args: &Params) -> Result<MethodCall, ApiError> {
    Ok(MethodCall::Composite(vec![
        ("epochInfo", "getEpochInfo", json!([commitment(args)])),
        ("latestBlockhash", "getLatestBlockhash", json!([commitment(args)])),
        ("firstAvailableBlock", "getFirstAvailableBlock", json!([])),
        ("processedSlot", "getSlot", json!([{ "commitment": "processed" }])),
        ("confirmedSlot", "getSlot", json!([{ "commitment": "confirmed" }])),
        ("finalizedSlot", "getSlot", json!([{ "commitment": "finalized" }])),
    ]))
}

fn account(args: &Params) -> Result<MethodCall, ApiError> {
    Ok(call("getAccountInfo", [args.json("address"), account_config(args)?.into()]))
}

fn accounts(args: &Params) -> Result<MethodCall, ApiError> {
    Ok(call("getMultipleAccounts", [args.json("addresses"), account_config(args)?.into()]))
}

fn transactions_of(args: &Params) -> Result<MethodCall, ApiError> {
    let before = args.get("cursor").map(|cursor| ("before".to_owned(), cursor.clone()));
    let given = ["commitment", "minContextSlot", "limit", "until"];
    let config = config(args, &given, before.into_iter().collect());
    Ok(call("getSignaturesForAddress", [args.json("address"), config]))
}

fn tokens_of(args: &Params) -> Result<MethodCall, ApiError> {
    let filter = match (args.text("mint"), args.text("program")) {
        (Some(_), Some(_)) => return Err(ApiError::invalid("mint or program, not both")),
        (Some(mint), None) => json!({ "mint": mint }),
        (None, program) => json!({ "programId": program.unwrap_or(TOKEN_PROGRAM) }),
    };
    let params = [args.json("address"), filter, page_config(args)?];
    Ok(call("getTokenAccountsByOwnerV2", params))
}

fn program_accounts(args: &Params) -> Result<MethodCall, ApiError> {
    let mut filters = Vec::new();
    if let Some(size) = args.number("dataSize") {
        filters.push(json!({ "dataSize": size }));
    }
    match (args.number("memcmpOffset"), args.text("memcmpBytes")) {
        (None, None) => {}
        (Some(offset), Some(bytes)) => {
            filters.push(json!({ "memcmp": { "offset": offset, "bytes": bytes } }));
        }
        _ => return Err(ApiError::invalid("memcmpOffset and memcmpBytes go together")),
    }
    let mut config = page_config(args)?;
    if !filters.is_empty() {
        config["filters"] = filters.into();
    }
    Ok(call("getProgramAccountsV2", [args.json("address"), config]))
}

fn send(args: &Params) -> Result<MethodCall, ApiError> {
    let base64 = Map::from_iter([("encoding".to_owned(), "base64".into())]);
    let given = ["skipPreflight", "preflightCommitment", "minContextSlot"];
    Ok(call("sendTransaction", [args.json("transaction"), config(args, &given, base64)]))
}

fn simulate(args: &Params) -> Result<MethodCall, ApiError> {
    let mut fixed = Map::from_iter([("encoding".to_owned(), "base64".into())]);
    if let Some(addresses) = args.get("accounts") {
        let accounts = json!({ "encoding": "base64", "addresses": addresses });
        fixed.insert("accounts".to_owned(), accounts);
    }
    let given = [
        "commitment",
        "minContextSlot",
        "sigVerify",
        "replaceRecentBlockhash",
        "innerInstructions",
    ];
    Ok(call("simulateTransaction", [args.json("transaction"), config(args, &given, fixed)]))
}
