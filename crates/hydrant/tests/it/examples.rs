//! The examples run, and a node that is embedded in a program frees its ports.

use std::net::TcpListener;

use anyhow::{Result, ensure};
use hydrant::{LocalConfig, LocalProducer, Node, NodeConfig, NodeHandle};
use serde_json::json;
use testkit::json_rpc_client::JsonRpcClient;

#[path = "../../examples/embedded_follower.rs"]
mod embedded_follower;
#[path = "../../examples/embedded_node.rs"]
mod embedded_node;

fn serve() -> Result<NodeHandle> {
    let producer = LocalProducer::new(LocalConfig::default().with_slot_ms(0));
    Node::builder(producer).serve(NodeConfig::default().with_free_ports().with_tpu_port(0))
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
    second.stop()
}

#[test]
fn a_node_starts_and_ends_within_an_async_runtime() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let node = serve()?;
        ensure!(node.addresses().rpc_url().starts_with("http://127.0.0.1:"));
        node.stop()
    })
}
