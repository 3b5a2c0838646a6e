//! That the description tells answers as they are: each type of Agave's crates and each answer of a ledger that
//! has all kinds of things is held against it with nothing untold let through, and what is told has been seen.
//!
//! `judge` is how it is held, `wire` the types, `ledger` that ledger.

mod ledger;
mod schema_checker;
mod wire;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::atomic::Ordering;

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
use crate::wire::{Client, Response};
use crate::{Node, get, get_json, post, post_as, send_request};

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
    assert_eq!(asking.operations_seen, operations, "every route is asked");
    wire::check(&mut asking.checker);
    let unseen = asking.checker.unseen();
    assert!(unseen.is_empty(), "told, and nothing has it: {unseen:#?}");
}

#[test]
fn errors_match_their_schema() {
    let node = ledger::node();
    let (mut client, mut judge) = (node.client(), schema_checker_for(&node));
    let body = ledger::signed_body();
    node.world.transaction_service.is_full.store(true, Ordering::SeqCst);
    let nobody = "/v1/accounts/4uQeVj5tqViQh7yWWGStvkEG1Zmhx6uasJtWCJziofM";
    let answers = [
        (400, get(&mut client, "/v1/accounts/x", "")),
        (404, get(&mut client, "/v1/nothing", "")),
        (404, get(&mut client, nobody, "")),
        (404, get(&mut client, "/v1/blocks/5000", "")),
        (405, send_request(&mut client, "PUT", "/v1/supply", "")),
        (406, get(&mut client, "/v1/supply", "accept: text/csv\r\n")),
        (409, get(&mut client, &format!("{nobody}?minContextSlot=1000"), "")),
        (415, post_as(&mut client, "/v1/accounts", "text/csv", b"x")),
        (429, post(&mut client, "/v1/transactions?skipPreflight=true", &body)),
    ];
    for (status, response) in answers {
        assert_eq!(response.status, status, "{}", response.body);
        judge.check("Error", &response.json());
    }
}

#[test]
fn what_no_schema_describes_is_refused() {
    let mut judge = schema_checker_for(&Node::new());
    let good = json!({ "slot": 5, "confirmations": null, "status": { "Ok": null }, "err": null,
        "confirmationStatus": "finalized" });
    assert!(judge.accepts("Status", &good));
    for (place, value) in [
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
        let mut wrong = good.clone();
        *wrong.pointer_mut(place).expect("it has that") = value;
        assert!(!judge.accepts("Status", &wrong), "{wrong}");
    }
    for name in ["slot", "confirmations", "status", "err", "confirmationStatus"] {
        let mut less = good.clone();
        less.as_object_mut().expect("an object").remove(name);
        assert!(!judge.accepts("Status", &less), "{less}");
    }
    let mut more = good;
    more["colour"] = json!("red");
    assert!(!judge.accepts("Status", &more));
}

#[test]
fn words_are_those_of_the_types() {
    let judge = schema_checker_for(&Node::new());
    let is = |place: &str, mut wanted: BTreeSet<String>, without: &[&str]| {
        wanted.retain(|word| !without.contains(&word.as_str()));
        assert_eq!(judge.words(place), wanted, "{place}");
    };
    let account_encodings = words::<UiAccountEncoding>(json!(NONE));
    is("AccountData/anyOf/0/prefixItems/1", account_encodings, &["binary", "jsonParsed"]);
    is("TokenAccount/properties/state", words::<UiAccountState>(json!(NONE)), &[]);
    let extensions = words::<UiExtension>(json!({ "extension": NONE }));
    is("TokenExtension/properties/extension", extensions, &[]);
    let programs = kebab(words::<ParsableAccount>(json!(NONE)));
    let tokens = ["spl-token", "spl-token-2022"];
    is("ParsedData/properties/program", programs, &tokens);
    is("ParsedToken/properties/program", tokens.map(str::to_owned).into(), &[]);
    let programs = kebab(words::<ParsableProgram>(json!(NONE)));
    is("ParsedInstruction/anyOf/0/properties/program", programs, &[]);
    let encodings = words::<TransactionBinaryEncoding>(json!(NONE));
    is("TransactionBody/anyOf/0/prefixItems/1", encodings, &[]);
    is("ReturnData/properties/data/prefixItems/1", words::<UiReturnDataEncoding>(json!(NONE)), &[]);
    let sources = words::<ParsedAccountSource>(json!(NONE));
    let keys = "ParsedMessage/properties/accountKeys/items";
    is(&format!("{keys}/properties/source"), sources, &[]);
    let levels = words::<TransactionConfirmationStatus>(json!(NONE));
    is("Status/properties/confirmationStatus", levels.clone(), &[]);
    // No list has what is processed only.
    let listed = "SignaturesPage/properties/transactions/items";
    is(&format!("{listed}/properties/confirmationStatus"), levels, &["processed"]);
    is("Reward/properties/rewardType", words::<RewardType>(json!(NONE)), &[]);
    check_error_schema(&judge, "TransactionError", words::<TransactionError>(json!(NONE)));
    let of_instruction = json!({ "InstructionError": [0, NONE] });
    check_error_schema(&judge, "InstructionError", words::<TransactionError>(of_instruction));
}

/// That an error's schema has those reasons: as words, or with more.
fn check_error_schema(judge: &SchemaChecker, name: &str, wanted: BTreeSet<String>) {
    let mut told = judge.words(&format!("{name}/anyOf/0"));
    let forms = judge.schema_at(&format!("/components/schemas/{name}/anyOf"));
    for form in forms.as_array().expect("forms") {
        told.extend(form["properties"].as_object().into_iter().flatten().map(|it| it.0.clone()));
    }
    assert_eq!(told, wanted, "{name}");
}

/// A word that no type has.
const NONE: &str = "noSuchWord";

/// The words that a type can be, of what it says to one that it cannot.
fn words<T: DeserializeOwned + Debug>(wrong: Value) -> BTreeSet<String> {
    let err = serde_json::from_value::<T>(wrong).expect_err("there is no such word").to_string();
    let (_, wanted) = err.split_once(", expected ").unwrap_or_else(|| panic!("{err}"));
    wanted.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Names of variants as Agave makes names of programs of them.
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

/// Asks, and holds each answer against what is told of its route.
struct CheckedClient {
    checker: SchemaChecker,
    client: Client,
    /// Operations that were answered.
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
        let (_, place) = operations.iter().find(|(named, _)| named == id).expect("an operation");
        let place =
            format!("{place}/responses/{}/content/application~1json/schema", response.status);
        let value = response.json();
        self.checker.check_at(&place, &value, path);
        self.operations_seen.insert(id.to_owned());
        value
    }

    /// Every operation, and where it is told.
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
