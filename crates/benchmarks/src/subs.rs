//! Subscriptions to sets of addresses: `subs [--toy] [--only PART] [--csv FILE]`.
//!
//! Parts: `engine` (bytes and publishing, without a node), `million` (one client of a million addresses alongside
//! others), `hot` (one account, thousands of connections, compared with a plain WebSocket broadcast), `latency` (from a
//! confirmed block to clients' sockets, at 1 % to 100 % of capacity). `bare` is that broadcast. With `--csv`, latency is
//! written as CSV and SVG.
//! Not here: a node with 500 clients (`sets`).

pub(crate) mod addresses;
mod broadcast;
pub(crate) mod client_sets;
mod hot_account;
mod latency;
mod million;
pub(crate) mod observations;
mod registry;
pub(crate) mod runtime;
mod size;
pub(crate) mod transfers;

use anyhow::{Result, bail};

use self::size::{FULL, Size, TOY};
use crate::arguments::value_of;

pub(crate) fn run(args: &[String]) -> Result<()> {
    if args.first().is_some_and(|arg| arg == "bare") {
        return broadcast::run(args);
    }
    let size = if args.iter().any(|arg| arg == "--toy") { TOY } else { FULL };
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
    if parts == 0 {
        bail!("usage: subs [--toy] [--only engine|million|hot|latency] [--csv FILE]");
    }
    Ok(())
}
