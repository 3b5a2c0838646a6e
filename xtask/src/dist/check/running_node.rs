//! A node that was started from a package. It reports to this program as to a service manager.
//!
//! Shape: the socket has an abstract name, which a program in another root reaches too.
//! Invariant: the process ends with its value, and all that it has started: a launcher has started the node.
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

/// Time limit for the start of a node, and for its end.
const REPORT_TIMEOUT: Duration = Duration::from_secs(60);
/// First bytes of the report of a node that is ready.
const READY: &str = "READY=1\nSTATUS=JSON-RPC on http://";

/// A node that is ready, and its address.
pub(crate) struct RunningNode {
    process: Child,
    socket: UnixDatagram,
    rpc: SocketAddr,
    has_ended: bool,
}

impl RunningNode {
    /// Starts the command for a value of `NOTIFY_SOCKET`, and waits until its node serves.
    pub(crate) fn start(command: impl FnOnce(&str) -> Cmd) -> Result<Self> {
        let name = format!("hydrant-dist-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name)?;
        let socket = UnixDatagram::bind_addr(&address).context("bind the socket of reports")?;
        socket.set_read_timeout(Some(REPORT_TIMEOUT))?;
        let process = command(&format!("@{name}")).spawn_group()?;
        let rpc = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut node = Self { process, socket, rpc, has_ended: false };
        let report = node.report()?;
        let address = report.strip_prefix(READY).with_context(|| format!("{report:?}"))?;
        node.rpc = address.trim().parse().with_context(|| format!("{report:?}"))?;
        Ok(node)
    }

    /// Calls a method without parameters.
    pub(crate) fn call(&self, method: &str) -> Result<Value> {
        let mut response = json_rpc::call(self.rpc, method, &json!([]))?;
        ensure!(response.get("result").is_some(), "{method}: {response}");
        Ok(response["result"].take())
    }

    /// Checks that the node reports itself as healthy.
    pub(crate) fn check_health(&self) -> Result<()> {
        let health = self.call("getHealth")?;
        ensure!(health == "ok", "getHealth: {health}");
        Ok(())
    }

    /// Ends the process, a launcher that may not wait for its node, and waits until the node reports that it stops.
    pub(crate) fn stop_launcher(mut self) -> Result<()> {
        Cmd::new("kill").args(["-TERM", &self.process.id().to_string()]).run()?;
        while !self.report()?.starts_with("STOPPING=1") {}
        Ok(())
    }

    /// Ends it as a service manager does.
    pub(crate) fn stop(mut self) -> Result<()> {
        Cmd::new("kill").args(["-TERM", &self.process.id().to_string()]).run()?;
        while !self.report()?.starts_with("STOPPING=1") {}
        let status = self.process.wait()?;
        self.has_ended = true;
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
        if !self.has_ended {
            // The launcher may have ended already, without the node.
            let group = format!("-{}", self.process.id());
            let _ = Cmd::new("kill").args(["-KILL", "--", &group]).run();
            let _ = self.process.wait();
        }
    }
}
