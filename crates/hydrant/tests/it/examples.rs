//! The examples run, and a node that is embedded in a program frees its ports.

use std::net::TcpListener;

use anyhow::{Result, ensure};
use hydrant::{LocalConfig, LocalProducer, Node, NodeConfig, NodeHandle};
use process_usage::Process;
use serde_json::json;
use solana_pubkey::Pubkey;
use testkit::json_rpc_client::JsonRpcClient;

use crate::world::{WAIT_TIMEOUT, wait_until};

#[path = "../../examples/embed_follow_kaspa.rs"]
mod embed_follow_kaspa;
#[path = "../../examples/embedded_follower.rs"]
mod embedded_follower;
#[path = "../../examples/embedded_node.rs"]
mod embedded_node;

fn serve() -> Result<NodeHandle> {
    let producer = LocalProducer::new(LocalConfig::default().with_slot_ms(0));
    let config = NodeConfig::default().with_free_ports().with_tpu_port(0);
    Ok(Node::builder(producer).serve(config)?)
}

#[test]
fn a_node_is_embedded_in_a_program() -> Result<()> {
    embedded_node::main()
}

#[test]
fn a_follower_is_embedded_in_a_program() -> Result<()> {
    embedded_follower::main()
}

#[test]
fn a_follower_of_kaspa_is_embedded_in_a_program() -> Result<()> {
    embed_follow_kaspa::main()
}

#[test]
fn two_nodes_of_one_process_end_and_free_their_ports() -> Result<()> {
    let first = serve()?;
    let second = serve()?;
    let genesis = |node: &NodeHandle| {
        JsonRpcClient::open(node.addresses().rpc)?.call("getGenesisHash", json!([]))
    };
    ensure!(genesis(&first)? != genesis(&second)?, "each has a ledger of its own");
    let addresses = first.addresses().clone();
    ensure!(addresses.tpu.is_some() && addresses.grpc.is_some(), "{addresses:?}");
    first.stop()?;
    for port in [addresses.rpc, addresses.pubsub] {
        TcpListener::bind(port)?;
    }
    ensure!(genesis(&second)?.is_string(), "the other one still serves");
    ensure!(!second.is_finished());
    Ok(second.stop()?)
}

#[test]
fn an_embedded_node_has_the_body_limit_of_dev_and_leaves_signals_alone() -> Result<()> {
    let node = serve()?;
    // Longer than Agave's limit: code for a cheat code.
    let code = "00".repeat(40_000);
    let params =
        json!([Pubkey::new_unique().to_string(), { "lamports": 1_000_000_000, "data": code }]);
    JsonRpcClient::open(node.addresses().rpc)?.call("surfnet_setAccount", params)?;
    let caught = Process::current().signal_mask("SigCgt")?;
    ensure!(caught & (1 << (sigusr1_number() - 1)) == 0, "SIGUSR1 has a handler: {caught:x}");
    Ok(node.stop()?)
}

fn sigusr1_number() -> i32 {
    tokio::signal::unix::SignalKind::user_defined1().as_raw_value()
}

#[test]
fn a_dropped_node_frees_its_ledger() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let producer = LocalProducer::new(LocalConfig::default().with_slot_ms(0));
    let config = NodeConfig::default().with_free_ports().with_ledger(dir.path().join("ledger"));
    let node = Node::builder(producer).serve(config)?;
    ensure!(!node.is_finished());
    drop(node);
    // A dropped node ends in the background and frees its ledger.
    wait_until("the ledger is free", WAIT_TIMEOUT, || {
        let producer = LocalProducer::new(LocalConfig::default().with_slot_ms(0));
        let config = NodeConfig::default().with_free_ports().with_ledger(dir.path().join("ledger"));
        Ok(Node::builder(producer).serve(config).ok())
    })?
    .stop()
    .map_err(Into::into)
}

#[test]
fn a_node_starts_and_ends_within_an_async_runtime() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let node = serve()?;
        ensure!(node.addresses().rpc_url().starts_with("http://127.0.0.1:"));
        Ok(node.stop()?)
    })
}
