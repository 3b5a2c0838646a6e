//! Test: the OpenAPI document describes every route.

use rest::{Examples, HttpMethod, Limits, ParamLocation, RequestBody, RestApi, build_openapi};

use crate::SolanaRest;
use crate::routes::ROUTES;

#[test]
fn every_route_is_described_with_its_variables_and_a_schema() {
    let limits = Limits { items_max: 7, setting: "" };
    let document = build_openapi(SolanaRest::TABLE, &Examples::default(), limits);
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

#[test]
fn operations_have_names_of_their_own() {
    let mut ids: Vec<&str> = ROUTES.iter().map(|route| route.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), ROUTES.len());
}
