//! The addresses that a node announces: a client can dial each of them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::node::{Node, NodeCommand};

use crate::node::HYDRANT;
use crate::raw_http::{body, connect, exchange, get, post_text};

fn start(flags: &[&str]) -> Result<Node> {
    NodeCommand::dev(Command::new(HYDRANT)).args(flags).start()
}

/// A host of the loopback network, whose addresses all lead to this machine.
fn host(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))
}

/// The addresses of the only node, as a client learns them that connects to `address`.
fn fetch_announced(address: SocketAddr) -> Result<[IpAddr; 3]> {
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "getClusterNodes" });
    let response = exchange(connect(address)?, &post_text("Host: a\r\n", &request))?;
    let nodes: Value = serde_json::from_str(body(&response)?)?;
    let rest: Value = serde_json::from_str(body(&get(address, "/v1/node")?)?)?;
    ensure!(nodes["result"] == rest["clusterNodes"], "{nodes} and {rest}");
    let ip = |name: &str| -> Result<IpAddr> {
        let text = nodes["result"][0][name].as_str().with_context(|| format!("{name}: {nodes}"))?;
        Ok(text.parse::<SocketAddr>()?.ip())
    };
    Ok([ip("rpc")?, ip("pubsub")?, ip("tpuQuic")?])
}

#[test]
fn a_client_is_told_the_address_on_which_it_reached_the_node() -> Result<()> {
    let node = start(&["--bind-address", "0.0.0.0"])?;
    // Output that is read on this machine names it.
    ensure!(node.rpc.ip() == host(1) && node.ws.ip() == host(1), "{} {}", node.rpc, node.ws);
    ensure!(node.tpu.is_some_and(|tpu| tpu.ip() == host(1)), "{:?}", node.tpu);
    ensure!(node.grpc.is_some_and(|grpc| grpc.ip() == host(1)), "{:?}", node.grpc);
    for reached in [host(1), host(2)] {
        let announced = fetch_announced(SocketAddr::new(reached, node.rpc.port()))?;
        ensure!(announced == [reached; 3], "{announced:?}");
    }
    Ok(())
}

#[test]
fn every_client_is_told_the_advertised_address() -> Result<()> {
    let node = start(&["--bind-address", "0.0.0.0", "--advertised-ip", "127.0.0.3"])?;
    ensure!(node.rpc.ip() == host(3), "{}", node.rpc);
    let announced = fetch_announced(SocketAddr::new(host(2), node.rpc.port()))?;
    ensure!(announced == [host(3); 3], "{announced:?}");
    Ok(())
}

#[test]
fn a_node_that_is_bound_to_one_address_announces_it() -> Result<()> {
    let node = start(&["--bind-address", "127.0.0.2"])?;
    let announced = fetch_announced(node.rpc)?;
    ensure!(announced == [host(2); 3], "{announced:?}");
    Ok(())
}
