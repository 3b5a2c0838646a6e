//! The notifications of a real node to a service manager, which is a socket of this test.

use std::os::unix::net::UnixDatagram;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use solana_rpc_client::rpc_client::RpcClient;
use solana_rpc_client_api::request::RpcRequest;
use tempfile::TempDir;
use testkit::node::{Node, NodeCommand};

use crate::follower::wait_until_healthy;
use crate::node::{HYDRANT, start_node};
use crate::world::{WAIT_TIMEOUT, wait_until};

/// The time in which the service manager expects a sign of life.
const WATCHDOG_USEC: &str = "400000";
/// Datagrams of a node that lives that are read before another one must have come.
const DATAGRAMS_MAX: usize = 1_000;

/// A service manager without a watchdog, unless the command names one.
struct ServiceManager {
    socket: UnixDatagram,
    dir: TempDir,
}

impl ServiceManager {
    fn start() -> Result<Self> {
        let dir = TempDir::new()?;
        let socket = UnixDatagram::bind(dir.path().join("notify"))?;
        socket.set_read_timeout(Some(WAIT_TIMEOUT))?;
        Ok(Self { socket, dir })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(HYDRANT);
        command.env("NOTIFY_SOCKET", self.dir.path().join("notify"));
        command.env_remove("WATCHDOG_USEC").env_remove("WATCHDOG_PID");
        command
    }

    /// Returns the text of the next datagram.
    fn receive(&self) -> Result<String> {
        let mut datagram = [0; 4_096];
        let length = self.socket.recv(&mut datagram).context("nothing was reported")?;
        Ok(String::from_utf8_lossy(&datagram[..length]).into_owned())
    }

    /// Reads until a datagram has `line`.
    fn expect(&self, line: &str) -> Result<()> {
        for _ in 0..DATAGRAMS_MAX {
            if self.receive()?.lines().any(|it| it == line) {
                return Ok(());
            }
        }
        anyhow::bail!("no {line} in {DATAGRAMS_MAX} datagrams")
    }

    /// Ends the node, which must report that first.
    fn stop(&self, mut node: Node) -> Result<()> {
        let kill = Command::new("kill").args(["-s", "TERM", &node.pid().to_string()]).status()?;
        ensure!(kill.success(), "kill: {kill}");
        self.expect("STOPPING=1")?;
        let status =
            wait_until("the node's end", WAIT_TIMEOUT, || Ok(node.process().try_wait()?))?;
        ensure!(status.code() == Some(0), "{status}");
        Ok(())
    }
}

fn get_health(node: &Node) -> Result<String> {
    let method = RpcRequest::Custom { method: "getHealth" };
    RpcClient::new(node.rpc_url()).send(method, json!([])).context("getHealth")
}

#[test]
fn a_ledger_reports_ready_with_its_address_then_life_then_its_end() -> Result<()> {
    let manager = ServiceManager::start()?;
    let mut command = manager.command();
    command.env("WATCHDOG_USEC", WATCHDOG_USEC);
    let node = NodeCommand::dev(command).logged().start()?;
    let first = manager.receive()?;
    ensure!(first == format!("READY=1\nSTATUS=JSON-RPC on http://{}", node.rpc), "{first}");
    ensure!(get_health(&node)? == "ok");
    for _ in 0..3 {
        manager.expect("WATCHDOG=1")?;
    }
    manager.stop(node)
}

#[test]
fn a_watchdog_of_another_process_gets_no_sign_of_life() -> Result<()> {
    let manager = ServiceManager::start()?;
    let mut command = manager.command();
    command.env("WATCHDOG_USEC", "1").env("WATCHDOG_PID", "1");
    let node = NodeCommand::dev(command).logged().start()?;
    ensure!(manager.receive()?.starts_with("READY=1\n"));
    // The node polls ten times a second, so with a watchdog there would be many before a slot has passed.
    let rpc = RpcClient::new(node.rpc_url());
    let slot = rpc.get_slot()?;
    wait_until("a slot", WAIT_TIMEOUT, || Ok((rpc.get_slot()? > slot).then_some(())))?;
    let kill = Command::new("kill").args(["-s", "TERM", &node.pid().to_string()]).status()?;
    ensure!(kill.success(), "kill: {kill}");
    let next = manager.receive()?;
    ensure!(next.starts_with("STOPPING=1\n"), "{next}");
    Ok(())
}

#[test]
fn a_follower_is_ready_when_it_serves_and_lives_without_its_source() -> Result<()> {
    let manager = ServiceManager::start()?;
    let dev = start_node(&[])?;
    let dir = TempDir::new()?;
    let mut command = manager.command();
    command.env("WATCHDOG_USEC", WATCHDOG_USEC);
    let grpc = dev.grpc.context("the ledger serves gRPC")?;
    command.args(["follow", "--quiet", "--log", "--rpc-port", "0", "--snapshot-dir"]);
    command.arg(dir.path());
    command.args(["--source", &format!("http://{grpc}"), "--snapshot", &dev.rpc_url()]);
    let follower = NodeCommand::new(command).logged().start()?;
    let first = manager.receive()?;
    ensure!(first == format!("READY=1\nSTATUS=JSON-RPC on http://{}", follower.rpc), "{first}");
    wait_until_healthy(&follower)?;
    drop(dev);
    wait_until("the source to be missed", WAIT_TIMEOUT, || Ok(get_health(&follower).err()))?;
    // All that was reported before is read; what comes after it is new.
    manager.socket.set_nonblocking(true)?;
    while manager.receive().is_ok() {}
    manager.socket.set_nonblocking(false)?;
    manager.expect("WATCHDOG=1")?;
    manager.stop(follower)
}

#[test]
fn a_node_starts_without_the_socket_of_its_service_manager() -> Result<()> {
    let dir = TempDir::new()?;
    let mut command = Command::new(HYDRANT);
    command.env("NOTIFY_SOCKET", dir.path().join("gone"));
    let node = NodeCommand::dev(command).logged().start()?;
    ensure!(get_health(&node)? == "ok");
    let is_logged = || node.log().contains("the service manager is not notified");
    wait_until("the line of the log", WAIT_TIMEOUT, || Ok(is_logged().then_some(())))
}

#[test]
fn cpu_threads_keep_a_lower_priority_than_a_niced_process() -> Result<()> {
    let mut command = Command::new("nice");
    command.args(["-n", "4", HYDRANT]);
    let node = NodeCommand::dev(command).logged().watched().start()?;
    let process = nice_value(&format!("/proc/{}/stat", node.pid()))?;
    let mut pool_threads = 0;
    for task in std::fs::read_dir(format!("/proc/{}/task", node.pid()))? {
        let task = task?.path();
        if std::fs::read_to_string(task.join("comm"))?.starts_with("pool-") {
            let nice = nice_value(&task.join("stat").to_string_lossy())?;
            ensure!(nice == (process + 10).min(19), "{nice} in a process of nice value {process}");
            pool_threads += 1;
        }
    }
    ensure!(pool_threads > 0, "the node has no CPU threads");
    Ok(())
}

/// Returns the nice value in a file `stat` of a process or thread.
fn nice_value(path: &str) -> Result<i32> {
    let stat = std::fs::read_to_string(path)?;
    // The name before the last parenthesis may have spaces. The nice value is the seventeenth field behind it.
    let fields = stat.rsplit_once(')').context("a name in parentheses")?.1;
    Ok(fields.split_whitespace().nth(16).context("a nice value")?.parse()?)
}
