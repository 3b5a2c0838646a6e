//! Web pages of other sites: they read, as on Agave, and they use neither the faucet of a node nor its cheat codes.

use anyhow::{Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use solana_message::Message;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction::Transaction;
use testkit::node::Node;

use crate::node::start_node;
use crate::raw_http::{body, connect, exchange, get_text, post_text};
use crate::world::World;

const FOREIGN_PAGE: i64 = -32043;

fn call(node: &Node, head: &str, method: &str) -> Result<Value> {
    let address = Pubkey::new_from_array([7; 32]).to_string();
    let params = if method == "requestAirdrop" { json!([address, 1]) } else { json!([address]) };
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let response = exchange(connect(node.rpc)?, &post_text(head, &request))?;
    ensure!(response.starts_with("HTTP/1.1 200 "), "{response}");
    Ok(serde_json::from_str(body(&response)?)?)
}

#[test]
fn a_page_of_another_site_reads_and_does_not_use_the_faucet() -> Result<()> {
    let node = start_node(&[])?;
    let address = node.rpc;
    let port = address.port();
    let foreign = [
        (format!("Host: {address}\r\nOrigin: https://evil.example\r\n"), "--allow-origin"),
        (format!("Host: localhost:{port}\r\nOrigin: null\r\n"), "--allow-origin"),
        // After DNS rebinding.
        (
            format!("Host: evil.example:{port}\r\nOrigin: http://evil.example:{port}\r\n"),
            "--allow-origin",
        ),
        (format!("Host: evil.example:{port}\r\n"), "--allow-host"),
        ("Host: [::1].evil.example\r\n".to_owned(), "--allow-host"),
        ("Host: \r\n".to_owned(), "--allow-host"),
        (format!("Host: {address}\r\nSec-Fetch-Site: cross-site\r\n"), "--allow-origin"),
    ];
    for (head, flag) in foreign {
        let refused = call(&node, &head, "requestAirdrop")?;
        ensure!(refused["error"]["code"] == FOREIGN_PAGE, "{head}: {refused}");
        let message = refused["error"]["message"].as_str().unwrap_or_default();
        ensure!(message.contains("requestAirdrop") && message.contains(flag), "{refused}");
        let read = call(&node, &head, "getBalance")?;
        ensure!(read["result"]["value"].is_u64(), "{head}: {read}");
    }
    for head in [
        format!("Host: {address}\r\n"),
        format!("Host: localhost:{port}\r\n"),
        format!("Host: {address}\r\nOrigin: http://{address}\r\n"),
        format!("Host: {address}\r\nOrigin: http://localhost:3000\r\n"),
        format!("Host: {address}\r\nSec-Fetch-Site: same-origin\r\n"),
    ] {
        let sent = call(&node, &head, "requestAirdrop")?;
        ensure!(sent["result"].is_string(), "{head}: {sent}");
    }
    Ok(())
}

#[test]
fn a_page_of_another_site_sends_no_transaction_without_its_signatures() -> Result<()> {
    let node = start_node(&[])?;
    let address = node.rpc;
    let world = World::new(&node);
    world.airdrop(&world.alice.pubkey(), 1)?;
    let pay = transfer(&world.alice.pubkey(), &Pubkey::new_from_array([7; 32]), 1_000_000);
    let message = Message::new_with_blockhash(
        &[pay],
        Some(&world.alice.pubkey()),
        &world.rpc.get_latest_blockhash()?,
    );
    let unsigned = Transaction::new_unsigned(message);
    let text = BASE64_STANDARD.encode(bincode::serialize(&unsigned)?);
    let send = |head: &str, method: &str, params: Value| -> Result<Value> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let response = exchange(connect(address)?, &post_text(head, &request))?;
        Ok(serde_json::from_str(body(&response)?)?)
    };
    let own = format!("Host: {address}\r\n");
    let foreign = format!("Host: {address}\r\nOrigin: https://evil.example\r\n");
    let skip = json!([text, { "encoding": "base64", "skipSigVerify": true }]);
    let refused = send(&foreign, "sendTransaction", skip)?;
    ensure!(refused["error"]["code"] == FOREIGN_PAGE, "{refused}");
    let bundle = json!([[text], { "encoding": "base64", "skipSigVerify": true }]);
    let refused = send(&foreign, "sendBundle", bundle)?;
    ensure!(refused["error"]["code"] == FOREIGN_PAGE, "{refused}");
    let alice = json!([world.alice.pubkey().to_string()]);
    ensure!(send(&own, "hydrant_impersonateAccount", alice)?["result"] == true);
    let plain = json!([text, { "encoding": "base64", "preflightCommitment": "confirmed" }]);
    let bundle = json!([[text], { "encoding": "base64" }]);
    ensure!(send(&foreign, "sendBundle", bundle)?["error"]["code"] == -32003);
    let refused = send(&foreign, "sendTransaction", plain.clone())?;
    ensure!(refused["error"]["data"]["err"] == "SignatureFailure", "{refused}");
    let sent = send(&own, "sendTransaction", plain)?;
    ensure!(sent["result"].is_string(), "{sent}");
    Ok(())
}

#[test]
fn listed_origins_and_names_of_the_node_may_use_the_faucet() -> Result<()> {
    let node =
        start_node(&["--allow-origin", "https://app.example", "--allow-host", "node.example"])?;
    for head in [
        "Host: node.example\r\nOrigin: https://app.example\r\n",
        "Host: node.example\r\nOrigin: https://node.example\r\n",
        "Host: node.example\r\n",
    ] {
        let sent = call(&node, head, "requestAirdrop")?;
        ensure!(sent["result"].is_string(), "{head}: {sent}");
    }
    let refused = call(&node, "Host: other.example\r\n", "requestAirdrop")?;
    ensure!(refused["error"]["code"] == FOREIGN_PAGE, "{refused}");
    Ok(())
}

#[test]
fn a_page_may_read_the_headers_of_every_surface() -> Result<()> {
    let node = start_node(&["--rpc-max-request-body-size", "51200"])?;
    let head = format!("Host: {}\r\nOrigin: https://app.example\r\n", node.rpc);
    let request = |method: &str| json!({ "jsonrpc": "2.0", "id": 1, "method": method });
    let long = Value::String("0".repeat(60_000));
    let mut requests = vec![
        ("JSON-RPC", "200", post_text(&head, &request("getSlot"))),
        ("a body that is too long", "413", post_text(&head, &long)),
    ];
    for (path, status) in [
        ("/v1/node", "200"),
        ("/v1/nothing", "404"),
        ("/health", "200"),
        ("/ready", "200"),
        ("/metrics", "200"),
        ("/snapshot.tar.bz2", "403"),
        ("/snapshot-1-x.tar.zst", "404"),
    ] {
        requests.push((path, status, get_text(path, &head)));
    }
    for (what, status, request) in requests {
        let response = exchange(connect(node.rpc)?, &request)?;
        ensure!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {response}");
        let headers = response.split("\r\n\r\n").next().unwrap_or_default();
        let headers = headers.to_ascii_lowercase();
        ensure!(headers.contains("\r\naccess-control-expose-headers: *"), "{what}: {headers}");
        ensure!(headers.contains("\r\naccess-control-allow-origin: *"), "{what}: {headers}");
    }
    Ok(())
}
