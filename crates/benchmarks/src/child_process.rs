//! Programs that a benchmark starts. Some of them read lines and write lines.
//!
//! Invariant: a process ends with its value, however the benchmark ends.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{self, ChildStdout, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};

/// A child process. It ends with its value.
pub(crate) struct KillOnDrop(pub(crate) process::Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // It may have ended already. Then the kill fails, and the wait still has to be done.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A child process with pipes for standard input and output.
pub(crate) struct Child {
    process: KillOnDrop,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Child {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {command:?}"))?;
        let stdout = process.stdout.take().context("it is piped")?;
        Ok(Self { process: KillOnDrop(process), lines: BufReader::new(stdout).lines() })
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.0.id()
    }

    pub(crate) fn send_line(&mut self, line: &str) -> Result<()> {
        let stdin = self.process.0.stdin.as_mut().context("it is piped")?;
        writeln!(stdin, "{line}").context("the process has ended")
    }

    /// The next line of its output. `None`: the output has ended.
    pub(crate) fn line(&mut self) -> Result<Option<String>> {
        Ok(self.lines.next().transpose()?)
    }

    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        Ok(self.process.0.wait()?)
    }
}

/// A program that was built together with this one.
pub(crate) fn sibling_binary(name: &str) -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(name))
}
