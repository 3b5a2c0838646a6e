//! Subscriptions to sets of addresses: `subs [--toy] [--only PART] [--seconds N] [--csv FILE]`.
//!
//! Parts: `engine` (bytes and publishing, without a node), `sets` (a node with 500 clients of 3.4 M
//! pairs, in five set-ups), `million` (one client of a million addresses alongside others), `hot` (one
//! account, thousands of connections, compared with a plain WebSocket broadcast), `latency` (from a confirmed
//! block to clients' sockets, at 1 % to 100 % of capacity). `bare` is that broadcast. With `--csv`,
//! memory (`sets`) and latency are written as CSV and SVG.
//! The set-ups are those of Kaspa's `subscribe_benchmarks` (500 clients, every hundredth a
//! monitor of up to a million addresses, the others wallets of 800), with transactions that hit them.

mod addresses;
mod broadcast;
mod hot_account;
mod latency;
mod million;
mod registry;
mod runtime;
mod sets;
mod size;
mod transfers;

use anyhow::{Context, Result, bail};

use self::size::{FULL, Size, TOY};
use crate::arguments::value_of;

pub(crate) fn run(args: &[String]) -> Result<()> {
    if args.first().is_some_and(|arg| arg == "bare") {
        return broadcast::run(args);
    }
    let mut size = if args.iter().any(|arg| arg == "--toy") { TOY } else { FULL };
    if let Some(seconds) = value_of(args, "--seconds")? {
        size.seconds = seconds.parse().context("--seconds")?;
    }
    let only = value_of(args, "--only")?;
    let csv = value_of(args, "--csv")?;
    let mut parts = 0;
    for (name, part) in [
        ("engine", registry::run as fn(&Size) -> Result<()>),
        ("million", million::run),
        ("hot", hot_account::run),
    ] {
        if only.is_none_or(|only| only == name) {
            part(&size)?;
            parts += 1;
        }
    }
    if only.is_none_or(|only| only == "latency") {
        latency::run(&size, csv)?;
        parts += 1;
    }
    if only.is_none_or(|only| only.starts_with("sets")) {
        // `sets-abe` runs those three.
        let all = if size.is_toy { "be" } else { "abcde" };
        let which = only.and_then(|only| only.strip_prefix("sets-")).unwrap_or(all);
        sets::run(&size, which, csv)?;
        parts += 1;
    }
    if parts == 0 {
        bail!(
            "usage: subs [--toy] [--only engine|sets|sets-abe|million|hot|latency] [--seconds N] \
             [--csv FILE]"
        );
    }
    Ok(())
}
