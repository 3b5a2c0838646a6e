//! Test: the OpenAPI document describes every route.

use rest::RestApi;
use testkit::openapi;

use crate::KaspaRest;

#[test]
fn every_route_is_described_with_its_variables_and_a_schema() {
    openapi::check_routes(KaspaRest::TABLE);
}

#[test]
fn every_reference_of_the_document_resolves() {
    openapi::check_references(&openapi::document(KaspaRest::TABLE));
}

#[test]
fn no_limit_of_the_document_exceeds_a_signed_integer() {
    openapi::check_limits(&openapi::document(KaspaRest::TABLE));
}

#[test]
fn each_variant_of_a_choice_has_a_name_of_its_own() {
    openapi::check_choices(&openapi::document(KaspaRest::TABLE));
}

#[test]
fn plain_text_is_described_as_such() {
    let document = openapi::document(KaspaRest::TABLE);
    let content = |path: &str| {
        let content = &document["paths"][path]["get"]["responses"]["200"]["content"];
        content.as_object().expect("content").keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(content("/info/coinsupply/circulating"), ["text/plain"]);
    assert_eq!(content("/info/coinsupply"), ["application/json"]);
}
