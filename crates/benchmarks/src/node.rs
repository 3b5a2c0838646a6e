//! `hydrant dev` as a child process, on free ports, for one benchmark.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use process_usage::Process;
use tempfile::TempDir;

use crate::child_process::{KillOnDrop, sibling_binary};
use crate::now;

/// How long a node may take to be ready.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// The same for a node that loads a large archive.
pub(crate) const LOAD_TIMEOUT: Duration = Duration::from_secs(1_800);

/// How often the node is polled for that.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A running node.
pub(crate) struct Node {
    process: KillOnDrop,
    /// Its JSON-RPC address.
    pub(crate) rpc: SocketAddr,
    /// When its process was started.
    pub(crate) started: Instant,
    // Has the endpoints file that the node writes; removed with the node.
    _dir: TempDir,
}

impl Node {
    /// Starts a node and waits until it is ready.
    pub(crate) fn start(flags: &[&str]) -> Result<Self> {
        Self::start_with_timeout(flags, READY_TIMEOUT)
    }

    /// The same, for a node that may take longer to be ready.
    pub(crate) fn start_with_timeout(flags: &[&str], ready_within: Duration) -> Result<Self> {
        Self::start_command(Command::new(program()?), flags, ready_within)
    }

    /// The same by a command that starts the program.
    pub(crate) fn start_command(
        mut command: Command,
        flags: &[&str],
        ready_within: Duration,
    ) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let endpoints = dir.path().join("endpoints.json");
        let started = now();
        let process = command
            .args(["dev", "--quiet", "--rpc-port", "0", "--endpoints-file"])
            .arg(&endpoints)
            .args(flags)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", command.get_program().display()))?;
        let mut process = KillOnDrop(process);
        while !endpoints.exists() {
            if let Some(status) = process.0.try_wait()? {
                bail!("the node ended before it was ready: {status}");
            }
            ensure!(
                started.elapsed() < ready_within,
                "the node was not ready within {ready_within:?}"
            );
            sleep_for(POLL_INTERVAL);
        }
        let endpoints: serde_json::Value = serde_json::from_slice(&fs::read(&endpoints)?)?;
        let url = endpoints["rpc"].as_str().context("the node has written no endpoint")?;
        Ok(Self { process, rpc: address(url)?, started, _dir: dir })
    }

    /// The process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Seconds of CPU time that each of the node's threads has used, by name; equal names together.
    pub(crate) fn thread_times(&self) -> Result<BTreeMap<String, f64>> {
        let times = Process::with_id(self.pid()).cpu_time_by_thread()?;
        Ok(times.into_iter().map(|(name, time)| (name, time.as_secs_f64())).collect())
    }

    /// Resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        Ok(Process::with_id(self.pid()).resident_bytes()?)
    }

    /// The peak of resident memory in bytes.
    pub(crate) fn peak_resident_bytes(&self) -> Result<u64> {
        Ok(Process::with_id(self.pid()).peak_resident_bytes()?)
    }
}

/// The address in a URL such as `http://127.0.0.1:8899`.
pub(crate) fn address(url: &str) -> Result<SocketAddr> {
    let address = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
    address.parse().with_context(|| format!("not of the form http://IP:PORT: {url}"))
}

/// The measured program: `$HYDRANT`, or the one in the folder of this program.
pub(crate) fn program() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("HYDRANT") {
        return Ok(path.into());
    }
    sibling_binary("hydrant")
}

#[expect(clippy::disallowed_methods, reason = "another process has no value to wait on")]
pub(crate) fn sleep_for(duration: Duration) {
    std::thread::sleep(duration);
}
