//! A node that was started from a package. It reports to this program as to a service manager.
//!
//! Shape: the socket has an abstract name, which a program in another root reaches too.
//! Invariant: the process ends with its value.
//! Bounds: [`REPORT_TIMEOUT`] for each report.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixDatagram;
use std::process::Child;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::rig::json_rpc;
use crate::shell::Cmd;

/// How long the start and the end of a node may take.
const REPORT_TIMEOUT: Duration = Duration::from_secs(60);
/// How the report of a node that is ready begins.
const READY: &str = "READY=1\nSTATUS=JSON-RPC on http://";

/// A node that serves.
pub(crate) struct RunningNode {
    process: Child,
    socket: UnixDatagram,
    rpc: SocketAddr,
}

impl RunningNode {
    /// Starts the command for a value of `NOTIFY_SOCKET`, and waits until its node serves.
    pub(crate) fn start(command: impl FnOnce(&str) -> Cmd) -> Result<Self> {
        let name = format!("hydrant-dist-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name)?;
        let socket = UnixDatagram::bind_addr(&address).context("bind the socket of reports")?;
        socket.set_read_timeout(Some(REPORT_TIMEOUT))?;
        let process = command(&format!("@{name}")).spawn()?;
        let rpc = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut node = Self { process, socket, rpc };
        let report = node.report()?;
        let address = report.strip_prefix(READY).with_context(|| format!("{report:?}"))?;
        node.rpc = address.trim().parse().with_context(|| format!("{report:?}"))?;
        if node.rpc.ip().is_unspecified() {
            node.rpc.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        Ok(node)
    }

    /// Calls a method without parameters.
    pub(crate) fn call(&self, method: &str) -> Result<Value> {
        let mut response = json_rpc::call(self.rpc, method, &json!([]))?;
        ensure!(response.get("result").is_some(), "{method}: {response}");
        Ok(response["result"].take())
    }

    /// Checks that it is healthy.
    pub(crate) fn check_health(&self) -> Result<()> {
        let health = self.call("getHealth")?;
        ensure!(health == "ok", "getHealth: {health}");
        Ok(())
    }

    /// Ends it as a service manager does.
    pub(crate) fn stop(mut self) -> Result<()> {
        Cmd::new("kill").args(["-TERM", &self.process.id().to_string()]).run()?;
        while !self.report()?.starts_with("STOPPING=1") {}
        let status = self.process.wait()?;
        ensure!(status.success(), "the node ended with {status}");
        Ok(())
    }

    fn report(&mut self) -> Result<String> {
        let mut datagram = [0; 1_024];
        let length = self.socket.recv(&mut datagram).with_context(|| {
            let status = self.process.try_wait();
            format!("no report within {REPORT_TIMEOUT:?}; the process: {status:?}")
        })?;
        Ok(String::from_utf8_lossy(&datagram[..length]).into_owned())
    }
}

impl Drop for RunningNode {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
