//! A local ledger with a log, and its replicas.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hydrant::{Node, NodeConfig, NodeHandle, ReplicaNodeConfig, ReplicaProducer};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::json_rpc_client::JsonRpcClient;
use testkit::node::NodeCommand;

use crate::methods::stage::Stage;
use crate::node::{HYDRANT, start_node};
use crate::world::wait_until;

/// Time limit of a replica to reach the end of the log.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(30);

/// A ledger with accounts, tokens and transactions, its log, and its store of snapshots. Blocks are final eight later.
pub(super) struct Rig {
    pub(super) stage: Stage,
    dir: TempDir,
}

impl Rig {
    pub(super) fn start() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let log = url(&dir.path().join("log"));
        let depot = url(&dir.path().join("depot"));
        let flags = ["--slot-ms", "0", "--finalize-after", "8"];
        let flags = [&flags[..], &["--log-url", &log, "--depot", &depot]].concat();
        let stage = Stage::act(start_node(&flags)?)?;
        Ok(Self { stage, dir })
    }

    /// A path in the directory of the rig, which has `log` and `depot`.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn url(&self, name: &str) -> String {
        url(&self.path(name))
    }

    /// A replica in this process, which has reached the end of the log.
    pub(super) fn replica(
        &self,
        change: impl FnOnce(ReplicaNodeConfig) -> ReplicaNodeConfig,
    ) -> Result<NodeHandle> {
        let node = self.start_replica(change)?;
        self.wait_for(node.addresses().rpc)?;
        Ok(node)
    }

    /// A replica in this process that has loaded its snapshot.
    pub(super) fn start_replica(
        &self,
        change: impl FnOnce(ReplicaNodeConfig) -> ReplicaNodeConfig,
    ) -> Result<NodeHandle> {
        let config = change(ReplicaNodeConfig::new(&self.url("log"), &self.url("depot")));
        let node = NodeConfig::default().with_free_ports();
        Ok(Node::builder(ReplicaProducer::new(config)).serve(node)?)
    }

    /// A replica in a process of its own, which has reached the end of the log.
    pub(super) fn replica_process(&self, flags: &[&str]) -> Result<testkit::node::Node> {
        let mut command = Command::new(HYDRANT);
        command.args(["replica", "--quiet", "--log", "--rpc-port", "0"]);
        command.args(["--log-url", &self.url("log"), "--depot", &self.url("depot")]);
        let node = NodeCommand::new(command).args(flags).logged().start()?;
        self.wait_for(node.rpc)?;
        Ok(node)
    }

    /// Makes blocks.
    pub(super) fn mine(&self, blocks: u64) -> Result<()> {
        call(self.stage.node.rpc, "hydrant_mine", json!([blocks])).map(drop)
    }

    /// Waits until a replica is ready, and has the ledger's confirmed and final block.
    pub(super) fn wait_for(&self, replica: SocketAddr) -> Result<()> {
        wait_until("a replica at the end of the log", CATCH_UP_TIMEOUT, || {
            let is_healthy = call(replica, "getHealth", json!([])).is_ok();
            let is_equal = slots(replica)?[1..] == slots(self.stage.node.rpc)?[1..];
            Ok((is_healthy && is_equal).then_some(()))
        })
    }

    /// The manifests in the store, in the order of their slots.
    pub(super) fn manifests(&self) -> Result<Vec<PathBuf>> {
        let files = files(&self.path("depot"))?;
        Ok(files.into_iter().filter(|file| file.ends_with("manifest")).collect())
    }

    /// The batches of the log, in order.
    pub(super) fn batches(&self) -> Result<Vec<PathBuf>> {
        let others = ["generations", ".unfinished"];
        let is_batch =
            |file: &PathBuf| others.iter().all(|dir| !file.iter().any(|name| name == *dir));
        Ok(files(&self.path("log"))?.into_iter().filter(is_batch).collect())
    }
}

/// Calls a method of a node.
pub(super) fn call(node: SocketAddr, method: &str, params: Value) -> Result<Value> {
    JsonRpcClient::open(node)?.call(method, params).with_context(|| method.to_owned())
}

/// The slots of a node: processed, confirmed, finalized.
pub(super) fn slots(node: SocketAddr) -> Result<[u64; 3]> {
    let mut client = JsonRpcClient::open(node)?;
    let mut slots = [0; 3];
    for (slot, commitment) in slots.iter_mut().zip(["processed", "confirmed", "finalized"]) {
        let found = client.call("getSlot", json!([{ "commitment": commitment }]))?;
        *slot = found.as_u64().context("a slot")?;
    }
    Ok(slots)
}

/// All files below a directory, in the order of their paths.
pub(super) fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => dirs.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Changes a byte in the middle of a file.
pub(super) fn damage(file: &Path) -> Result<()> {
    let mut bytes = fs::read(file)?;
    ensure!(!bytes.is_empty(), "{} is empty", file.display());
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    Ok(fs::write(file, bytes)?)
}

fn url(dir: &Path) -> String {
    format!("file://{}", dir.display())
}
