//! Starting other programs: shown before they run, their output passed on while it comes.
//!
//! Bounds: captured standard output is in memory, all of it.
//! Invariant: no program has a standard input, so none can wait for a person.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
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

    /// As [`Self::run`], but ends it and all that it has started once `limit` is over.
    pub(crate) fn run_with_timeout(self, limit: Duration) -> Result<CommandEnd> {
        println!("$ {}", self.shown);
        self.run_unseen_with_timeout(limit)
    }

    /// Starts [`Self::run_with_timeout`] in a thread of its own. Only the calling thread writes to standard output, which
    /// [`Self::capture`] locks.
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
        let group = format!("-{}", child.id());
        let (is_over, over) = mpsc::sync_channel::<()>(1);
        let watchdog = std::thread::spawn(move || {
            let is_late = over.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
            if is_late {
                // It fails only if nothing is left to be ended.
                let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            }
            is_late
        });
        let status = child.wait();
        drop(is_over);
        let is_late = watchdog.join().unwrap_or(false);
        let status = status.with_context(|| format!("wait for `{}`", self.shown))?;
        match (is_late, status.success()) {
            (_, true) => Ok(CommandEnd::InTime),
            (true, false) => Ok(CommandEnd::OutOfTime),
            (false, false) => bail!("`{}` failed: {status}", self.shown),
        }
    }

    /// As [`Self::run`]; also returns the lines of its standard output.
    pub(crate) fn run_captured(mut self) -> Result<Vec<String>> {
        println!("$ {}", self.shown);
        self.capture()?.success()
    }

    /// As [`Self::run_captured`], but a failure does not lose the lines. The failure quotes the program's last error
    /// line, so that the end of a long log has it too.
    pub(crate) fn capture(&mut self) -> Result<CapturedOutput> {
        let mut child = self
            .command
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start `{}`", self.shown))?;
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
        let failure = (!status.success()).then(|| {
            let error = lines.iter().rev().find(|line| line.starts_with(ERROR_PREFIX));
            let why = error.map_or_else(String::new, |why| format!("; {why}"));
            format!("`{}` failed: {status}{why}", self.shown)
        });
        Ok(CapturedOutput { lines, failure })
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

    /// Starts it and lets it run; the caller ends it.
    pub(crate) fn spawn(mut self) -> Result<std::process::Child> {
        println!("$ {} &", self.shown);
        self.command.spawn().with_context(|| format!("start `{}`", self.shown))
    }
}

/// The `cargo` that started this program.
pub(crate) fn cargo() -> Cmd {
    Cmd::new(&cargo_path())
}

/// The same with the lowest priority: it takes what other programs leave of the processors.
pub(crate) fn cargo_in_idle_time() -> Cmd {
    Cmd::new("nice").args(["-n", "19"]).args([cargo_path()])
}

fn cargo_path() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// How a program with a limit of time ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandEnd {
    /// By itself, with success.
    InTime,
    /// By this program, because its time was over.
    OutOfTime,
}

/// What a program printed, and whether it failed.
pub(crate) struct CapturedOutput {
    pub(crate) lines: Vec<String>,
    failure: Option<String>,
}

impl CapturedOutput {
    /// The lines, if it did not fail.
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
    fn a_program_that_ends_in_time_reports_its_own_status() {
        let limit = Duration::from_secs(600);
        assert_eq!(Cmd::new("true").run_with_timeout(limit).unwrap(), CommandEnd::InTime);
        assert!(Cmd::new("false").run_with_timeout(limit).is_err());
    }
}
