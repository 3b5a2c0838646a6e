//! Cheat codes over HTTP on a real node: the examples of docs/cheatcodes.md, and a transaction that sees their effects.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction::Transaction;
use testkit::node::Node;

use crate::follower::FollowedDev;
use crate::node::start_node;
use crate::raw_http::{connect, exchange, post_text};
use crate::socket::Socket;
use crate::world::{WAIT_TIMEOUT, wait_until};

const PAGE: &str = include_str!("../../../../docs/cheatcodes.md");

/// The whole response to a request's body.
pub(crate) fn post(rpc: SocketAddr, body: &str) -> Result<Value> {
    let mut stream = TcpStream::connect(rpc)?;
    stream.set_read_timeout(Some(WAIT_TIMEOUT))?;
    let head = format!(
        "POST / HTTP/1.1\r\nHost: {rpc}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let (head, text) = response.split_once("\r\n\r\n").context("a head")?;
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let text = if is_chunked { decode_chunks(text)? } else { text.to_owned() };
    serde_json::from_str(&text).with_context(|| text.clone())
}

/// Decodes a body in chunked transfer coding.
fn decode_chunks(mut text: &str) -> Result<String> {
    let mut body = String::new();
    loop {
        let (len, rest) = text.split_once("\r\n").context("the length of a chunk")?;
        let len = usize::from_str_radix(len.trim(), 16)?;
        if len == 0 {
            return Ok(body);
        }
        body.push_str(rest.get(..len).context("a whole chunk")?);
        text = rest.get(len + 2..).context("the end of a chunk")?;
    }
}

pub(crate) fn call(node: &Node, method: &str, params: &Value) -> Result<Value> {
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    post(node.rpc, &request.to_string())
}

/// The result of a call that must have one.
pub(crate) fn ok(node: &Node, method: &str, params: &Value) -> Result<Value> {
    let mut response = call(node, method, params)?;
    ensure!(response["error"].is_null(), "{method} {params} gave {response}");
    Ok(response["result"].take())
}

/// The requests of the page with their results.
fn examples() -> Vec<(Value, Value)> {
    let mut examples = Vec::new();
    let mut request = None;
    for block in PAGE.split("```json ").skip(1) {
        let (kind, rest) = block.split_once('\n').expect("a block has lines");
        let (text, _) = rest.split_once("\n```").expect("a block ends");
        let value: Value = serde_json::from_str(text).unwrap_or_else(|err| panic!("{text}: {err}"));
        match kind {
            "request" => request = Some(value),
            "result" => examples.push((request.take().expect("its request"), value)),
            kind => panic!("a block of {kind}"),
        }
    }
    examples
}

/// Checks that two values have the same members of the same types. A list of the page may be empty.
fn check_shape(found: &Value, expected: &Value, path: &str) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            let names: BTreeSet<_> = found.keys().collect();
            assert_eq!(names, expected.keys().collect(), "{path}");
            for (name, expected) in expected {
                check_shape(&found[name], expected, &format!("{path}.{name}"));
            }
        }
        (Value::Array(found), Value::Array(expected)) => {
            for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
                check_shape(found, expected, &format!("{path}[{index}]"));
            }
            assert!(expected.is_empty() || found.len() == expected.len(), "{path}: {found:?}");
        }
        (Value::String(found), Value::String(expected)) => {
            // Names of kinds are part of the shape.
            let is_name = path.ends_with(".type");
            assert!(!is_name || found == expected, "{path}: {found}, not {expected}");
        }
        (Value::Number(_), Value::Number(_))
        | (Value::Bool(_), Value::Bool(_))
        | (Value::Null, Value::Null) => {}
        (found, expected) => panic!("{path}: {found}, not {expected}"),
    }
}

#[test]
fn every_example_of_the_page_has_its_result() -> Result<()> {
    let node = start_node(&[])?;
    let examples = examples();
    for (request, expected) in &examples {
        let response = post(node.rpc, &request.to_string())?;
        assert!(response["error"].is_null(), "{request} gave {response}");
        check_shape(&response["result"], expected, &format!("{}", request["method"]));
    }
    // Each cheat code that this node serves has an example, by the table of methods. Cheat codes that need a fork are in its tests.
    let table = include_str!("../../../../docs/methods.md");
    let served = table.lines().filter_map(|line| line.strip_prefix("| "));
    let served = served.filter(|line| line.starts_with("surfnet_") && !line.contains("not served"));
    let served = served.filter(|line| !line.contains("-32601 without `--fork-url`"));
    let names: Vec<_> = served.filter_map(|line| line.split(' ').next()).collect();
    assert!(names.len() >= 19, "{names:?}");
    for name in names {
        let has_example = examples.iter().any(|(request, _)| request["method"] == name);
        assert!(has_example, "{name} has no example");
    }
    Ok(())
}

#[test]
fn a_transaction_spends_what_a_cheat_code_gave_without_a_signature() -> Result<()> {
    let node = start_node(&["--slot-ms", "0"])?;
    let alice = Pubkey::new_unique();
    let bob = Pubkey::new_unique();
    let lamports = 5_000_000_000_u64;
    ok(&node, "surfnet_setAccount", &json!([alice.to_string(), { "lamports": lamports }]))?;
    ok(&node, "hydrant_impersonateAccount", &json!([alice.to_string()]))?;
    let blockhash = ok(&node, "getLatestBlockhash", &json!([]))?;
    let blockhash = blockhash["value"]["blockhash"].as_str().context("a blockhash")?.parse()?;
    let mut pay =
        Transaction::new_with_payer(&[transfer(&alice, &bob, 1_000_000_000)], Some(&alice));
    pay.message.recent_blockhash = blockhash;
    pay.signatures = vec![Signature::default()];
    let text = encode_base64(&bincode::serialize(&pay)?);
    let config = json!({ "encoding": "base64", "preflightCommitment": "processed" });
    let signature = ok(&node, "sendTransaction", &json!([text, config]))?;
    let balance = |address: &Pubkey| -> Result<u64> {
        let params = json!([address.to_string(), { "commitment": "processed" }]);
        ok(&node, "getBalance", &params)?["value"].as_u64().context("a balance")
    };
    wait_until(
        "Bob is paid",
        WAIT_TIMEOUT,
        || Ok((balance(&bob)? == 1_000_000_000).then_some(())),
    )?;
    let statuses = ok(&node, "getSignatureStatuses", &json!([[signature]]))?;
    ensure!(statuses["value"][0]["err"].is_null(), "{statuses}");

    let profile = ok(&node, "surfnet_getTransactionProfile", &json!([signature]))?;
    let units = &profile["value"]["instructionProfiles"][0]["computeUnitsConsumed"];
    ensure!(*units == 150, "{profile}");
    let listed = ok(&node, "surfnet_getLocalSignatures", &json!([1]))?;
    ensure!(listed["value"][0]["signature"] == signature, "{listed}");

    ok(&node, "surfnet_resetNetwork", &json!([]))?;
    ensure!(balance(&alice)? == 0 && balance(&bob)? == 0);
    Ok(())
}

#[test]
fn a_paused_node_stays_healthy_and_goes_on() -> Result<()> {
    let node = start_node(&["--slot-ms", "20", "--mint", &Keypair::new().pubkey().to_string()])?;
    let slot = |commitment: &str| -> Result<u64> {
        let slot = ok(&node, "getSlot", &json!([{ "commitment": commitment }]))?;
        slot.as_u64().context("a slot")
    };
    wait_until("slots advance", WAIT_TIMEOUT, || Ok((slot("processed")? > 3).then_some(())))?;
    let paused = ok(&node, "surfnet_pauseClock", &json!([]))?;
    let to = Pubkey::new_unique().to_string();
    ok(&node, "requestAirdrop", &json!([to, 1_000_000_000]))?;
    let balance = || ok(&node, "getBalance", &json!([to, { "commitment": "processed" }]));
    wait_until("the airdrop is processed", WAIT_TIMEOUT, || {
        Ok((balance()?["value"] == 1_000_000_000).then_some(()))
    })?;
    ensure!(slot("processed")? == paused["absoluteSlot"].as_u64().context("a slot")?);
    ensure!(ok(&node, "getHealth", &json!([]))? == "ok");
    ok(&node, "surfnet_resumeClock", &json!([]))?;
    let paused = slot("processed")?;
    wait_until("slots advance", WAIT_TIMEOUT, || Ok((slot("confirmed")? > paused).then_some(())))
}

#[test]
fn a_hostile_client_changes_nothing_and_ends_nothing() -> Result<()> {
    let node = start_node(&["--slot-ms", "0"])?;
    let me = Pubkey::new_unique().to_string();
    let system = "11111111111111111111111111111111";
    let clock = "SysvarC1ock11111111111111111111111111111111";
    for (method, params) in [
        ("surfnet_setAccount", json!([me, { "lamports": u64::MAX }])),
        ("surfnet_setAccount", json!([me, { "data": "0g" }])),
        ("surfnet_setAccount", json!([me, { "owner": "x" }])),
        ("surfnet_setAccount", json!([system, { "lamports": 0 }])),
        ("surfnet_setAccount", json!([clock, { "data": "" }])),
        ("surfnet_setAccount", json!([clock, { "lamports": 0 }])),
        ("surfnet_writeProgram", json!([system, "00", 0])),
        ("surfnet_writeProgram", json!([me, "00", u64::MAX])),
        ("surfnet_timeTravel", json!([{ "absoluteSlot": u64::MAX }])),
        ("surfnet_timeTravel", json!([{ "absoluteEpoch": u64::MAX }])),
        ("surfnet_timeTravel", json!([{ "absoluteTimestamp": u64::MAX }])),
        ("surfnet_timeTravel", json!([{ "absoluteSlot": 0 }])),
        ("surfnet_resetAccount", json!([clock, { "includeOwnedAccounts": 5 }])),
        ("surfnet_getLocalSignatures", json!([u64::MAX])),
        ("surfnet_profileTransaction", json!(["AAAA", "t"])),
    ] {
        let response = call(&node, method, &params)?;
        let code = response["error"]["code"].as_i64();
        ensure!(code == Some(-32602), "{method} {params} gave {response}");
    }
    let large = json!([me, { "data": "00".repeat(8 << 20) }]);
    let request =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "surfnet_setAccount", "params": large });
    // The body is over its limit: the node may end the connection before it has read all of it.
    let refused = post(node.rpc, &request.to_string());
    ensure!(refused.as_ref().map_or(true, |it| !it["error"].is_null()), "{refused:?}");
    for number in 0..1_500 {
        let address = Pubkey::new_unique().to_string();
        let response = call(&node, "hydrant_impersonateAccount", &json!([address]))?;
        ensure!(response["error"].is_null() == (number < 1_000), "{number}: {response}");
    }
    let balance = ok(&node, "getBalance", &json!([me]))?;
    ensure!(balance["value"] == 0, "{balance}");
    ok(&node, "surfnet_setAccount", &json!([me, { "lamports": 7 }]))?;
    ensure!(ok(&node, "getBalance", &json!([me]))?["value"] == 7);
    Ok(())
}

#[test]
fn a_node_without_cheat_codes_refuses_them() -> Result<()> {
    let node = start_node(&["--no-cheatcodes"])?;
    let params = json!([Pubkey::new_unique().to_string(), { "lamports": 5 }]);
    let response = call(&node, "surfnet_setAccount", &params)?;
    let error = &response["error"];
    ensure!(error["code"] == -32601, "{response}");
    ensure!(error["message"] == "surfnet_setAccount is switched off (--no-cheatcodes)", "{error}");
    Ok(())
}

#[test]
fn a_subscriber_and_a_follower_see_what_a_cheat_code_writes() -> Result<()> {
    let nodes = FollowedDev::start(&["--slot-ms", "50", "--finalize-after", "8"])?;
    let dev = &nodes.dev;
    let follower = &nodes.follower;
    let address = Pubkey::new_unique();
    let socket = Socket::open(&dev.ws_url())?;
    let inbox = socket.listen(async |client| client.account_subscribe(&address, None).await)?;
    let set = |lamports: u64| {
        ok(dev, "surfnet_setAccount", &json!([address.to_string(), { "lamports": lamports }]))
    };
    let has = |lamports: u64| {
        wait_until("the follower to have the account", WAIT_TIMEOUT, || {
            let params = json!([address.to_string(), { "commitment": "confirmed" }]);
            Ok((ok(follower, "getBalance", &params)?["value"] == lamports).then_some(()))
        })
    };
    set(5_000_000)?;
    ensure!(inbox.next()?.value.lamports == 5_000_000);
    has(5_000_000)?;
    // Slots without blocks, and a write after them.
    ok(dev, "surfnet_timeTravel", &json!([{ "absoluteSlot": 100_000 }]))?;
    set(6_000_000)?;
    has(6_000_000)?;
    let verification = ok(follower, "hydrantGetVerification", &json!([]))?;
    ensure!(verification["mismatchedBanks"] == 0, "{verification}");
    Ok(())
}

fn encode_base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::prelude::BASE64_STANDARD.encode(bytes)
}

#[test]
fn a_program_fits_into_the_request_of_a_cheat_code() -> Result<()> {
    let update = json!({ "lamports": 100_000_000_000_u64, "data": "00".repeat(300_000) });
    let request = json!({
        "jsonrpc": "2.0", "id": 1, "method": "surfnet_setAccount",
        "params": [Pubkey::new_unique().to_string(), update],
    });
    let node = start_node(&["--slot-ms", "0"])?;
    let response = post(node.rpc, &request.to_string())?;
    ensure!(response["result"]["value"].is_null() && response["error"].is_null(), "{response}");
    Ok(())
}

#[test]
fn only_a_client_on_the_machine_of_the_node_locks_its_cheat_codes() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let config = dir.path().join("hydrant.toml");
    std::fs::write(&config, "[rpc]\nclient_header = \"x-forwarded-for\"\n")?;
    let node = start_node(&["--config", &config.display().to_string()])?;
    let lock = json!({
        "jsonrpc": "2.0", "id": 1, "method": "surfnet_disableCheatcode",
        "params": ["all", { "lockout": true }],
    });
    let head = format!("Host: {}\r\nX-Forwarded-For: 203.0.113.7\r\n", node.rpc);
    let refused = exchange(connect(node.rpc)?, &post_text(&head, &lock))?;
    ensure!(refused.contains("-32602") && refused.contains("a lockout is final"), "{refused}");
    ok(&node, "surfnet_pauseClock", &json!([]))?;
    ensure!(post(node.rpc, &lock.to_string())?["error"].is_null());
    let locked = call(&node, "surfnet_resumeClock", &json!([]))?;
    ensure!(locked["error"]["code"] == -32601, "{locked}");
    Ok(())
}
