//! Subscriptions to sets of addresses: `subs [--toy] [--only PART] [--seconds N] [--csv FILE]`.
//!
//! Parts: `engine` (bytes and publishing, without a node), `sets` (a node with 500 clients of 3.4 M
//! pairs, in five set-ups), `million` (one client of a million addresses alongside others), `hot` (one
//! account, thousands of connections, compared with a plain WebSocket broadcast), `latency` (from a confirmed
//! block to clients' sockets, at 1 % to 100 % of capacity). `bare` is that broadcast. With `--csv`,
//! memory (`sets`) and latency are written as CSV and SVG.
//! The set-ups are those of Kaspa's `subscribe_benchmarks` (500 clients, every hundredth a
//! monitor of up to a million addresses, the others wallets of 800), with transactions that hit them.

mod broadcast;
mod hot_account;
mod latency;
mod million;
mod registry;
mod sets;
mod transfers;

use std::ops::Range;

use anyhow::{Context, Result, bail};

use crate::value_of;

/// The size of the measurements.
pub(crate) struct Size {
    /// Clients of the set-ups.
    pub(crate) clients: usize,
    /// One client of this number is a monitor.
    pub(crate) monitor_every: usize,
    /// Different addresses of all clients.
    pub(crate) addresses: u32,
    /// Addresses of a wallet.
    pub(crate) wallet: u32,
    /// Listeners of the publishing measurement.
    pub(crate) listeners: [u32; 3],
    /// Transactions a second.
    pub(crate) rate: f64,
    /// Seconds of each set-up.
    pub(crate) seconds: u64,
    /// Addresses of the one large client.
    pub(crate) million: u32,
    /// Connections on the hot account.
    pub(crate) connections: usize,
    /// Whether the run only proves that the benchmark works.
    pub(crate) is_toy: bool,
}

const FULL: Size = Size {
    clients: 500,
    monitor_every: 100,
    addresses: 1_000_000,
    wallet: 800,
    listeners: [1, 100, 10_000],
    rate: 100.0,
    seconds: 60,
    million: 1_000_000,
    connections: 5_000,
    is_toy: false,
};

const TOY: Size = Size {
    clients: 20,
    monitor_every: 10,
    addresses: 2_000,
    wallet: 80,
    listeners: [1, 100, 200],
    rate: 50.0,
    seconds: 1,
    million: 5_000,
    connections: 20,
    is_toy: true,
};

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

/// The addresses of a client, by number: the first are watched by all monitors, each wallet has its
/// own, and monitors have those of many wallets.
pub(crate) fn set_of(size: &Size, client: usize) -> Range<u32> {
    let left = size.clients - client;
    let end = (left as u64 * u64::from(size.addresses) / size.clients as u64) as u32;
    if left.is_multiple_of(size.monitor_every) { 0..end } else { end - size.wallet..end }
}

/// The address of a number. The first bytes differ as those of real keys do.
pub(crate) fn address_of(n: u32) -> [u8; 32] {
    let mut address = [7; 32];
    let mixed = (u64::from(n) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    address[..8].copy_from_slice(&(mixed ^ mixed >> 29).to_le_bytes());
    address[8..12].copy_from_slice(&n.to_le_bytes());
    address
}

/// The number of an address as [`address_of`] makes it.
pub(crate) fn number_of(pubkey: &str) -> Result<u32> {
    let bytes = pubkey.parse::<solana_pubkey::Pubkey>()?.to_bytes();
    let number = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    anyhow::ensure!(address_of(number) == bytes, "{pubkey} is no address of this benchmark");
    Ok(number)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}
