//! One synthetic ledger in a process of its own, with the binary's allocator, for `bench state`:
//! `state-ledger memory|rival|serve|again|account-tasks SHAPE ACCOUNTS [SLOTS]`; `again` is for `bench load`, and
//! `account-tasks` for `bench agave`. `state-ledger blocks` is for `bench blocks`, `state-ledger constant IO_THREADS` for
//! `bench ladder`.
//!
//! Shape: measurements go to standard output: lines `figure NAME VALUE` for the program that started it, all other
//! lines for people. `serve` reports its JSON-RPC address, and starts the stream of writes when a line comes on
//! standard input.
//! Not here: requests and bars (`state.rs`, another process, so that resident memory is the ledger's alone).
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "measurements go to the caller")]

mod account_tasks;
mod baseline;
mod blocks;
mod constant;
mod fixture;
mod metric;
mod protocol;
mod reads;
mod serve;
mod serve_repeatedly;
mod stream;

use std::io::{BufRead, stdin};

use anyhow::{Context, Result, bail};
use testkit::synthetic::{Synthetic, SyntheticConfig};

use crate::fixture::LedgerFixture;
use crate::protocol::SEED;

// The binary's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["blocks", ..] => return blocks::run(&args[1..]),
        ["constant", io_threads] => return constant::run(io_threads.parse()?),
        _ => {}
    }
    let [mode, shape, accounts, rest @ ..] = args.as_slice() else {
        bail!(
            "usage: state-ledger memory|rival|serve|again|account-tasks mainnet|tokens ACCOUNTS [SLOTS]"
        );
    };
    let accounts = accounts.parse().context("ACCOUNTS is a number")?;
    let config = match shape.as_str() {
        "mainnet" => SyntheticConfig::mainnet(SEED, accounts),
        "tokens" => SyntheticConfig::tokens(SEED, accounts),
        _ => bail!("{shape}: neither mainnet nor tokens"),
    };
    let ledger = Synthetic::new(config);
    match mode.as_str() {
        "memory" => LedgerFixture::new(&ledger)?.print_metrics(&ledger),
        "rival" => baseline::run(&ledger),
        "serve" => serve(&ledger, rest.first().map_or("0", String::as_str).parse()?),
        "again" => serve_repeatedly::run(&LedgerFixture::new(&ledger)?.reader),
        "account-tasks" => account_tasks::run(&LedgerFixture::new(&ledger)?.reader),
        _ => bail!("{mode}: unknown"),
    }
}

fn serve(ledger: &Synthetic, slots: u32) -> Result<()> {
    let built = LedgerFixture::new(ledger)?;
    built.print_metrics(ledger)?;
    reads::run(ledger, &built.reader)?;
    serve::run(&built.reader, || {
        stdin().lock().read_line(&mut String::new())?;
        Ok(())
    })?;
    if slots == 0 { Ok(()) } else { stream::run(ledger, built, slots) }
}
