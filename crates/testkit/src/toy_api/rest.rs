//! The toy ledger over REST: its table of routes, with one of each kind that needs no code of its own.

use jsonrpc::Server;
use rest::{
    ApiPaths, ErrorFormat, ErrorStyle, HttpMethod, Limits, MaxItems, MethodCall, Param,
    ParamLocation, ParamType, RequestBody, ResponseKind, RestApi, Route, RouteTable, Tag,
    TextFormat, ValueResponse, schema,
};
use serde_json::{Value, json};

use super::ToyApi;

/// The toy ledger's REST API.
pub struct ToyRest;

impl RestApi for ToyRest {
    type Api = ToyApi;

    const TABLE: &'static RouteTable = &RouteTable {
        summary: "Counters over REST.",
        etag_doc: "",
        pages_doc: "",
        routes: ROUTES,
        tags: &[
            Tag { name: "Ledger", segments: &["ledger"] },
            Tag { name: "Counters", segments: &["counters"] },
        ],
        paths: ApiPaths::V1,
        errors: ErrorStyle { codes: &[], format: ErrorFormat::Coded },
        headers: &[],
        schemas,
    };

    fn limits(&self, _: &Server<ToyApi>) -> Limits {
        Limits { items_max: 3, setting: "toy.names_max" }
    }
}

/// The name of a counter.
const NAME_FORMAT: TextFormat = TextFormat {
    expected: "a name: 1 to 36 bytes",
    plural: "names",
    pattern: "^.{1,36}$",
    placeholder: "1 to 36 bytes",
    is_valid: |text| (1..=36).contains(&text.len()),
};

const NAME: Param =
    Param::new("name", ParamLocation::Path, ParamType::Text(&NAME_FORMAT), "The counter's name.")
        .with_example(|| "a".into());

const COMMITMENT: Param = Param::new(
    "commitment",
    ParamLocation::Query,
    ParamType::OneOf(&["processed", "finalized"]),
    "The state that is read. Default: finalized.",
);

const NAMES: Param = Param::required(
    "names",
    ParamLocation::Body,
    ParamType::List(&NAME_FORMAT, MaxItems::Configured),
    "Names, in the order of the response.",
)
.with_example(|| json!(["a", "b"]));

const LIMIT: Param = Param::new(
    "limit",
    ParamLocation::Query,
    ParamType::Number(1, 20),
    "Maximum number of counters. Default: 3.",
);

const ROUTES: &[Route] = &[
    Route {
        method: HttpMethod::Get,
        path: "/v1/ledger",
        id: "getLedger",
        summary: "Get the height and the sum of all counters",
        params: &[],
        body: RequestBody::None,
        schema: "Ledger",
        response: ResponseKind::Composite,
        links: &[],
        build_call: |_| {
            Ok(MethodCall::Composite(vec![
                ("height", "getHeight", json!([])),
                ("sum", "counterSum", json!([])),
            ]))
        },
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/counters",
        id: "getCounters",
        summary: "List the highest counters",
        params: &[LIMIT],
        body: RequestBody::None,
        schema: "Counters",
        response: ResponseKind::Value(ValueResponse::for_state("list")),
        links: &[],
        build_call: |params| Ok(MethodCall::Single("counterTop", json!([params.number("limit")]))),
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/counters",
        id: "postCounters",
        summary: "Get several counters, with the names in the body",
        params: &[NAMES],
        body: RequestBody::Json,
        schema: "Values",
        response: ResponseKind::Value(ValueResponse::for_state("list")),
        links: &[],
        build_call: |params| {
            Ok(MethodCall::Single("counterGetMany", json!([params.json("names")])))
        },
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/counters/{name}",
        id: "getCounter",
        summary: "Get a counter",
        params: &[NAME, COMMITMENT],
        body: RequestBody::None,
        schema: "Value",
        response: ResponseKind::Value(ValueResponse {
            raw: Some(&[]),
            ..ValueResponse::for_state("counter")
        }),
        links: &[],
        build_call: |params| {
            let params = json!([params.json("name"), params.text("commitment")]);
            Ok(MethodCall::Single("counterGet", params))
        },
    },
];

fn schemas() -> Vec<(&'static str, Value)> {
    let value = || schema::uint(64, "The value of a counter.");
    let entry = [schema::string("Its name."), value()];
    let ledger = [("height", schema::uint(64, "The newest block.")), ("sum", value())];
    vec![
        ("Value", value()),
        ("Values", schema::array("Values, in the order of the names.", schema::nullable(value()))),
        ("Counters", schema::array("The highest ones.", schema::tuple("A counter.", entry))),
        ("Ledger", schema::object("The ledger.", ledger)),
    ]
}
