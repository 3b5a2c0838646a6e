//! Requests that are refused: the status, and a detail with the value and the limit.

use hyper::StatusCode;
use kaspa::{KaspaAddress, Prefix};
use serde_json::{Value, json};
use testkit::kaspa_chain::{address, pay};

use crate::world::{Response, World};

/// The message of a refusal.
fn message(response: &Response) -> String {
    let detail = response.json()["detail"].take();
    match detail {
        Value::String(text) => text,
        Value::Array(entries) => {
            let entry = &entries[0];
            assert_eq!(entry["type"], json!("value_error"));
            format!("{} {} {}", entry["loc"], entry["input"], entry["msg"])
        }
        other => panic!("{other}"),
    }
}

fn world() -> World {
    let mut world = World::new();
    world.chain.add_block(&[], &[pay(1, 100)]);
    world.chain.publish();
    world
}

/// An address with another character at its end.
fn with_wrong_checksum(address: &str) -> String {
    let (rest, last) = address.split_at(address.len() - 1);
    format!("{rest}{}", if last == "q" { "p" } else { "q" })
}

#[tokio::test]
async fn an_address_that_is_not_of_this_network_is_refused() {
    let world = world();
    let own = address(1);
    let other = KaspaAddress { prefix: Prefix::Mainnet, ..own }.to_string();
    let own = own.to_string();
    let cases = [
        (other, "address of another network; this node follows simnet"),
        (with_wrong_checksum(&own), "with a valid checksum"),
        (own.replace("kaspasim:", ""), "must be an address"),
        (own.replace("kaspasim", "bitcoin"), "must be an address"),
        ("kaspasim:qqqq".to_owned(), "must be an address"),
        (own.to_uppercase(), "must be an address"),
    ];
    for (address, expected) in cases {
        for route in
            ["balance", "utxos", "utxos?limit=1", "full-transactions", "full-transactions-page"]
        {
            let response = world.get(&format!("/addresses/{address}/{route}")).await;
            assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{address} {route}");
            let message = message(&response);
            assert!(message.contains(expected), "{route}: {message}");
            assert!(message.contains(&address), "{route}: {message}");
        }
        for route in ["balances", "utxos"] {
            let body = json!({ "addresses": [own, address] }).to_string();
            let response = world.post(&format!("/addresses/{route}"), &body).await;
            assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{address} {route}");
            assert!(message(&response).contains(expected), "{route}");
        }
    }
}

#[tokio::test]
async fn a_parameter_out_of_its_bounds_is_refused_with_its_value() {
    let world = world();
    let cases = [
        ("utxos?limit=0", "[\"query\",\"limit\"] \"0\"", "from 1 to 1000"),
        ("utxos?limit=1001", "\"1001\"", "from 1 to 1000"),
        ("utxos?limit=x", "\"x\"", "from 1 to 1000"),
        ("utxos?page=zz", "\"zz\"", "Hydrant-Next-Page"),
        ("utxos?page=12", "", "page: not the token of a page"),
        ("utxos?offset=1", "unknown parameter \"offset\"", "limit"),
        ("full-transactions?limit=0", "\"0\"", "from 1 to 500"),
        ("full-transactions?limit=501", "\"501\"", "from 1 to 500"),
        ("full-transactions?offset=5001", "\"5001\"", "from 0 to 5000"),
        ("full-transactions?offset=-1", "\"-1\"", "from 0 to 5000"),
        ("full-transactions?page=7", "", "page: not the token of a page"),
        ("full-transactions?fields=amount", "", "\"amount\" is not one of"),
        ("full-transactions?resolve_previous_outpoints=all", "\"all\"", "no, light, full"),
        ("full-transactions-page?limit=0", "\"0\"", "from 1 to 500"),
        ("full-transactions-page?before=5&after=5", "", "exclude each other"),
        ("full-transactions-page?before=yesterday", "\"yesterday\"", "an integer"),
        ("balance?x=1", "unknown parameter \"x\"", "kaspaAddress"),
        ("utxos?limit=1&limit=2", "limit occurs twice", ""),
    ];
    for (request, value, limit) in cases {
        let response = world.get(&format!("/addresses/{}/{request}", address(1))).await;
        assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{request}");
        let message = message(&response);
        assert!(message.contains(value) && message.contains(limit), "{request}: {message}");
        assert_eq!(response.header("cache-control"), Some("no-store"));
        assert!(response.header("hydrant-proven-block").is_some(), "{request}");
    }
    for id in ["12", &"g".repeat(64), &"0".repeat(65)] {
        let response = world.get(&format!("/transactions/{id}")).await;
        assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{id}");
        let message = message(&response);
        assert!(message.contains("64 hexadecimal digits") && message.contains(id), "{message}");
    }
    let response = world.get("/info/coinsupply/total?in_billion=2").await;
    assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn a_list_is_bounded() {
    let world = world();
    let list =
        |count: usize| json!({ "addresses": vec![address(1).to_string(); count] }).to_string();
    for route in ["/addresses/balances", "/addresses/utxos"] {
        assert_eq!(world.post(route, &list(1_000)).await.status, StatusCode::OK);
        for (body, expected) in [
            (list(1_001), "a list of 1 to 1000 addresses, not of 1001"),
            (list(0), "a list of 1 to 1000 addresses, not of 0"),
            (json!({ "addresses": "kaspasim:q" }).to_string(), "a list of 1 to 1000 addresses"),
            (json!({ "addresses": [7] }).to_string(), "not a value that is not a string"),
            (json!({}).to_string(), "addresses is missing"),
            (json!({ "address": [] }).to_string(), "unknown parameter \"address\""),
            ("[".to_owned(), "invalid body"),
            (String::new(), "invalid body"),
        ] {
            let response = world.post(route, &body).await;
            assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{route} {expected}");
            let message = message(&response);
            assert!(message.contains(expected), "{route}: {message}");
        }
    }
}

#[tokio::test]
async fn a_path_that_does_not_exist_is_not_found() {
    let world = world();
    let count = format!("/addresses/{}/transactions-count", address(1));
    for path in ["/addresses", "/addresses/x/y/z", "/info/price", count.as_str()] {
        assert!(world.owns_path(path), "{path}");
        let response = world.get(path).await;
        assert_eq!(response.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(message(&response), "no such path; /docs lists them");
    }
    for path in ["/", "/health", "/metrics", "/v1/accounts", "/addressesx"] {
        assert!(!world.owns_path(path), "{path}");
    }
    // Submission has no upstream here.
    assert_eq!(world.post("/transactions", "{}").await.status, StatusCode::NOT_FOUND);
    let read = world.get("/addresses/utxos").await;
    assert_eq!(read.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(read.header("allow"), Some("OPTIONS, POST"));
}

#[tokio::test]
async fn the_pages_of_the_api_are_served() {
    let world = world();
    let page = world.get("/docs").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.text().contains("/addresses/{kaspaAddress}/utxos"));
    assert!(page.text().contains("fetch('/openapi.json')"));
    let document = world.get_json("/openapi.json").await;
    let params = &document["paths"]["/addresses/{kaspaAddress}/balance"]["get"]["parameters"];
    let example = params[0]["example"].as_str().expect("an example");
    assert!(example.starts_with("kaspasim:"));
    let response = world.get(&format!("/addresses/{example}/balance")).await;
    assert_eq!(response.status, StatusCode::OK);
}
