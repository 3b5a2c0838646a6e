//! `hydrant dev` for one benchmark: where its program is, the files of its accounts, and its process under load.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use process_usage::Process;
use serde_json::json;
use solana_pubkey::Pubkey;
use testkit::child_process::sibling_binary;
use testkit::node::NodeCommand;

/// Time limit of a node that loads a large archive, until it is ready.
pub(crate) const LOAD_TIMEOUT: Duration = Duration::from_secs(1_800);

/// A server that load is offered to, and its process.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) process: Process,
}

/// The command of a node with these flags.
pub(crate) fn dev(flags: &[&str]) -> Result<NodeCommand> {
    Ok(NodeCommand::dev(Command::new(program()?)).args(flags))
}

/// The address in a URL such as `http://127.0.0.1:8899`.
pub(crate) fn address(url: &str) -> Result<SocketAddr> {
    let address = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
    address.parse().with_context(|| format!("not of the form http://IP:PORT: {url}"))
}

/// The measured program: `$HYDRANT`, or the one in the folder of this program.
pub(crate) fn program() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("HYDRANT") {
        return Ok(path.into());
    }
    sibling_binary("hydrant")
}

/// Writes an account to a file of `--account-dir`, which is named by the address.
pub(crate) fn write_account_file(
    dir: &Path,
    address: &Pubkey,
    owner: &Pubkey,
    lamports: u64,
    data: &[u8],
) -> Result<()> {
    let address = address.to_string();
    let path = dir.join(format!("{address}.json"));
    let file = json!({
        "pubkey": address,
        "account": {
            "lamports": lamports,
            "data": [BASE64_STANDARD.encode(data), "base64"],
            "owner": owner.to_string(),
            "executable": false,
            "rentEpoch": u64::MAX,
            "space": data.len(),
        },
    });
    fs::write(&path, file.to_string()).with_context(|| format!("write {}", path.display()))
}
