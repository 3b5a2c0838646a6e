//! Starting other programs: shown before they run, their output passed on while it comes.
//!
//! Bounds: captured standard output is in memory, all of it.
//! Invariant: no program has a standard input, so none can wait for a person.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Prefixes of the variables that cargo sets for a program that it runs.
const CARGO_ENV_PREFIXES: &[&str] =
    &["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE"];

/// Prefix of the line with the error of a program of ours.
const ERROR_PREFIX: &str = "error: ";

/// A program to be run, with its arguments.
pub(crate) struct Cmd {
    command: Command,
    shown: String,
}

impl Cmd {
    pub(crate) fn new(program: &str) -> Self {
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        // Cargo's variables describe this package, not the program that is started. Build scripts that read them
        // would run again, and everything that depends on them would be compiled again.
        for (key, _) in std::env::vars_os() {
            let key = key.to_string_lossy();
            if CARGO_ENV_PREFIXES.iter().any(|prefix| key.starts_with(prefix)) {
                command.env_remove(key.as_ref());
            }
        }
        let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
        Self { command, shown: name.into_owned() }
    }

    pub(crate) fn args<S: AsRef<str>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        for arg in args {
            self.shown.push(' ');
            self.shown.push_str(arg.as_ref());
            self.command.arg(arg.as_ref());
        }
        self
    }

    pub(crate) fn env(mut self, key: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    pub(crate) fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Writes all that it prints to `file`.
    pub(crate) fn with_output_to(mut self, file: File) -> Result<Self> {
        self.command.stdout(file.try_clone().context("share a file")?).stderr(file);
        Ok(self)
    }

    /// Runs it to its end. An error if that end is not a success.
    pub(crate) fn run(mut self) -> Result<()> {
        println!("$ {}", self.shown);
        let status = self.command.status().with_context(|| format!("start `{}`", self.shown))?;
        if !status.success() {
            bail!("`{}` failed: {status}", self.shown);
        }
        Ok(())
    }

    /// Runs the program as [`Self::run`] does, and ends it with all that it has started once `limit` is over.
    pub(crate) fn run_with_timeout(self, limit: Duration) -> Result<CommandEnd> {
        println!("$ {}", self.shown);
        self.run_unseen_with_timeout(limit)
    }

    /// Starts [`Self::run_with_timeout`] in a thread of its own. Only the calling thread writes to standard output,
    /// which [`Self::capture`] locks.
    pub(crate) fn start_with_timeout(self, limit: Duration) -> JoinHandle<Result<CommandEnd>> {
        println!("$ {} &", self.shown);
        std::thread::spawn(move || self.run_unseen_with_timeout(limit))
    }

    fn run_unseen_with_timeout(mut self, limit: Duration) -> Result<CommandEnd> {
        let mut child = self
            .command
            .process_group(0)
            .spawn()
            .with_context(|| format!("start `{}`", self.shown))?;
        let watchdog = Watchdog::start(&child, limit);
        let status = child.wait();
        let is_late = watchdog.stop();
        let status = status.with_context(|| format!("wait for `{}`", self.shown))?;
        match (is_late, status.success()) {
            (_, true) => Ok(CommandEnd::InTime),
            (true, false) => Ok(CommandEnd::OutOfTime),
            (false, false) => bail!("`{}` failed: {status}", self.shown),
        }
    }

    /// Runs the program as [`Self::run`] does, and returns the lines of its standard output.
    pub(crate) fn run_captured(mut self) -> Result<Vec<String>> {
        println!("$ {}", self.shown);
        self.capture()?.success()
    }

    /// Runs the program as [`Self::run_captured`] does. A failure does not lose the lines: it quotes the program's last
    /// error line, so that the end of a long log has it too.
    pub(crate) fn capture(&mut self) -> Result<CapturedOutput> {
        self.capture_until_end(None)
    }

    /// Runs the program as [`Self::capture`] does. Once `limit` is over, ends it with all that it has started, and
    /// fails.
    pub(crate) fn capture_with_timeout(&mut self, limit: Duration) -> Result<CapturedOutput> {
        self.command.process_group(0);
        self.capture_until_end(Some(limit))
    }

    fn capture_until_end(&mut self, limit: Option<Duration>) -> Result<CapturedOutput> {
        let mut child = self
            .command
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start `{}`", self.shown))?;
        let watchdog = limit.map(|limit| Watchdog::start(&child, limit));
        let mut lines = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            let mut out = std::io::stdout().lock();
            for line in BufReader::new(stdout).split(b'\n') {
                let line = String::from_utf8_lossy(&line?).into_owned();
                writeln!(out, "{line}")?;
                lines.push(line);
            }
        }
        let status = child.wait()?;
        let is_late = watchdog.is_some_and(Watchdog::stop);
        let failure = (!status.success()).then(|| {
            if is_late {
                let seconds = limit.unwrap_or_default().as_secs_f64();
                return format!("`{}` was ended after {seconds} s", self.shown);
            }
            let error = lines.iter().rev().find(|line| line.starts_with(ERROR_PREFIX));
            let why = error.map_or_else(String::new, |why| format!("; {why}"));
            format!("`{}` failed: {status}{why}", self.shown)
        });
        Ok(CapturedOutput { lines, failure })
    }

    /// Runs the program without showing its output, expects a failure, and returns its standard error.
    pub(crate) fn failure(mut self) -> Result<String> {
        let output = self.command.output().with_context(|| format!("start `{}`", self.shown))?;
        if output.status.success() {
            bail!("`{}` did not fail", self.shown);
        }
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Runs it unseen and returns its standard output.
    pub(crate) fn output(mut self) -> Result<String> {
        let output = self
            .command
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("start `{}`", self.shown))?;
        if !output.status.success() {
            bail!("`{}` failed: {}", self.shown, output.status);
        }
        String::from_utf8(output.stdout).with_context(|| format!("output of `{}`", self.shown))
    }

    /// Starts the program as [`Self::spawn`] does, as the leader of a process group: the caller can end all that it
    /// starts.
    pub(crate) fn spawn_group(mut self) -> Result<Child> {
        self.command.process_group(0);
        self.spawn()
    }

    /// Starts it and lets it run; the caller ends it.
    pub(crate) fn spawn(mut self) -> Result<Child> {
        println!("$ {} &", self.shown);
        self.command.spawn().with_context(|| format!("start `{}`", self.shown))
    }
}

/// Ends a process group once a limit of time is over.
struct Watchdog {
    /// Dropped when the process has ended.
    is_over: mpsc::SyncSender<()>,
    thread: JoinHandle<bool>,
}

impl Watchdog {
    /// Watches the group that `leader` leads.
    fn start(leader: &Child, limit: Duration) -> Self {
        let group = format!("-{}", leader.id());
        let (is_over, over) = mpsc::sync_channel::<()>(1);
        let thread = std::thread::spawn(move || {
            let is_late = over.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
            if is_late {
                // It fails only if nothing is left to be ended.
                let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            }
            is_late
        });
        Self { is_over, thread }
    }

    /// Whether it has ended the group.
    fn stop(self) -> bool {
        drop(self.is_over);
        self.thread.join().unwrap_or(false)
    }
}

/// Returns the `cargo` that started this program.
pub(crate) fn cargo() -> Cmd {
    Cmd::new(&cargo_path())
}

/// Returns cargo with the lowest priority: it only takes processor time that other programs leave idle.
pub(crate) fn cargo_in_idle_time() -> Cmd {
    Cmd::new("nice").args(["-n", "19"]).args([cargo_path()])
}

fn cargo_path() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// The end of a program that has a time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandEnd {
    /// Ended before the limit, with success.
    InTime,
    /// By this program, because its time was over.
    OutOfTime,
}

/// The output of a program, and whether it failed.
pub(crate) struct CapturedOutput {
    pub(crate) lines: Vec<String>,
    /// The reason for which it failed.
    pub(crate) failure: Option<String>,
}

impl CapturedOutput {
    /// Returns the lines, if the program did not fail.
    pub(crate) fn success(self) -> Result<Vec<String>> {
        match self.failure {
            None => Ok(self.lines),
            Some(failure) => bail!(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_ended_with_all_that_it_started_when_its_time_is_over() {
        let script = "sleep 1000 & wait";
        let ended = Cmd::new("sh").args(["-c", script]).run_with_timeout(Duration::from_millis(50));
        assert_eq!(ended.unwrap(), CommandEnd::OutOfTime);
    }

    #[test]
    fn an_ended_program_s_output_is_returned() {
        let script = "echo one; sleep 1000 & wait";
        let mut program = Cmd::new("sh").args(["-c", script]);
        let output = program.capture_with_timeout(Duration::from_secs(2)).unwrap();
        assert_eq!(output.lines, ["one"]);
        assert!(output.success().unwrap_err().to_string().ends_with("was ended after 2 s"));
    }

    #[test]
    fn a_program_that_ends_in_time_reports_its_own_status() {
        let limit = Duration::from_secs(600);
        assert_eq!(Cmd::new("true").run_with_timeout(limit).unwrap(), CommandEnd::InTime);
        assert!(Cmd::new("false").run_with_timeout(limit).is_err());
    }
}
