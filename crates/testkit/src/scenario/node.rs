//! `hydrant dev` as a child process on free ports.
//!
//! Invariant: the process ends with its [`Node`].

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use process_usage::Process;
use tempfile::TempDir;

/// How long a node may take to be ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// How often the node is polled for that.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A running node, or any other process that is measured from outside.
pub struct Node {
    child: Child,
    /// Its JSON-RPC address.
    pub rpc: SocketAddr,
    /// Its WebSocket address.
    pub ws: SocketAddr,
    // Has the endpoints file that the node writes; removed with the node.
    _dir: TempDir,
}

impl Node {
    /// Starts a node and waits until it is ready.
    pub async fn start(program: &Path, flags: &[&str]) -> Result<Self> {
        let mut args = vec!["dev", "--quiet", "--rpc-port", "0"];
        args.extend_from_slice(flags);
        Self::start_program(program, &args).await
    }

    /// Starts a program that writes its endpoints as JSON (`rpc` and `ws`) to the file after
    /// `--endpoints-file`.
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
                // The file is renamed when it is complete, or written in one piece.
                if let Ok(text) = fs::read(&endpoints)
                    && let Ok(endpoints) = serde_json::from_slice::<serde_json::Value>(&text)
                {
                    return Ok(endpoints);
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        let endpoints = match tokio::time::timeout(READY_TIMEOUT, ready).await {
            Ok(endpoints) => endpoints?,
            Err(_) => {
                child.kill()?;
                bail!("the node was not ready within {READY_TIMEOUT:?}");
            }
        };
        Ok(Self {
            child,
            rpc: address(&endpoints["rpc"])?,
            ws: address(&endpoints["ws"])?,
            _dir: dir,
        })
    }

    /// Its CPU time in user and kernel mode. Resolution: 10 ms.
    pub fn cpu_time(&self) -> Result<Duration> {
        Ok(Process::with_id(self.pid()).cpu_time()?)
    }

    /// Its resident memory in bytes.
    pub fn resident_bytes(&self) -> Result<u64> {
        Ok(Process::with_id(self.pid()).resident_bytes()?)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already. Then the kill fails, and the wait still has to be done.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(url: &serde_json::Value) -> Result<SocketAddr> {
    let url = url.as_str().context("the node has written no endpoint")?;
    let (_, address) = url.split_once("://").with_context(|| format!("no address: {url}"))?;
    address.trim_end_matches('/').parse().with_context(|| format!("not of the form IP:PORT: {url}"))
}
