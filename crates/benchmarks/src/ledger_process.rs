//! A ledger in a process of its own (`state-ledger`, `followed-chain`), and its measurements.

#[path = "state_ledger/protocol.rs"]
pub(crate) mod protocol;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use testkit::child_process::{Child, sibling_binary};

pub(crate) struct LedgerProcess {
    child: Child,
    metrics: LedgerMetrics,
}

/// Measured values, by name.
#[derive(Default)]
pub(crate) struct LedgerMetrics(HashMap<String, f64>);

impl LedgerProcess {
    pub(crate) fn start(mode: &str, shape: &str, accounts: u32, more: &[&str]) -> Result<Self> {
        Self::start_command(Command::new(Self::program()?), mode, shape, accounts, more)
    }

    /// The program of such a process.
    pub(crate) fn program() -> Result<PathBuf> {
        sibling_binary("state-ledger")
    }

    /// Starts a program through another command, such as `perf`.
    pub(crate) fn start_command(
        mut command: Command,
        mode: &str,
        shape: &str,
        accounts: u32,
        more: &[&str],
    ) -> Result<Self> {
        Self::start_program(command.args([mode, shape, &accounts.to_string()]).args(more))
    }

    /// Starts a process from a command that has all its arguments.
    pub(crate) fn start_program(command: &mut Command) -> Result<Self> {
        Ok(Self { child: Child::start(command)?, metrics: LedgerMetrics::default() })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send_line(&mut self, line: &str) -> Result<()> {
        self.child.send_line(line)
    }

    /// Waits until it serves. Returns its address, and its measurements so far.
    pub(crate) fn serving(&mut self) -> Result<(SocketAddr, &LedgerMetrics)> {
        let address = self.line_after("serving ")?.parse()?;
        Ok((address, &self.metrics))
    }

    /// Prints its output up to a line that starts with `beginning`. Returns the rest of that line.
    pub(crate) fn line_after(&mut self, beginning: &str) -> Result<String> {
        while let Some(line) = self.line()? {
            if let Some(rest) = line.strip_prefix(beginning) {
                return Ok(rest.to_owned());
            }
            println!("{line}");
        }
        bail!("the ledger ended before the line `{}`: {}", beginning.trim(), self.child.wait()?)
    }

    /// Prints its output until it ends.
    pub(crate) fn end(mut self) -> Result<LedgerMetrics> {
        while let Some(line) = self.line()? {
            println!("{line}");
        }
        let status = self.child.wait()?;
        ensure!(status.success(), "the ledger ended with {status}");
        Ok(self.metrics)
    }

    /// The next line that is not a measurement.
    fn line(&mut self) -> Result<Option<String>> {
        while let Some(line) = self.child.line()? {
            let Some(metric) = line.strip_prefix("figure ") else { return Ok(Some(line)) };
            let (name, value) = metric.split_once(' ').context("a measurement has a value")?;
            self.metrics.0.insert(name.to_owned(), value.parse()?);
        }
        Ok(None)
    }
}

impl LedgerMetrics {
    pub(crate) fn get(&self, name: &str) -> Result<f64> {
        self.0.get(name).copied().with_context(|| format!("the ledger did not report {name}"))
    }
}
