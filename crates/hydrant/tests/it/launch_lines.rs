//! The command lines by which tools and public scripts start a validator: each line of `launch_lines/lines.txt` runs under
//! the name that it uses.
//!
//! Shape: a line is run in a directory of its own, on free ports, with the files that it names. Lines that clone take
//! the accounts from one `hydrant dev`. Then the test does what the source of the line does: it waits for the same
//! sign, subscribes on the WebSocket port, and ends the process by the same signal.
//! Bounds: [`AT_ONCE`] processes at a time; 30 s for each wait.
//! Not here: the effects of flags (`flags`, `clone`, `drop_in`).

mod line;
mod preparation;
mod wait;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use testkit::child_process::KillOnDrop;
use testkit::node::Node;

use crate::clients::ProgramElves;
use crate::launch_lines::line::{End, LaunchLine, LaunchProgram};
use crate::launch_lines::preparation::{Launch, upstream_accounts};
use crate::launch_lines::wait::Started;
use crate::node::{HYDRANT, start_node};
use crate::socket::Socket;
use crate::world::{WAIT_TIMEOUT, wait_until};

const LINES: &str = include_str!("launch_lines/lines.txt");
/// Lines of the sources at least.
const LINES_MIN: usize = 70;
/// Two for each of two cores: a line waits longer than it computes.
const AT_ONCE: usize = 4;
/// Part of the output of a process that could not bind its ports.
const PORT_TAKEN: &str = "listen on ";
/// Other programs may take a port between its choice and its use.
const PORT_TRIES: usize = 5;

#[test]
fn every_launch_line_of_tools_and_scripts_starts_and_answers() -> Result<()> {
    let lines = line::parse_all(LINES)?;
    ensure!(lines.len() >= LINES_MIN, "{} lines", lines.len());
    let world = LaunchWorld::start(&lines)?;
    let next = Mutex::new(lines.iter());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let line = next.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(line) = line else { return };
                    if let Err(err) = world.run(line) {
                        let failure = format!("{}\n  {}\n  {err:#}", line.source, line.text());
                        failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    ensure!(
        failures.is_empty(),
        "{} of {} lines failed:\n{}",
        failures.len(),
        lines.len(),
        failures.join("\n")
    );
    Ok(())
}

/// The directory, upstream and cluster that all lines share.
struct LaunchWorld {
    /// A directory with links of both names.
    programs: TempDir,
    /// A program for the files that lines name.
    elf: PathBuf,
    /// The cluster that lines clone from.
    upstream: Node,
}

impl LaunchWorld {
    fn start(lines: &[LaunchLine]) -> Result<Self> {
        let programs = TempDir::new()?;
        for program in [LaunchProgram::TestValidator, LaunchProgram::Surfpool] {
            symlink(HYDRANT, programs.path().join(program.name()))?;
        }
        let elf = ProgramElves::find()?.upgrade;
        let flags = upstream_accounts(lines, programs.path(), &elf)?;
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        Ok(Self { programs, elf, upstream: start_node(&flags)? })
    }

    fn run(&self, line: &LaunchLine) -> Result<()> {
        for _ in 1..PORT_TRIES {
            match self.run_once(line) {
                Err(err) if format!("{err:#}").contains(PORT_TAKEN) => {}
                result => return result,
            }
        }
        self.run_once(line)
    }

    fn run_once(&self, line: &LaunchLine) -> Result<()> {
        let dir = TempDir::new()?;
        let launch = Launch::prepare(line, dir.path(), &self.upstream.rpc_url(), &self.elf)?;
        let log = dir.path().join("output of the process");
        let output = fs::File::create(&log)?;
        // The sources start it from a terminal. These tests may run with SIGINT ignored.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT");
        command.arg(self.programs.path().join(line.program.name()));
        command.args(&launch.args).current_dir(dir.path()).env("HOME", launch.home());
        // The cluster that a line of surfpool without --offline would fetch from.
        command.env("SURFPOOL_DATASOURCE_RPC_URL", self.upstream.rpc_url());
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let mut process = KillOnDrop::spawn(&mut command)?;
        let result = drive(line, &launch, &mut process, &log);
        result.with_context(|| fs::read_to_string(&log).unwrap_or_default())
    }
}

/// Waits, subscribes and ends the process as the source of the line does.
fn drive(line: &LaunchLine, launch: &Launch, process: &mut KillOnDrop, log: &Path) -> Result<()> {
    let daemon = match line.end {
        End::Daemon => Some(find_daemon(process, log)?),
        End::Signal(_) => None,
    };
    let started = Started { launch, log };
    wait_until("the sign that the source waits for", WAIT_TIMEOUT, || {
        if daemon.is_none() {
            let ended = process.0.try_wait()?;
            ensure!(ended.is_none(), "it ended: {ended:?}");
        }
        Ok(line.wait.is_seen(&started).then_some(()))
    })?;
    let socket = Socket::open(&format!("ws://127.0.0.1:{}", launch.pubsub))?;
    let slots = socket.listen(|client| client.slot_subscribe()).context("on the WebSocket port")?;
    socket.close(slots);
    match (&line.end, daemon) {
        (End::Signal(name), _) => {
            signal(name, process.0.id())?;
            wait_until("the end of the process", WAIT_TIMEOUT, || Ok(process.0.try_wait()?))?;
        }
        (End::Daemon, pid) => {
            signal("KILL", pid.context("it is a daemon")?)?;
            wait_until("the end of the daemon", WAIT_TIMEOUT, || {
                Ok((!started.is_open()).then_some(()))
            })?;
        }
    }
    Ok(())
}

/// The process in the background, whose id is in the output of the one that has started it and has ended.
fn find_daemon(process: &mut KillOnDrop, log: &Path) -> Result<u32> {
    let status = wait_until("the daemon", WAIT_TIMEOUT, || Ok(process.0.try_wait()?))?;
    ensure!(status.success(), "{status}");
    let output = fs::read_to_string(log)?;
    let id = output.split_whitespace().next_back().context("the id of the process")?;
    id.parse().with_context(|| format!("no process id: {output}"))
}

fn signal(name: &str, pid: u32) -> Result<()> {
    let kill = Command::new("kill").args(["-s", name, &pid.to_string()]).status()?;
    ensure!(kill.success(), "kill -s {name}: {kill}");
    Ok(())
}
