//! The processes of the QUIC benchmark: servers and generators, controlled over their standard input and output.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use testkit::child_process::{Child, sibling_binary};
use testkit::clock::{now, sleep_for};

/// Rivals with workspaces of their own, in a folder of this crate.
const BASELINES: &[&str] = &["quinn-old", "streamer"];
const BASELINES_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/rivals");

/// Time limit of [`Server::poll_streams`], long enough for a server under Valgrind.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(60);
const RECEIVE_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A server under measurement.
pub(crate) struct Server {
    process: Child,
    /// Its address, on loopback.
    pub(crate) port: u16,
}

pub(crate) struct ServerMetrics(serde_json::Value);

impl Server {
    /// Starts `ours`, `quinn` or one of the rivals with workspaces of their own.
    pub(crate) fn start(name: &str, args: &[&str]) -> Result<Self> {
        let (program, name) = Self::program(name)?;
        Self::start_command(Command::new(program).args(name).args(args))
    }

    /// The program of a server, and its first argument.
    pub(crate) fn program(name: &str) -> Result<(PathBuf, Option<&str>)> {
        if BASELINES.contains(&name) {
            return Ok((target(name)?.join("release").join(name), None));
        }
        Ok((sibling_binary("quic_server")?, Some(name)))
    }

    /// Starts a server by a command, which may be one that runs its program.
    pub(crate) fn start_command(command: &mut Command) -> Result<Self> {
        let mut process = Child::start(command)?;
        let port = expect_line(&mut process)?.parse().context("a server prints its port first")?;
        Ok(Self { process, port })
    }

    pub(crate) fn metrics(&mut self) -> Result<ServerMetrics> {
        self.process.send_line("")?;
        Ok(ServerMetrics(serde_json::from_str(&expect_line(&mut self.process)?)?))
    }
}

impl Server {
    /// Waits until the server has received this many streams in all: a stream is acknowledged before it is read.
    pub(crate) fn wait_for_streams(&mut self, streams: u64) -> Result<ServerMetrics> {
        let metrics = self.poll_streams(streams)?;
        let received = metrics.get("streams") as u64;
        ensure!(received >= streams, "{received} of {streams} streams in {RECEIVE_TIMEOUT:?}");
        Ok(metrics)
    }

    /// Returns the metrics once the server has received this many streams in all, or after [`RECEIVE_TIMEOUT`].
    pub(crate) fn poll_streams(&mut self, streams: u64) -> Result<ServerMetrics> {
        let end = now() + RECEIVE_TIMEOUT;
        loop {
            let metrics = self.metrics()?;
            if metrics.get("streams") as u64 >= streams || now() >= end {
                return Ok(metrics);
            }
            sleep_for(RECEIVE_POLL_INTERVAL);
        }
    }

    /// Ends the server as a program that returns from `main`.
    pub(crate) fn end(mut self) -> Result<()> {
        self.process.send_line("end")?;
        let status = self.process.wait()?;
        ensure!(status.success(), "the server: {status}");
        Ok(())
    }
}

impl ServerMetrics {
    /// A value; 0 if the server does not report it.
    pub(crate) fn get(&self, key: &str) -> f64 {
        self.0[key].as_f64().unwrap_or_default()
    }

    pub(crate) fn rejected(&self) -> BTreeMap<String, u64> {
        let causes = self.0["refused"].as_object().into_iter().flatten();
        causes.map(|(name, count)| (name.clone(), count.as_u64().unwrap_or_default())).collect()
    }
}

/// A load generator, connected to a server.
pub(crate) struct Generator(Child);

pub(crate) struct LoadResult {
    pub(crate) seconds: f64,
    /// Streams acknowledged whole.
    pub(crate) streams: f64,
}

impl Generator {
    /// Starts one, and waits until all of it has connected.
    pub(crate) fn start(port: u16, plan: &str) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("quic-load").arg(port.to_string()).args(plan.split_whitespace());
        let mut process = Child::start(&mut command)?;
        let line = expect_line(&mut process)?;
        ensure!(line == "ready", "the generator: {line}");
        Ok(Self(process))
    }

    pub(crate) fn start_load(&mut self, load: &str) -> Result<()> {
        self.0.send_line(&format!("run {load}"))
    }

    /// Sends a load, and waits until it is done.
    pub(crate) fn run(&mut self, load: &str) -> Result<LoadResult> {
        self.start_load(load)?;
        let line = expect_line(&mut self.0)?;
        let mut numbers = line.split(' ').map(str::parse::<f64>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(nanoseconds)), Some(Ok(streams))) => {
                Ok(LoadResult { seconds: nanoseconds / 1e9, streams })
            }
            _ => bail!("the generator: {line}"),
        }
    }

    /// Closes its connections.
    pub(crate) fn end(mut self) -> Result<()> {
        self.0.send_line("end")?;
        self.0.wait()?;
        Ok(())
    }
}

/// The next line of a process. Errors: its output has ended.
fn expect_line(process: &mut Child) -> Result<String> {
    process.line()?.context("a process ended early")
}

/// Builds the rivals among `names` that have workspaces of their own.
pub(crate) fn build_baselines(names: &[&str]) -> Result<()> {
    for name in BASELINES.iter().filter(|name| names.contains(name)) {
        let folder = format!("{BASELINES_DIR}/{name}");
        let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--release", "--locked", "--quiet"])
            .arg("--target-dir")
            .arg(target(name)?)
            .current_dir(&folder)
            .status()
            .context("run cargo")?;
        ensure!(status.success(), "build {folder}");
    }
    Ok(())
}

/// Below the target directory that this program is in.
fn target(name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("not in a target directory")?;
    Ok(target.join(name))
}
