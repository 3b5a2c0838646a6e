//! The shares of clients in a fork's upstream: one client floods it, and another one is served. Errors of any length.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use solana_pubkey::Pubkey;
use testkit::node::Node;
use testkit::raw_http_client::Client;

use crate::cheatcodes::call;
use crate::fork_upstream::{account_json, metric, pubkey, start_fork, upstream_with};
use crate::hostile_upstream::{HostileResponse, SERVED_KEY, hostile};
use crate::node::start_node;
use crate::world::{LAMPORTS_PER_SOL, WAIT_TIMEOUT, wait_until};

/// Address of a client next to the one at 127.0.0.1.
const OTHER_CLIENT: [u8; 4] = [127, 0, 0, 2];
/// Longer than any test waits, and than the deadline of a task.
const TIMEOUT_MS: &str = "60000";
const CALLS: &str = "hydrant_fork_upstream_calls_total{result=\"ok\"}";

fn send_balance_request(client: &mut Client, node: &Node, key: &Pubkey) {
    let call =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "getBalance", "params": [key.to_string()] });
    let body = call.to_string();
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        node.rpc,
        body.len()
    ));
}

/// The balance of an account, as another client than the flood's reads it.
fn balance_for_other_client(node: &Node, key: &Pubkey) -> Result<u64> {
    let mut client = Client::connect_from(OTHER_CLIENT, node.rpc);
    send_balance_request(&mut client, node, key);
    let response: Value = client.receive().json();
    response["result"]["value"].as_u64().with_context(|| response.to_string())
}

/// Sends requests of one client for addresses that do not exist, and does not wait for the responses.
fn start_flood(node: &Node, requests: u8) -> Vec<Client> {
    let start_one = |n| {
        let mut client = Client::connect(node.rpc);
        send_balance_request(&mut client, node, &pubkey(100 + n));
        client
    };
    (0..requests).map(start_one).collect()
}

#[test]
fn stalled_fetches_of_one_client_do_not_stop_another() -> Result<()> {
    let url = hostile(HostileResponse::StallOthers)?;
    let flags = ["--slot-ms", "0", "--fork-timeout-ms", TIMEOUT_MS];
    let fork = start_node(&[&["--fork-url", &url][..], &flags].concat())?;
    let flood = start_flood(&fork, 20);
    wait_until("the flood to wait", WAIT_TIMEOUT, || {
        Ok((metric(&fork, "hydrant_fork_upstream_requests_waiting")? >= 16).then_some(()))
    })?;
    ensure!(balance_for_other_client(&fork, &SERVED_KEY)? == 7);
    ensure!(metric(&fork, "hydrant_fork_upstream_requests_waiting")? >= 16, "the flood waits");
    drop(flood);
    Ok(())
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a rate is measured in real time")]
fn a_flood_of_absent_addresses_uses_its_rate_and_no_more() -> Result<()> {
    let known = pubkey(1);
    let upstream = upstream_with(&[account_json(&known, &Pubkey::default(), &[])], &[])?;
    let rate = ["--fork-client-calls-per-s", "1", "--fork-timeout-ms", TIMEOUT_MS];
    let fork = start_fork(&upstream, &[&["--slot-ms", "0"][..], &rate].concat())?;
    let before = metric(&fork, CALLS)?;
    let started = Instant::now();
    let flood = start_flood(&fork, 100);
    wait_until("the burst", WAIT_TIMEOUT, || {
        Ok((metric(&fork, CALLS)? >= before + 10).then_some(()))
    })?;
    ensure!(balance_for_other_client(&fork, &known)? == 5 * LAMPORTS_PER_SOL);
    let calls = metric(&fork, CALLS)? - before;
    // The burst, one fetch of each other thread, the genesis hash of four connections, and the other client's account.
    let calls_max = 11 + 2 + 4 + 1 + started.elapsed().as_secs();
    ensure!(calls <= calls_max, "{calls} calls, at most {calls_max}");
    drop(flood);
    Ok(())
}

#[test]
fn an_error_of_an_upstream_reaches_the_client_in_a_bounded_form() -> Result<()> {
    let url = hostile(HostileResponse::LongError)?;
    let fork = start_node(&["--fork-url", &url, "--slot-ms", "0"])?;
    for (method, params) in [
        ("getBalance", json!([pubkey(1).to_string()])),
        ("requestAirdrop", json!([pubkey(1).to_string(), 5])),
    ] {
        let response = call(&fork, method, &params)?;
        let message =
            response["error"]["message"].as_str().with_context(|| response.to_string())?;
        ensure!(message.contains("refused the request: -32602: xxx"), "{message:.200}");
        ensure!(message.len() < 1_000, "{method}: {} bytes", message.len());
    }
    ensure!(fork.log().len() < 10_000, "the log: {} bytes", fork.log().len());
    Ok(())
}
