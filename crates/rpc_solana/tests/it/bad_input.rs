//! Invalid requests, and the exact response to each.
//!
//! The tables are text: `calls.txt` (method and parameters => code and message) and `envelopes.txt` (body => response).
//! `#` starts a comment. With `RENEW_TABLES=1` the responses are written into the tables again, to be reviewed before
//! they are committed.
//! `envelopes.txt` is also compared with `jsonrpc-core`, the library with which Agave parses requests.
//! Not here: invalid HTTP (`http`), invalid WebSocket frames (`pubsub`).

use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use solana_hash::Hash;
use solana_message::{Message, VersionedMessage};
use solana_transaction::versioned::VersionedTransaction;

use testkit::sample_ledger::{OTHER_WALLET, WALLET};
use testkit::solana_node::SolanaNode;

/// Separates a request from its response.
const ARROW: &str = " => ";

/// Shortens a request for assertion messages.
fn short(request: &str) -> String {
    request.chars().take(120).collect()
}

/// Sends every request of a table and compares the responses. Returns the number of requests.
fn check_table(file: &str, respond: impl Fn(&str) -> String) -> usize {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/bad_input").join(file);
    let table = std::fs::read_to_string(&path).expect("the table exists");
    let mut renewed = String::new();
    let mut wrong = Vec::new();
    let mut requests = 0;
    for line in table.lines() {
        let request = line.rsplit_once(ARROW).filter(|_| !line.starts_with("# "));
        let Some((request, expected)) = request else {
            renewed.push_str(&format!("{line}\n"));
            continue;
        };
        requests += 1;
        let actual = respond(request);
        if actual != expected {
            wrong.push(format!("{}\n  expected {expected}\n  actual   {actual}", short(request)));
        }
        renewed.push_str(&format!("{request}{ARROW}{actual}\n"));
    }
    if std::env::var_os("RENEW_TABLES").is_some() {
        std::fs::write(&path, renewed).expect("write the table");
        return requests;
    }
    assert!(wrong.is_empty(), "{} of {requests} in {file}:\n{}", wrong.len(), wrong.join("\n"));
    requests
}

/// Formats a response like the tables.
fn refusal(reply: &Value) -> String {
    let Some(err) = reply.get("error") else { return format!("no refusal: {reply}") };
    let message = err["message"].as_str().expect("a message");
    let data = err.get("data").map(|data| format!(" | {data}")).unwrap_or_default();
    format!("{} {message}{data}", err["code"])
}

#[test]
fn calls_that_make_no_sense_are_refused_in_agaves_words() {
    let world = SolanaNode::new();
    let requests = check_table("calls.txt", |call| {
        let (method, params) = call.split_once(' ').expect("a method and its parameters");
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let response = world.client().post(&body);
        assert_eq!(response.status, 200, "{call}");
        refusal(&response.json())
    });
    assert!(requests >= 150, "only {requests}");
}

#[test]
fn bodies_that_are_no_request_are_answered_as_jsonrpc_core_does() {
    let world = SolanaNode::new();
    let agave = jsonrpc_core_server();
    let requests = check_table("envelopes.txt", |body| {
        let response = match world.client().post(body).body {
            reply if reply.is_empty() => "nothing".to_owned(),
            reply => reply.trim_end().to_owned(),
        };
        let oracle = futures_executor::block_on(agave.handle_request(body, ()));
        let oracle = oracle.unwrap_or_else(|| "nothing".to_owned());
        assert_eq!(response, oracle, "{}", short(body));
        response
    });
    assert!(requests >= 80, "only {requests}");
}

fn jsonrpc_core_server() -> jsonrpc_core::MetaIoHandler<()> {
    use jsonrpc_core::{Error, MetaIoHandler, Params, Value};
    type Config = solana_rpc_client_types::config::RpcContextConfig;
    let mut server = MetaIoHandler::default();
    server.add_sync_method("getSlot", |params: Params| match params {
        Params::Map(_) => Err(Error::invalid_params("`params` should be an array")),
        Params::Array(values) if !values.is_empty() => {
            Params::Array(values).parse::<(Option<Config>,)>().map(|_| Value::from(100))
        }
        _ => Ok(Value::from(100)),
    });
    server.add_sync_method("getGenesisHash", |params: Params| {
        params.expect_no_params().map(|()| Value::from(Hash::new_from_array([5; 32]).to_string()))
    });
    server
}

/// Returns a transfer with a signature of zeros.
fn transfer() -> VersionedTransaction {
    let mut data = vec![2, 0, 0, 0];
    data.extend_from_slice(&1_u64.to_le_bytes());
    let accounts = vec![
        solana_instruction::AccountMeta::new(WALLET, true),
        solana_instruction::AccountMeta::new(OTHER_WALLET, false),
    ];
    let system = solana_sdk_ids::system_program::id();
    let instruction = solana_instruction::Instruction::new_with_bytes(system, &data, accounts);
    VersionedTransaction {
        signatures: vec![Default::default()],
        message: VersionedMessage::Legacy(Message::new(&[instruction], Some(&WALLET))),
    }
}

fn bytes(transaction: &VersionedTransaction) -> Vec<u8> {
    bincode::serialize(transaction).expect("a transaction has bytes")
}

/// Returns the errors of both methods that accept a transaction, for these bytes.
fn errors_by_method(world: &SolanaNode, bytes: &[u8]) -> [(i64, String); 2] {
    let config = json!({ "encoding": "base64" });
    let params = json!([BASE64_STANDARD.encode(bytes), config]);
    ["sendTransaction", "simulateTransaction"]
        .map(|method| world.client().error(method, params.clone()))
}

#[test]
fn a_transaction_cut_anywhere_is_no_transaction() {
    let world = SolanaNode::new();
    let whole = bytes(&transfer());
    for length in 0..whole.len() {
        for (code, message) in errors_by_method(&world, &whole[..length]) {
            let start =
                "failed to deserialize solana_transaction::versioned::VersionedTransaction: ";
            assert_eq!(code, -32602, "cut to {length}: {message}");
            assert!(message.starts_with(start), "cut to {length}: {message}");
        }
    }
    assert_eq!(world.transaction_service.sent.lock().len(), 0);
    assert_eq!(world.transaction_service.simulated.lock().len(), 0);
}

#[test]
fn a_transaction_with_bytes_left_over_or_changed_does_no_harm() {
    let world = SolanaNode::new();
    let whole = bytes(&transfer());
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0xff;
        // Each is refused for some reason. None with a wrong signature reaches the transaction service.
        let [sent, _] = errors_by_method(&world, &changed);
        assert!([-32602, -32002].contains(&sent.0), "byte {at}: {sent:?}");
    }
    assert_eq!(world.transaction_service.sent.lock().len(), 0);
}

#[test]
fn a_wrong_signature_is_refused_with_and_without_preflight() {
    let world = SolanaNode::new();
    let text = BASE64_STANDARD.encode(bytes(&transfer()));
    let with = |config: Value| world.client().error("sendTransaction", json!([text, config]));
    assert_eq!(
        with(json!({ "encoding": "base64" })),
        (
            -32002,
            "Transaction simulation failed: Transaction did not pass signature verification".into()
        )
    );
    assert_eq!(
        with(json!({ "encoding": "base64", "skipPreflight": true })),
        (-32003, "Transaction signature verification failure".into())
    );
    let config = json!({ "encoding": "base64", "sigVerify": true });
    let simulated = world.client().result("simulateTransaction", json!([text, config]));
    assert_eq!(simulated["value"]["err"], json!("SignatureFailure"));
    assert_eq!(world.transaction_service.sent.lock().len(), 0);
}

#[test]
fn a_transaction_that_contradicts_itself_is_refused() {
    let world = SolanaNode::new();
    let sane = transfer();
    let refused = |why: &str, change: &dyn Fn(&mut VersionedTransaction, &mut Message)| {
        let mut transaction = sane.clone();
        let VersionedMessage::Legacy(mut message) = sane.message.clone() else {
            panic!("it is a legacy one");
        };
        change(&mut transaction, &mut message);
        transaction.message = VersionedMessage::Legacy(message);
        for (code, message) in errors_by_method(&world, &bytes(&transaction)) {
            assert_eq!(code, -32602, "{why}: {message}");
            assert!(message.starts_with("invalid transaction: "), "{why}: {message}");
        }
    };
    refused("no signature", &|transaction, _| transaction.signatures.clear());
    refused("a signature too many", &|transaction, _| {
        transaction.signatures = vec![Default::default(); 3];
    });
    refused("a program that is not there", &|_, message| {
        message.instructions[0].program_id_index = 9;
    });
    refused("an account that is not there", &|_, message| {
        message.instructions[0].accounts = vec![0, 9];
    });
    refused("more signers than keys", &|_, message| message.header.num_required_signatures = 9);
    refused("the payer as a program", &|_, message| message.instructions[0].program_id_index = 0);
    assert_eq!(world.transaction_service.sent.lock().len(), 0);
}
