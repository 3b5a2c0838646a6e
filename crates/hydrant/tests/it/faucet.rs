//! The faucet over TCP, by the protocol of Agave's faucet, on a node under the name of `solana-test-validator`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_transaction::Transaction;
use tempfile::TempDir;
use testkit::child_process::run_to_end;
use testkit::node::{Node, NodeCommand};
use testkit::raw_http_client::connect_stream_from;

use crate::cheatcodes::post;
use crate::node::{HYDRANT, start_node};
use crate::raw_http::get;
use crate::world::{WAIT_TIMEOUT, World};

const SOL: u64 = 1_000_000_000;
const MEMO: &str = "Memo4c2pN8afCj432Lb7RMVKi9PbQnnW7ewFFaV3oAH";

fn test_validator(dir: &TempDir, flags: &[&str]) -> NodeCommand {
    let ledger = dir.path().join("ledger").display().to_string();
    let command = NodeCommand::new(Command::new(HYDRANT));
    command.args(["test-validator", "--quiet", "--rpc-port", "0", "--ledger", &ledger]).args(flags)
}

fn start(dir: &TempDir, flags: &[&str]) -> Result<(Node, SocketAddr)> {
    let node = test_validator(dir, flags).logged().watched().start()?;
    let faucet = node.faucet.context("it has a faucet")?;
    Ok((node, faucet))
}

/// A request as Agave's crate writes it.
fn request(lamports: u64, to: &Pubkey, blockhash: &Hash) -> Vec<u8> {
    let kind = 0_u32.to_le_bytes();
    [&kind, &lamports.to_le_bytes()[..], to.as_ref(), blockhash.as_ref()].concat()
}

fn connect(faucet: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(faucet)?;
    stream.set_read_timeout(Some(WAIT_TIMEOUT))?;
    Ok(stream)
}

/// The bytes of the next response; none for a refusal.
fn response(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut bytes = vec![0; u16::from_le_bytes(len).into()];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn ask(faucet: SocketAddr, lamports: u64, to: &Pubkey, blockhash: &Hash) -> Result<Vec<u8>> {
    let mut stream = connect(faucet)?;
    stream.write_all(&request(lamports, to, blockhash))?;
    response(&mut stream)
}

#[test]
fn a_client_gets_a_signed_airdrop_and_sends_it() -> Result<()> {
    let dir = TempDir::new()?;
    let (node, faucet) = start(&dir, &[])?;
    let world = World::new(&node);
    let to = Pubkey::new_unique();
    let blockhash = world.rpc.get_latest_blockhash()?;
    let mut stream = connect(faucet)?;
    // Several requests of one connection.
    for lamports in [2 * SOL, 3 * SOL] {
        stream.write_all(&request(lamports, &to, &blockhash))?;
        let transaction: Transaction = bincode::deserialize(&response(&mut stream)?)?;
        ensure!(transaction.verify().is_ok() && transaction.message.recent_blockhash == blockhash);
        world.rpc.send_and_confirm_transaction(&transaction)?;
    }
    ensure!(world.rpc.get_balance(&to)? == 5 * SOL);
    // `dev` has no such port unless a flag names it.
    ensure!(start_node(&[])?.faucet.is_none());
    ensure!(start_node(&["--faucet-port", "0"])?.faucet.is_some());
    Ok(())
}

#[test]
fn caps_are_those_of_the_flags() -> Result<()> {
    let dir = TempDir::new()?;
    let caps = ["--faucet-per-request-sol-cap", "2", "--faucet-per-time-sol-cap", "3"];
    let slice = ["--faucet-time-slice-secs", "3600"];
    let (node, faucet) = start(&dir, &[caps.as_slice(), &slice].concat())?;
    let world = World::new(&node);
    let to = Pubkey::new_unique();
    let blockhash = world.rpc.get_latest_blockhash()?;
    // Beyond the cap of one request: a memo with the reason.
    let memo: Transaction = bincode::deserialize(&ask(faucet, 5 * SOL, &to, &blockhash)?)?;
    let [instruction] = &memo.message.instructions[..] else { panic!("{memo:?}") };
    let text = String::from_utf8(instruction.data.clone())?;
    ensure!(text == "request too large; req: ◎5, cap: ◎2", "{text}");
    let program = memo.message.account_keys[usize::from(instruction.program_id_index)];
    ensure!(program.to_string() == MEMO);
    // Beyond the cap of a slice of time: a refusal, for requestAirdrop, too.
    ensure!(!ask(faucet, 2 * SOL, &to, &blockhash)?.is_empty());
    ensure!(ask(faucet, 2 * SOL, &to, &blockhash)?.is_empty());
    let params = json!([to.to_string(), 2 * SOL]);
    let airdrop =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "requestAirdrop", "params": params });
    let refused = post(node.rpc, &airdrop.to_string())?;
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    ensure!(message.contains("--faucet-per-time-sol-cap"), "{refused}");
    ensure!(!ask(faucet, SOL, &to, &blockhash)?.is_empty());
    ensure!(!ask(faucet, 2 * SOL, &Pubkey::new_unique(), &blockhash)?.is_empty());
    Ok(())
}

#[test]
fn hostile_clients_neither_stop_nor_fill_the_faucet() -> Result<()> {
    let dir = TempDir::new()?;
    let (node, faucet) = start(&dir, &[])?;
    let world = World::new(&node);
    let to = Pubkey::new_unique();
    let blockhash = world.rpc.get_latest_blockhash()?;
    // Bytes that are not a request end the connection, so later bytes are not read: a web page sends such heads.
    let hidden = request(SOL, &to, &blockhash);
    let http = format!("POST / HTTP/1.1\r\nHost: {faucet}\r\nContent-Length: 1000\r\n\r\n");
    let mut other_kind = hidden.clone();
    other_kind[0] = 1;
    for head in [http.into_bytes(), other_kind, vec![0xff; 1_000]] {
        let mut stream = connect(faucet)?;
        stream.write_all(&[head, hidden.clone()].concat())?;
        let mut all = Vec::new();
        // The rest was not read, so the end may be a reset.
        let _ = stream.read_to_end(&mut all);
        ensure!(all.is_empty() || all == [0, 0], "{all:?}");
    }
    // A connection has 16 requests.
    let mut stream = connect(faucet)?;
    stream.write_all(&hidden.repeat(40))?;
    let mut responses = 0;
    while response(&mut stream).is_ok() {
        responses += 1;
    }
    ensure!(responses == 16, "{responses}");
    // Idle connections, and those that send a part of a request, make room for others, of their address, too.
    let mut idle = (0..300).map(|_| connect(faucet)).collect::<Result<Vec<_>>>()?;
    for stream in idle.iter_mut().rev().take(4) {
        // It may have been closed already.
        let _ = stream.write_all(&hidden[..20]);
    }
    let mut other = connect_stream_from([127, 0, 0, 9], faucet);
    other.write_all(&hidden)?;
    ensure!(!response(&mut other)?.is_empty());
    ensure!(!ask(faucet, SOL, &to, &blockhash)?.is_empty());
    let metrics = get(node.rpc, "/metrics")?;
    let replaced = metrics.lines().find_map(|line| {
        line.strip_prefix("hydrant_faucet_connections_closed_total{cause=\"replaced\"} ")
    });
    ensure!(replaced.context("a metric")?.parse::<u64>()? >= 100, "{metrics}");
    // The node served its other ports meanwhile.
    ensure!(world.rpc.get_latest_blockhash()? != Hash::default());
    let metrics = get(node.rpc, "/metrics")?;
    ensure!(metrics.contains("hydrant_faucet_requests_total{result=\"refused\"}"), "{metrics}");
    Ok(())
}

#[test]
fn a_port_that_is_taken_ends_the_start() -> Result<()> {
    let dir = TempDir::new()?;
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let port = taken.local_addr()?.port().to_string();
    let started = test_validator(&dir, &["--faucet-port", &port]).logged().watched().start();
    let err = started.err().context("the port is taken")?;
    let text = format!("{err:#}");
    let expected = format!(
        "Unable to bind faucet to 127.0.0.1:{port}, check the address is not already in use"
    );
    ensure!(text.contains(&expected), "{text}");
    // The protocol has no API keys.
    let keys = dir.path().join("keys.toml");
    std::fs::write(&keys, "")?;
    let keys = keys.display().to_string();
    let args = ["dev", "--check", "--faucet-port", "0", "--api-keys", &keys];
    let output = run_to_end(Command::new(HYDRANT).args(args))?;
    let text = String::from_utf8(output.stderr)?;
    ensure!(
        !output.status.success() && text.contains("'--faucet-port <PORT>' cannot be used with"),
        "{text}"
    );
    Ok(())
}
