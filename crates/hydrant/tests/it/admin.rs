//! The administration of a real node: over its unix socket with `hydrant admin`, and on a loopback address.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use testkit::child_process::run_to_end;
use testkit::node::{Node, NodeCommand};
use testkit::raw_http_client::connect_stream_from;

use crate::node::{HYDRANT, start_node};
use crate::raw_http::{connect, exchange, get, get_text};
use crate::world::{WAIT_TIMEOUT, wait_until};

fn admin(socket: &Path, command: &[&str]) -> Result<Output> {
    let mut admin = Command::new(HYDRANT);
    admin.arg("admin").args(command).arg("--socket").arg(socket);
    run_to_end(&mut admin)
}

fn stdout(socket: &Path, command: &[&str]) -> Result<String> {
    let output = admin(socket, command)?;
    ensure!(output.status.success(), "{command:?}: {output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

fn json(socket: &Path, command: &[&str]) -> Result<Value> {
    Ok(serde_json::from_str(&stdout(socket, command)?)?)
}

fn refusal(socket: &Path, command: &[&str]) -> Result<String> {
    let output = admin(socket, command)?;
    ensure!(!output.status.success(), "{command:?}: {output:?}");
    Ok(String::from_utf8(output.stderr)?)
}

#[test]
fn the_usage_of_api_keys_is_a_report() -> Result<()> {
    let files = TempDir::new()?;
    let keys = files.path().join("keys.toml");
    let socket = files.path().join("admin.sock");
    std::fs::write(&keys, "anonymous = \"free\"\n[tiers.free]\nrequests_per_day = 10\n")?;
    let node = NodeCommand::dev(Command::new(HYDRANT))
        .args(["--slot-ms", "60000", "--api-keys"])
        .args([&keys])
        .args(["--admin-socket"])
        .args([&socket])
        .start()?;
    let usage = json(&socket, &["report", "usage"])?;
    ensure!(usage["keys"].is_array() && usage["unauthorized"] == 0, "{usage}");
    let list = json(&socket, &["report"])?;
    assert_eq!(list["reports"], serde_json::json!(["memory", "clients", "usage"]));
    drop(node);
    Ok(())
}

#[test]
fn a_ledgers_socket_reports_changes_the_log_and_ends_the_node() -> Result<()> {
    let files = TempDir::new()?;
    let ledger = files.path().join("ledger");
    let mut node = NodeCommand::dev(Command::new(HYDRANT))
        .args(["--log", "--slot-ms", "60000", "--ledger"])
        .args([&ledger])
        .logged()
        .start()?;
    let socket = ledger.join("admin.sock");
    assert_eq!(socket.metadata()?.permissions().mode() & 0o777, 0o600);
    let memory = json(&socket, &["memory"])?;
    ensure!(memory["parts"]["addresses"].as_u64() > Some(0), "{memory}");
    ensure!(memory["residentBytes"].as_u64() > Some(1 << 20), "{memory}");
    ensure!(json(&socket, &["clients"])?["connections"].is_u64());
    let list = json(&socket, &["report"])?;
    assert_eq!(list["reports"], serde_json::json!(["memory", "clients"]));
    ensure!(json(&socket, &["report", "memory"])?["parts"].is_object());
    ensure!(stdout(&socket, &["metrics"])?.contains("# TYPE hydrant_requests_total counter"));
    assert_eq!(json(&socket, &["log-level"])?["filter"], "h2=error,info");
    assert_eq!(json(&socket, &["log-level", "hyper=info,debug"])?["filter"], "hyper=info,debug");
    let wrong = refusal(&socket, &["log-level", "a=b=c"])?;
    ensure!(wrong.contains("is not a filter of the log"), "{wrong}");
    assert_eq!(json(&socket, &["reload"])?, serde_json::json!({}));
    ensure!(refusal(&socket, &["reload", "tls"])?.contains("(404)"));
    ensure!(refusal(&socket, &["report", "nothing"])?.contains("(404)"));
    // Nothing of it is on the public port.
    for path in ["/memory", "/clients", "/log-level", "/drain", "/reload"] {
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", node.rpc);
        let response = exchange(connect(node.rpc)?, &head)?;
        ensure!(response.starts_with("HTTP/1.1 415 "), "{path}: {response}");
        let response = get(node.rpc, path)?;
        ensure!(response.starts_with("HTTP/1.1 405 "), "{path}: {response}");
    }
    assert_eq!(json(&socket, &["drain"])?["draining"], true);
    let ended = wait_until("the node's end", WAIT_TIMEOUT, || Ok(node.process().try_wait()?))?;
    ensure!(ended.code() == Some(0), "{ended}");
    ensure!(!socket.exists(), "the socket is removed");
    ensure!(refusal(&socket, &["memory"])?.contains("connect to --socket"));
    Ok(())
}

#[test]
fn a_node_that_was_killed_leaves_a_socket_that_no_start_refuses() -> Result<()> {
    let files = TempDir::new()?;
    let ledger = files.path().join("ledger");
    let socket = ledger.join("admin.sock");
    for flags in [&[][..], &[], &["--reset"]] {
        let mut node = NodeCommand::dev(Command::new(HYDRANT))
            .args(["--log", "--slot-ms", "60000", "--ledger"])
            .args([&ledger])
            .args(flags)
            .logged()
            .start()?;
        ensure!(json(&socket, &["clients"])?["connections"].is_u64());
        node.process().kill()?;
        node.process().wait()?;
        ensure!(socket.exists(), "a killed node removes nothing");
    }
    Ok(())
}

/// The address in the line of the log that has `text`.
pub(crate) fn logged_address(node: &Node, text: &str) -> Result<SocketAddr> {
    let log = node.log();
    let line = log.lines().find(|line| line.contains(text)).context(log.clone())?;
    let (_, address) = line.rsplit_once("address=").context(line.to_owned())?;
    Ok(address.trim().parse()?)
}

#[test]
fn addresses_serve_the_metrics_alone_and_the_administration_to_no_page() -> Result<()> {
    let flags = ["--admin-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0"];
    // Without colours, which a pipe has not.
    let node = start_node(&flags)?;
    let metrics = logged_address(&node, "the metrics are served")?;
    let admin = logged_address(&node, "the administration is served")?;
    let text = get(metrics, "/metrics")?;
    ensure!(text.contains("# TYPE hydrant_requests_total counter"), "{text}");
    ensure!(get(metrics, "/memory")?.starts_with("HTTP/1.1 404 "));
    let public = get(node.rpc, "/metrics")?;
    ensure!(public.starts_with("HTTP/1.1 404 ") && public.contains("an address of their own"));
    ensure!(get(admin, "/memory")?.starts_with("HTTP/1.1 200 "));
    for head in [
        format!("Host: {admin}\r\nOrigin: http://{admin}\r\n"),
        "Host: evil.example\r\n".to_owned(),
    ] {
        let refused = exchange(connect(admin)?, &get_text("/memory", &head))?;
        ensure!(refused.starts_with("HTTP/1.1 403 "), "{head}: {refused}");
    }
    let long = "x".repeat(9_000);
    let request = format!(
        "PUT /log-level HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\nContent-Length: 9000\r\n\r\n{long}"
    );
    let refused = exchange(connect(admin)?, &request)?;
    ensure!(refused.starts_with("HTTP/1.1 413 "), "{refused}");
    Ok(())
}

/// The value of a metric without its labels.
fn sample(metrics: &str, name: &str) -> Result<f64> {
    let line = metrics.lines().find(|line| line.starts_with(name)).context(name.to_owned())?;
    Ok(line.rsplit(' ').next().context("a value")?.trim().parse()?)
}

#[test]
fn silent_connections_hold_up_neither_the_metrics_nor_the_administration() -> Result<()> {
    const SILENT: usize = 500;
    let flags = ["--admin-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0"];
    let node = start_node(&flags)?;
    let metrics = logged_address(&node, "the metrics are served")?;
    let admin = logged_address(&node, "the administration is served")?;
    let open = |address| (0..SILENT).map(|_| connect(address)).collect::<Result<Vec<TcpStream>>>();
    let silent = [open(metrics)?, open(admin)?];
    let request = |address| get_text("/metrics", &format!("Host: {address}\r\n"));
    // From another address, and from that of the silent connections.
    let text = exchange(connect_stream_from([127, 0, 0, 9], metrics), &request(metrics))?;
    ensure!(sample(&text, "hydrant_admin_connections{listener=\"metrics\"}")? <= 5.0, "{text}");
    let name = "hydrant_admin_connections_closed_total{listener=\"metrics\",cause=\"replaced\"}";
    ensure!(sample(&text, name)? >= 100.0, "{text}");
    ensure!(get(metrics, "/metrics")?.starts_with("HTTP/1.1 200 "));
    ensure!(get(admin, "/memory")?.starts_with("HTTP/1.1 200 "));
    // A body that does not arrive is no more than a silent connection.
    let head = format!("PUT /log-level HTTP/1.1\r\nHost: {admin}\r\nContent-Length: 100\r\n\r\n");
    let mut bodies = open(admin)?;
    for body in bodies.iter_mut().rev().take(4) {
        // It may have been closed already.
        let _ = body.write_all(head.as_bytes());
    }
    ensure!(get(admin, "/memory")?.starts_with("HTTP/1.1 200 "));
    drop((silent, bodies));
    Ok(())
}
