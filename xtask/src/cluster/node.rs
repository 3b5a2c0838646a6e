//! A process of Hydrant: the producer of the chain, the second ingester, a replica, or a node without a log.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use process_usage::Process;

use crate::rig::child_process::ChildProcess;
use crate::rig::http_client::{Request, exchange_within};
use crate::rig::metrics_page::MetricsPage;
use crate::shell::Cmd;

/// Time limit of a response about the state of a node. A replica that loads its first snapshot accepts connections and
/// does not respond.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// A node, running or not. It starts again with the same arguments.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) rpc: SocketAddr,
    program: PathBuf,
    dir: PathBuf,
    args: Vec<String>,
    environment: Vec<(&'static str, String)>,
    process: Option<ChildProcess>,
    is_paused: bool,
}

impl Node {
    /// Prepares a node, which is not started. `dir` gets its log.
    pub(crate) fn new(
        name: &str,
        program: &Path,
        dir: &Path,
        rpc: SocketAddr,
        args: Vec<String>,
        environment: Vec<(&'static str, String)>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            rpc,
            program: program.to_owned(),
            dir: dir.to_owned(),
            args,
            environment,
            process: None,
            is_paused: false,
        }
    }

    pub(crate) fn start(&mut self) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).args(["--quiet", "--log", "--bind-address", "127.0.0.1"]);
        command.args(["--rpc-port", &self.rpc.port().to_string()]);
        // A keypair of the user must not get into genesis.
        command.env("HOME", &self.dir).current_dir(&self.dir);
        command.envs(self.environment.iter().map(|(name, value)| (*name, value)));
        self.process = Some(ChildProcess::start(&self.dir, &self.name, command)?);
        Ok(())
    }

    /// Kills the node, as `kill -9` does.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.is_paused = false;
        self.process.take().with_context(|| format!("{} does not run", self.name))?.kill()
    }

    /// Ends the node with a signal that lets it drain.
    pub(crate) fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.stop();
        }
    }

    /// Stops the node from running without ending it.
    pub(crate) fn pause(&mut self) -> Result<()> {
        self.signal("STOP")?;
        self.is_paused = true;
        Ok(())
    }

    /// Lets a paused node run again.
    pub(crate) fn resume(&mut self) -> Result<()> {
        self.is_paused = false;
        self.signal("CONT")
    }

    /// Returns an error if the node should run and has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.process.as_mut().map_or(Ok(()), ChildProcess::check)
    }

    /// Whether the node takes requests.
    pub(crate) fn is_ready(&self) -> bool {
        let runs = self.process.is_some() && !self.is_paused;
        runs && self.probe("/ready").is_ok()
    }

    /// Returns the page of metrics.
    pub(crate) fn metrics(&self) -> Result<MetricsPage> {
        self.probe("/metrics").map(MetricsPage::new)
    }

    fn probe(&self, path: &str) -> Result<String> {
        let response = exchange_within(self.rpc, &Request::get(path), PROBE_TIMEOUT)?;
        ensure!(response.status == 200, "{}: {path} has status {}", self.name, response.status);
        Ok(String::from_utf8_lossy(&response.body).into_owned())
    }

    /// Returns everything that the node has logged, in all of its processes.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.join(format!("{}.log", self.name))).unwrap_or_default()
    }

    /// Returns the seconds of CPU time of the process.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        Ok(self.process()?.cpu_time()?.as_secs_f64())
    }

    /// Returns the resident bytes of the process.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        Ok(self.process()?.resident_bytes()?)
    }

    fn process(&self) -> Result<Process> {
        self.process_id().map(Process::with_id)
    }

    fn process_id(&self) -> Result<u32> {
        let process = self.process.as_ref();
        Ok(process.with_context(|| format!("{} does not run", self.name))?.id())
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let id = self.process_id()?.to_string();
        Cmd::new("kill").args([&format!("-{signal}"), &id]).output().map(drop)
    }
}
