//! A synthetic ledger in a process of its own (`state-ledger`), and what it tells.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::child::{self, Child};

pub(crate) struct LedgerProcess {
    child: Child,
    figures: Figures,
}

/// What was measured, by name.
#[derive(Default)]
pub(crate) struct Figures(HashMap<String, f64>);

impl LedgerProcess {
    pub(crate) fn start(mode: &str, shape: &str, accounts: u32, more: &[&str]) -> Result<Self> {
        Self::start_as(Command::new(Self::program()?), mode, shape, accounts, more)
    }

    /// The program of such a process.
    pub(crate) fn program() -> Result<PathBuf> {
        child::beside("state-ledger")
    }

    /// The same by a command that starts the program.
    pub(crate) fn start_as(
        mut command: Command,
        mode: &str,
        shape: &str,
        accounts: u32,
        more: &[&str],
    ) -> Result<Self> {
        command.args([mode, shape, &accounts.to_string()]).args(more);
        Ok(Self { child: Child::start(&mut command)?, figures: Figures::default() })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn say(&mut self, line: &str) -> Result<()> {
        self.child.say(line)
    }

    /// Waits until it serves; tells where, and what it measured so far.
    pub(crate) fn serving(&mut self) -> Result<(SocketAddr, &Figures)> {
        let address = self.line_after("serving ")?.parse()?;
        Ok((address, &self.figures))
    }

    /// Passes on what it prints up to a line that begins so; gives the rest of that one.
    pub(crate) fn line_after(&mut self, beginning: &str) -> Result<String> {
        while let Some(line) = self.line()? {
            if let Some(rest) = line.strip_prefix(beginning) {
                return Ok(rest.to_owned());
            }
            println!("{line}");
        }
        bail!("the ledger ended before it said `{}`: {}", beginning.trim(), self.child.wait()?)
    }

    /// Passes on what it prints, until it ends.
    pub(crate) fn end(mut self) -> Result<Figures> {
        while let Some(line) = self.line()? {
            println!("{line}");
        }
        let status = self.child.wait()?;
        ensure!(status.success(), "the ledger ended with {status}");
        Ok(self.figures)
    }

    /// The next line that is not a figure.
    fn line(&mut self) -> Result<Option<String>> {
        while let Some(line) = self.child.line()? {
            let Some(figure) = line.strip_prefix("figure ") else { return Ok(Some(line)) };
            let (name, value) = figure.split_once(' ').context("a figure has a value")?;
            self.figures.0.insert(name.to_owned(), value.parse()?);
        }
        Ok(None)
    }
}

impl Figures {
    pub(crate) fn get(&self, name: &str) -> Result<f64> {
        self.0.get(name).copied().with_context(|| format!("the ledger did not tell {name}"))
    }
}
