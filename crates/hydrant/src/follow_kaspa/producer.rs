//! A followed chain of Kaspa as the producer of a node: from its first block, from the snapshot file, or from the UTXO
//! set of other nodes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::follow_kaspa::{
    Follower, FollowerConfig, ImportConfig, ImportProgress, import_chain, remove_chain_files,
    start_chain,
};
use anyhow::{Context, Result};
use chain_kaspa::Chain;
use store::Directory;

use crate::console::{now, print_stderr};
use crate::follow_kaspa::KaspaConfig;
use crate::node::kaspa::OpenedKaspa;
use crate::node::kaspa::ports::BoundKaspaPorts;
use crate::node::kaspa::start_pages::StartPages;
use crate::node::producer::{NodeProducer, OpenContext, OpenedNode};
use crate::node::{NodeConfig, Producer};

/// Interval between two lines about the progress of an import.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

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
            remove_chain_files(path).with_context(|| format!("--reset {}", path.display()))?;
        }
        let StartedChain { chain: loaded, import } = match chain.import_config(node) {
            Some(config) => Import { chain: &chain, config, context, bound: &bound }.run()?,
            None => {
                let loaded = load_chain(&chain, node, snapshot.as_deref())?;
                StartedChain { chain: loaded, import: None }
            }
        };
        let config = FollowerConfig {
            json_sources: chain.json_sources.clone(),
            snapshot: chain.snapshot_config(node),
            can_import: !chain.import_peers.is_empty(),
            ..FollowerConfig::new(chain.network, chain.sources.clone())
        };
        let follower = Follower::new(config, loaded).context("start to follow")?;
        Ok(Box::new(OpenedKaspa { bound, follower, chain, snapshot, ledger_lock, import }))
    }
}

/// A chain at its start.
struct StartedChain {
    chain: Chain,
    /// The import that it started with, if any.
    import: Option<Arc<ImportProgress>>,
}

/// The import of a UTXO set at the start of a node.
struct Import<'a> {
    chain: &'a KaspaConfig,
    config: ImportConfig,
    context: &'a OpenContext<'a>,
    bound: &'a BoundKaspaPorts,
}

impl Import<'_> {
    /// Imports the set, and shows the progress on the ports of the node and on standard error. It blocks, for minutes
    /// if the network is a large one.
    fn run(self) -> Result<StartedChain> {
        let progress = Arc::clone(self.chain.import_progress());
        let OpenContext { config: node, runtime, .. } = *self.context;
        let pages = StartPages::serve(runtime, node, self.bound, &progress);
        let pages = pages.context("serve the progress of the import")?;
        let reports = (!node.quiet).then(|| runtime.spawn(report_progress(Arc::clone(&progress))));
        let chain_config = self.chain.chain_config(node);
        let imported = import_chain(runtime.handle(), &self.config, &chain_config, &progress);
        if let Some(reports) = reports {
            reports.abort();
        }
        pages.stop(runtime);
        let imported = imported.context("import the UTXO set")?;
        if !node.quiet {
            print_stderr(&format!(
                "Imported the UTXO set at DAA score {}: {} UTXOs, checked in {:.1?}",
                imported.sink().daa_score,
                imported.status().supply.utxos,
                progress.elapsed()
            ));
        }
        Ok(StartedChain { chain: imported, import: Some(progress) })
    }
}

async fn report_progress(progress: Arc<ImportProgress>) {
    loop {
        print_stderr(&format!("Hydrant is {progress}"));
        tokio::time::sleep(PROGRESS_INTERVAL).await;
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
