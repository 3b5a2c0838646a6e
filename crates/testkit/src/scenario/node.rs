//! `hydrant dev` as a child process on free ports.
//!
//! Invariant: the process ends with its [`Node`].

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

/// How long a node may take to be ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// How often we look whether it is.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Clock ticks a second, as Linux counts the CPU time of processes on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running node, or any other process that is measured from outside.
pub struct Node {
    child: Child,
    /// Where it answers JSON-RPC.
    pub rpc: SocketAddr,
    /// Where it speaks WebSocket.
    pub ws: SocketAddr,
    // Holds the file in which the node says where it answers; goes with the node.
    _dir: TempDir,
}

impl Node {
    /// Starts a node and waits until it says that it answers.
    pub async fn start(program: &Path, flags: &[&str]) -> Result<Self> {
        let mut args = vec!["dev", "--quiet", "--rpc-port", "0"];
        args.extend_from_slice(flags);
        Self::start_program(program, &args).await
    }

    /// Starts a program that writes where it answers as JSON (`rpc` and `ws`) into the file that it
    /// is given after `--endpoints-file`.
    pub async fn start_program(program: &Path, args: &[&str]) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let endpoints = dir.path().join("endpoints.json");
        let mut child = Command::new(program)
            .args(args)
            .arg("--endpoints-file")
            .arg(&endpoints)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let ready = async {
            loop {
                if let Some(status) = child.try_wait()? {
                    bail!("the node ended before it was ready: {status}");
                }
                // It is renamed into its place, or written in one piece.
                if let Ok(text) = fs::read(&endpoints)
                    && let Ok(said) = serde_json::from_slice::<serde_json::Value>(&text)
                {
                    return Ok(said);
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        let said = match tokio::time::timeout(READY_TIMEOUT, ready).await {
            Ok(said) => said?,
            Err(_) => {
                child.kill()?;
                bail!("the node was not ready within {READY_TIMEOUT:?}");
            }
        };
        Ok(Self { child, rpc: address(&said["rpc"])?, ws: address(&said["ws"])?, _dir: dir })
    }

    /// CPU time that it has used, in user and kernel; 10 ms is the finest it is counted in.
    pub fn cpu_time(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The second field is a name in parentheses and may hold anything; the 14th and 15th count.
        let (_, fields) = stat.rsplit_once(')').context("an unknown form of /proc/PID/stat")?;
        let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
        let ticks: Vec<f64> = ticks.collect::<Result<_, _>>()?;
        Ok(Duration::from_secs_f64(ticks.iter().sum::<f64>() / TICKS_PER_SECOND))
    }

    /// Its memory that is resident now.
    pub fn resident_bytes(&self) -> Result<u64> {
        super::memory::resident_bytes(self.child.id())
    }

    /// The number by which the system knows the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill, and only to wait for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(url: &serde_json::Value) -> Result<SocketAddr> {
    let url = url.as_str().context("the node does not say where it answers")?;
    let (_, address) = url.split_once("://").with_context(|| format!("no address: {url}"))?;
    address.trim_end_matches('/').parse().with_context(|| format!("not of the form IP:PORT: {url}"))
}
