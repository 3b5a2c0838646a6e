//! A Solana node inside a program: its ledger makes blocks, and JSON-RPC, WebSocket and gRPC serve it.
//!
//! `cargo run -p hydrant --example embedded_node`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::io::{Read, Write};
use std::net::TcpStream;

use hydrant::{LocalConfig, LocalProducer, Node, NodeConfig};

const REQUEST: &str = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

pub(crate) fn main() -> anyhow::Result<()> {
    let producer = LocalProducer::new(LocalConfig::default().with_slot_ms(50));
    let node = Node::builder(producer).serve(NodeConfig::default().with_free_ports())?;

    let mut stream = TcpStream::connect(node.addresses().rpc)?;
    stream.write_all(REQUEST.as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    println!("{} answers:\n{response}", node.addresses().rpc_url());
    assert!(response.ends_with("ok"), "{response}");

    Ok(node.stop()?)
}
