//! Overload: the queues of the CPU pool and the transaction queue are full, or a client has used up its share.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chain_solana::{QueueBound, SendError};
use cpu_pool::Class;
use hyper::header::HeaderName;
use rpc_solana::Config;
use serde_json::{Value, json};
use solana_keypair::Keypair;
use solana_message::{Message, VersionedMessage};
use solana_signer::Signer;
use solana_transaction::versioned::VersionedTransaction;

use testkit::raw_http_client::{Client, post};
use testkit::sample_ledger::{PROGRAM, WALLET};
use testkit::solana_node::SolanaNode;

const SUPPLY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"getVoteAccounts"}"#;
const SLOT: &str = r#"{"jsonrpc":"2.0","id":2,"method":"getSlot"}"#;

fn small(edit: impl FnOnce(&mut cpu_pool::Config)) -> cpu_pool::Config {
    let mut config = cpu_pool::Config::default();
    edit(&mut config);
    config
}

#[test]
fn a_full_pool_is_reported_at_once_and_cheap_calls_continue() {
    let config = small(|config| config.medium.tasks_max = 1);
    let world = SolanaNode::with_config(Config::default(), config);
    let release = world.occupy_pool();
    let mut waiting = world.client();
    waiting.send(post(SUPPLY));
    world.wait_pool(|pool| pool.class(Class::Medium).queued == 1);
    let mut client = world.client();
    let response = client.post(SUPPLY);
    assert_eq!(response.status, 429);
    assert_eq!(response.header("retry-after"), Some("1"));
    let message = "the CPU pool is full: 1 medium requests are in it, at most 1 may \
                   (pool.medium.tasks_max)";
    let data = json!({ "class": "medium", "queued": 1, "limit": 1 });
    let refusal = json!({ "code": -32005, "message": message, "data": data });
    assert_eq!(response.json()["error"], refusal);

    let response = client.post(&format!("[{SUPPLY},{SLOT}]"));
    assert_eq!(response.status, 200);
    assert_eq!(response.json()[0]["error"], refusal);
    assert_eq!(response.json()[1]["result"], json!(100));

    let response = client.post(&format!("[{SUPPLY},{SUPPLY}]"));
    assert_eq!((response.status, response.header("retry-after")), (429, Some("1")));

    // In a long batch, even cheap calls are not executed.
    let calls = vec![SLOT; 17].join(",");
    assert_eq!(client.post(&format!("[{calls}]")).status, 429);
    assert_eq!(client.post(SLOT).status, 200);
    drop(release);
    assert_eq!(waiting.receive().status, 200);
    assert_eq!(world.class(Class::Medium).rejected, 4);
}

#[test]
fn a_call_that_is_not_started_before_its_deadline_is_refused() {
    let config = small(|config| config.medium.deadline_ms = 1);
    let world = SolanaNode::with_config(Config::default(), config);
    let release = world.occupy_pool();
    let mut client = world.client();
    client.send(post(SUPPLY));
    world.wait_pool(|pool| pool.class(Class::Medium).queued == 1);
    // The deadline passes before a thread is free, by the pool's clock.
    let until = world.server.context.pool.now() + std::time::Duration::from_millis(2);
    while world.server.context.pool.now() < until {
        std::thread::yield_now();
    }
    drop(release);
    let response = client.receive();
    assert_eq!((response.status, response.header("retry-after")), (429, Some("1")));
    let message = "too busy: it was not begun after 1 ms, the deadline of medium requests \
                   (pool.medium.deadline_ms)";
    assert_eq!(response.json()["error"]["message"], json!(message));
    assert_eq!(world.class(Class::Medium).expired, 1);
    let line = "hydrant_rejected_total{class=\"medium\",cause=\"deadline\"} 1\n";
    let metrics = scrape(&mut client);
    assert!(metrics.contains(line), "{metrics}");
}

#[test]
fn a_response_that_does_not_begin_in_time_is_refused() {
    let config = Config { first_byte_timeout_ms: 20, ..Config::default() };
    let world = SolanaNode::with_config(config, small(|_| ()));
    let release = world.occupy_pool();
    // No thread is free for it, and its class would let it wait for half a minute.
    let response = world.client().post(SUPPLY);
    assert_eq!((response.status, response.header("retry-after")), (429, Some("1")));
    let message = "too busy: the response to a medium request had not begun after 20 ms \
                   (rpc.first_byte_timeout_ms)";
    assert_eq!(response.json()["error"]["message"], json!(message));
    world.wait_pool(|pool| pool.class(Class::Medium).queued == 0);
    drop(release);
    assert_eq!(world.client().post(SUPPLY).status, 200);
}

#[test]
fn a_full_transaction_queue_is_reported_as_any_other() {
    let world = SolanaNode::new();
    *world.transaction_service.send.lock() =
        Err(SendError::QueueFull { bound: QueueBound::Transactions, queued: 8, limit: 8 });
    let mut client = world.client();
    let send = call(
        "sendTransaction",
        &json!([signed_transaction(), { "encoding": "base64", "skipPreflight": true }]),
    );
    let airdrop = call("requestAirdrop", &json!([WALLET.to_string(), 1]));
    for body in [&send, &airdrop, &format!("[{send},{airdrop}]")] {
        let response = client.post(body);
        assert_eq!((response.status, response.header("retry-after")), (429, Some("1")), "{body}");
        assert!(response.body.contains("(--queue-max)"), "{}", response.body);
    }
    assert_eq!(client.post(&format!("[{send},{SLOT}]")).status, 200, "one of them has a result");
    let metrics = scrape(&mut client);
    let line = "hydrant_rejected_total{class=\"any\",cause=\"transaction_queue\"} 5\n";
    assert!(metrics.contains(line), "{metrics}");
    *world.transaction_service.send.lock() = Ok(());
    assert_eq!(client.post(&send).status, 200);
    assert_eq!(world.transaction_service.sent.lock().len(), 1);
}

#[test]
fn a_transaction_with_preflight_runs_as_a_simulation() {
    let world = SolanaNode::new();
    let release = world.occupy_pool();
    let send = |config| call("sendTransaction", &json!([signed_transaction(), config]));
    let sent = |body: &str| {
        let mut client = world.client();
        client.send(post(body));
        client
    };
    let without_preflight = send(json!({ "encoding": "base64", "skipPreflight": true }));
    let _light = sent(&without_preflight);
    world.wait_pool(|pool| pool.class(Class::Light).queued == 1);
    let with_preflight = send(json!({ "encoding": "base64" }));
    let _medium = sent(&with_preflight);
    world.wait_pool(|pool| pool.class(Class::Medium).queued == 1);
    // The calls of a long batch are not classified one by one, and none of them can be heavy.
    let _batch = sent(&format!("[{}]", vec![without_preflight; 17].join(",")));
    world.wait_pool(|pool| pool.class(Class::Medium).queued == 2);
    assert_eq!(world.class(Class::Heavy).queued, 0);
    drop(release);
}

#[test]
fn a_large_body_is_parsed_on_the_pool_and_cheap_calls_continue() {
    let config = small(|config| config.light.tasks_max = 2);
    let world = SolanaNode::with_config(Config::default(), config);
    let release = world.occupy_pool(); // the first light task
    let large = format!("{}{SLOT}", " ".repeat(9_000));
    let mut waiting = world.client();
    waiting.send(post(&large));
    world.wait_pool(|pool| pool.class(Class::Light).queued == 1);
    let mut client = world.client();
    assert_eq!(client.post(SLOT).status, 200);
    let response = client.post(&large);
    assert_eq!((response.status, response.header("retry-after")), (429, Some("1")));
    assert_eq!(response.json()["error"]["data"]["class"], json!("light"));
    drop(release);
    assert_eq!(waiting.receive().json()["result"], json!(100));
}

#[test]
fn a_body_has_one_response_however_large_it_is() {
    let config = Config { batch_max: 20, body_bytes_max: Some(1 << 20), ..Config::default() };
    let world = SolanaNode::with_config(config, cpu_pool::Config::default());
    let mut client = world.client();
    let batch = |calls: usize, call: &str| format!("[{}]", vec![call; calls].join(","));
    let accounts =
        call("getProgramAccounts", &json!([PROGRAM.to_string(), { "encoding": "base64" }]));
    let notification = r#"{"jsonrpc":"2.0","method":"getSlot"}"#;
    for body in [
        SLOT,
        SUPPLY,
        &accounts,
        notification,
        r#"{"jsonrpc":"2.0","id":7,"method":"getSlot","params":[7]}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"getEverything"}"#,
        r#"{"id":1,"method":"getSlot"}"#,
        r#"{"jsonrpc":"2.0","id":1,"#,
        "",
        "[]",
        "[1]",
        &batch(3, SLOT),
        &batch(3, SUPPLY),
        &batch(3, notification),
        &batch(20, SLOT),
        &batch(20, notification),
        &batch(21, SLOT),
        &batch(21, "{}"),
        &batch(50, SLOT),
        &format!("[{},{accounts}]", batch(17, SLOT).trim_matches(['[', ']'])),
    ] {
        let small = client.post(body);
        for bytes in [9_000, 100_000] {
            let large = client.post(&format!("{}{body}", " ".repeat(bytes)));
            assert_eq!((large.status, &large.body), (small.status, &small.body), "{body}");
        }
    }
    let not_text = [&[b' '; 9_000][..], &[0xff]].concat();
    let head = "POST / HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n";
    client.send(format!("{head}content-length: {}\r\n\r\n", not_text.len()));
    client.send(not_text);
    let response = client.receive();
    let message = "utf-8 encoding error at byte 9000 in request body";
    assert_eq!((response.status, response.body.as_str()), (400, message));
}

#[test]
fn a_client_that_uses_up_its_share_does_not_affect_another() {
    let config = small(|config| config.clients.requests_per_s = 3);
    let header = HeaderName::from_static("x-api-key");
    let by_header = Config { client_header: Some(header), ..Config::default() };
    let world = SolanaNode::with_config(by_header, config);
    let mut client = world.client();
    let mut request = |key: &str, body: &str| {
        let head = format!("host: test\r\nx-api-key: {key}");
        client.send(post(body).replace("host: test", &head));
        client.receive()
    };
    let statuses: Vec<u16> = (0..5).map(|_| request("a", SLOT).status).collect();
    assert!(statuses.starts_with(&[200, 200, 200]), "{statuses:?}");
    assert_eq!(statuses[4], 429);
    let refused = request("a", SLOT);
    assert!(refused.header("retry-after").is_some());
    let message = refused.json()["error"]["message"].to_string();
    assert!(message.contains("pool.clients.requests_per_s"), "{message}");
    assert_eq!(refused.json()["id"], json!(2), "the response to a call has its id");
    assert_eq!(request("a", &format!("[{SLOT}]")).json()["id"], Value::Null);
    assert_eq!(request("b", &format!("[{SLOT},{SLOT},{SLOT}]")).status, 200);
    assert_eq!(request("b", SLOT).status, 429, "each call of a batch counts");
}

#[test]
fn a_transaction_counts_for_the_client_that_sent_it() {
    let header = HeaderName::from_static("x-api-key");
    let world = SolanaNode::with_config(
        Config { client_header: Some(header), ..Config::default() },
        cpu_pool::Config::default(),
    );
    let mut client = world.client();
    let mut post = |key: &str, body: &str| {
        let head = format!("host: test\r\nx-api-key: {key}");
        client.send(post(body).replace("host: test", &head));
        assert_eq!(client.receive().status, 200, "{body}");
    };
    let send = call(
        "sendTransaction",
        &json!([signed_transaction(), { "encoding": "base64", "skipPreflight": true }]),
    );
    let airdrop = call("requestAirdrop", &json!([WALLET.to_string(), 1]));
    for (key, body) in
        [("a", send.clone()), ("b", airdrop.clone()), ("c", format!("[{send},{airdrop}]"))]
    {
        post(key, &body);
    }
    let senders = std::mem::take(&mut *world.transaction_service.senders.lock());
    let sender = |key: &[u8]| chain_solana::Sender::from(clients::ClientId::from_name(key));
    assert_eq!(senders, [sender(b"a"), sender(b"b"), sender(b"c"), sender(b"c")]);
}

#[test]
fn a_heavy_call_is_not_run_after_its_client_left() {
    let world = SolanaNode::new();
    let release = world.occupy_pool();
    let mut leaving = world.client();
    leaving.send(post(&simulate()));
    world.wait_pool(|pool| pool.class(Class::Medium).queued == 1);
    drop(leaving);
    world.wait_pool(|pool| pool.class(Class::Medium).cancelled == 1);
    drop(release);
    world.wait_pool(|pool| pool.class(Class::Light).completed == 1);
    assert_eq!(world.transaction_service.simulated.lock().len(), 0);
}

#[test]
fn a_heavy_call_is_run_while_its_client_is_connected() {
    let world = SolanaNode::new();
    let reply = world.client().post(&simulate()).json();
    assert_eq!(world.transaction_service.simulated.lock().len(), 1, "{reply}");
}

/// Returns a simulateTransaction of a transaction without instructions.
fn simulate() -> String {
    let message = VersionedMessage::Legacy(Message::new(&[], Some(&WALLET)));
    let transaction = VersionedTransaction { signatures: vec![Default::default()], message };
    call("simulateTransaction", &json!([base64(&transaction), { "encoding": "base64" }]))
}

/// Returns a signed transaction without instructions, in base64.
fn signed_transaction() -> String {
    let payer = Keypair::new_from_array([7; 32]);
    let message = VersionedMessage::Legacy(Message::new(&[], Some(&payer.pubkey())));
    base64(&VersionedTransaction::try_new(message, &[&payer]).expect("it is signed"))
}

fn scrape(client: &mut Client) -> String {
    client.send("GET /metrics HTTP/1.1\r\nhost: test\r\n\r\n");
    client.receive().body
}

fn base64(transaction: &VersionedTransaction) -> String {
    let bytes = bincode::serialize(transaction).expect("a transaction has bytes");
    BASE64_STANDARD.encode(bytes)
}

fn call(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}
