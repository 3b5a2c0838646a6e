//! That `docs/rest.md` lists every route, with a request that is right and the methods that it calls.

use hyper::Request;
use serde_json::{Value, json};

use crate::input::{Args, Limits};
use crate::route::{Body, Kind, Place, Plan, Route, Verb};
use crate::routes::ROUTES;

/// What stands for an account, so that a reader knows which will do.
fn address(route: &Route) -> &'static str {
    match route.path.split('/').nth(2) {
        Some("mints") => "$MINT",
        Some("owners") => "$WALLET",
        Some("programs") => "$PROGRAM",
        _ => "$ACCOUNT",
    }
}

/// A request of a route: its path with a query, and its body.
fn sample(route: &Route) -> (String, Option<Value>) {
    let (mut path, mut query, mut body) = (route.path.to_owned(), Vec::new(), json!({}));
    for param in route.params.iter().filter(|param| param.is_required) {
        let text = match param.kind {
            Kind::Address => address(route),
            Kind::Addresses(_) => "$ACCOUNT,$MINT",
            Kind::Signature => "$SIGNATURE",
            Kind::Base64 => "$TRANSACTION",
            Kind::Number(..) => "$SLOT",
            Kind::Filters => "",
            Kind::Bool | Kind::OneOf(_) | Kind::Base58(_) => panic!("{} has a default", param.name),
        };
        match param.place {
            Place::Path => path = path.replace(&format!("{{{}}}", param.name), text),
            Place::Query => query.push(format!("{}={text}", param.name)),
            Place::Body => {
                body[param.name] = match param.kind {
                    Kind::Addresses(_) => text.split(',').collect(),
                    Kind::Filters => json!([{ "dataSize": 165 }]),
                    _ => text.into(),
                }
            }
        }
    }
    if !query.is_empty() {
        path += &format!("?{}", query.join("&"));
    }
    (path, (route.body != Body::None).then_some(body))
}

/// The methods that a request calls.
fn methods(route: &Route, path: &str, body: Option<&Value>) -> Vec<&'static str> {
    let right = |text: &str| {
        let text = text.replace("$SLOT", "5").replace("$SIGNATURE", &"1".repeat(64));
        let names = ["$ACCOUNT", "$MINT", "$WALLET", "$PROGRAM"].iter();
        names.fold(text, |text, name| text.replace(name, &"1".repeat(32)))
    };
    let path = right(path);
    let request = Request::builder().uri(&path).header("content-type", "application/json");
    let (head, ()) = request.body(()).expect("a request").into_parts();
    let body = body.map(|body| right(&body.to_string())).unwrap_or_default();
    assert!(route.matches(head.uri.path()).is_some(), "it is of the route");
    let (media, limits) = (head.headers.get("content-type"), Limits { accounts_max: 2 });
    let args = Args::read(route, &head.uri, media, body.as_bytes(), limits);
    let plan = (route.plan)(&args.expect("parameters are right")).expect("so it has a plan");
    match plan {
        Plan::Call(method, _) => vec![method],
        Plan::Several(calls) => {
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
        let verb = if route.verb == Verb::Get { "GET" } else { "POST" };
        let (path, body) = sample(route);
        let methods = methods(route, &path, body.as_ref()).join(", ");
        let body = body.map(|body| format!(" `{body}`")).unwrap_or_default();
        table += &format!("| `{verb} {path}`{body} | {methods} |\n");
    }
    let document = include_str!("../../../docs/rest.md");
    assert!(document.contains(&table), "docs/rest.md has another table than this:\n{table}");
}
