//! `hydrant dev` for one benchmark, and where its program is.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use testkit::child_process::sibling_binary;
use testkit::node::NodeCommand;

/// How long a node that loads a large archive may take to be ready.
pub(crate) const LOAD_TIMEOUT: Duration = Duration::from_secs(1_800);

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
