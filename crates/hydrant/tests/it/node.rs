//! A node for a test: a real `hydrant dev` on free ports, gone with the test, its log shown on failure.
//!
//! A shell is in between: it ends the node when its standard input closes. So a node that sits in a
//! `static`, or whose test was killed, goes too.
//! Bounds: 30 s from start to the first response.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::world::wait_until;

/// Runs its arguments, and ends them when standard input does.
const WATCHDOG: &str =
    r#"exec 3<&0; "$@" 3<&- & node=$!; (read -r _ <&3; kill $node 2>/dev/null) & wait $node"#;
const LOG_LINES_SHOWN: usize = 60;

/// A running node. Dropping it ends it.
pub(crate) struct Node {
    /// URL of JSON-RPC over HTTP.
    pub(crate) rpc: String,
    /// URL of PubSub over WebSocket.
    pub(crate) ws: String,
    /// Address of the TPU, over QUIC.
    pub(crate) tpu: String,
    watchdog: Child,
    log: PathBuf,
    _files: TempDir,
}

impl Node {
    /// A ready node with `flags`, in addition to those for free ports and a quiet terminal.
    pub(crate) fn start(flags: &[&str]) -> Result<Self> {
        let files = TempDir::new().context("a directory for the node's files")?;
        let (log, endpoints) = (files.path().join("log"), files.path().join("endpoints.json"));
        let output = File::create(&log).context("create the node's log")?;
        let watch = Command::new("sh")
            .args([
                "-c",
                WATCHDOG,
                "sh",
                env!("CARGO_BIN_EXE_hydrant"),
                "dev",
                "--rpc-port",
                "0",
                "--quiet",
                "--log",
            ])
            .arg("--endpoints-file")
            .arg(&endpoints)
            .args(flags)
            // The default keypair of the user who runs the tests must not get into genesis.
            .env("HOME", files.path())
            .stdin(Stdio::piped())
            .stdout(output.try_clone().context("share the node's log")?)
            .stderr(output)
            .spawn()
            .context("start hydrant dev")?;
        let mut node = Self {
            rpc: String::new(),
            ws: String::new(),
            tpu: String::new(),
            watchdog: watch,
            log,
            _files: files,
        };
        let found = wait_until("the node's endpoints", Duration::from_secs(30), || {
            if let Some(status) = node.watchdog.try_wait()? {
                bail!("hydrant dev ended with {status}");
            }
            Ok(fs::read(&endpoints)
                .ok()
                .and_then(|text| serde_json::from_slice::<Value>(&text).ok()))
        });
        let found = found.with_context(|| format!("no node; its log ends\n{}", node.log_end()))?;
        node.rpc = found["rpc"].as_str().context("endpoints without rpc")?.to_owned();
        node.ws = found["ws"].as_str().context("endpoints without ws")?.to_owned();
        node.tpu = found["tpu"].as_str().context("endpoints without tpu")?.to_owned();
        Ok(node)
    }

    /// The process of the node itself, under the shell that watches it.
    pub(crate) fn pid(&self) -> Result<String> {
        let children = format!("/proc/{0}/task/{0}/children", self.watchdog.id());
        let children = fs::read_to_string(&children).context(children)?;
        let is_node = |pid: &&str| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name.trim() == "hydrant")
        };
        children.split_whitespace().find(is_node).map(str::to_owned).context("no such process")
    }

    /// The node's log so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_else(|err| format!("no log: {err}"))
    }

    /// The last lines of the node's log.
    pub(crate) fn log_end(&self) -> String {
        let text = self.log();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }

    fn stop(&mut self) -> io::Result<()> {
        drop(self.watchdog.stdin.take());
        self.watchdog.wait().map(drop)
    }
}

impl Drop for Node {
    #[expect(clippy::print_stderr, reason = "a failing test shows its node's log")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the node's log ends:\n{}", self.log_end());
        }
        if let Err(err) = self.stop() {
            eprintln!("the node did not stop: {err}");
        }
    }
}
