//! Test: the OpenAPI document describes every route.

use rest::RestApi;
use testkit::openapi;

use crate::SolanaRest;

#[test]
fn every_route_is_described_with_its_variables_and_a_schema() {
    openapi::check_routes(SolanaRest::TABLE);
}

#[test]
fn every_reference_of_the_document_resolves() {
    openapi::check_references(&openapi::document(SolanaRest::TABLE));
}

#[test]
fn no_limit_of_the_document_exceeds_a_signed_integer() {
    openapi::check_limits(&openapi::document(SolanaRest::TABLE));
}

#[test]
fn each_variant_of_a_choice_has_a_name_of_its_own() {
    openapi::check_choices(&openapi::document(SolanaRest::TABLE));
}
