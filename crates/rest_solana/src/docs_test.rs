//! Test: `docs/rest.md` lists every route, with a valid request and the methods that it calls.

use hyper::Request;
use rest::{HttpMethod, Limits, MethodCall, ParamLocation, ParamType, Params, RequestBody, Route};
use serde_json::{Value, json};

use crate::routes::ROUTES;

/// The placeholder of an address, which says what kind of account the route needs.
fn address(route: &Route) -> &'static str {
    match route.path.split('/').nth(2) {
        Some("mints") => "$MINT",
        Some("owners") => "$WALLET",
        Some("programs") => "$PROGRAM",
        _ => "$ACCOUNT",
    }
}

/// A request to a route: its path with a query, and its body.
fn sample(route: &Route) -> (String, Option<Value>) {
    let mut path = route.path.to_owned();
    let mut query = Vec::new();
    let mut body = json!({});
    for param in route.params.iter().filter(|param| param.is_required) {
        let text = match param.kind {
            ParamType::Text(format) if format.plural == "addresses" => address(route),
            ParamType::Text(_) => "$SIGNATURE",
            ParamType::List(..) => "$ACCOUNT,$MINT",
            ParamType::Base64 => "$TRANSACTION",
            ParamType::Number(..) => "$SLOT",
            ParamType::Json(_) => "",
            ParamType::Bool | ParamType::OneOf(_) | ParamType::Base58(_) => {
                panic!("{} has a default", param.name)
            }
        };
        match param.location {
            ParamLocation::Path => path = path.replace(&format!("{{{}}}", param.name), text),
            ParamLocation::Query => query.push(format!("{}={text}", param.name)),
            ParamLocation::Body => {
                body[param.name] = match param.kind {
                    ParamType::List(..) => text.split(',').collect(),
                    ParamType::Json(_) => json!([{ "dataSize": 165 }]),
                    _ => text.into(),
                }
            }
        }
    }
    if !query.is_empty() {
        path += &format!("?{}", query.join("&"));
    }
    (path, (route.body != RequestBody::None).then_some(body))
}

/// The methods that a request calls.
fn methods(route: &Route, path: &str, body: Option<&Value>) -> Vec<&'static str> {
    let fill_in = |text: &str| {
        let text = text.replace("$SLOT", "5").replace("$SIGNATURE", &"1".repeat(64));
        let names = ["$ACCOUNT", "$MINT", "$WALLET", "$PROGRAM"].iter();
        names.fold(text, |text, name| text.replace(name, &"1".repeat(32)))
    };
    let path = fill_in(path);
    let request = Request::builder().uri(&path).header("content-type", "application/json");
    let (head, ()) = request.body(()).expect("a request").into_parts();
    let body = body.map(|body| fill_in(&body.to_string())).unwrap_or_default();
    assert!(route.matches(head.uri.path()).is_some(), "the request matches the route");
    let media = head.headers.get("content-type");
    let limits = Limits { items_max: 2, setting: "" };
    let params = Params::parse(route, &head.uri, media, body.as_bytes(), limits);
    let call = (route.build_call)(&params.expect("valid parameters")).expect("a call");
    match call {
        MethodCall::Single(method, _) => vec![method],
        MethodCall::Composite(calls) => {
            let mut methods: Vec<_> = calls.iter().map(|(_, method, _)| *method).collect();
            methods.dedup();
            methods
        }
    }
}

#[test]
fn the_document_lists_every_route() {
    let mut table = "| request | method |\n|---|---|\n".to_owned();
    for route in ROUTES {
        let verb = if route.method == HttpMethod::Get { "GET" } else { "POST" };
        let (path, body) = sample(route);
        let methods = methods(route, &path, body.as_ref()).join(", ");
        let body = body.map(|body| format!(" `{body}`")).unwrap_or_default();
        table += &format!("| `{verb} {path}`{body} | {methods} |\n");
    }
    let document = include_str!("../../../docs/rest.md");
    assert!(document.contains(&table), "docs/rest.md does not have this table:\n{table}");
}
