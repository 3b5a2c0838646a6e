//! The ingester of a node: opened before the ledger, started with it, stopped after it.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use chain_solana::EventSink;
use depot::Depot;
use ingest::{ChainFacts, Ingest, IngestConfig, check_durability};
use jsonrpc::{Health, Metrics};
use replicated_log::{LogSpace, describe_url};
use tokio::runtime::Handle;

use super::{ClusterLogConfig, LogSources, LoggedChain, open_sources};
use crate::node::composed::RunningLedger;

/// A log and its store of snapshots.
pub(crate) struct OpenedLog {
    space: Arc<dyn LogSpace>,
    depot: Depot,
    config: IngestConfig,
}

/// Opens the log and the store of snapshots, and refuses a log that may lose acknowledged data.
pub(crate) async fn open(config: &ClusterLogConfig) -> Result<OpenedLog> {
    let LogSources { space, depot } = open_sources(config).await?;
    let ClusterLogConfig { url, cluster, max_age, allow_data_loss, has_entries, .. } =
        config.clone();
    check_durability(&*space, allow_data_loss).await.context("--log-url")?;
    depot.check().await.context("--depot")?;
    let config = IngestConfig::new(cluster, random_id()?);
    let log_name = describe_url(&url);
    let config = IngestConfig { log_name, max_age, allow_data_loss, has_entries, ..config };
    Ok(OpenedLog { space, depot, config })
}

/// Returns the id of this process. Two processes with one id would both believe that they lead.
fn random_id() -> Result<[u8; 16]> {
    let mut id = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut id));
    read.context("read random bytes from /dev/urandom")?;
    Ok(id)
}

/// A running ingester whose ledger has not started.
pub(crate) struct LedgerIngester {
    ingest: Ingest,
    depot: Depot,
}

impl LedgerIngester {
    /// Starts the ingester. The ledger's events go to the sink. `drain` limits the last appends.
    pub(crate) fn start(
        log: OpenedLog,
        chain: LoggedChain,
        drain: Duration,
    ) -> Result<(Self, Box<dyn EventSink>)> {
        let OpenedLog { space, depot, config } = log;
        let LoggedChain { reader, history, info, cluster, level } = chain;
        let facts = ChainFacts { info, cluster, history, level };
        let config = IngestConfig { drain, ..config };
        let started = Ingest::start(config, space, depot.clone(), reader, facts);
        let (ingest, sink) = started.context("start the ingester")?;
        Ok((Self { ingest, depot }, Box::new(sink)))
    }

    /// Adds the metrics of the ingester and of the store.
    pub(crate) fn add_metrics(&self, metrics: &Metrics) {
        metrics.add(self.ingest.metrics());
        metrics.add(self.depot.metrics());
    }

    /// Returns the started ledger, which stops the ingester after itself.
    pub(crate) fn attach(self, ledger: Box<dyn RunningLedger>) -> Box<dyn RunningLedger> {
        Box::new(LoggedLedger { ledger, ingest: self.ingest })
    }
}

/// A running ledger with an ingester.
struct LoggedLedger {
    ledger: Box<dyn RunningLedger>,
    ingest: Ingest,
}

impl RunningLedger for LoggedLedger {
    fn is_finished(&self) -> bool {
        self.ledger.is_finished()
    }

    /// A silent log does not affect the state that the node serves, so `/ready` shows it without another status.
    fn poll_health(&mut self, health: &Health) -> bool {
        let silence = self.ingest.log_silence();
        health.set_warning(silence.map(describe_silence));
        self.ledger.poll_health(health)
    }

    /// Stops the ledger, whose last events are then queued, and waits until the log has them.
    fn stop(self: Box<Self>) -> Result<()> {
        let Self { ledger, ingest } = *self;
        let stopped = ledger.stop();
        Handle::current().block_on(ingest.stop());
        stopped
    }
}

/// Describes the silence of a log for `/ready`, which is public: without the names of its servers.
fn describe_silence(silence: Duration) -> String {
    format!("the log has not responded for {} s", silence.as_secs())
}
