//! The number of instructions that a server executes: it runs under Valgrind's callgrind, which counts every one.
//!
//! In: a program to start. Out: the instructions of all its threads since the last count.
//! A count is the same on a busy machine and on a quiet one. CPU time is not: other users of a core's caches and of
//! the memory make the same code take up to twice the time. Counting takes some fifty times as long, and excludes
//! caches, memory and the kernel: those are in the tables of a full run.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// The package of valgrind and callgrind_control.
const PACKAGE: &str = "valgrind is missing: apt-get install valgrind";

/// A program that is counted.
pub(crate) struct Callgrind {
    /// The folder of the counts, one file for each.
    dir: TempDir,
    dumps: usize,
}

impl Callgrind {
    pub(crate) fn new() -> Result<Self> {
        let version = Command::new("valgrind").arg("--version").output().context(PACKAGE)?;
        ensure!(version.status.success(), "valgrind --version: {}", version.status);
        Ok(Self { dir: tempfile::tempdir()?, dumps: 0 })
    }

    /// Starts `program` so that it is counted.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("valgrind");
        let out = format!("--callgrind-out-file={}", self.dir.path().join("counts").display());
        // Fair scheduling: otherwise a spinning thread would stop the thread that it waits for.
        command.args(["--tool=callgrind", "--quiet", "--fair-sched=yes", &out]).arg(program);
        command
    }

    /// The instructions of the process since the last count, or since its start.
    pub(crate) fn instructions_since_last(&mut self, pid: u32) -> Result<u64> {
        let output = Command::new("callgrind_control").args(["--dump", &pid.to_string()]).output();
        let output = output.context(PACKAGE)?;
        let stdout_text = || String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "callgrind_control: {}, {}", output.status, stdout_text());
        self.dumps += 1;
        let file = self.dir.path().join(format!("counts.{}", self.dumps));
        let counts = fs::read_to_string(&file).with_context(stdout_text)?;
        fs::remove_file(&file)?;
        let total = counts.lines().find_map(|line| line.strip_prefix("totals: "));
        let total = total.with_context(|| format!("no totals in {}", file.display()))?;
        Ok(total.trim().parse()?)
    }
}
