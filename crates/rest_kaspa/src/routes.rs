//! The table of routes. A path without variables comes before a path with variables that would match it too.
//!
//! To add a route, add an entry to [`ROUTES`] and a function that builds its call (`calls`): matching, checks and
//! OpenAPI follow.

use rest::ParamLocation::{Body as InBody, Path, Query};
use rest::ParamType::{Bool, List, Number, OneOf, Text};
use rest::{HttpMethod, MaxItems, Param, RequestBody, ResponseKind, Route, Tag};
use rpc_kaspa::rest_limits::{ADDRESSES_MAX, OFFSET_MAX, PAGE_TRANSACTIONS_MAX, PAGE_UTXOS_MAX};
use serde_json::json;

use crate::calls::{self, call, method};
use crate::formats::{ADDRESS as ADDRESS_FORMAT, FIELD, FIELDS_MAX, HASH, PAGE as PAGE_FORMAT};
use crate::values::{SINK, VIRTUAL, VIRTUAL_TEXT};

const ADDRESS: Param = Param::new(
    "kaspaAddress",
    Path,
    Text(&ADDRESS_FORMAT),
    "The address, with the prefix of the network of this node.",
);
const ADDRESSES: Param = Param::required(
    "addresses",
    InBody,
    List(&ADDRESS_FORMAT, MaxItems::Fixed(ADDRESSES_MAX)),
    "Addresses, with the prefix of the network of this node.",
)
.with_example(|| json!(["kaspa:qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqkx9awp4e"]));
const TRANSACTION_ID: Param =
    Param::new("transactionId", Path, Text(&HASH), "The id of the transaction.");
const UTXO_LIMIT: Param = Param::new(
    "limit",
    Query,
    Number(1, PAGE_UTXOS_MAX as u64),
    "Maximum number of UTXOs of a page, which has at least the first 8. Without limit and page, all UTXOs are listed.",
);
const LIMIT: Param = Param::new(
    "limit",
    Query,
    Number(1, PAGE_TRANSACTIONS_MAX as u64),
    "Maximum number of transactions. Default: 50.",
);
const OFFSET: Param = Param::new(
    "offset",
    Query,
    Number(0, OFFSET_MAX as u64),
    "Number of newer transactions to skip. Default: 0.",
);
const PAGE: Param = Param::new(
    "page",
    Query,
    Text(&PAGE_FORMAT),
    "The Hydrant-Next-Page of the page before; leave out for the first page.",
);
const BEFORE: Param = Param::new(
    "before",
    Query,
    Number(0, u64::MAX),
    "Only transactions of blocks with a time before this one, in Unix milliseconds.",
);
const AFTER: Param = Param::new(
    "after",
    Query,
    Number(0, u64::MAX),
    "Only transactions of blocks with a time after this one, in Unix milliseconds, the oldest ones.",
);
const FIELDS: Param = Param::new(
    "fields",
    Query,
    List(&FIELD, MaxItems::Fixed(FIELDS_MAX)),
    "Members of each transaction, separated by commas. Default: all.",
);
const PREVIOUS_OUTPOINTS: Param = Param::new(
    "resolve_previous_outpoints",
    Query,
    OneOf(&["no", "light", "full"]),
    "The members of a spent output that its input has: light adds the address and the amount. Default: no.",
);
const BLOCK_HASH: Param = Param::new(
    "blockHash",
    Query,
    Text(&HASH),
    "A block that contains the transaction. It is not needed here and has no effect.",
);
const INPUTS: Param =
    Param::new("inputs", Query, Bool, "Whether the transaction has its inputs. Default: true.");
const OUTPUTS: Param =
    Param::new("outputs", Query, Bool, "Whether the transaction has its outputs. Default: true.");
const IN_BILLION: Param = Param::new(
    "in_billion",
    Query,
    Bool,
    "Whether the number is in billions, with two places. Default: false.",
);

/// Every tag, in the order of the page.
pub(crate) const TAGS: &[Tag] = &[
    Tag { name: "Kaspa addresses", segments: &["addresses"] },
    Tag { name: "Kaspa transactions", segments: &["transactions"] },
    Tag { name: "Kaspa network info", segments: &["info"] },
];

pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: HttpMethod::Get,
        path: "/addresses/{kaspaAddress}/balance",
        id: "getBalance",
        summary: "Get the balance of an address",
        params: &[ADDRESS],
        body: RequestBody::None,
        schema: "Balance",
        response: ResponseKind::Custom(VIRTUAL),
        links: &[],
        build_call: calls::get_balance,
    },
    Route {
        method: HttpMethod::Post,
        path: "/addresses/balances",
        id: "getBalances",
        summary: "Get the balances of several addresses",
        params: &[ADDRESSES],
        body: RequestBody::Json,
        schema: "Balances",
        response: ResponseKind::Custom(VIRTUAL),
        links: &[],
        build_call: calls::get_balances,
    },
    Route {
        method: HttpMethod::Get,
        path: "/addresses/{kaspaAddress}/utxos",
        id: "getUtxos",
        summary: "List the UTXOs of an address",
        params: &[ADDRESS, UTXO_LIMIT, PAGE],
        body: RequestBody::None,
        schema: "Utxos",
        response: ResponseKind::Custom(VIRTUAL),
        links: &[],
        build_call: calls::get_utxos,
    },
    Route {
        method: HttpMethod::Post,
        path: "/addresses/utxos",
        id: "getUtxosOfAddresses",
        summary: "List the UTXOs of several addresses",
        params: &[ADDRESSES],
        body: RequestBody::Json,
        schema: "Utxos",
        response: ResponseKind::Custom(VIRTUAL),
        links: &[],
        build_call: calls::list_utxos,
    },
    Route {
        method: HttpMethod::Get,
        path: "/addresses/{kaspaAddress}/full-transactions",
        id: "getFullTransactions",
        summary: "List recent transactions of an address, the newest first",
        params: &[ADDRESS, LIMIT, OFFSET, PAGE, FIELDS, PREVIOUS_OUTPOINTS],
        body: RequestBody::None,
        schema: "Transactions",
        response: ResponseKind::Custom(SINK),
        links: &[],
        build_call: calls::find_transactions,
    },
    Route {
        method: HttpMethod::Get,
        path: "/addresses/{kaspaAddress}/full-transactions-page",
        id: "getFullTransactionsPage",
        summary: "List recent transactions of an address by the time of their blocks",
        params: &[ADDRESS, LIMIT, BEFORE, AFTER, FIELDS, PREVIOUS_OUTPOINTS],
        body: RequestBody::None,
        schema: "Transactions",
        response: ResponseKind::Custom(SINK),
        links: &[],
        build_call: calls::find_transactions_by_time,
    },
    Route {
        method: HttpMethod::Get,
        path: "/transactions/{transactionId}",
        id: "getTransaction",
        summary: "Get a recent transaction",
        params: &[TRANSACTION_ID, BLOCK_HASH, INPUTS, OUTPUTS, PREVIOUS_OUTPOINTS],
        body: RequestBody::None,
        schema: "Transaction",
        response: ResponseKind::Custom(SINK),
        links: &[],
        build_call: calls::get_transaction,
    },
    Route {
        method: HttpMethod::Get,
        path: "/info/coinsupply",
        id: "getCoinSupply",
        summary: "Get the coins that exist, and that will exist, in sompi",
        params: &[],
        body: RequestBody::None,
        schema: "CoinSupply",
        response: ResponseKind::Custom(VIRTUAL),
        links: &[],
        build_call: |_| Ok(call(method::GET_COIN_SUPPLY)),
    },
    Route {
        method: HttpMethod::Get,
        path: "/info/coinsupply/circulating",
        id: "getCirculatingCoins",
        summary: "Get the number of coins that exist, as text",
        params: &[IN_BILLION],
        body: RequestBody::None,
        schema: "Coins",
        response: ResponseKind::Custom(VIRTUAL_TEXT),
        links: &[],
        build_call: calls::get_circulating_coins,
    },
    Route {
        method: HttpMethod::Get,
        path: "/info/coinsupply/total",
        id: "getTotalCoins",
        summary: "Get the number of coins that exist, as text",
        params: &[IN_BILLION],
        body: RequestBody::None,
        schema: "Coins",
        response: ResponseKind::Custom(VIRTUAL_TEXT),
        links: &[],
        build_call: calls::get_circulating_coins,
    },
    Route {
        method: HttpMethod::Get,
        path: "/info/blockdag",
        id: "getBlockDag",
        summary: "Get the network, the sink and the virtual DAA score",
        params: &[],
        body: RequestBody::None,
        schema: "BlockDag",
        response: ResponseKind::Custom(VIRTUAL),
        links: &[],
        build_call: |_| Ok(call(method::GET_BLOCK_DAG)),
    },
    Route {
        method: HttpMethod::Get,
        path: "/info/network",
        id: "getNetwork",
        summary: "Get the network, the sink and the virtual DAA score",
        params: &[],
        body: RequestBody::None,
        schema: "BlockDag",
        response: ResponseKind::Custom(VIRTUAL),
        links: &[],
        build_call: |_| Ok(call(method::GET_BLOCK_DAG)),
    },
    Route {
        method: HttpMethod::Get,
        path: "/info/virtual-chain-blue-score",
        id: "getBlueScore",
        summary: "Get the blue score of the sink",
        params: &[],
        body: RequestBody::None,
        schema: "BlueScore",
        response: ResponseKind::Custom(SINK),
        links: &[],
        build_call: |_| Ok(call(method::GET_BLUE_SCORE)),
    },
    Route {
        method: HttpMethod::Get,
        path: "/info/health",
        id: "getHealth",
        summary: "Get the health of the node: 503 if it is not in sync",
        params: &[],
        body: RequestBody::None,
        schema: "Health",
        response: ResponseKind::Custom(SINK),
        links: &[],
        build_call: |_| Ok(call(method::GET_HEALTH)),
    },
];
