//! `hydrant dev` as a child process, on free ports, for one benchmark.
//!
//! Invariant: the process ends with its [`Node`], however the benchmark ends.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ::load::Process;
use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::now;

/// How long a node may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// How long one may take that loads a large archive.
pub(crate) const LOADED_WITHIN: Duration = Duration::from_secs(1_800);

/// How often we look whether it is.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Clock ticks a second, as Linux counts the CPU time of processes on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running node.
pub(crate) struct Node {
    child: Child,
    /// Where it answers JSON-RPC.
    pub(crate) rpc: SocketAddr,
    /// When its process was started.
    pub(crate) started: Instant,
    // Holds the file in which the node says where it answers; goes with the node.
    _dir: TempDir,
}

impl Node {
    /// Starts a node and waits until it says that it answers.
    pub(crate) fn start(flags: &[&str]) -> Result<Self> {
        Self::start_within(flags, READY_WITHIN)
    }

    /// The same, for a node that may take longer to be ready.
    pub(crate) fn start_within(flags: &[&str], ready_within: Duration) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let endpoints = dir.path().join("endpoints.json");
        let program = program()?;
        let started = now();
        let mut child = Command::new(&program)
            .args(["dev", "--quiet", "--rpc-port", "0", "--endpoints-file"])
            .arg(&endpoints)
            .args(flags)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        while !endpoints.exists() {
            if let Some(status) = child.try_wait()? {
                bail!("the node ended before it was ready: {status}");
            }
            if started.elapsed() > ready_within {
                child.kill()?;
                bail!("the node was not ready within {ready_within:?}");
            }
            nap(LOOK_EVERY);
        }
        let endpoints: serde_json::Value = serde_json::from_slice(&fs::read(&endpoints)?)?;
        let url = endpoints["rpc"].as_str().context("the node does not say where it answers")?;
        Ok(Self { child, rpc: address(url)?, started, _dir: dir })
    }

    /// The process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Seconds of CPU time that each of the node's threads has used, by name; equal names together.
    pub(crate) fn thread_times(&self) -> Result<BTreeMap<String, f64>> {
        let mut times = BTreeMap::new();
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let stat = fs::read_to_string(task?.path().join("stat"))?;
            let (name, fields) = stat.rsplit_once(')').context("an unknown form of a stat file")?;
            let name = name.split_once('(').map_or("", |(_, name)| name);
            let ticks: f64 = fields
                .split_whitespace()
                .skip(11)
                .take(2)
                .map(str::parse::<f64>)
                .sum::<Result<_, _>>()?;
            *times.entry(name.to_owned()).or_default() += ticks / TICKS_PER_SECOND;
        }
        Ok(times)
    }

    /// Bytes of memory that are resident.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        Ok(Process(self.pid()).resident_bytes()?)
    }

    /// The most bytes of memory that were ever resident.
    pub(crate) fn resident_bytes_most(&self) -> Result<u64> {
        Ok(Process(self.pid()).resident_bytes_most()?)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill, and only to wait for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address in a URL such as `http://127.0.0.1:8899`.
pub(crate) fn address(url: &str) -> Result<SocketAddr> {
    let address = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
    address.parse().with_context(|| format!("not of the form http://IP:PORT: {url}"))
}

/// What is measured: `$HYDRANT`, or the program beside this one.
pub(crate) fn program() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("HYDRANT") {
        return Ok(path.into());
    }
    Ok(std::env::current_exe()?.with_file_name("hydrant"))
}

#[expect(clippy::disallowed_methods, reason = "another process has no value to wait on")]
pub(crate) fn nap(duration: Duration) {
    std::thread::sleep(duration);
}
