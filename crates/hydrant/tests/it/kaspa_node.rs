//! `hydrant follow-kaspa` over a model of kaspad: own responses, forwarded ones, proof, restart, settings, and the end.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use hydrant::{KaspaConfig, KaspaProducer, Node, NodeConfig, NodeError, NodeHandle};
use kaspa::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::child_process::{KillOnDrop, run_to_end};
use testkit::json_rpc_client::JsonRpcClient;
use testkit::kaspa_node::{KaspaNode, MINER, WrpcClient, WrpcMessage, simnet_address};

use crate::api_keys::new_key;
use crate::free_ports::free_ports;
use crate::node::HYDRANT;
use crate::raw_http::{body, connect, exchange, get};
use crate::world::{WAIT_TIMEOUT, wait_until};

/// A running `hydrant follow-kaspa`. It ends with the value.
pub(crate) struct KaspaProcess {
    process: KillOnDrop,
    pub(crate) borsh: SocketAddr,
    pub(crate) json: SocketAddr,
    pub(crate) rpc: SocketAddr,
    log: PathBuf,
    dir: TempDir,
}

/// The name of the file with the addresses of a process.
const ENDPOINTS_FILE: &str = "endpoints.json";

/// Returns an address of a process from its file.
fn read_address(dir: &Path, name: &str) -> Option<SocketAddr> {
    let text = fs::read(dir.join(ENDPOINTS_FILE)).ok()?;
    let found: Value = serde_json::from_slice(&text).ok()?;
    let (_, address) = found[name].as_str()?.split_once("://")?;
    address.parse().ok()
}

impl KaspaProcess {
    /// Follows a node on free ports, with further flags.
    pub(crate) fn start(source: &KaspaNode, flags: &[&str]) -> Result<Self> {
        let dir = TempDir::new()?;
        let endpoints = dir.path().join(ENDPOINTS_FILE);
        let log = dir.path().join("log");
        let output = File::create(&log)?;
        let mut command = Command::new(HYDRANT);
        command
            .args(["follow-kaspa", "--log", "--network", "simnet", "--rpc-port", "0"])
            .args(["--source", &format!("ws://{}", source.borsh())])
            .args(["--json-source", &format!("ws://{}", source.json())])
            .args(["--wrpc-borsh-port", "0", "--wrpc-json-port", "0"])
            .arg("--endpoints-file")
            .arg(&endpoints)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let mut process = KillOnDrop::spawn(&mut command)?;
        let borsh = wait_until("the node", WAIT_TIMEOUT, || {
            if let Some(status) = process.0.try_wait()? {
                anyhow::bail!("it ended: {status}: {}", fs::read_to_string(&log)?);
            }
            Ok(read_address(dir.path(), "wrpc_borsh"))
        })?;
        let json = read_address(dir.path(), "wrpc_json").context("no port for JSON")?;
        let rpc = read_address(dir.path(), "rpc").context("no port for JSON-RPC")?;
        Ok(Self { process, borsh, json, rpc, log, dir })
    }

    /// Returns the address of gRPC, if it is served.
    pub(crate) fn grpc(&self) -> Option<SocketAddr> {
        read_address(self.dir.path(), "grpc")
    }

    /// Waits until every port reports that the sink of the node is proven.
    pub(crate) fn wait_for_sink(&self, node: &KaspaNode) -> Result<()> {
        let proven = format!("hydrant-proven-block: {}\r\n", node.sink());
        for port in [self.borsh, self.json, self.rpc] {
            wait_until("the sink", WAIT_TIMEOUT, || {
                let response = get(port, "/health")?;
                let is_proven = response.starts_with("HTTP/1.1 200 ") && response.contains(&proven);
                Ok(is_proven.then_some(()))
            })
            .with_context(|| self.log())?;
        }
        Ok(())
    }

    /// Waits for a /ready that is refused, and returns it.
    fn wait_until_unready(&self) -> Result<String> {
        wait_until("a problem", WAIT_TIMEOUT, || {
            let response = get(self.json, "/ready")?;
            Ok(response.starts_with("HTTP/1.1 503 ").then_some(response))
        })
    }

    fn signal(&self) -> Result<()> {
        let kill = Command::new("kill").arg(self.process.0.id().to_string()).status()?;
        ensure!(kill.success(), "kill: {kill}");
        Ok(())
    }

    fn wait_for_end(&mut self) -> Result<ExitStatus> {
        wait_until("the node's end", WAIT_TIMEOUT, || Ok(self.process.0.try_wait()?))
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_else(|err| format!("no log: {err}"))
    }
}

fn miner() -> String {
    simnet_address(MINER).to_string()
}

/// Calls a method of wRPC in JSON, and returns its result.
async fn call(client: &mut WrpcClient, method: &str, params: Value) -> Result<Value> {
    let id = 7;
    client.send_text(&json!({ "id": id, "method": method, "params": params }).to_string()).await;
    loop {
        let message: Value = serde_json::from_str(&client.read_text().await)?;
        if message["id"] == json!(id) {
            ensure!(message["error"].is_null(), "{method}: {message}");
            return Ok(message["params"].clone());
        }
    }
}

/// Reads notifications until one of this kind comes.
async fn read_notification(client: &mut WrpcClient, scope: &str) -> Result<Value> {
    loop {
        let message: Value = serde_json::from_str(&client.read_text().await)?;
        let params = &message["params"][scope];
        if !params.is_null() {
            return Ok(params.clone());
        }
    }
}

/// Calls a method of Hydrant's own JSON-RPC. The client blocks, and has a runtime of its own.
fn call_own(rpc: SocketAddr, method: &str, params: Value) -> Result<Value> {
    tokio::task::block_in_place(|| JsonRpcClient::open(rpc)?.call(method, params))
}

/// Reads until the connection ends. Returns the code of the close frame.
async fn read_until_end(client: &mut WrpcClient) -> Option<u16> {
    loop {
        if let WrpcMessage::End(code) = client.read_message().await {
            return code;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_responds_forwards_and_notifies() -> Result<()> {
    let source = KaspaNode::start().await;
    source.mine(20);
    let node = KaspaProcess::start(&source, &[])?;
    node.wait_for_sink(&source)?;
    for line in ["follows simnet from DAA score 0", "Borsh      ws://", "Proven     block "] {
        ensure!(node.log().contains(line), "{line} is not in {}", node.log());
    }

    let mut client = WrpcClient::connect(node.json).await;
    let addresses = json!({ "addresses": [miner()] });
    let utxos = call(&mut client, "getUtxosByAddresses", addresses.clone()).await?;
    let entries = utxos["entries"].as_array().context("a list")?;
    assert_eq!(entries.len(), source.utxos().len(), "all of them are the miner's");
    let count = call(&mut client, "getBlockCount", json!({})).await?;
    assert_eq!(count["blockCount"], json!(source.with_dag(|dag| dag.block_count())));

    call(&mut client, "subscribe", json!({ "UtxosChanged": addresses })).await?;
    source.mine(2);
    let changed = read_notification(&mut client, "UtxosChanged").await?;
    ensure!(changed["added"].as_array().is_some_and(|added| !added.is_empty()), "{changed}");

    node.wait_for_sink(&source)?;
    let balance = call_own(node.rpc, "getBalance", json!([miner(), { "at": "sink" }]))?;
    // The virtual state of before was that of 20 blocks, and the sink now accepts the rewards of 21.
    assert_eq!(balance["value"]["utxoCount"], json!(entries.len() + 1), "{balance}");
    let metrics = get(node.rpc, "/metrics")?;
    for series in [
        "hydrant_kaspa_requests_total{encoding=\"json\",method=\"getUtxosByAddresses\"} 1",
        "hydrant_kaspa_forwarded_total{outcome=\"reply\"} 1",
        "hydrant_kaspa_source{state=\"caught_up\"} 1",
        "hydrant_websocket_connections 1",
        "hydrant_memory_bytes{part=\"packed\"}",
        "hydrant_memory_bytes{part=\"start\"}",
        "hydrant_ready 1",
    ] {
        ensure!(metrics.contains(series), "{series} is not in {metrics}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_says_what_is_missing_and_what_is_proven() -> Result<()> {
    let source = KaspaNode::start().await;
    source.mine(5);
    source.set_accepting(false);
    let node = KaspaProcess::start(&source, &[])?;
    let before = wait_until("a missing source", WAIT_TIMEOUT, || {
        let ready = get(node.json, "/ready")?;
        Ok(ready.contains("no source is connected").then_some(ready))
    })?;
    ensure!(before.starts_with("HTTP/1.1 503 "), "{before}");
    let text = body(&before)?;
    ensure!(text.contains("proven up to block") && text.contains("DAA score 0"), "{before}");
    // Anyone may read it, so it has no address of a source.
    ensure!(text.starts_with("no source is connected;"), "{before}");
    source.set_accepting(true);
    node.wait_for_sink(&source)?;
    ensure!(body(&get(node.rpc, "/ready")?)? == "ready\n");

    let proven = source.sink();
    let refused = source.mine_with_false_commitment(3);
    let after = wait_until("the mismatch", WAIT_TIMEOUT, || {
        let ready = get(node.borsh, "/ready")?;
        Ok(ready.contains(&refused.to_string()).then_some(ready))
    })?;
    ensure!(after.starts_with("HTTP/1.1 503 ") && after.contains("is refused"), "{after}");
    ensure!(after.contains(&format!("hydrant-proven-block: {proven}\r\n")), "{after}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_restarts_from_its_snapshot_without_a_source() -> Result<()> {
    let source = KaspaNode::start().await;
    source.mine(30);
    let dir = TempDir::new()?;
    let ledger = dir.path().join("ledger").display().to_string();
    let flags = ["--ledger", ledger.as_str(), "--reorg-depth", "3"];
    let mut node = KaspaProcess::start(&source, &flags)?;
    node.wait_for_sink(&source)?;
    node.signal()?;
    let status = node.wait_for_end()?;
    ensure!(status.success(), "{status}: {}", node.log());
    ensure!(Path::new(&ledger).join("kaspa.snapshot").is_file(), "{}", node.log());

    source.set_accepting(false);
    let node = KaspaProcess::start(&source, &flags)?;
    ensure!(node.log().contains("Starts from the UTXO set at DAA score 2"), "{}", node.log());
    let mut client = WrpcClient::connect(node.json).await;
    let utxos = call(&mut client, "getUtxosByAddresses", json!({ "addresses": [miner()] })).await?;
    let entries = utxos["entries"].as_array().context("a list")?;
    ensure!(entries.len() > 20, "{} UTXOs", entries.len());
    source.set_accepting(true);
    source.mine(3);
    node.wait_for_sink(&source)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deep_reorganization_starts_the_program_again() -> Result<()> {
    let source = KaspaNode::start().await;
    source.mine(30);
    let mut node = KaspaProcess::start(&source, &["--reorg-depth", "3"])?;
    node.wait_for_sink(&source)?;
    source.set_accepting(false);
    source.cut_after(0);
    // The next message cuts each connection, also that of an idle relay.
    source.mine(1);
    wait_until("the end of the connections", WAIT_TIMEOUT, || {
        Ok((source.connections() == 0).then_some(()))
    })?;
    source.reorganize(8);
    source.set_accepting(true);
    let proven = format!("hydrant-proven-block: {}\r\n", source.sink());
    wait_until("the new chain", WAIT_TIMEOUT, || {
        let status = node.process.0.try_wait()?;
        ensure!(status.is_none(), "{status:?}: {}", node.log());
        // It has other ports, which are closed while it starts.
        let port = read_address(node.dir.path(), "wrpc_borsh").unwrap_or(node.borsh);
        let health = get(port, "/health").unwrap_or_default();
        let is_proven = health.starts_with("HTTP/1.1 200 ") && health.contains(&proven);
        Ok(is_proven.then_some(()))
    })
    .with_context(|| node.log())?;
    let again = node.log();
    ensure!(again.contains("starts again from block"), "{again}");
    ensure!(again.matches("follows simnet from DAA score 0").count() == 2, "{again}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_imports_the_utxo_set_of_a_peer() -> Result<()> {
    let source = KaspaNode::start().await;
    source.mine(30);
    let pruning_point = source.with_dag(|dag| dag.chain_block(8));
    source.set_pruning_point(pruning_point);
    let peer = source.serve_peers().await;
    peer.add_fault(|faults| faults.cut_after = Some(0));
    let dir = TempDir::new()?;
    let ledger = dir.path().join("ledger").display().to_string();
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_ports(1)?));
    let peer_address = peer.address().to_string();
    let metrics_address = metrics.to_string();
    let flags = [
        ["--ledger", ledger.as_str()],
        ["--import-peer", peer_address.as_str()],
        ["--metrics-address", metrics_address.as_str()],
    ];
    let flags = flags.concat();
    let mut node = std::thread::scope(|scope| -> Result<KaspaProcess> {
        let node = scope.spawn(|| KaspaProcess::start(&source, &flags));
        let importing = format!("importing the UTXO set of pruning point {pruning_point}");
        wait_until("an import", WAIT_TIMEOUT, || {
            // Nothing listens before.
            let health = get(metrics, "/health").unwrap_or_default();
            let is_importing = health.starts_with("HTTP/1.1 503 ") && health.contains(&importing);
            // Anyone may read it.
            ensure!(!health.contains(&peer_address), "{health}");
            Ok((is_importing && health.contains("the peer closed the connection")).then_some(()))
        })?;
        let metrics = get(metrics, "/metrics")?;
        ensure!(metrics.contains("hydrant_kaspa_import{of=\"utxos\"} 0\n"), "{metrics}");
        peer.clear_faults();
        node.join().map_err(|_| anyhow::anyhow!("a panic"))?
    })?;
    node.wait_for_sink(&source)?;
    let log = node.log();
    ensure!(log.contains("Imported the UTXO set at DAA score 2"), "{log}");
    ensure!(Path::new(&ledger).join("kaspa.snapshot").is_file(), "{log}");
    ensure!(get(metrics, "/metrics")?.contains("hydrant_kaspa_import{of=\"refused_peers\"} 0\n"));
    let mut client = WrpcClient::connect(node.json).await;
    let utxos = call(&mut client, "getUtxosByAddresses", json!({ "addresses": [miner()] })).await?;
    let entries = utxos["entries"].as_array().context("a list")?;
    assert_eq!(entries.len(), source.utxos().len(), "all of them are the miner's");
    node.signal()?;
    ensure!(node.wait_for_end()?.success(), "{}", node.log());

    let requested = peer.requested_sets();
    let node = KaspaProcess::start(&source, &flags)?;
    node.wait_for_sink(&source)?;
    assert_eq!(peer.requested_sets(), requested, "a restart imports nothing");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_closed_with_a_reason() -> Result<()> {
    let source = KaspaNode::start().await;
    source.mine(3);
    let mut node = KaspaProcess::start(&source, &[])?;
    node.wait_for_sink(&source)?;
    let mut clients = [WrpcClient::connect(node.borsh).await, WrpcClient::connect(node.json).await];
    node.signal()?;
    for client in &mut clients {
        assert_eq!(read_until_end(client).await, Some(1001));
    }
    let status = node.wait_for_end()?;
    ensure!(status.success(), "{status}: {}", node.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forwarded_call_is_finished_in_the_drain() -> Result<()> {
    let source = KaspaNode::start().await;
    source.mine(3);
    let mut node = KaspaProcess::start(&source, &["--drain-seconds", "600"])?;
    node.wait_for_sink(&source)?;
    source.delay_replies(Method::GetBlockCount);
    let mut client = WrpcClient::connect(node.json).await;
    client
        .send_text(&json!({ "id": 7, "method": "getBlockCount", "params": {} }).to_string())
        .await;
    let series = "hydrant_kaspa_requests_total{encoding=\"json\",method=\"getBlockCount\"} 1\n";
    wait_until("the call", WAIT_TIMEOUT, || {
        Ok(get(node.rpc, "/metrics")?.contains(series).then_some(()))
    })?;
    node.signal()?;
    node.wait_until_unready()?;
    source.release_replies();
    let reply: Value = serde_json::from_str(&client.read_text().await)?;
    assert_eq!(reply["params"]["blockCount"], json!(source.with_dag(|dag| dag.block_count())));
    assert_eq!(read_until_end(&mut client).await, Some(1001));
    ensure!(node.wait_for_end()?.success(), "{}", node.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ports_drain_until_a_second_signal() -> Result<()> {
    let source = KaspaNode::start().await;
    source.mine(3);
    let mut node = KaspaProcess::start(&source, &["--drain-delay", "3600"])?;
    node.wait_for_sink(&source)?;
    let mut client = WrpcClient::connect(node.borsh).await;
    let mut other = WrpcClient::connect(node.json).await;
    node.signal()?;
    let draining = node.wait_until_unready()?;
    ensure!(body(&draining)? == "draining\n", "{draining}");
    call(&mut other, "ping", json!({})).await?;
    // A second signal ends the delay, and cuts connections that take no close frame at once.
    node.signal()?;
    for client in [&mut client, &mut other] {
        let code = read_until_end(client).await;
        ensure!(matches!(code, None | Some(1001)), "{code:?}");
    }
    let status = node.wait_for_end()?;
    ensure!(status.success(), "{status}: {}", node.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_keys_are_needed_on_the_ports_of_wrpc() -> Result<()> {
    let source = KaspaNode::start().await;
    let (key, entry) = new_key("wallet", "paid")?;
    let dir = TempDir::new()?;
    let path = dir.path().join("keys.toml");
    fs::write(&path, format!("[tiers.paid]\n{entry}"))?;
    let node = KaspaProcess::start(&source, &["--api-keys", path.display().to_string().as_str()])?;
    node.wait_for_sink(&source)?;
    let upgrade = |address: SocketAddr, target: &str, head: &str| -> Result<String> {
        let mut socket = connect(address)?;
        write!(
            socket,
            "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{head}\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )?;
        let mut start = [0; 12];
        socket.read_exact(&mut start)?;
        Ok(String::from_utf8(start.to_vec())?)
    };
    for port in [node.borsh, node.json, node.rpc] {
        assert_eq!(upgrade(port, "/", "")?, "HTTP/1.1 401");
        assert_eq!(upgrade(port, "/", &format!("X-Api-Key: {key}\r\n"))?, "HTTP/1.1 101");
        // SDKs and browsers can set the URL only.
        assert_eq!(upgrade(port, &format!("/{key}"), "")?, "HTTP/1.1 101");
        assert_eq!(upgrade(port, &format!("/?api-key={key}"), "")?, "HTTP/1.1 101");
    }
    // The resolver's route needs none. Below a key it returns a URL with that key.
    for prefix in [String::new(), format!("/{key}")] {
        let found = get(node.borsh, &format!("{prefix}/v2/kaspa/simnet/any/wrpc/json"))?;
        let url = format!("\"ws://127.0.0.1:{}{prefix}\"", node.json.port());
        ensure!(found.starts_with("HTTP/1.1 200 ") && found.contains(&url), "{found}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_administration_and_the_metrics_have_ports_of_their_own() -> Result<()> {
    let source = KaspaNode::start().await;
    source.mine(2);
    let dir = TempDir::new()?;
    let socket = dir.path().join("admin.sock");
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_ports(1)?));
    let socket_path = socket.display().to_string();
    let address = metrics.to_string();
    let flags = ["--admin-socket", socket_path.as_str(), "--metrics-address", address.as_str()];
    let mut node = KaspaProcess::start(&source, &flags)?;
    node.wait_for_sink(&source)?;
    let health = get(node.borsh, "/health")?;
    let (_, score) = health.split_once("hydrant-proven-daa-score: ").context("no score")?;
    let (score, _) = score.split_once('\r').context("no end of a line")?;
    let series = format!("hydrant_kaspa_daa_score{{at=\"proven\"}} {score}\n");
    ensure!(get(metrics, "/metrics")?.contains(&series), "{series}");
    ensure!(get(node.rpc, "/metrics")?.starts_with("HTTP/1.1 404 "));
    let admin = |command: &[&str]| {
        run_to_end(Command::new(HYDRANT).arg("admin").args(command).arg("--socket").arg(&socket))
    };
    let memory = admin(&["memory"])?;
    ensure!(String::from_utf8_lossy(&memory.stdout).contains("kaspa_history"), "{memory:?}");
    let sources = admin(&["report", "sources"])?;
    let sources: Value = serde_json::from_slice(&sources.stdout)?;
    assert_eq!(sources["source"], json!(format!("ws://{}", source.borsh())), "{sources}");
    ensure!(admin(&["drain"])?.status.success());
    ensure!(node.wait_for_end()?.success(), "{}", node.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resolver_finds_the_node_at_its_own_ports() -> Result<()> {
    let source = KaspaNode::start().await;
    let node = KaspaProcess::start(&source, &[])?;
    let request = "GET /v2/kaspa/simnet/any/wrpc/json HTTP/1.1\r\nHost: localhost\r\n\
                   Connection: close\r\n\r\n";
    let found = exchange(connect(node.borsh)?, request)?;
    ensure!(found.contains(&format!("ws://localhost:{}", node.json.port())), "{found}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_embeds_the_node() -> Result<()> {
    let source = KaspaNode::start().await;
    source.mine(4);
    let chain = KaspaConfig::new("simnet", &[&format!("ws://{}", source.borsh())])?
        .with_json_sources(&[&format!("ws://{}", source.json())])?
        .with_reorg_depth(10);
    let config = NodeConfig::default().with_free_ports().with_rpc_port(0).with_kaspa_grpc_port(0);
    let node = Node::builder(KaspaProducer::new(chain)).serve(config)?;
    let addresses = node.addresses().clone();
    let kaspa = addresses.kaspa.context("it is a node of Kaspa")?;
    assert_eq!(addresses.wrpc_borsh_url(), Some(format!("ws://{}", kaspa.wrpc_borsh)));
    wait_until("the sink", WAIT_TIMEOUT, || {
        let health = get(kaspa.wrpc_borsh, "/health")?;
        Ok(health.contains(&source.sink().to_string()).then_some(()))
    })?;
    let grpc = addresses.grpc.context("it was requested")?;
    assert_eq!(addresses.grpc_url(), Some(format!("http://{grpc}")));
    let mut socket = connect(grpc)?;
    socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")?;
    let mut head = [0; 9];
    socket.read_exact(&mut head)?;
    assert_eq!(head[3], 4, "the settings of HTTP/2");
    let rpc = kaspa.rpc.context("it was requested")?;
    let position = call_own(rpc, "getPosition", json!([{ "at": "sink" }]))?;
    assert_eq!(position["chainBlock"], json!(source.sink().to_string()));
    Ok(node.stop()?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_cancels_the_import_of_its_node() -> Result<()> {
    let source = KaspaNode::start().await;
    source.set_accepting(false);
    let url = format!("ws://{}", source.borsh());
    let dir = TempDir::new()?;
    let ledger = dir.path().to_owned();
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let serving = std::thread::spawn(move || -> Result<Option<NodeError>> {
        let chain = KaspaConfig::new("simnet", &[&url])?.with_import_peers(&["127.0.0.1:1"])?;
        sender.send(Arc::clone(chain.import_progress())).ok().context("the test waits")?;
        let config = NodeConfig::default().with_free_ports().with_ledger(&ledger);
        Ok(Node::builder(KaspaProducer::new(chain)).serve(config).err())
    });
    let progress = receiver.recv()?;
    wait_until("an import", WAIT_TIMEOUT, || Ok(progress.last_problem()))?;
    progress.cancel();
    let ended = serving.join().map_err(|_| anyhow::anyhow!("a panic"))??;
    let ended = anyhow::Error::from(ended.context("it has no set to serve")?);
    ensure!(format!("{ended:#}").contains("the import was cancelled"), "{ended:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_has_one_node() -> Result<()> {
    let source = KaspaNode::start().await;
    let url = format!("ws://{}", source.borsh());
    let dir = TempDir::new()?;
    let serve = || -> Result<NodeHandle, NodeError> {
        let chain = KaspaConfig::new("simnet", &[&url])?;
        let config = NodeConfig::default().with_free_ports().with_ledger(dir.path());
        Node::builder(KaspaProducer::new(chain)).serve(config)
    };
    let first = serve()?;
    let refusal = anyhow::Error::from(serve().err().context("two nodes have one ledger")?);
    ensure!(format!("{refusal:#}").contains("is in use by process"), "{refusal:#}");
    first.stop()?;
    drop(store::Directory::lock(dir.path()).context("the ledger of a node that has ended")?);
    Ok(())
}

#[test]
fn settings_that_cannot_work_are_refused_by_name() -> Result<()> {
    let dir = TempDir::new()?;
    let ledger = dir.path().display().to_string();
    let solana = TempDir::new()?;
    fs::write(solana.path().join("hydrant-ledger"), "hydrant ledger, format 1\n")?;
    let solana = solana.path().display().to_string();
    let source = ["--source", "ws://127.0.0.1:1"];
    let simnet = [&source[..], &["--network", "simnet"]].concat();
    for (flags, expected) in [
        (vec!["--network", "simnet", "--source", "http://a:1"], "--source http://a:1: the form is"),
        ([&simnet[..], &["--reorg-depth", "5000"]].concat(), "must be from 1 to 1000"),
        (
            [&simnet[..], &["--wrpc-borsh-port", "9", "--wrpc-json-port", "9"]].concat(),
            "--wrpc-json-port 9: --wrpc-borsh-port has this port",
        ),
        ([&source[..], &["--network", "kaspanet"]].concat(), "is not a network of Kaspa"),
        (
            [&simnet[..], &["--import-peer", "127.0.0.1"]].concat(),
            "--import-peer requires --ledger",
        ),
        (
            [&simnet[..], &["--import-peer", "http://a:1"]].concat(),
            "--import-peer: the form is HOST[:PORT]",
        ),
        (
            [&simnet[..], &["--ledger", solana.as_str()]].concat(),
            "has a ledger of Solana; fix: name another directory",
        ),
        (source.to_vec(), "--ledger is required, with kaspa.snapshot in it: mainnet"),
        (
            [&source[..], &["--ledger", ledger.as_str()]].concat(),
            "kaspa.snapshot does not exist: mainnet",
        ),
        ([&simnet[..], &["--slot-ms", "1"]].concat(), "unexpected argument '--slot-ms'"),
        (vec![], "--source"),
    ] {
        for check in [&["--check"][..], &[]] {
            let args = [&["follow-kaspa"], &flags[..], check].concat();
            let run = run_to_end(Command::new(HYDRANT).args(&args))?;
            let output = String::from_utf8_lossy(&run.stderr);
            ensure!(!run.status.success() && output.contains(expected), "{args:?}: {output}");
        }
    }
    let valid = [&["follow-kaspa"], &simnet[..], &["--check"]].concat();
    let run = run_to_end(Command::new(HYDRANT).args(valid))?;
    ensure!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    Ok(())
}
