//! A replica has the level of proof that its ingester states, and refuses an ingester of a lower one.

use std::net::SocketAddr;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hydrant::{Node, NodeConfig, NodeHandle, ReplicaNodeConfig, ReplicaProducer};
use serde_json::{Value, json};
use testkit::child_process::run_to_end;
use testkit::node::NodeCommand;
use testkit::raw_http_client::Client;

use crate::node::HYDRANT;
use crate::observability::metrics;
use crate::replicas::rig::{Rig, call};
use crate::world::{WAIT_TIMEOUT, wait_until};

/// Time limit of an ingester to load an archive and to reach the tip of its ledger.
const INGESTER_TIMEOUT: Duration = Duration::from_secs(60);

/// The verification of a node whose newest verified bank is of a slot after `slot`.
fn wait_for_verified(rig: &Rig, node: SocketAddr, slot: u64) -> Result<Value> {
    wait_until("a verified bank", WAIT_TIMEOUT, || {
        // A bank is compared with its child.
        rig.mine(1)?;
        let verification = call(node, "hydrantGetVerification", json!([]))?;
        let is_newer = verification["verifiedSlot"].as_u64() > Some(slot);
        Ok((is_newer && verification["bank"].is_object()).then_some(verification))
    })
}

/// Checks that a node has a level, in each form in which it shows it.
fn check_level(rig: &Rig, node: SocketAddr, level: &str, word: &str) -> Result<()> {
    let verification = wait_for_verified(rig, node, 0)?;
    ensure!(verification["requiredLevel"] == level, "{verification}");
    ensure!(verification["bank"]["level"] == level, "{verification}");
    ensure!(verification["bank"]["components"]["accounts"] == level, "{verification}");
    // No replica executes a transaction.
    ensure!(verification["bank"]["components"]["status"] == "source", "{verification}");
    let trust_root = verification["trustRoot"].as_str().context("a trust root")?;
    ensure!(trust_root.contains(word), "{trust_root}");
    let mut client = Client::connect(node);
    client.send("GET /v1/ledger HTTP/1.1\r\nhost: test\r\n\r\n");
    let response = client.receive();
    let found = response.header("hydrant-verified-level");
    ensure!(found == Some(level), "{found:?} instead of {level}");
    Ok(())
}

fn serve_replica(log: &str, depot: &str) -> Result<NodeHandle> {
    let producer = ReplicaProducer::new(ReplicaNodeConfig::new(log, depot));
    Ok(Node::builder(producer).serve(NodeConfig::default().with_free_ports())?)
}

#[test]
fn a_replica_of_a_local_ledger_has_its_computed_banks() -> Result<()> {
    let rig = Rig::start()?;
    let replica = rig.replica_process(&[])?;
    check_level(&rig, replica.rpc, "computed", "which makes the banks itself")?;
    let text = metrics(&replica)?;
    ensure!(text.contains("\nhydrant_verified_slot{level=\"computed\"} "), "{text}");
    let first = call(replica.rpc, "getFirstAvailableBlock", json!([]))?;
    let first = call(replica.rpc, "hydrantGetVerification", json!([first]))?;
    ensure!(first["bank"]["level"] == "computed", "{first}");
    Ok(())
}

#[test]
fn a_replica_has_the_level_of_an_ingester_and_refuses_a_lower_one() -> Result<()> {
    let rig = Rig::start()?;
    let log = rig.url("followed-log");
    let depot = rig.url("followed-depot");
    let archives = rig.path("archives");
    std::fs::create_dir(&archives)?;
    let grpc = rig.stage.node.grpc.context("the ledger serves gRPC")?;
    let mut command = Command::new(HYDRANT);
    command.args(["ingest", "--quiet", "--log", "--rpc-port", "0", "--verify", "sequence"]);
    command.args(["--source", &format!("http://{grpc}"), "--snapshot", &rig.stage.node.rpc_url()]);
    command.arg("--snapshot-dir").arg(&archives);
    command.args(["--log-url", &log, "--depot", &depot]);
    let ingester = NodeCommand::new(command).logged().watched().start()?;
    wait_until("a healthy ingester", INGESTER_TIMEOUT, || {
        // Without blocks it would not know the tip.
        rig.mine(1)?;
        Ok(call(ingester.rpc, "getHealth", json!([])).ok())
    })?;
    let replica = serve_replica(&log, &depot)?;
    let word = "which confirms a bank at the level consistent";
    check_level(&rig, replica.addresses().rpc, "consistent", word)?;
    replica.stop()?;

    for (log, depot, level) in
        [(rig.url("log"), rig.url("depot"), "computed"), (log, depot, "consistent")]
    {
        let mut command = Command::new(HYDRANT);
        command.args(["replica", "--quiet", "--rpc-port", "0", "--verify-min", "agree"]);
        command.args(["--log-url", &log, "--depot", &depot]);
        let Output { status, stderr, .. } = run_to_end(&mut command)?;
        let stderr = String::from_utf8_lossy(&stderr);
        let expected = format!("requires the level {level}, and agreed is needed here");
        ensure!(!status.success() && stderr.contains(&expected), "{status}\n{stderr}");
    }
    Ok(())
}
