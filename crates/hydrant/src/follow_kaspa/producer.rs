//! A followed chain of Kaspa as the producer of a node: from its first block, or from the snapshot file.

use std::path::Path;

use ::follow_kaspa::{Follower, FollowerConfig, start_chain};
use anyhow::{Context, Result};
use chain_kaspa::Chain;
use store::Directory;

use crate::console::{now, print_stderr};
use crate::follow_kaspa::KaspaConfig;
use crate::node::kaspa::OpenedKaspa;
use crate::node::kaspa::ports::BoundKaspaPorts;
use crate::node::producer::{NodeProducer, OpenContext, OpenedNode};
use crate::node::{NodeConfig, Producer};

/// Follows a chain of Kaspa, as `hydrant follow-kaspa` does.
pub struct KaspaProducer {
    config: KaspaConfig,
}

impl From<KaspaProducer> for Producer {
    fn from(producer: KaspaProducer) -> Self {
        Self(Box::new(producer))
    }
}

impl KaspaProducer {
    /// A producer with these settings.
    pub fn new(config: KaspaConfig) -> Self {
        Self { config }
    }
}

impl NodeProducer for KaspaProducer {
    fn open(self: Box<Self>, context: &OpenContext<'_>) -> Result<Box<dyn OpenedNode>> {
        let node = context.config;
        let chain = self.config;
        chain.check(node)?;
        let bound = BoundKaspaPorts::bind(node.bind_address, node.kaspa_ports, chain.network)?;
        let directory = node.ledger_dir.as_deref().map(Directory::lock).transpose();
        let ledger_lock = directory.context("--ledger")?;
        let snapshot = chain.snapshot_path(node);
        if let Some(path) = snapshot.as_deref().filter(|_| node.reset) {
            remove_snapshot(path)?;
        }
        let started = load_chain(&chain, node, snapshot.as_deref())?;
        let config = FollowerConfig {
            json_sources: chain.json_sources.clone(),
            snapshot: chain.snapshot_config(node),
            ..FollowerConfig::new(chain.network, chain.sources.clone())
        };
        let follower = Follower::new(config, started).context("start to follow")?;
        Ok(Box::new(OpenedKaspa { bound, follower, chain, snapshot, ledger_lock }))
    }
}

/// Removes the snapshot file if it exists.
fn remove_snapshot(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(err) if err.kind() != std::io::ErrorKind::NotFound => {
            Err(err).with_context(|| format!("--reset {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Loads the chain from the snapshot file if it exists. It blocks, for minutes if the file has a whole network.
fn load_chain(chain: &KaspaConfig, node: &NodeConfig, snapshot: Option<&Path>) -> Result<Chain> {
    let begun = now();
    let loaded = start_chain(chain.network, chain.chain_config(node), snapshot);
    let loaded = loaded.context("start the chain")?;
    if !node.quiet
        && let Some(path) = snapshot.filter(|path| path.exists())
    {
        print_stderr(&format!(
            "Starts from the UTXO set at DAA score {} in {}, checked in {:.1?}",
            loaded.sink().daa_score,
            path.display(),
            now() - begun
        ));
    }
    Ok(loaded)
}
