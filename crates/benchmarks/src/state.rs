//! A synthetic ledger of mainnet's shape: its memory, the time of reads as it grows, and a stream of writes:
//! `state [--toy] [--accounts N]`.
//!
//! Shape: every ledger is a process of its own (`state-ledger`, with the binary's allocator), so that
//! resident memory is the whole process'. It serves the real methods over HTTP; the requests come from here,
//! one after the other on one connection.
//! Bytes a token account: resident memory of a process whose ledger is token accounts and their mints, all
//! of it, divided by the token accounts; the mints, the wallets' addresses and the program are not
//! taken off.
//! Bounds: at the default 10 M accounts, one process at a time, at most about 10 GB.
//! Not here: the ledger's contents (`testkit::synthetic`), contention and exact heap bytes (`index`).

mod methods;
mod size;

use anyhow::{Context, Result, ensure};
use testkit::synthetic::ACCOUNTS_MIN;

use self::size::Size;
use crate::arguments::value_of;
use crate::ledger_process::{LedgerMetrics, LedgerProcess};
use crate::threshold;

pub(crate) fn run(args: &[String]) -> Result<()> {
    let is_toy = args.iter().any(|arg| arg == "--toy");
    let mut size = if is_toy {
        Size { accounts: [ACCOUNTS_MIN, 2 * ACCOUNTS_MIN], slots: 4, calls: 5 }
    } else {
        Size { accounts: [1_000_000, 10_000_000], slots: 100, calls: 400 }
    };
    if let Some(accounts) = value_of(args, "--accounts")? {
        let accounts: u32 = accounts.parse().context("--accounts takes a number")?;
        size.accounts = [(accounts / 10).max(ACCOUNTS_MIN), accounts];
    }
    ensure!(size.accounts[1] >= ACCOUNTS_MIN, "--accounts: at least {ACCOUNTS_MIN}");
    token_accounts(&size)?;
    parts(&size)?;
    methods::run(&size)
}

/// Ledgers of token accounts and mints; the smaller one also in the rival's structures.
fn token_accounts(size: &Size) -> Result<()> {
    println!("token accounts and mints   token accounts  resident MB  B/token account  most MB");
    let mut smaller = f64::NAN;
    let mut larger = f64::NAN;
    for accounts in size.accounts {
        let metrics = LedgerProcess::start("memory", "tokens", accounts, &[])?.end()?;
        let each = metrics.get("resident")? / metrics.get("token_accounts")?;
        println!(
            "{accounts:>24} {:>16.0} {:>12.1} {each:>16.1} {:>8.1}",
            metrics.get("token_accounts")?,
            metrics.get("resident")? / 1e6,
            metrics.get("resident_max")? / 1e6,
        );
        (smaller, larger) = (if smaller.is_nan() { each } else { smaller }, each);
    }
    let accounts = size.accounts[0];
    let metrics = LedgerProcess::start("rival", "tokens", accounts, &[])?.end()?;
    let rival = metrics.get("resident")? / metrics.get("token_accounts")?;
    println!(
        "a map of accounts and Agave's three indices, {accounts}: {rival:.1} B a token account, \
         {:.1} times ours",
        rival / smaller
    );
    threshold::at_most("state_resident_token_account", larger, "B", 130.0);
    threshold::at_most("state_resident_of_agave", smaller / rival, "x", 0.25);
    Ok(())
}

/// The memory of the parts of the larger ledger of mainnet's shape.
fn parts(size: &Size) -> Result<()> {
    let accounts = size.accounts[1];
    let whole = LedgerProcess::start("memory", "mainnet", accounts, &[])?.end()?;
    let each = |bytes: f64| bytes / f64::from(accounts);
    let addresses = whole.get("addresses_bytes")?;
    let index = whole.get("indices_bytes")?;
    let resident = whole.get("resident")?;
    let ranks = whole.get("ranks_bytes")?;
    let packed = whole.get("packed_bytes")?;
    let unpacked = whole.get("unpacked_bytes")?;
    let rest = resident - addresses - index - packed - unpacked - ranks;
    println!(
        "\nmainnet's shape, {accounts} accounts, four indices: bytes an account, as the ledger counts"
    );
    println!("  addresses   {:8.1}  ({:.0} of them)", each(addresses), whole.get("addresses")?);
    println!("  indices     {:8.1}  ({:.0} entries)", each(index), whole.get("index_entries")?);
    println!("  packed      {:8.1}", each(packed));
    println!(
        "  unpacked    {:8.1}  (data of large accounts alone {:.1})",
        each(unpacked),
        each(whole.get("large_bytes")?)
    );
    println!("  ranks       {:8.1}", each(ranks));
    println!("  all else    {:8.1}  (the allocator's, the program)", each(rest));
    println!(
        "  resident    {:8.1}  for {:.1} bytes of data",
        each(resident),
        each(whole.get("data_bytes")?)
    );
    build_rate(&whole)?;
    threshold::at_most("state_addresses_and_indices", each(addresses + index), "B/account", 90.0);
    Ok(())
}

fn build_rate(metrics: &LedgerMetrics) -> Result<()> {
    println!(
        "applied at the root: {:.0} accounts a second, {:.0} ns CPU each; resident at most {:.1} MB",
        metrics.get("applied_per_second")?,
        metrics.get("applied_cpu_ns")?,
        metrics.get("resident_max")? / 1e6,
    );
    Ok(())
}
