//! A node inside a program that follows a kaspad, verifies its UTXO sets, and serves wRPC. Here the kaspad is a model;
//! any kaspad with `--utxoindex` and `--rpclisten-borsh` will do.
//!
//! `cargo run -p hydrant --example embed_follow_kaspa`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use anyhow::Context;
use hydrant::{KaspaConfig, KaspaProducer, Node, NodeConfig};
use testkit::kaspa_node::KaspaNode;

pub(crate) fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let kaspad = runtime.block_on(KaspaNode::start());
    let source = format!("ws://{}", kaspad.borsh());

    let chain = KaspaConfig::new("simnet", &[&source])?;
    let config = NodeConfig::default().with_free_ports();
    let node = Node::builder(KaspaProducer::new(chain)).serve(config)?;
    let url = node.addresses().wrpc_borsh_url().context("wRPC is always served")?;
    println!("{url} follows {source}");

    Ok(node.stop()?)
}
