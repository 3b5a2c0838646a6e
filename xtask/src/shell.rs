//! Starting other programs: shown before they run, their output passed on while it comes.
//!
//! Bounds: a program that is listened to has all its standard output kept in memory.
//! Invariant: nobody we start has a standard input, so nothing can wait for a person.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// How those variables begin that cargo sets for a program that it runs.
const ABOUT_US: &[&str] =
    &["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE"];

/// How the line begins in which a program of ours says why it failed.
const SAYS_WHY: &str = "error: ";

/// A program to be run, with its arguments.
pub(crate) struct Cmd {
    command: Command,
    shown: String,
}

impl Cmd {
    pub(crate) fn new(program: &str) -> Self {
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        // What cargo told us about this package is not true for what we start, and build scripts that
        // look at it would run again, and all that is built upon them.
        for (key, _) in std::env::vars_os() {
            let key = key.to_string_lossy();
            if ABOUT_US.iter().any(|prefix| key.starts_with(prefix)) {
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

    /// Runs it to its end. An error if that end is not a success.
    pub(crate) fn run(mut self) -> Result<()> {
        println!("$ {}", self.shown);
        let status = self.command.status().with_context(|| format!("start `{}`", self.shown))?;
        if !status.success() {
            bail!("`{}` failed: {status}", self.shown);
        }
        Ok(())
    }

    /// As [`Self::run`]; gives back the lines of its standard output too.
    pub(crate) fn run_listening(mut self) -> Result<Vec<String>> {
        println!("$ {}", self.shown);
        self.listen()?.success()
    }

    /// As [`Self::run_listening`], and a failure does not lose the lines. It tells what the program said of it
    /// last, so that the end of a long log tells it too.
    pub(crate) fn listen(&mut self) -> Result<Listened> {
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
            let said = lines.iter().rev().find(|line| line.starts_with(SAYS_WHY));
            let why = said.map_or_else(String::new, |why| format!("; {why}"));
            format!("`{}` failed: {status}{why}", self.shown)
        });
        Ok(Listened { lines, failure })
    }

    /// Runs it unseen and gives back its standard output.
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

/// What a program printed, and whether it failed.
pub(crate) struct Listened {
    pub(crate) lines: Vec<String>,
    failure: Option<String>,
}

impl Listened {
    /// The lines, if it did not fail.
    pub(crate) fn success(self) -> Result<Vec<String>> {
        match self.failure {
            None => Ok(self.lines),
            Some(failure) => bail!(failure),
        }
    }
}
