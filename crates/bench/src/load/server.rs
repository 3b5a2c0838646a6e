//! The server that is measured, in a process of its own: one ledger, served again and again.
//!
//! Invariant: the process ends with its [`Server`], however the benchmark ends.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use ::load::Process;
use anyhow::{Context, Result, bail};

use crate::agreed::{Serving, Settings};

/// What the binary keeps of answers.
const CACHE_BYTES: u64 = 256 << 20;

pub(crate) struct Server {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    is_serving: bool,
}

impl Settings {
    /// As the binary has them: half the cores for sockets, all of them for work.
    pub(crate) fn of_binary() -> Self {
        let (pool, rpc) = (pool::Config::default(), rpc::Config::default());
        Self {
            io_threads: (cores() / 2).max(1),
            cpu_threads: cores(),
            slice_us: pool.slice_us,
            nice: pool.nice,
            inline_bytes: rpc.inline_bytes_max,
            cache_bytes: CACHE_BYTES,
        }
    }

    /// The same without slices, turns and weights: the pool is one queue in the order of arrival.
    pub(crate) fn in_order() -> Self {
        Self { slice_us: 0, ..Self::of_binary() }
    }

    /// As Agave has its reads: everything through one queue, each to its end, on threads that stand
    /// behind nobody.
    pub(crate) fn as_agave() -> Self {
        Self { nice: 0, inline_bytes: 0, ..Self::in_order() }
    }
}

impl Server {
    /// A ledger of mainnet's shape with so many accounts.
    pub(crate) fn start(accounts: u32) -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name("state-ledger");
        let mut child = Command::new(&program)
            .args(["again", "mainnet", &accounts.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let stdout = child.stdout.take().context("it was asked for")?;
        let mut server = Self { child, lines: BufReader::new(stdout).lines(), is_serving: false };
        server.line("ready")?;
        Ok(server)
    }

    /// Serves so from now on.
    pub(crate) fn serve(&mut self, settings: Settings) -> Result<Serving> {
        if self.is_serving {
            self.say("")?;
            self.line("ended")?;
        }
        self.say(&serde_json::to_string(&settings)?)?;
        self.is_serving = true;
        Ok(serde_json::from_str(&self.line("serving ")?)?)
    }

    pub(crate) fn process(&self) -> Process {
        Process(self.child.id())
    }

    fn say(&mut self, line: &str) -> Result<()> {
        let stdin = self.child.stdin.as_mut().context("it was asked for")?;
        Ok(writeln!(stdin, "{line}")?)
    }

    /// Waits for the line that begins so; gives the rest of it.
    fn line(&mut self, beginning: &str) -> Result<String> {
        for line in self.lines.by_ref() {
            if let Some(rest) = line?.strip_prefix(beginning) {
                return Ok(rest.to_owned());
            }
        }
        bail!("the ledger ended: {}", self.child.wait()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill, and only to wait for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Of this machine, as far as they are ours.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// CPU time of all threads of a process, to the nanosecond; without those that have ended.
pub(crate) fn thread_times(process: Process) -> Result<Duration> {
    let mut nanos = 0;
    for task in fs::read_dir(format!("/proc/{}/task", process.0))? {
        // A thread may end between the two.
        let stat = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        nanos += stat.split_whitespace().next().map_or(Ok(0), str::parse::<u64>)?;
    }
    Ok(Duration::from_nanos(nanos))
}
