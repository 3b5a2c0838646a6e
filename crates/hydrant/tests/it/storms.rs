//! Storms of clients that connect and vanish, or that are more than the available file descriptors: a real node
//! before, during and after them, seen from outside.
//!
//! Bounds: memory after four storms is at most 110 % of that during the first. The allocator reuses some of it for
//! the next storm, but a leak would add up.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::node::{Node, NodeCommand};
use testkit::scenario::{Client, ScrapedMetrics, Storm};
use tokio::sync::oneshot;

use crate::node::HYDRANT;

const SLOT: Duration = Duration::from_millis(400);
/// Time limit of a node to be ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of clients in a storm.
const CLIENTS: u32 = 5_000;
/// Number of storms, one after the other.
const STORMS: usize = 4;
/// The metrics of a node without clients.
const IDLE_METRICS: [(&str, f64); 5] = [
    ("hydrant_websocket_connections", 0.0),
    ("hydrant_subscriptions", 0.0),
    ("hydrant_tracked_addresses", 0.0),
    ("hydrant_websocket_queue_messages", 0.0),
    ("hydrant_websocket_queue_bytes", 0.0),
];

/// A node, started by `program`, with slots of this length.
fn start(program: impl AsRef<OsStr>, slot: Duration) -> Result<Node> {
    let slot_ms = slot.as_millis().to_string();
    let command = NodeCommand::dev(Command::new(program)).args(["--slot-ms", &slot_ms]);
    command.with_ready_timeout(READY_TIMEOUT).start()
}

#[expect(clippy::disallowed_methods, reason = "a storm reports its duration")]
fn now() -> Instant {
    Instant::now()
}

/// The number of clients for which this process may have sockets.
fn clients() -> u32 {
    let may = process_usage::raise_open_files_max().saturating_sub(500);
    CLIENTS.min(u32::try_from(may).unwrap_or(u32::MAX))
}

/// A client that listens all the time, and must miss nothing.
async fn slot_client(ws: std::net::SocketAddr) -> Result<Client> {
    let mut client = Client::connect(ws).await?;
    client.call("slotSubscribe", json!([])).await?;
    Ok(client)
}

async fn next_slot(client: &mut Client) -> Result<u64> {
    let message: Value = serde_json::from_str(&client.notification().await?)?;
    message["params"]["result"]["slot"].as_u64().context("no slot")
}

/// Reads all slots until it is stopped, each exactly once. Returns the client and its last slot.
async fn listen(
    mut client: Client,
    first: u64,
    mut stopped: oneshot::Receiver<()>,
) -> Result<(Client, u64)> {
    let mut last = first;
    loop {
        tokio::select! {
            slot = next_slot(&mut client) => {
                let slot = slot?;
                ensure!(slot == last + 1, "slot {slot} after {last}");
                last = slot;
            }
            _ = &mut stopped => return Ok((client, last)),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(
    clippy::print_stdout,
    reason = "the measurements of a storm belong into the test's output"
)]
async fn storms_of_clients_that_loop_and_vanish_leave_nothing() -> Result<()> {
    let clients = clients();
    let node = start(HYDRANT, SLOT)?;
    let mut listener = slot_client(node.ws).await?;
    let first = next_slot(&mut listener).await?;
    let with_listener = {
        let mut expected = IDLE_METRICS;
        (expected[0].1, expected[1].1) = (1.0, 1.0);
        expected
    };
    // It reads during the storms, too: a client that does not respond to pings is closed.
    let (stop, stopped) = oneshot::channel();
    let listening = tokio::spawn(listen(listener, first, stopped));
    let before = node.resident_bytes()?;
    let mut with_first = None;
    for _ in 0..STORMS {
        let storm = Storm::run(&node, clients, now).await?;
        // A notification on its way to the listener is not a leak.
        ScrapedMetrics::wait_until(node.rpc, &with_listener[..3]).await?;
        println!(
            "{clients} clients within {:?}; {} MiB before all, {} with them, {} after",
            storm.connect_time,
            before >> 20,
            storm.resident_bytes >> 20,
            node.resident_bytes()? >> 20,
        );
        with_first.get_or_insert(storm.resident_bytes);
    }
    let after = node.resident_bytes()?;
    let max = with_first.context("no storm")? / 10 * 11;
    ensure!(after <= max, "{after} bytes after {STORMS} storms; {before} before");
    // If it has ended, the next line says why.
    let _ = stop.send(());
    let (mut listener, mut last) = listening.await??;
    let version = listener.call("getVersion", json!([])).await?;
    ensure!(version["solana-core"].is_string(), "{version}");
    // No slot of that time is missing. When the next one does not arrive at once, all have been read.
    loop {
        let began = now();
        let slot = next_slot(&mut listener).await?;
        ensure!(slot == last + 1, "slot {slot} after {last}");
        last = slot;
        if now() - began > SLOT / 2 {
            break;
        }
    }
    drop(listener);
    ScrapedMetrics::wait_until(node.rpc, &IDLE_METRICS).await?;
    Ok(())
}

/// The node under a limit of open files.
fn with_fd_limit(dir: &Path, files: u32) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let script = dir.join("hydrant");
    let text = format!("#!/bin/sh\nulimit -n {files}\nexec '{HYDRANT}' \"$@\"\n");
    std::fs::write(&script, text)?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    Ok(script)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_out_of_descriptors_refuses_at_once_and_recovers() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let node = start(with_fd_limit(dir.path(), 128)?, Duration::from_millis(100))?;
    let mut listener = slot_client(node.ws).await?;
    let mut last = next_slot(&mut listener).await?;
    let mut accepted = Vec::new();
    let mut refused = 0;
    for _ in 0..300 {
        // Each gets a response: none is left in the backlog.
        match tokio::time::timeout(Duration::from_secs(20), Client::connect(node.ws)).await? {
            Ok(client) => accepted.push(client),
            Err(_) => refused += 1,
        }
    }
    ensure!(accepted.len() > 20 && refused > 100, "{} accepted, {refused} refused", accepted.len());
    let cpu = node.cpu_time()?;
    for _ in 0..20 {
        let slot = next_slot(&mut listener).await?;
        ensure!(slot == last + 1, "slot {slot} after {last}");
        last = slot;
    }
    // Two seconds of slots without new connections.
    let spun = node.cpu_time()? - cpu;
    ensure!(spun < Duration::from_secs(1), "{spun:?} of CPU with nothing to do");
    drop(accepted);
    drop(listener);
    ScrapedMetrics::wait_until(node.rpc, &IDLE_METRICS).await?;
    let mut again = slot_client(node.ws).await?;
    next_slot(&mut again).await?;
    Ok(())
}
