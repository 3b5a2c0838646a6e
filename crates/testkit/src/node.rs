//! `hydrant dev`, or another program that writes its endpoints to a file, as a child process on free ports.
//!
//! In: a [`NodeCommand`]. Out: a [`Node`] that is ready, with its addresses.
//! Shape: a node has a temporary directory, which is also its home: the keypair of the user who runs it must not get
//! into genesis.
//! Invariant: the process ends with its [`Node`].
//! Bounds: 30 s from start to ready, unless the command has another time.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use process_usage::Process;
use serde_json::Value;
use tempfile::TempDir;

use crate::child_process::KillOnDrop;
use crate::clock::{now, sleep_for};

/// Time limit of a node, until it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which the node is polled for that.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Becomes the program of its arguments, which gets SIGTERM when standard input closes.
const WATCHDOG: &str =
    r#"exec 3<&0; (read -r _ <&3; kill $$ 2>/dev/null) & exec "$@" 3<&- </dev/null"#;
const LOG_LINES_SHOWN: usize = 60;

/// A node that has not been started.
pub struct NodeCommand {
    command: Command,
    ready_timeout: Duration,
    is_logged: bool,
    is_watched: bool,
}

/// A running node, or any other process that is measured from outside.
pub struct Node {
    process: KillOnDrop,
    /// Its JSON-RPC address.
    pub rpc: SocketAddr,
    /// Its WebSocket address.
    pub ws: SocketAddr,
    /// The address of its TPU, over QUIC, if it has one.
    pub tpu: Option<SocketAddr>,
    /// The address of its Yellowstone gRPC, if it serves it.
    pub grpc: Option<SocketAddr>,
    /// The address of its faucet over TCP, if it serves one.
    pub faucet: Option<SocketAddr>,
    /// When its process was started.
    pub started: Instant,
    log: Option<PathBuf>,
    // Has the endpoints file that the node writes, and its log; removed with the node.
    _dir: TempDir,
}

impl NodeCommand {
    /// `hydrant dev` on free ports with a quiet terminal. The command starts hydrant, itself or by another program.
    pub fn dev(mut hydrant: Command) -> Self {
        hydrant.args(["dev", "--quiet", "--rpc-port", "0"]);
        Self::new(hydrant)
    }

    /// A program that writes its endpoints as JSON (`rpc`, `ws`, and perhaps `tpu`, `grpc` and `faucet`) to the file after
    /// `--endpoints-file`.
    pub fn new(command: Command) -> Self {
        Self { command, ready_timeout: READY_TIMEOUT, is_logged: false, is_watched: false }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets the time until the node must be ready.
    #[must_use]
    pub fn with_ready_timeout(self, ready_timeout: Duration) -> Self {
        Self { ready_timeout, ..self }
    }

    /// Writes the output to a file ([`Node::log`]), whose end is shown if the test panics.
    #[must_use]
    pub fn logged(self) -> Self {
        Self { is_logged: true, ..self }
    }

    /// Makes the node end by SIGTERM instead of SIGKILL, and together with this process, however that ends. So a node
    /// in a `static`, or one whose test was killed, ends too.
    #[must_use]
    pub fn watched(self) -> Self {
        Self { is_watched: true, ..self }
    }

    /// Starts the node and waits until it is ready. It blocks the thread.
    ///
    /// Errors: the program cannot be started, has ended, or is not ready in time. The error has the end of the log.
    pub fn start(self) -> Result<Node> {
        let Self { mut command, ready_timeout, is_logged, is_watched } = self;
        let dir = tempfile::tempdir()?;
        let endpoints = dir.path().join("endpoints.json");
        command.arg("--endpoints-file").arg(&endpoints);
        if is_watched {
            command = add_watchdog(&command);
        }
        command.env("HOME", dir.path());
        command.stdin(if is_watched { Stdio::piped() } else { Stdio::null() });
        let log = is_logged.then(|| dir.path().join("log"));
        if let Some(log) = &log {
            let output = File::create(log).context("create the node's log")?;
            command.stdout(output.try_clone().context("share the node's log")?).stderr(output);
        }
        let started = now();
        let process = KillOnDrop::spawn(&mut command)?;
        // There is no address yet, but from now on drop ends the process as a node.
        let none = SocketAddr::from(([0; 4], 0));
        let mut node = Node {
            process,
            rpc: none,
            ws: none,
            tpu: None,
            grpc: None,
            faucet: None,
            started,
            log,
            _dir: dir,
        };
        let ready = node.wait_for_endpoints(&endpoints, ready_timeout);
        let found = ready.with_context(|| node.log_text())?;
        node.rpc = address(&found["rpc"])?;
        node.ws = address(&found["ws"])?;
        node.tpu = found.get("tpu").map(address).transpose()?;
        node.grpc = found.get("grpc").map(address).transpose()?;
        node.faucet = found.get("faucet").map(address).transpose()?;
        Ok(node)
    }
}

impl Node {
    fn wait_for_endpoints(&mut self, file: &PathBuf, ready_timeout: Duration) -> Result<Value> {
        loop {
            if let Some(status) = self.process.0.try_wait()? {
                bail!("the node ended before it was ready: {status}");
            }
            // The file is renamed when it is complete, or written in one piece.
            if let Ok(text) = fs::read(file)
                && let Ok(endpoints) = serde_json::from_slice(&text)
            {
                return Ok(endpoints);
            }
            ensure!(
                self.started.elapsed() < ready_timeout,
                "the node was not ready within {ready_timeout:?}"
            );
            sleep_for(POLL_INTERVAL);
        }
    }

    /// Its JSON-RPC endpoint.
    pub fn rpc_url(&self) -> String {
        format!("http://{}", self.rpc)
    }

    /// Its WebSocket endpoint.
    pub fn ws_url(&self) -> String {
        format!("ws://{}", self.ws)
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
        self.process.0.id()
    }

    /// Its process, for tests that signal it or wait for its end.
    pub fn process(&mut self) -> &mut std::process::Child {
        &mut self.process.0
    }

    /// Its output so far, if it is logged.
    pub fn log(&self) -> String {
        let read = |log| fs::read_to_string(log).unwrap_or_else(|err| format!("no log: {err}"));
        self.log.as_ref().map(read).unwrap_or_default()
    }

    /// The last lines of its output.
    pub fn log_end(&self) -> String {
        let text = self.log();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }

    fn log_text(&self) -> String {
        match &self.log {
            Some(_) => format!("no node; its log ends\n{}", self.log_end()),
            None => "no node".to_owned(),
        }
    }
}

impl Drop for Node {
    #[expect(clippy::print_stderr, reason = "a failing test shows its node's log")]
    fn drop(&mut self) {
        if self.log.is_some() && std::thread::panicking() {
            eprintln!("the node's log ends:\n{}", self.log_end());
        }
        // A watched node ends when its standard input is closed. Any other one is killed with its process.
        if self.process.0.stdin.take().is_some() {
            // It may have ended already.
            let _ = self.process.0.wait();
        }
    }
}

/// Wraps the command in a shell that becomes it, and ends it by SIGTERM when standard input closes: together with this
/// process, however that ends. Standard input must be piped.
pub fn add_watchdog(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", WATCHDOG, "sh"]).arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
}

fn address(url: &Value) -> Result<SocketAddr> {
    let url = url.as_str().context("the node has written no endpoint")?;
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    address.trim_end_matches('/').parse().with_context(|| format!("not of the form IP:PORT: {url}"))
}
