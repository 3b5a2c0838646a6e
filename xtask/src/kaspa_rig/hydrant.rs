//! The process of `hydrant follow-kaspa`, and its ports.
//!
//! It chooses its ports itself, and writes them to a file.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::kaspa_rig::metrics::{Counters, Metrics};
use crate::kaspa_rig::resources::Resources;
use crate::rig::child_process::ChildProcess;
use crate::rig::clock::{now, pause};
use crate::rig::json_rpc;

/// Time limit until Hydrant is ready. It reads its snapshot first, or follows the chain from its first block.
const START_TIMEOUT: Duration = Duration::from_secs(180);
/// Interval between snapshots, in seconds: shorter than that between kills, so that most starts have a snapshot.
const SNAPSHOT_INTERVAL_S: u64 = 10;
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Addresses of the upstream node, through the connections that the rig can cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upstream {
    pub(crate) borsh: SocketAddr,
    pub(crate) json: SocketAddr,
}

/// Addresses on which Hydrant serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoints {
    /// JSON-RPC and metrics.
    pub(crate) rpc: SocketAddr,
    pub(crate) wrpc_borsh: SocketAddr,
    pub(crate) wrpc_json: SocketAddr,
    pub(crate) grpc: SocketAddr,
}

/// A follower with its ledger.
pub(crate) struct Hydrant {
    program: PathBuf,
    dir: PathBuf,
    upstream: Upstream,
    running: Option<Running>,
    /// The sum of the counters of processes that were killed.
    past: Counters,
    /// The sum of their CPU times.
    past_cpu_time: Duration,
}

struct Running {
    process: ChildProcess,
    endpoints: Endpoints,
}

impl Hydrant {
    /// Starts a follower with an empty ledger in `dir`.
    pub(crate) fn start(program: &Path, dir: &Path, upstream: Upstream) -> Result<Self> {
        let mut hydrant = Self {
            program: program.to_owned(),
            dir: dir.to_owned(),
            upstream,
            running: None,
            past: Counters::default(),
            past_cpu_time: Duration::ZERO,
        };
        hydrant.restart()?;
        Ok(hydrant)
    }

    /// Starts the follower with its ledger, and returns when its ports are known.
    pub(crate) fn restart(&mut self) -> Result<()> {
        let file = self.endpoints_file();
        if file.exists() {
            fs::remove_file(&file)?;
        }
        let mut process = ChildProcess::start(&self.dir, "hydrant", self.command())?;
        let started = now();
        let endpoints = loop {
            process.check()?;
            // The file may be there before its whole content is.
            if let Ok(endpoints) = read_endpoints(&file) {
                break endpoints;
            }
            ensure!(
                started.elapsed() < START_TIMEOUT,
                "hydrant has not written {} after {START_TIMEOUT:?}",
                file.display()
            );
            pause(POLL_INTERVAL);
        };
        self.running = Some(Running { process, endpoints });
        Ok(())
    }

    /// Kills the follower, as `kill -9` does.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.past = self.counters()?;
        self.past_cpu_time = self.resources()?.cpu_time;
        let running = self.running.take().context("hydrant does not run")?;
        running.process.kill()
    }

    /// Returns an error if the follower should run and does not.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.running.as_mut().map_or(Ok(()), |running| running.process.check())
    }

    pub(crate) fn endpoints(&self) -> Result<Endpoints> {
        Ok(self.running.as_ref().context("hydrant does not run")?.endpoints)
    }

    /// Returns the page of metrics.
    pub(crate) fn metrics(&self) -> Result<Metrics> {
        Ok(Metrics::new(json_rpc::get(self.endpoints()?.rpc, "/metrics")?))
    }

    /// Returns the counters of all processes so far.
    pub(crate) fn counters(&self) -> Result<Counters> {
        let counters = self.metrics()?.counters().context("/metrics lacks counters of Kaspa")?;
        Ok(self.past.add(&counters))
    }

    /// Returns the resources of all processes so far.
    pub(crate) fn resources(&self) -> Result<Resources> {
        let running = self.running.as_ref().context("hydrant does not run")?;
        Resources::read(running.process.id(), self.past_cpu_time)
    }

    fn command(&self) -> Command {
        let Upstream { borsh, json } = self.upstream;
        let mut command = Command::new(&self.program);
        command
            .arg("follow-kaspa")
            .args(["--source", &format!("ws://{borsh}")])
            .args(["--json-source", &format!("ws://{json}")])
            .args(["--network", "simnet", "--rpc-port", "0"])
            .args(["--wrpc-borsh-port", "0", "--wrpc-json-port", "0", "--grpc-port", "0"])
            .args(["--snapshot-interval", &SNAPSHOT_INTERVAL_S.to_string()])
            .arg("--ledger")
            .arg(self.dir.join("ledger"))
            .arg("--endpoints-file")
            .arg(self.endpoints_file());
        command
    }

    fn endpoints_file(&self) -> PathBuf {
        self.dir.join("endpoints.json")
    }
}

fn read_endpoints(file: &Path) -> Result<Endpoints> {
    parse_endpoints(&fs::read_to_string(file)?)
}

/// Reads the file of endpoints: each is an address, or a URL with one.
fn parse_endpoints(text: &str) -> Result<Endpoints> {
    let endpoints: Value = serde_json::from_str(text)?;
    let address = |key: &str| -> Result<SocketAddr> {
        let endpoint = endpoints[key].as_str().with_context(|| format!("no {key} in {text}"))?;
        let address = endpoint.split_once("://").map_or(endpoint, |(_, address)| address);
        Ok(address.trim_end_matches('/').parse()?)
    };
    Ok(Endpoints {
        rpc: address("rpc")?,
        wrpc_borsh: address("wrpc_borsh")?,
        wrpc_json: address("wrpc_json")?,
        grpc: address("grpc")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_addresses_or_urls() {
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let text = r#"{"rpc": "http://127.0.0.1:1/", "wrpc_borsh": "ws://127.0.0.1:2",
            "wrpc_json": "127.0.0.1:3", "grpc": "http://127.0.0.1:4"}"#;
        let [rpc, wrpc_borsh, wrpc_json, grpc] = [1, 2, 3, 4].map(address);
        let expected = Endpoints { rpc, wrpc_borsh, wrpc_json, grpc };
        assert_eq!(parse_endpoints(text).unwrap(), expected);
        for incomplete in ["", "{", r#"{"rpc": "127.0.0.1:1"}"#, r#"{"rpc": 1}"#] {
            assert!(parse_endpoints(incomplete).is_err(), "{incomplete}");
        }
    }
}
