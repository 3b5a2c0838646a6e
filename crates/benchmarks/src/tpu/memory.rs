//! Memory that stays flat, is bounded under loss, and is released after a burst.

use anyhow::Result;
use testkit::clock::sleep_for;
use testkit::json_rpc_client::JsonRpcClient;

use super::ledger;
use super::process::{Generator, Server};
use super::size::Size;
use crate::median::median;
use crate::node;
use crate::threshold;

pub(super) fn run(size: &Size, names: &[&'static str]) -> Result<()> {
    soak(size)?;
    lossy(size)?;
    bursts(size, names)
}

/// Many streams over the same connections. The second half must not need more resident memory than the first.
fn soak(size: &Size) -> Result<()> {
    let mut server = Server::start("ours", &[])?;
    let mut generator = Generator::start(server.port, "connections=4 under-way=2048")?;
    let load = format!("bytes=300 offload=1 streams={}", size.soak / 10);
    let mut resident = Vec::new();
    for _ in 0..10 {
        generator.run(&load)?;
        resident.push(server.metrics()?.get("resident") / 1e6);
    }
    println!("{} streams, resident MB after each tenth: {resident:.1?}", size.soak);
    let late = resident.split_off(5);
    threshold::to_four_digits(
        "quic_soak_resident",
        median(late) / median(resident),
        "ratio",
        "<=",
        1.1,
    );
    generator.end()
}

/// Full windows on many connections that lose one datagram in fifty.
fn lossy(size: &Size) -> Result<()> {
    let mut server = Server::start("ours", &[])?;
    let connections = size.many.min(512);
    let mut generator =
        Generator::start(server.port, &format!("connections={connections} loss=20"))?;
    generator.run(&format!("bytes=1232 streams={}", size.lossy))?;
    let resident = server.metrics()?.get("resident") / 1e6;
    println!("{connections} connections, 2 % loss, {} streams: {resident:.1} MB", size.lossy);
    threshold::to_four_digits("quic_lossy_resident", resident, "MB", "<=", 200.0);
    generator.end()
}

/// Memory that remains after many connections with full windows: in every server's heap, and in the resident memory of
/// a whole node with its own allocator.
fn bursts(size: &Size, names: &[&'static str]) -> Result<()> {
    let mut servers = Vec::new();
    for name in names {
        servers.push((name, Server::start(name, &[])?));
    }
    let node = node::dev(&[])?.start()?;
    let port = ledger::tpu_port(&mut JsonRpcClient::open(node.rpc)?)?;
    let send = |port: u16, plan: &str, streams: u64| -> Result<()> {
        let mut generator = Generator::start(port, plan)?;
        generator.run(&format!("bytes=300 streams={streams}"))?;
        generator.end()
    };
    // Some load before: the server's memory after it is its normal memory.
    let few = "connections=4 under-way=2048 one-identity=1";
    for (_, server) in &servers {
        send(server.port, few, size.lossy)?;
    }
    send(port, few, size.lossy)?;
    sleep_for(size.settle_time);
    let mut before = Vec::new();
    for (_, server) in &mut servers {
        before.push(server.metrics()?);
    }
    let node_before = node.resident_bytes()? as f64;

    // As many streams as each connection may open, at once.
    let streams = size.burst as u64 * 200;
    let mut most = Vec::new();
    for (name, server) in &mut servers {
        // Only a peer of one of the rivals that has stake may come with all these.
        let one = u8::from(**name == "streamer");
        let plan = format!("connections={} one-identity={one}", size.burst);
        send(server.port, &plan, streams)?;
        most.push(server.metrics()?);
    }
    send(port, &format!("connections={}", size.burst), streams)?;
    let node_most = node.resident_bytes()? as f64;
    sleep_for(size.settle_time);
    for (((name, server), before), most) in servers.iter_mut().zip(&before).zip(&most) {
        let after = server.metrics()?;
        println!(
            "{name:10} burst of {} connections: held {:.1} MB before, {:.1} at its end, {:.1} after \
             {:?}; resident {:.1}, {:.1}, {:.1}",
            size.burst,
            before.get("held") / 1e6,
            most.get("held") / 1e6,
            after.get("held") / 1e6,
            size.settle_time,
            before.get("resident") / 1e6,
            most.get("resident") / 1e6,
            after.get("resident") / 1e6,
        );
        if **name == "ours" {
            let ratio = after.get("held") / before.get("held");
            threshold::to_four_digits("quic_burst_held", ratio, "ratio", "<=", 1.2);
        }
    }
    let after = node.resident_bytes()? as f64;
    println!(
        "the same on a node: resident {:.1} MB before, {:.1} at its end, {:.1} after {:?}",
        node_before / 1e6,
        node_most / 1e6,
        after / 1e6,
        size.settle_time
    );
    threshold::to_four_digits("quic_burst_resident", after / node_before, "ratio", "<=", 1.2);
    Ok(())
}
