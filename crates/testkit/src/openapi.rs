//! Checks of the OpenAPI document of a REST API: the properties that clients and their generators need.
//!
//! In: the table of an API. A check panics with the path of the object.
//! Not here: the schemas and the responses of one API (its own tests).

use std::collections::BTreeSet;

use rest::{Examples, HttpMethod, Limits, ParamLocation, RequestBody, RouteTable, build_openapi};
use serde_json::Value;

/// Returns the document of an API, without examples.
pub fn document(table: &RouteTable) -> Value {
    let limits = Limits { items_max: 7, setting: "" };
    build_openapi(table, &Examples::default(), limits)
}

/// Checks that every route is an operation with a name of its own, the variables of its path, and a schema.
pub fn check_routes(table: &RouteTable) {
    let document = document(table);
    for route in table.routes {
        let verb = if route.method == HttpMethod::Get { "get" } else { "post" };
        let operation = &document["paths"][route.path][verb];
        assert_eq!(operation["operationId"], route.id);
        assert_eq!(operation["tags"].as_array().map(Vec::len), Some(1), "{} has one tag", route.id);
        let schema = document["components"]["schemas"].get(route.schema);
        assert!(schema.is_some(), "{}: no schema {}", route.id, route.schema);
        let segments = route.path.split('/');
        let variables: Vec<&str> =
            segments.filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}')).collect();
        let in_path = route.params.iter().filter(|param| param.location == ParamLocation::Path);
        let params: Vec<&str> = in_path.map(|param| param.name).collect();
        assert_eq!(variables, params, "{}", route.path);
        let in_body = route.params.iter().any(|param| param.location == ParamLocation::Body);
        assert_eq!(in_body, route.body != RequestBody::None, "{}", route.id);
    }
    let ids: BTreeSet<&str> = table.routes.iter().map(|route| route.id).collect();
    assert_eq!(ids.len(), table.routes.len(), "operations have names of their own");
}

/// Checks that every reference of a document resolves, and that every schema is used.
pub fn check_references(document: &Value) {
    let mut used = BTreeSet::new();
    visit_objects(document, "", &mut |path, object| {
        let Some(target) = object.get("$ref").and_then(Value::as_str) else { return };
        let pointer = target.strip_prefix('#').expect("a reference within the document");
        assert!(document.pointer(pointer).is_some(), "{path}: no {target}");
        used.insert(pointer.to_owned());
    });
    for name in schemas(document).keys() {
        assert!(used.contains(&format!("/components/schemas/{name}")), "{name} is not used");
    }
}

/// Checks that no limit exceeds an `i64`: generators parse it as one, and `ogen` stops at another value.
pub fn check_limits(document: &Value) {
    visit_objects(document, "", &mut |path, object| {
        for limit in ["maximum", "minimum", "exclusiveMaximum", "maxItems", "maxLength"] {
            let is_valid = object.get(limit).is_none_or(|it| it.is_object() || it.is_i64());
            assert!(is_valid, "{path}/{limit}: {}", object[limit]);
        }
    });
}

/// Checks that each variant of a choice has a name of its own: generators make it a type.
pub fn check_choices(document: &Value) {
    visit_objects(document, "", &mut |path, object| {
        assert!(object.get("anyOf").is_none(), "{path}: anyOf names no variant");
        let Some(variants) = object.get("oneOf").and_then(Value::as_array) else { return };
        let is_reference = |variant: &Value| variant.get("$ref").is_some();
        for variant in variants.iter().filter(|variant| !is_reference(variant)) {
            let kind = variant["type"].as_str().unwrap_or_default();
            assert!(!matches!(kind, "object" | "array" | ""), "{path}: {variant} has no name");
        }
        let references: BTreeSet<&str> =
            variants.iter().filter_map(|variant| variant["$ref"].as_str()).collect();
        assert_eq!(references.len(), variants.iter().filter(|it| is_reference(it)).count());
    });
    // Names that differ in case only, or by the name of a member, are one type in some languages.
    let schemas = schemas(document);
    let names: BTreeSet<String> = schemas.keys().map(|name| name.to_lowercase()).collect();
    assert_eq!(names.len(), schemas.len());
}

fn schemas(document: &Value) -> &serde_json::Map<String, Value> {
    document["components"]["schemas"].as_object().expect("schemas")
}

/// Calls `visit` with each object of a document and its path.
fn visit_objects(value: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    if value.is_object() {
        visit(path, value);
    }
    let members = value.as_object().into_iter().flatten();
    members.for_each(|(name, member)| visit_objects(member, &format!("{path}/{name}"), visit));
    let items = value.as_array().into_iter().flatten().enumerate();
    items.for_each(|(index, item)| visit_objects(item, &format!("{path}/{index}"), visit));
}
