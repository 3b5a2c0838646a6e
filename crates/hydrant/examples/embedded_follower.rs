//! A node inside a program that follows a chain. Here the chain is that of a local node; any node with Yellowstone gRPC
//! will do.
//!
//! `cargo run -p hydrant --example embedded_follower`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use anyhow::Context;
use hydrant::{FollowConfig, FollowProducer, LocalConfig, LocalProducer, Node, NodeConfig};

pub(crate) fn main() -> anyhow::Result<()> {
    let producer = LocalProducer::new(LocalConfig::default().with_slot_ms(50));
    let local = Node::builder(producer).serve(NodeConfig::default().with_free_ports())?;
    let source = local.addresses().grpc_url().context("gRPC is served by default")?;
    let snapshot = local.addresses().rpc_url();

    let archives = std::env::temp_dir().join(format!("embedded-follower-{}", std::process::id()));
    std::fs::create_dir_all(&archives)?;
    let chain = FollowConfig::new(&[&source], &snapshot, &archives)?;
    let ports = NodeConfig::default().with_free_ports();
    let follower = Node::builder(FollowProducer::new(chain)).serve(ports)?;
    println!("{} follows {source}", follower.addresses().rpc_url());

    follower.stop()?;
    local.stop()?;
    Ok(std::fs::remove_dir_all(&archives)?)
}
