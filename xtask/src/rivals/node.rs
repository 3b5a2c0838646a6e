//! A running node of a candidate.
//!
//! Invariant: its process ends with [`RunningNode`].

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use process_usage::Process;
use serde_json::{Value, json};

use crate::directories::remove_directory;
use crate::rig::clock::{now, pause};
use crate::rig::json_rpc::call;
use crate::rig::ports::free_ports;
use crate::rivals::candidate::{Candidate, Ports};

/// Time limit for the start of a node.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Time between two polls of a node that starts: the resolution of the measured time.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

pub(super) struct RunningNode {
    process: Child,
    pub(super) rpc: SocketAddr,
    /// Time from the start of the process to its first correct responses.
    pub(super) ready_after: Duration,
}

impl RunningNode {
    /// Starts a node in an empty directory below `dir`, and waits until it serves.
    pub(super) fn start(candidate: &Candidate, dir: &Path, accounts: &Path) -> Result<Self> {
        let dir = dir.join("node");
        remove_directory(&dir)?;
        fs::create_dir_all(&dir)?;
        let [rpc, faucet, gossip] = free_ports()?;
        let mut command = candidate.command(&dir, accounts, &Ports { rpc, faucet, gossip })?;
        let log = File::create(dir.join("log"))?;
        command.current_dir(&dir).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let started = now();
        let process = command.spawn().with_context(|| format!("start {}", candidate.heading))?;
        let rpc = SocketAddr::from(([127, 0, 0, 1], rpc));
        let mut node = Self { process, rpc, ready_after: Duration::ZERO };
        while !node.is_ready() {
            if let Some(status) = node.process.try_wait()? {
                bail!("it ended before it was ready ({status}): {}", dir.join("log").display());
            }
            ensure!(started.elapsed() < START_TIMEOUT, "not ready after {START_TIMEOUT:?}");
            pause(POLL_INTERVAL);
        }
        node.ready_after = started.elapsed();
        Ok(node)
    }

    fn is_ready(&self) -> bool {
        let is_healthy =
            call(self.rpc, "getHealth", &json!([])).is_ok_and(|it| it["result"] == "ok");
        is_healthy && self.latest_blockhash().is_ok()
    }

    /// Returns the newest confirmed blockhash.
    pub(super) fn latest_blockhash(&self) -> Result<String> {
        let response = self.call("getLatestBlockhash", &json!([{ "commitment": "confirmed" }]))?;
        let hash = response["result"]["value"]["blockhash"].as_str();
        Ok(hash.context("no blockhash")?.to_owned())
    }

    /// Calls a method. The response has `result` or `error`.
    pub(super) fn call(&self, method: &str, params: &Value) -> Result<Value> {
        call(self.rpc, method, params)
    }

    /// Returns the resident memory of the process, in bytes.
    pub(super) fn resident_bytes(&self) -> Result<u64> {
        Ok(Process::with_id(self.process.id()).resident_bytes()?)
    }
}

impl Drop for RunningNode {
    fn drop(&mut self) {
        // If it has ended already, there is nothing to end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
