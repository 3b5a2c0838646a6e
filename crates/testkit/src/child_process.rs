//! Programs that a benchmark or a test starts. Some of them read lines and write lines.
//!
//! Invariant: a process ends with its value, however the caller ends.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{self, ChildStdout, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};

/// A child process. It ends with its value.
pub struct KillOnDrop(pub process::Child);

impl KillOnDrop {
    /// Starts a process.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        let spawned = command.spawn();
        Ok(Self(spawned.with_context(|| format!("start {}", command.get_program().display()))?))
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // It may have ended already. Then the kill fails, and the wait still has to be done.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A child process with pipes for standard input and output.
pub struct Child {
    process: KillOnDrop,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Child {
    /// Starts a process.
    pub fn start(command: &mut Command) -> Result<Self> {
        let mut process = KillOnDrop::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let stdout = process.0.stdout.take().context("it is piped")?;
        Ok(Self { process, lines: BufReader::new(stdout).lines() })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// Writes a line to its input.
    pub fn send_line(&mut self, line: &str) -> Result<()> {
        let stdin = self.process.0.stdin.as_mut().context("it is piped")?;
        writeln!(stdin, "{line}").context("the process has ended")
    }

    /// The next line of its output. `None`: the output has ended.
    pub fn line(&mut self) -> Result<Option<String>> {
        Ok(self.lines.next().transpose()?)
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        Ok(self.process.0.wait()?)
    }
}

/// A program that was built together with this one.
pub fn sibling_binary(name: &str) -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(name))
}
