//! The settings of every node on a node that follows: its file has those of `hydrant dev`, and they have their effects.

use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_client::{Client, Endpoint};
use serde_json::{Value, json};
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use testkit::child_process::run_to_end;
use testkit::json_rpc_client::JsonRpcClient;
use testkit::node::{Node, NodeCommand};
use tpu::TlsIdentity;

use crate::follower::wait_until_healthy;
use crate::node::{HYDRANT, start_node};
use crate::world::{World, wait_until};

/// No step takes this long, however slow the machine is.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Connections of an address, in the test of clients behind a proxy.
const CONNECTIONS: usize = 8;

/// The serving settings that `hydrant follow` lacked, as keys of a file.
const SERVING: &str = "io-threads = 1\ncpu-threads = 2\nheavy-max = 3\nconnections-max = 50\n\
                       max-tracked-addresses = 1000\nmax-addresses = 100000\ncache-bytes-max = 0\n\
                       history-slots = 200\nhistory-bytes = 10000000\nqueue-max = 100\n\
                       rpc-max-request-body-size = 2000\nslow-request-ms = 0\ntpu-port = 0\n\
                       tpu-connections-max = 5\nendpoints-file = \"unused\"\n[quic]\nverify_threads = 2\n";

/// The file of a node that follows `dev`, with these settings of its own before those of [`SERVING`].
fn write_config(path: &Path, dev: &Node, settings: &str, start: &str) -> Result<()> {
    let grpc = dev.grpc.context("the ledger serves gRPC")?;
    let follow = format!("[follow]\nsource = [\"http://{grpc}\"]\n{start}");
    fs::write(path, format!("{settings}{SERVING}{follow}")).context("write the file")
}

fn follow(config: &Path) -> Command {
    let mut command = Command::new(HYDRANT);
    command.args(["follow", "--quiet", "--log", "--rpc-port", "0", "--config"]).arg(config);
    command
}

fn start(config: &Path) -> Result<Node> {
    let node = NodeCommand::new(follow(config)).logged().watched().start()?;
    wait_until_healthy(&node)?;
    Ok(node)
}

fn program_accounts(node: &Node, program: &Pubkey) -> Result<Value> {
    let mut client = JsonRpcClient::open(node.rpc)?;
    client.call("getProgramAccounts", json!([program.to_string(), {"encoding": "base64"}]))
}

#[test]
fn a_follower_has_the_settings_of_a_node_from_its_file() -> Result<()> {
    let dev = start_node(&["--slot-ms", "50"])?;
    let dir = tempfile::tempdir()?;
    let config = dir.path().join("node.toml");
    let ledger = dir.path().join("ledger");
    let system = Pubkey::default();
    let settings = format!(
        "ledger = {ledger:?}\naccount-index = [\"program-id\"]\naccount-index-exclude-key = [\"{system}\"]\n"
    );
    let archive = format!("snapshot = \"{}\"\nsnapshot-dir = {:?}\n", dev.rpc_url(), dir.path());
    write_config(&config, &dev, &settings, &archive)?;
    let follower = start(&config)?;
    let excluded =
        format!("{:#}", program_accounts(&follower, &system).expect_err("it is excluded"));
    ensure!(excluded.contains("-32010"), "{excluded}");
    ensure!(program_accounts(&follower, &solana_sdk_ids::vote::ID)?.as_array().is_some());
    let long = send_long_request(&follower).expect_err("its body is too long");
    ensure!(format!("{long:#}").contains("413"), "{long:#}");
    ensure!(threads(&follower, "pool-")? == 2);
    lands_over_quic(&dev, &follower)?;
    drop(follower);

    // A start from the stored state has the settings of that start.
    write_config(&config, &dev, &format!("ledger = {ledger:?}\n"), "")?;
    let follower = start(&config)?;
    ensure!(
        program_accounts(&follower, &system)?.as_array().is_some_and(|found| !found.is_empty())
    );
    Ok(())
}

/// Counts the threads of a node by the start of their name.
fn threads(node: &Node, name: &str) -> Result<usize> {
    let mut count = 0;
    for thread in fs::read_dir(format!("/proc/{}/task", node.pid()))? {
        // A thread may end meanwhile.
        let comm = fs::read_to_string(thread?.path().join("comm")).unwrap_or_default();
        count += usize::from(comm.starts_with(name));
    }
    Ok(count)
}

/// A request whose body has more bytes than the file allows.
fn send_long_request(node: &Node) -> Result<Value> {
    let mut client = JsonRpcClient::open(node.rpc)?;
    client.call("getBalance", json!([" ".repeat(3_000)]))
}

/// Sends a transfer to the QUIC port of the follower, which passes it on to the leader.
fn lands_over_quic(dev: &Node, follower: &Node) -> Result<()> {
    let world = World::new(dev);
    world.airdrop(&world.payer.pubkey(), 10)?;
    let pay = transfer(&world.payer.pubkey(), &world.bob.pubkey(), 1_000_000);
    let transaction = world.sign(&[pay], &[], &[], world.rpc.get_latest_blockhash()?)?;
    let port = follower.tpu.context("the follower accepts transactions over QUIC")?;
    let bytes = bincode::serialize(&transaction)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _connection = runtime.block_on(send_over_quic(port, &bytes))?;
    let confirmed = world.wait_until_confirmed(&transaction.signatures[0]);
    confirmed.with_context(|| follower.log_end())?.context("the transfer")
}

async fn send_over_quic(port: SocketAddr, transaction: &[u8]) -> Result<impl Sized + use<>> {
    let keypair = Keypair::new();
    let identity = TlsIdentity::new(*keypair.secret_bytes(), keypair.pubkey());
    let config = quinn::ClientConfig::new(Arc::new(tpu::client_config(&identity)?));
    let endpoint = quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
    let connection = endpoint.connect_with(config, port, "tpu")?.await?;
    let mut stream = connection.open_uni().await?;
    stream.write_all(transaction).await?;
    stream.finish()?;
    stream.stopped().await?;
    Ok((endpoint, connection))
}

/// Returns the HTTP status of a request that a proxy passes on for a client.
fn forward(proxy: &mut Client, client: &str, path: &str, body: Option<&str>) -> Result<u16> {
    let method = if body.is_some() { "POST" } else { "GET" };
    let request = proxy.endpoint().request_with(method, path, &[("x-real-ip", client)], body);
    Ok(proxy.exchange(&request)?.status)
}

#[test]
fn a_follower_behind_a_proxy_has_limits_for_each_client() -> Result<()> {
    let dev = start_node(&["--slot-ms", "50"])?;
    let grpc = dev.grpc.context("the ledger serves gRPC")?;
    let dir = tempfile::tempdir()?;
    let config = dir.path().join("node.toml");
    let clients = format!(
        "[rpc]\nclient_header = \"x-real-ip\"\nconnections_per_address_max = {CONNECTIONS}\n\
         [pool.clients]\nrequests_per_s = 3\n"
    );
    let chain =
        format!("[follow]\nsource = [\"http://{grpc}\"]\nsnapshot = \"{}\"\n", dev.rpc_url());
    fs::write(&config, format!("{clients}{chain}snapshot-dir = {:?}\n", dir.path()))?;
    let follower = start(&config)?;
    let endpoint = Endpoint::from(follower.rpc);

    let slot = Some(r#"{"jsonrpc":"2.0","id":1,"method":"getSlot"}"#);
    let mut proxy = Client::open(endpoint.clone())?;
    let mut calls = 0;
    while forward(&mut proxy, "203.0.113.7", "/", slot)? == 200 {
        calls += 1;
        ensure!(calls < 1_000, "a client has no limit");
    }
    ensure!(forward(&mut proxy, "203.0.113.8", "/", slot)? == 200, "another one is limited too");
    drop(proxy);

    let mut open = Vec::new();
    for n in 0..CONNECTIONS {
        let client = format!("198.51.100.{n}");
        // Connections that were closed may still be counted.
        let connect = || {
            let Ok(mut proxy) = Client::open(endpoint.clone()) else { return Ok(None) };
            let is_served = forward(&mut proxy, &client, "/health", None).is_ok_and(|it| it == 200);
            Ok(is_served.then_some(proxy))
        };
        open.push(wait_until("a connection", TIMEOUT, connect)?);
    }
    let mut refusal = String::new();
    TcpStream::connect(follower.rpc)?.read_to_string(&mut refusal)?;
    ensure!(refusal.starts_with("HTTP/1.1 429"), "{refusal}");
    ensure!(refusal.contains("rpc.connections_per_address_max"), "{refusal}");
    Ok(())
}

#[test]
fn the_settings_of_a_follower_are_checked_without_a_start() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let config = dir.path().join("node.toml");
    let check = |text: &str| {
        fs::write(&config, text)?;
        let run = run_to_end(follow(&config).arg("--check"))?;
        let output = [run.stdout, run.stderr].concat();
        anyhow::Ok((run.status.success(), String::from_utf8(output)?))
    };
    let chain = "[follow]\nsource = [\"http://127.0.0.1:1\"]\nsnapshot = \"http://127.0.0.1:1\"\n";
    let valid = check(&format!("{SERVING}{chain}"))?;
    ensure!(valid.0 && valid.1.contains("settings are valid"), "{}", valid.1);
    for (settings, refusal) in [
        ("max-addresses = 0\n", "--max-addresses is 0: must be from 1 to"),
        ("queue-max = 0\n", "--queue-max is 0: must be from 1 to"),
        ("drain-seconds = 3601\n", "--drain-seconds is 3601: must be from 0 to 3600"),
        ("slot-ms = 400\n", "unknown field `slot-ms`"),
        ("identity-weights = \"/nowhere\"\n", "--identity-weights: /nowhere"),
        ("tls-cert = \"/nowhere\"\n", "--tls-cert needs --tls-key"),
        ("reset = true\n", "--reset requires --ledger"),
    ] {
        let refused = check(&format!("{settings}{chain}"))?;
        ensure!(!refused.0 && refused.1.contains(refusal), "{settings}: {}", refused.1);
    }
    let deep = check(&"[".repeat(1_000_000))?;
    ensure!(!deep.0 && deep.1.len() < 10_000 && deep.1.contains("bytes) ..."), "{}", deep.1.len());
    let agree = "verify = \"agree\"\nverify-source = [\"http://localhost:1/KEY\"]\n";
    let same = check(&format!("{chain}{agree}"))?;
    ensure!(!same.0 && same.1.contains("--verify-source http://localhost:1 is the same server"));
    ensure!(same.1.contains("as --source http://127.0.0.1:1,") && !same.1.contains("KEY"));
    let archive = dir.path().join("snapshot.tar.zst");
    fs::write(&archive, "BZh91AY&SY")?;
    let source = "[follow]\nsource = [\"http://127.0.0.1:1\"]\nupstream = \"http://127.0.0.1:1\"\n";
    let file = format!("{source}snapshot = \"{}\"\n", archive.display());
    let foreign = check(&file)?;
    ensure!(!foreign.0 && foreign.1.contains("compressed with bzip2"), "{}", foreign.1);
    let nowhere = dir.path().join("nowhere");
    let no_state = check(&format!("ledger = \"{}\"\n{source}", nowhere.display()))?;
    ensure!(!no_state.0 && no_state.1.contains("--ledger has no state yet"), "{}", no_state.1);
    ensure!(!nowhere.exists(), "a check writes nothing");
    fs::create_dir_all(nowhere.join("store"))?;
    let of_dev = check(&format!("ledger = \"{}\"\n{chain}", nowhere.display()))?;
    ensure!(!of_dev.0 && of_dev.1.contains("--ledger: "), "{}", of_dev.1);
    let without = check("[follow]\nsnapshot = \"http://127.0.0.1:1\"\n")?;
    ensure!(!without.0 && without.1.contains("--source is required"), "{}", without.1);
    Ok(())
}
