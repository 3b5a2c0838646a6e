//! The table of routes. A path without variables comes before a path with variables that would match it too.
//!
//! To add a route, add an entry to [`ROUTES`] and a function that builds its call (`calls`): matching, checks and
//! OpenAPI follow.

use rest::ParamLocation::{Body as InBody, Path, Query};
use rest::ParamType::{Base58, Base64, Bool, Json, List, Number, OneOf, Text};
use rest::{HttpMethod, Link, MaxItems, Param, RequestBody, ResponseKind, Route, Tag};
use serde_json::json;

use crate::calls::{self, call, commitment, config, page_config, versions};
use crate::examples::{addresses, filters, mint, program, transaction};
use crate::formats::{ADDRESS as ADDRESS_FORMAT, FILTERS, SIGNATURE as SIGNATURE_FORMAT};
use crate::responses::{
    ACCOUNT, BLOCK, SIGNATURES, SIGNATURES_MAX, STATE, STATUS, SUBMITTED, TRANSACTION_VALUE,
};
use crate::transaction_status::WAIT_MS_MAX;

/// Entries of a page, as providers of Solana RPC allow.
const PAGE_MAX: u64 = 10_000;
/// A page's key is 16 bytes; a signature in base58 is longer.
const CURSOR_CHARS_MAX: usize = 88;
/// Keys that the one-byte indices of a transaction can address.
const TRANSACTION_KEYS_MAX: MaxItems = MaxItems::Fixed(256);

const ADDRESS: Param = Param::new("address", Path, Text(&ADDRESS_FORMAT), "The account's address.")
    .with_example(program);
const MINT: Param =
    Param::new("address", Path, Text(&ADDRESS_FORMAT), "The account's address.").with_example(mint);
const SIGNATURE: Param =
    Param::new("signature", Path, Text(&SIGNATURE_FORMAT), "The transaction's first signature.");
const COMMITMENT: Param = Param::new(
    "commitment",
    Query,
    OneOf(&["processed", "confirmed", "finalized"]),
    "Commitment level. Default: finalized.",
);
const TARGET_COMMITMENT: Param = Param::new(
    "commitment",
    Query,
    OneOf(&["confirmed", "finalized"]),
    "Commitment level. Default: finalized.",
);
const MIN_CONTEXT_SLOT: Param = Param::new(
    "minContextSlot",
    Query,
    Number(0, u64::MAX),
    "Minimum slot of the state; 409 if the state has not reached it.",
);
const ENCODING: Param = Param::new(
    "encoding",
    Query,
    OneOf(&["base58", "base64", "base64+zstd", "jsonParsed"]),
    "Encoding of account data. Default: base64.",
);
const OFFSET: Param = Param::new(
    "dataOffset",
    Query,
    Number(0, u32::MAX as u64),
    "First byte of the data to return; requires dataLength.",
);
const LENGTH: Param = Param::new(
    "dataLength",
    Query,
    Number(0, u32::MAX as u64),
    "Number of bytes of the data to return; requires dataOffset.",
);
const LIMIT: Param =
    Param::new("limit", Query, Number(1, PAGE_MAX), "Maximum number of accounts. Default: 1,000.");
const CURSOR: Param = Param::new(
    "cursor",
    Query,
    Base58(CURSOR_CHARS_MAX),
    "The paginationKey of the previous page; leave out for the first page.",
);
const CHANGED_SINCE_SLOT: Param = Param::new(
    "changedSinceSlot",
    Query,
    Number(0, u64::MAX),
    "Only accounts that were written at this slot or later.",
);
const TX_ENCODING: Param = Param::new(
    "encoding",
    Query,
    OneOf(&["json", "jsonParsed", "base64", "base58"]),
    "Encoding of transactions. Default: json.",
);
const VERSION: Param = Param::new(
    "maxSupportedTransactionVersion",
    Query,
    Number(0, 255),
    "Maximum transaction version; 422 for a later one. Default: 1.",
);
const TRANSACTION: Param =
    Param::required("transaction", InBody, Base64, "The signed transaction, in base64.")
        .with_example(transaction);

/// The first account of a page.
const FIRST_ACCOUNT: Link = Link {
    name: "first",
    operation: "getAccount",
    param: ("address", "$response.body#/accounts/0/pubkey"),
};

/// Every tag, in the order of the page.
pub(crate) const TAGS: &[Tag] = &[
    Tag { name: "Node and ledger", segments: &["node", "ledger", "supply"] },
    Tag { name: "Accounts", segments: &["accounts"] },
    Tag { name: "Tokens", segments: &["owners", "mints"] },
    Tag { name: "Programs", segments: &["programs"] },
    Tag { name: "Transactions", segments: &["transactions"] },
    Tag { name: "Blocks", segments: &["blocks"] },
];

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
        links: &[Link {
            name: "identity",
            operation: "getAccountTransactions",
            param: ("address", "$response.body#/identity/identity"),
        }],
        build_call: calls::node,
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
        links: &[Link {
            name: "block",
            operation: "getBlock",
            param: ("slot", "$response.body#/finalizedSlot"),
        }],
        build_call: calls::ledger,
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/supply",
        id: "getSupply",
        summary: "Get the supply",
        params: &[COMMITMENT],
        body: RequestBody::None,
        schema: "Supply",
        response: ResponseKind::Value(STATE),
        links: &[],
        build_call: |params| Ok(call("getSupply", [commitment(params)])),
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/accounts",
        id: "getAccounts",
        summary: "Get several accounts",
        params: &[
            Param::required(
                "addresses",
                Query,
                List(&ADDRESS_FORMAT, MaxItems::Configured),
                "Addresses, separated by commas.",
            )
            .with_example(addresses),
            COMMITMENT,
            MIN_CONTEXT_SLOT,
            ENCODING,
            OFFSET,
            LENGTH,
        ],
        body: RequestBody::None,
        schema: "Accounts",
        response: ResponseKind::Value(STATE),
        links: &[],
        build_call: calls::accounts,
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/accounts",
        id: "postAccounts",
        summary: "Get several accounts, with the addresses in the body",
        params: &[
            Param::required(
                "addresses",
                InBody,
                List(&ADDRESS_FORMAT, MaxItems::Configured),
                "Addresses, in the order of the response.",
            )
            .with_example(addresses),
            COMMITMENT,
            MIN_CONTEXT_SLOT,
            ENCODING,
            OFFSET,
            LENGTH,
        ],
        body: RequestBody::Json,
        schema: "Accounts",
        response: ResponseKind::Value(STATE),
        links: &[],
        build_call: calls::accounts,
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/accounts/{address}",
        id: "getAccount",
        summary: "Get an account",
        params: &[ADDRESS, COMMITMENT, MIN_CONTEXT_SLOT, ENCODING, OFFSET, LENGTH],
        body: RequestBody::None,
        schema: "Account",
        response: ResponseKind::Value(ACCOUNT),
        links: &[Link {
            name: "history",
            operation: "getAccountTransactions",
            param: ("address", "$request.path.address"),
        }],
        build_call: calls::account,
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
            Param::new(
                "limit",
                Query,
                Number(1, SIGNATURES_MAX),
                "Maximum number of transactions. Default: 1,000.",
            ),
            Param::new(
                "cursor",
                Query,
                Text(&SIGNATURE_FORMAT),
                "The paginationKey of the previous page.",
            ),
            Param::new(
                "until",
                Query,
                Text(&SIGNATURE_FORMAT),
                "Only transactions newer than this one.",
            ),
        ],
        body: RequestBody::None,
        schema: "SignaturesPage",
        response: ResponseKind::Value(SIGNATURES),
        links: &[Link {
            name: "newest",
            operation: "getTransaction",
            param: ("signature", "$response.body#/transactions/0/signature"),
        }],
        build_call: calls::build_transactions_call,
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/owners/{address}/tokens",
        id: "getOwnerTokens",
        summary: "List the token accounts of an owner",
        params: &[
            ADDRESS,
            Param::new(
                "mint",
                Query,
                Text(&ADDRESS_FORMAT),
                "Only token accounts of this mint; not together with program.",
            ),
            Param::new(
                "program",
                Query,
                Text(&ADDRESS_FORMAT),
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
        response: ResponseKind::Value(STATE),
        links: &[FIRST_ACCOUNT],
        build_call: calls::build_tokens_call,
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/mints/{address}/holders",
        id: "getMintHolders",
        summary: "List the token accounts of a mint",
        params: &[
            MINT,
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
        response: ResponseKind::Value(STATE),
        links: &[FIRST_ACCOUNT],
        build_call: |params| {
            Ok(call("getTokenAccountsByMint", [params.json("address"), page_config(params)?]))
        },
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/mints/{address}/supply",
        id: "getMintSupply",
        summary: "Get the supply of a token",
        params: &[MINT, COMMITMENT],
        body: RequestBody::None,
        schema: "Amount",
        response: ResponseKind::Value(STATE),
        links: &[],
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
            Param::new(
                "dataSize",
                Query,
                Number(0, u32::MAX as u64),
                "Only accounts with data of this length, in bytes.",
            ),
            Param::new(
                "memcmpOffset",
                Query,
                Number(0, u32::MAX as u64),
                "Offset in the data at which memcmpBytes must match.",
            ),
            Param::new(
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
        response: ResponseKind::Value(STATE),
        links: &[FIRST_ACCOUNT],
        build_call: calls::program_accounts,
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/programs/{address}/accounts",
        id: "postProgramAccounts",
        summary: "List the accounts of a program that match filters",
        params: &[
            ADDRESS,
            Param::required(
                "filters",
                InBody,
                Json(&FILTERS),
                "Filters, as for getProgramAccounts.",
            )
            .with_example(filters),
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
        response: ResponseKind::Value(STATE),
        links: &[],
        build_call: calls::program_accounts,
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/transactions",
        id: "postTransaction",
        summary: "Submit a transaction",
        params: &[
            TRANSACTION,
            Param::new("skipPreflight", Query, Bool, "Skip the preflight simulation."),
            Param::new(
                "preflightCommitment",
                Query,
                OneOf(&["processed", "confirmed", "finalized"]),
                "Commitment level of the preflight simulation.",
            ),
            MIN_CONTEXT_SLOT,
        ],
        body: RequestBody::JsonOrRaw("transaction"),
        schema: "Sent",
        response: ResponseKind::Accepted(SUBMITTED),
        links: &[Link {
            name: "status",
            operation: "getTransactionStatus",
            param: ("signature", "$response.body#/signature"),
        }],
        build_call: calls::send,
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/transactions/simulate",
        id: "simulateTransaction",
        summary: "Simulate a transaction",
        params: &[
            TRANSACTION,
            Param::new(
                "accounts",
                InBody,
                List(&ADDRESS_FORMAT, TRANSACTION_KEYS_MAX),
                "Accounts to return as they would be after the transaction.",
            )
            .with_example(addresses),
            COMMITMENT,
            MIN_CONTEXT_SLOT,
            Param::new("sigVerify", Query, Bool, "Verify the signatures."),
            Param::new(
                "replaceRecentBlockhash",
                Query,
                Bool,
                "Replace its blockhash with the latest one.",
            ),
            Param::new("innerInstructions", Query, Bool, "Return inner instructions."),
        ],
        body: RequestBody::JsonOrRaw("transaction"),
        schema: "Simulation",
        response: ResponseKind::Value(STATE),
        links: &[],
        build_call: calls::simulate,
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/transactions/{signature}",
        id: "getTransaction",
        summary: "Get a transaction",
        params: &[SIGNATURE, TARGET_COMMITMENT, TX_ENCODING, VERSION],
        body: RequestBody::None,
        schema: "Transaction",
        response: ResponseKind::Value(TRANSACTION_VALUE),
        links: &[Link {
            name: "status",
            operation: "getTransactionStatus",
            param: ("signature", "$request.path.signature"),
        }],
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
            Param::new(
                "waitMs",
                Query,
                Number(0, WAIT_MS_MAX),
                "Milliseconds to wait until the transaction reaches the commitment. Default: 0.",
            ),
            Param::new(
                "commitment",
                Query,
                OneOf(&["processed", "confirmed", "finalized"]),
                "Commitment to wait for. Default: confirmed.",
            ),
        ],
        body: RequestBody::None,
        schema: "Status",
        response: ResponseKind::Custom(STATUS),
        links: &[],
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
            Param::new("slot", Path, Number(0, u64::MAX), "The block's slot."),
            TARGET_COMMITMENT,
            TX_ENCODING,
            VERSION,
            Param::new(
                "transactionDetails",
                Query,
                OneOf(&["full", "accounts", "signatures", "none"]),
                "Details of transactions to return. Default: full.",
            ),
            Param::new("rewards", Query, Bool, "Return rewards. Default: true."),
        ],
        body: RequestBody::None,
        schema: "Block",
        response: ResponseKind::Value(BLOCK),
        links: &[],
        build_call: |params| {
            let names = ["commitment", "encoding", "transactionDetails", "rewards"];
            Ok(call("getBlock", [params.json("slot"), config(params, &names, versions(params))]))
        },
    },
];
