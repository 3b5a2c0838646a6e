//! A ledger in a process of its own, and what it tells.
//!
//! Invariant: the process ends with its [`Child`], however the benchmark ends.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Lines, Write};
use std::net::SocketAddr;
use std::process::{self, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

pub(crate) struct Child {
    process: process::Child,
    lines: Lines<BufReader<ChildStdout>>,
    figures: Figures,
}

/// What was measured, by name.
#[derive(Default)]
pub(crate) struct Figures(HashMap<String, f64>);

impl Child {
    pub(crate) fn start(mode: &str, shape: &str, accounts: u32, more: &[&str]) -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name("state-ledger");
        let mut process = Command::new(&program)
            .args([mode, shape, &accounts.to_string()])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let stdout = process.stdout.take().context("it was asked for")?;
        Ok(Self { process, lines: BufReader::new(stdout).lines(), figures: Figures::default() })
    }

    /// Waits until it serves; tells where, and what it measured so far.
    pub(crate) fn serving(&mut self) -> Result<(SocketAddr, &Figures)> {
        while let Some(line) = self.line()? {
            if let Some(address) = line.strip_prefix("serving ") {
                return Ok((address.parse()?, &self.figures));
            }
            println!("{line}");
        }
        bail!("the ledger ended before it served: {}", self.process.wait()?)
    }

    /// Lets it go on after serving.
    pub(crate) fn go_on(&mut self) -> Result<()> {
        let stdin = self.process.stdin.as_mut().context("it was asked for")?;
        Ok(writeln!(stdin)?)
    }

    /// Passes on what it prints, until it ends.
    pub(crate) fn end(mut self) -> Result<Figures> {
        while let Some(line) = self.line()? {
            println!("{line}");
        }
        let status = self.process.wait()?;
        ensure!(status.success(), "the ledger ended with {status}");
        Ok(std::mem::take(&mut self.figures))
    }

    /// The next line that is not a figure.
    fn line(&mut self) -> Result<Option<String>> {
        for line in self.lines.by_ref() {
            let line = line?;
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

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill, and only to wait for.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
