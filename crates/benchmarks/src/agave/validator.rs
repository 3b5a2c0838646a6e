//! A process of `solana-test-validator` on free ports, and where its program is.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http_client::Client;
use serde_json::json;
use testkit::child_process::KillOnDrop;
use testkit::clock::{now, sleep_for};
use testkit::node::add_watchdog;

use crate::arguments::value_of;

/// The validator that `cargo xtask bench` has found.
const VALIDATOR: &str = "HYDRANT_VALIDATOR";

/// An account that gets the validator's genesis lamports. Without it they go to the keypair of the user.
const MINT: &str = "4uQeVj5tqViQh7yWWGStvkEG1Zmhx6uasJtWCJziofM";
/// Retained shreds of history: more than the blocks of a run have.
const LEDGER_SHREDS: &str = "100000000";
/// The accounts are found by program, owner and mint, as in Hydrant.
const INDEXES: [&str; 3] = ["program-id", "spl-token-owner", "spl-token-mint"];

const START_TIMEOUT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Attempts to find two consecutive free ports.
const PORT_TRIES: usize = 64;

/// Returns the validator that is named by an argument or in the environment. `None`: there is none.
pub(super) fn find(args: &[String]) -> Result<Option<PathBuf>> {
    let file = match value_of(args, "--validator")? {
        Some(file) => PathBuf::from(file),
        None => match std::env::var_os(VALIDATOR) {
            Some(file) => file.into(),
            None => return Ok(None),
        },
    };
    ensure!(file.is_file(), "{}: no such validator", file.display());
    Ok(Some(file.canonicalize()?))
}

/// Starts a validator on the ledger in `dir`, which it makes with the accounts if it does not exist. Returns the
/// process and its address once it is healthy.
pub(super) fn start(
    program: &Path,
    dir: &Path,
    accounts: &Path,
) -> Result<(KillOnDrop, SocketAddr)> {
    let [rpc, faucet, gossip] = free_ports()?;
    let mut command = Command::new(program);
    command.args(["--quiet", "--bind-address", "127.0.0.1", "--mint", MINT]);
    command.args(["--rpc-port", &rpc.to_string(), "--faucet-port", &faucet.to_string()]);
    command.args(["--gossip-port", &gossip.to_string(), "--limit-ledger-size", LEDGER_SHREDS]);
    for index in INDEXES {
        command.args(["--account-index", index]);
    }
    command.arg("--ledger").arg(dir.join("ledger"));
    if !dir.join("ledger").exists() {
        command.arg("--account-dir").arg(accounts);
    }
    let log = dir.join("output");
    let output = File::create(&log).with_context(|| log.display().to_string())?;
    // A benchmark that was stopped must not leave a validator that has the ledger open.
    let mut command = add_watchdog(&command);
    command.current_dir(dir).stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output);
    let mut process = KillOnDrop::spawn(&mut command)?;
    let rpc = SocketAddr::from(([127, 0, 0, 1], rpc));
    let started = now();
    while !is_healthy(rpc) {
        if let Some(status) = process.0.try_wait()? {
            bail!("the validator ended before it was healthy ({status}): {}", log.display());
        }
        ensure!(started.elapsed() < START_TIMEOUT, "not healthy after {START_TIMEOUT:?}");
        sleep_for(POLL_INTERVAL);
    }
    Ok((process, rpc))
}

fn is_healthy(rpc: SocketAddr) -> bool {
    let health = Client::open(rpc).and_then(|mut client| client.call("getHealth", &json!([])));
    health.is_ok_and(|health| health == "ok")
}

/// Returns free ports. The one above the first is free too: the validator uses it for WebSocket.
fn free_ports() -> Result<[u16; 3]> {
    let bind = |port: u16| TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, port));
    for _ in 0..PORT_TRIES {
        let rpc = bind(0)?;
        let port = rpc.local_addr()?.port();
        let Some(Ok(_next)) = port.checked_add(1).map(bind) else { continue };
        // All are bound at once, so that they differ.
        let faucet = bind(0)?;
        let gossip = bind(0)?;
        return Ok([port, faucet.local_addr()?.port(), gossip.local_addr()?.port()]);
    }
    bail!("no two consecutive free ports")
}
