//! How many instructions a server executes: it runs under Valgrind's callgrind, which counts every one.
//!
//! In: a program to start. Out: what it executed since the last look, all its threads together.
//! A count is the same on a busy machine and on a quiet one, which CPU time is not: what else uses a core's caches
//! and the memory makes the same code take up to twice the time. It takes some fifty times as long, and says
//! nothing of caches, memory and the kernel: those are in the tables of a full run.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// What counts, and what asks it, are both of this package.
const PACKAGE: &str = "valgrind is not there: apt-get install valgrind";

/// A program that is to be counted, or is.
pub(crate) struct Callgrind {
    /// Where the counts are written, a file each time.
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
        // Fair: a thread that spins would else keep the one from running for which it waits.
        command.args(["--tool=callgrind", "--quiet", "--fair-sched=yes", &out]).arg(program);
        command
    }

    /// What the process has executed since the last look, or since it was started.
    pub(crate) fn instructions_since_last(&mut self, pid: u32) -> Result<u64> {
        let asked = Command::new("callgrind_control").args(["--dump", &pid.to_string()]).output();
        let asked = asked.context(PACKAGE)?;
        let said = || String::from_utf8_lossy(&asked.stdout).into_owned();
        ensure!(asked.status.success(), "callgrind_control: {}, {}", asked.status, said());
        self.dumps += 1;
        let file = self.dir.path().join(format!("counts.{}", self.dumps));
        let counts = fs::read_to_string(&file).with_context(said)?;
        fs::remove_file(&file)?;
        let total = counts.lines().find_map(|line| line.strip_prefix("totals: "));
        let total = total.with_context(|| format!("no totals in {}", file.display()))?;
        Ok(total.trim().parse()?)
    }
}
