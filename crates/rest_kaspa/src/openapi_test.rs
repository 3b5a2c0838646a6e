//! Test: the OpenAPI document describes every route.

use std::collections::BTreeSet;

use rest::{Examples, HttpMethod, Limits, ParamLocation, RestApi, build_openapi};
use serde_json::Value;

use crate::KaspaRest;
use crate::routes::ROUTES;

fn document() -> Value {
    let limits = Limits { items_max: 7, setting: "" };
    build_openapi(KaspaRest::TABLE, &Examples::default(), limits)
}

#[test]
fn every_route_is_described_with_its_variables_and_a_schema() {
    let document = document();
    for route in ROUTES {
        let verb = if route.method == HttpMethod::Get { "get" } else { "post" };
        let operation = &document["paths"][route.path][verb];
        assert_eq!(operation["operationId"], route.id);
        assert_eq!(operation["tags"].as_array().map(Vec::len), Some(1), "{} has one tag", route.id);
        assert!(document["components"]["schemas"].get(route.schema).is_some(), "{}", route.id);
        let segments = route.path.split('/');
        let variables: Vec<&str> =
            segments.filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}')).collect();
        let in_path = route.params.iter().filter(|param| param.location == ParamLocation::Path);
        let params: Vec<&str> = in_path.map(|param| param.name).collect();
        assert_eq!(variables, params, "{}", route.path);
    }
    let ids: BTreeSet<&str> = ROUTES.iter().map(|route| route.id).collect();
    assert_eq!(ids.len(), ROUTES.len(), "operations have names of their own");
}

/// Collects the targets of all references within a value.
fn collect_references(value: &Value, found: &mut BTreeSet<String>) {
    if let Some(target) = value.get("$ref").and_then(Value::as_str) {
        found.insert(target.trim_start_matches('#').to_owned());
    }
    let members = value.as_object().into_iter().flatten();
    members.for_each(|(_, member)| collect_references(member, found));
    value.as_array().into_iter().flatten().for_each(|item| collect_references(item, found));
}

#[test]
fn every_reference_resolves_and_every_schema_is_used() {
    let document = document();
    let mut found = BTreeSet::new();
    collect_references(&document, &mut found);
    for pointer in &found {
        assert!(document.pointer(pointer).is_some(), "no {pointer}");
    }
    for name in document["components"]["schemas"].as_object().expect("schemas").keys() {
        assert!(found.contains(&format!("/components/schemas/{name}")), "{name} is not used");
    }
}

#[test]
fn plain_text_is_described_as_such() {
    let document = document();
    let content = |path: &str| {
        let content = &document["paths"][path]["get"]["responses"]["200"]["content"];
        content.as_object().expect("content").keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(content("/info/coinsupply/circulating"), ["text/plain"]);
    assert_eq!(content("/info/coinsupply"), ["application/json"]);
}
