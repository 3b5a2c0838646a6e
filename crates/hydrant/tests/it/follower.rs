//! A `hydrant follow` for a test: a real process that follows a real `hydrant dev`, by the one command of the README.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use tempfile::TempDir;
use testkit::json_rpc_client::JsonRpcClient;
use testkit::node::{Node, NodeCommand};

use crate::node::{HYDRANT, start_node};
use crate::world::wait_until;

/// Time limit of a follower to reach the tip of its ledger.
pub(crate) const HEALTHY_TIMEOUT: Duration = Duration::from_secs(60);

/// A ledger, and a node that follows it. The follower ends first.
pub(crate) struct FollowedDev {
    pub(crate) follower: Node,
    pub(crate) dev: Node,
    _dir: TempDir,
}

impl FollowedDev {
    /// A ledger with `flags`, and its follower.
    pub(crate) fn start(flags: &[&str]) -> Result<Self> {
        let dev = start_node(flags)?;
        let dir = tempfile::tempdir()?;
        let follower = follow(&dev)?.args(["--snapshot-dir"]).args([dir.path()]).start()?;
        wait_until_healthy(&follower)?;
        Ok(Self { follower, dev, _dir: dir })
    }
}

/// Waits until a follower is at the tip of its ledger.
pub(crate) fn wait_until_healthy(follower: &Node) -> Result<()> {
    wait_until("the follower to be healthy", HEALTHY_TIMEOUT, || {
        Ok(JsonRpcClient::open(follower.rpc)?.call("getHealth", json!([])).ok())
    })
    .map(drop)
}

/// The command that follows a ledger.
pub(crate) fn follow(dev: &Node) -> Result<NodeCommand> {
    let grpc = dev.grpc.context("the ledger serves gRPC")?;
    let mut command = Command::new(HYDRANT);
    command.args(["follow", "--quiet", "--log", "--rpc-port", "0"]);
    command.args(["--source", &format!("http://{grpc}"), "--snapshot", &dev.rpc_url()]);
    Ok(NodeCommand::new(command).logged().watched())
}
