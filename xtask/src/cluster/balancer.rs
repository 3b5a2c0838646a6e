//! HAProxy in front of the replicas, configured by the file that operators get (`packaging/cluster/haproxy.cfg`).

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::rig::child_process::ChildProcess;
use crate::workspace::root;

/// The names of the addresses of replicas in the configuration.
const REPLICAS: [&str; 3] = ["HYDRANT_REPLICA_1", "HYDRANT_REPLICA_2", "HYDRANT_REPLICA_3"];

/// A running HAProxy.
pub(crate) struct Balancer {
    pub(crate) address: SocketAddr,
    process: ChildProcess,
}

impl Balancer {
    pub(crate) fn start(
        program: &Path,
        dir: &Path,
        address: SocketAddr,
        replicas: [SocketAddr; REPLICAS.len()],
    ) -> Result<Self> {
        let mut command = Command::new(program);
        command.arg("-db").arg("-f").arg(root().join("packaging/cluster/haproxy.cfg"));
        command.env("HYDRANT_BIND", address.to_string());
        command.env("HYDRANT_STATS", dir.join("haproxy.sock"));
        for (name, replica) in REPLICAS.iter().zip(replicas) {
            command.env(name, replica.to_string());
        }
        Ok(Self { address, process: ChildProcess::start(dir, "haproxy", command)? })
    }

    /// Returns an error if it has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.process.check()
    }
}
