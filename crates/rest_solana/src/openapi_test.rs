//! Test: the OpenAPI document describes every route.

use std::collections::BTreeSet;

use rest::{Examples, HttpMethod, Limits, ParamLocation, RequestBody, RestApi, build_openapi};
use serde_json::Value;

use crate::SolanaRest;
use crate::routes::ROUTES;

#[test]
fn every_route_is_described_with_its_variables_and_a_schema() {
    let document = document();
    for route in ROUTES {
        let verb = if route.method == HttpMethod::Get { "get" } else { "post" };
        let operation = &document["paths"][route.path][verb];
        assert_eq!(operation["operationId"], route.id);
        assert_eq!(operation["tags"].as_array().map(Vec::len), Some(1), "{} has one tag", route.id);
        assert!(
            document["components"]["schemas"].get(route.schema).is_some(),
            "{}: no schema {}",
            route.id,
            route.schema
        );
        let variables: Vec<&str> = route
            .path
            .split('/')
            .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
            .collect();
        let params: Vec<&str> = route
            .params
            .iter()
            .filter(|param| param.location == ParamLocation::Path)
            .map(|param| param.name)
            .collect();
        assert_eq!(variables, params, "{}", route.path);
        let in_body = route.params.iter().any(|param| param.location == ParamLocation::Body);
        assert_eq!(in_body, route.body != RequestBody::None, "{}", route.id);
    }
}

fn document() -> Value {
    let limits = Limits { items_max: 7, setting: "" };
    build_openapi(SolanaRest::TABLE, &Examples::default(), limits)
}

/// Calls `visit` with each object of a document and its path.
fn visit_objects(value: &Value, place: &str, visit: &mut impl FnMut(&str, &Value)) {
    if value.is_object() {
        visit(place, value);
    }
    let members = value.as_object().into_iter().flatten();
    members.for_each(|(name, member)| visit_objects(member, &format!("{place}/{name}"), visit));
    let items = value.as_array().into_iter().flatten().enumerate();
    items.for_each(|(index, item)| visit_objects(item, &format!("{place}/{index}"), visit));
}

#[test]
fn every_reference_of_the_document_resolves() {
    let document = document();
    let mut used = BTreeSet::new();
    visit_objects(&document, "", &mut |place, object| {
        let Some(target) = object.get("$ref").and_then(Value::as_str) else { return };
        let pointer = target.strip_prefix('#').expect("a reference within the document");
        assert!(document.pointer(pointer).is_some(), "{place}: no {target}");
        used.insert(pointer.to_owned());
    });
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    for name in schemas.keys() {
        assert!(used.contains(&format!("/components/schemas/{name}")), "{name} is not used");
    }
}

#[test]
fn no_limit_of_the_document_exceeds_a_signed_integer() {
    visit_objects(&document(), "", &mut |place, object| {
        for limit in ["maximum", "minimum", "exclusiveMaximum", "maxItems", "maxLength"] {
            // Generators parse it as an i64, and `ogen` stops at another one.
            let is_valid = object.get(limit).is_none_or(|it| it.is_object() || it.is_i64());
            assert!(is_valid, "{place}/{limit}: {}", object[limit]);
        }
    });
}

#[test]
fn each_variant_of_a_choice_has_a_name_of_its_own() {
    let document = document();
    visit_objects(&document, "", &mut |place, object| {
        assert!(object.get("anyOf").is_none(), "{place}: anyOf names no variant");
        let Some(variants) = object.get("oneOf").and_then(Value::as_array) else { return };
        let is_reference = |variant: &Value| variant.get("$ref").is_some();
        for variant in variants.iter().filter(|variant| !is_reference(variant)) {
            let kind = variant["type"].as_str().unwrap_or_default();
            assert!(!matches!(kind, "object" | "array" | ""), "{place}: {variant} has no name");
        }
        let references: BTreeSet<&str> =
            variants.iter().filter_map(|variant| variant["$ref"].as_str()).collect();
        assert_eq!(references.len(), variants.iter().filter(|it| is_reference(it)).count());
    });
    // Names that differ in case only, or by the name of a member, are one type in some languages.
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    let names: BTreeSet<String> = schemas.keys().map(|name| name.to_lowercase()).collect();
    assert_eq!(names.len(), schemas.len());
}

#[test]
fn operations_have_names_of_their_own() {
    let mut ids: Vec<&str> = ROUTES.iter().map(|route| route.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), ROUTES.len());
}
