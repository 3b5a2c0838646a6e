//! Tests that the description of responses is exact: each type of Agave's crates, and each response over a ledger
//! with every kind of data, must match its schema without any undescribed member, and everything described must occur.
//!
//! `schema_checker` has the comparison, `wire` the types, `ledger` that ledger.

mod ledger;
mod schema_checker;
mod wire;

use std::collections::BTreeSet;
use std::fmt::Debug;

use chain_solana::{QueueBound, SendError};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use solana_account_decoder::parse_account_data::ParsableAccount;
use solana_account_decoder_client_types::UiAccountEncoding;
use solana_account_decoder_client_types::token::{UiAccountState, UiExtension};
use solana_rpc_client_types::response::RewardType;
use solana_transaction_error::TransactionError;
use solana_transaction_status::parse_accounts::ParsedAccountSource;
use solana_transaction_status::parse_instruction::ParsableProgram;
use solana_transaction_status::{
    TransactionBinaryEncoding, TransactionConfirmationStatus, UiReturnDataEncoding,
};

use self::schema_checker::SchemaChecker;
use crate::{Node, get, get_json, post, post_as, send_request};
use testkit::raw_http_client::{Client, Response};

#[test]
fn types_match_their_schemas() {
    wire::check(&mut schema_checker_for(&Node::new()));
}

#[test]
fn every_response_matches_its_schema_and_every_schema_occurs() {
    let node = ledger::node();
    let mut asking = CheckedClient {
        checker: schema_checker_for(&node),
        client: node.client(),
        operations_seen: BTreeSet::new(),
    };
    ledger::request_all(&mut asking);
    ledger::submit(&mut asking, &node);
    let operations: BTreeSet<String> = asking.operations().into_iter().map(|(id, _)| id).collect();
    assert_eq!(asking.operations_seen, operations, "every route is requested");
    wire::check(&mut asking.checker);
    let unseen = asking.checker.unseen();
    assert!(unseen.is_empty(), "described, but never seen: {unseen:#?}");
}

#[test]
fn errors_match_their_schema() {
    let node = ledger::node();
    let mut client = node.client();
    let mut checker = schema_checker_for(&node);
    let body = ledger::signed_body();
    *node.world.transaction_service.send.lock() =
        Err(SendError::QueueFull { bound: QueueBound::Transactions, queued: 8, limit: 8 });
    let missing = "/v1/accounts/4uQeVj5tqViQh7yWWGStvkEG1Zmhx6uasJtWCJziofM";
    let responses = [
        (400, get(&mut client, "/v1/accounts/x", "")),
        (404, get(&mut client, "/v1/nothing", "")),
        (404, get(&mut client, missing, "")),
        (404, get(&mut client, "/v1/blocks/5000", "")),
        (405, send_request(&mut client, "PUT", "/v1/supply", "")),
        (406, get(&mut client, "/v1/supply", "accept: text/csv\r\n")),
        (409, get(&mut client, &format!("{missing}?minContextSlot=1000"), "")),
        (415, post_as(&mut client, "/v1/accounts", "text/csv", b"x")),
        (429, post(&mut client, "/v1/transactions?skipPreflight=true", &body)),
    ];
    for (status, response) in responses {
        assert_eq!(response.status, status, "{}", response.body);
        checker.check("Error", &response.json());
    }
}

#[test]
fn what_no_schema_describes_is_refused() {
    let mut checker = schema_checker_for(&Node::new());
    let good = json!({ "slot": 5, "confirmations": null, "status": { "Ok": null }, "err": null,
        "confirmationStatus": "finalized" });
    assert!(checker.accepts("Status", &good));
    for (path, value) in [
        ("/slot", json!(-1)),
        ("/slot", json!("5")),
        ("/slot", Value::Null),
        ("/confirmations", json!(1.5)),
        ("/status", json!({ "Ok": null, "Err": "AccountInUse" })),
        ("/status", json!({ "Err": "NoSuchThing" })),
        ("/err", json!({ "InstructionError": [0] })),
        ("/err", json!({ "InstructionError": [0, { "Custom": -1 }] })),
        ("/confirmationStatus", json!("maybe")),
    ] {
        let mut invalid = good.clone();
        *invalid.pointer_mut(path).expect("the member") = value;
        assert!(!checker.accepts("Status", &invalid), "{invalid}");
    }
    for name in ["slot", "confirmations", "status", "err", "confirmationStatus"] {
        let mut less = good.clone();
        less.as_object_mut().expect("an object").remove(name);
        assert!(!checker.accepts("Status", &less), "{less}");
    }
    let mut more = good;
    more["colour"] = json!("red");
    assert!(!checker.accepts("Status", &more));
}

#[test]
fn enums_have_the_values_of_the_types() {
    let checker = schema_checker_for(&Node::new());
    let is = |path: &str, mut expected: BTreeSet<String>, without: &[&str]| {
        expected.retain(|word| !without.contains(&word.as_str()));
        assert_eq!(checker.words(path), expected, "{path}");
    };
    let account_encodings = words::<UiAccountEncoding>(json!(NONE));
    is("EncodedData/prefixItems/1", account_encodings, &["binary", "jsonParsed"]);
    is("TokenState", words::<UiAccountState>(json!(NONE)), &[]);
    let extensions = words::<UiExtension>(json!({ "extension": NONE }));
    is("TokenExtension/properties/extension", extensions, &[]);
    let programs = kebab(words::<ParsableAccount>(json!(NONE)));
    let tokens = ["spl-token", "spl-token-2022"];
    is("ParsedData/properties/program", programs, &tokens);
    is("ParsedToken/properties/program", tokens.map(str::to_owned).into(), &[]);
    let programs = kebab(words::<ParsableProgram>(json!(NONE)));
    is("KnownInstruction/properties/program", programs, &[]);
    let encodings = words::<TransactionBinaryEncoding>(json!(NONE));
    is("EncodedTransaction/prefixItems/1", encodings, &[]);
    is("ReturnData/properties/data/prefixItems/1", words::<UiReturnDataEncoding>(json!(NONE)), &[]);
    let sources = words::<ParsedAccountSource>(json!(NONE));
    is("AccountKey/properties/source", sources, &[]);
    let levels = words::<TransactionConfirmationStatus>(json!(NONE));
    is("Status/properties/confirmationStatus", levels.clone(), &[]);
    // Lists do not include transactions that are only processed.
    let listed = "SignaturesPage/properties/transactions/items";
    is(&format!("{listed}/properties/confirmationStatus"), levels, &["processed"]);
    is("Reward/properties/rewardType", words::<RewardType>(json!(NONE)), &[]);
    check_error_schema(&checker, "TransactionError", words::<TransactionError>(json!(NONE)));
    let of_instruction = json!({ "InstructionError": [0, NONE] });
    check_error_schema(&checker, "InstructionError", words::<TransactionError>(of_instruction));
}

/// Checks that an error's schema has these names, as strings or as objects.
fn check_error_schema(checker: &SchemaChecker, name: &str, expected: BTreeSet<String>) {
    let mut names = checker.words(&format!("{name}/oneOf/0"));
    for form in checker.objects(&format!("/components/schemas/{name}")) {
        names.extend(form["properties"].as_object().into_iter().flatten().map(|it| it.0.clone()));
    }
    assert_eq!(names, expected, "{name}");
}

/// A value that no enum has.
const NONE: &str = "noSuchWord";

/// The values of an enum, from its error for an unknown value.
fn words<T: DeserializeOwned + Debug>(invalid: Value) -> BTreeSet<String> {
    let err = serde_json::from_value::<T>(invalid).expect_err("an unknown value").to_string();
    let (_, names) = err.split_once(", expected ").unwrap_or_else(|| panic!("{err}"));
    names.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Names of variants, converted to names of programs as in Agave.
fn kebab(names: BTreeSet<String>) -> BTreeSet<String> {
    let kebab = |name: &String| {
        let mut out = String::new();
        let mut last_is_digit = false;
        for letter in name.chars() {
            if letter.is_ascii_uppercase() || (letter.is_ascii_digit() && !last_is_digit) {
                out.push('-');
            }
            last_is_digit = letter.is_ascii_digit();
            out.push(letter.to_ascii_lowercase());
        }
        out.trim_start_matches('-').to_owned()
    };
    names.iter().map(kebab).collect()
}

fn schema_checker_for(node: &Node) -> SchemaChecker {
    SchemaChecker::new(&get_json(&mut node.client(), "/v1/openapi.json"))
}

/// A client that checks each response against the schema of its route.
struct CheckedClient {
    checker: SchemaChecker,
    client: Client,
    /// Operations that had a response.
    operations_seen: BTreeSet<String>,
}

impl CheckedClient {
    fn get(&mut self, id: &str, path: &str) -> Value {
        let response = get(&mut self.client, path, "");
        self.check_response(id, path, &response)
    }

    fn post(&mut self, id: &str, path: &str, body: &Value) -> Value {
        let response = post(&mut self.client, path, body);
        self.check_response(id, path, &response)
    }

    fn check_response(&mut self, id: &str, path: &str, response: &Response) -> Value {
        assert!(matches!(response.status, 200 | 202), "{path}: {}", response.body);
        let operations = self.operations();
        let (_, pointer) = operations.iter().find(|(name, _)| name == id).expect("an operation");
        let pointer =
            format!("{pointer}/responses/{}/content/application~1json/schema", response.status);
        let value = response.json();
        self.checker.check_at(&pointer, &value, path);
        self.operations_seen.insert(id.to_owned());
        value
    }

    /// Every operation, and the pointer to its description.
    fn operations(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for (path, verbs) in self.checker.schema_at("/paths").as_object().expect("paths") {
            for (verb, operation) in verbs.as_object().expect("verbs") {
                let id = operation["operationId"].as_str().expect("an id");
                all.push((id.to_owned(), format!("/paths/{}/{verb}", path.replace('/', "~1"))));
            }
        }
        all
    }
}
