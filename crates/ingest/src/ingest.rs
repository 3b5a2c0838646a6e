//! A running ingester: its thread, its task, its end.

use std::sync::Arc;
use std::time::Duration;

use chain_solana::Reader;
use chain_solana::wire::BlockKey;
use depot::Depot;
use ledger::Commitment;
use metrics::Collector;
use replicated_log::LogSpace;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::config::{ChainFacts, IngestConfig, IngestError};
use crate::driver::Driver;
use crate::encoder::Encoder;
use crate::ledger_snapshots::LedgerSnapshots;
use crate::own_chain::OwnStart;
use crate::plan::{Plan, PlanConfig};
use crate::sink::{self, IngestSink};
use crate::status::IngestStatus;
use crate::upkeep::UpkeepConfig;

/// Encoded events between the thread and the task. The task takes them at once.
const OWN_EVENTS_MAX: usize = 64;

/// A running ingester. Dropping it ends the ingester as [`Self::stop`] does, without waiting for that.
pub struct Ingest {
    status: Arc<IngestStatus>,
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Ingest {
    /// Starts an ingester for the ledger of `reader`, whose events go to the sink. Call it before the ledger starts,
    /// in an async runtime. The log may be down, but opening its space needs NATS.
    ///
    /// # Errors
    ///
    /// A thread cannot be started.
    pub fn start(
        config: IngestConfig,
        space: Arc<dyn LogSpace>,
        depot: Depot,
        reader: Reader,
        chain: ChainFacts,
    ) -> Result<(Self, IngestSink), IngestError> {
        let status = Arc::new(IngestStatus::default());
        let (sink, events) = sink::channel(config.queue_bytes_max, config.has_entries);
        let (output, own) = mpsc::channel(OWN_EVENTS_MAX);
        let start = own_start(&reader);
        let status_of_encoder = Arc::clone(&status);
        let has_entries = config.has_entries;
        let encoder =
            Encoder { events, output, status: status_of_encoder, start, has_entries, unix_ms };
        let plan_config = PlanConfig {
            ingester: config.ingester,
            level: chain.level,
            lease: config.lease,
            genesis_hash: chain.info.genesis_hash,
            queue_bytes_max: config.queue_bytes_max,
        };
        let plan = Plan::new(plan_config, start);
        let snapshots = LedgerSnapshots {
            cluster: config.cluster,
            depot,
            reader,
            chain,
            retained: Arc::default(),
        };
        let driver = Driver {
            plan,
            space,
            snapshots,
            upkeep: UpkeepConfig { interval: config.upkeep_interval, max_age: config.max_age },
            status: Arc::clone(&status),
            allow_data_loss: config.allow_data_loss,
            log_name: config.log_name.into(),
            drain: config.drain,
            unix_ms,
        };
        let thread = std::thread::Builder::new().name("ingest-encoder".to_owned());
        thread.spawn(move || encoder.run()).map_err(IngestError::Thread)?;
        let (end, ended) = oneshot::channel();
        let task = tokio::spawn(driver.run(own, ended));
        Ok((Self { status, end, task }, sink))
    }

    /// Returns the metrics of the ingester, and those of its log.
    pub fn metrics(&self) -> Arc<dyn Collector> {
        Arc::clone(&self.status) as Arc<dyn Collector>
    }

    /// Returns for how long the log has not responded, once that is more than an election of its servers takes. The
    /// ingester continues without a restart afterwards.
    pub fn log_silence(&self) -> Option<Duration> {
        self.status.log_silence()
    }

    /// Waits until the log has everything of a ledger that has ended, within [`IngestConfig::drain`].
    pub async fn stop(self) {
        // It has ended already if the log is of another chain.
        let _ = self.end.send(());
        if let Err(err) = self.task.await {
            tracing::error!(%err, "the task of the log panicked");
        }
    }
}

/// The state of a ledger that has not started.
fn own_start(reader: &Reader) -> OwnStart {
    let root = reader.view(Commitment::Finalized);
    let confirmed = reader.view(Commitment::Confirmed);
    let id = root.block();
    OwnStart {
        root: id,
        root_key: BlockKey { slot: id.slot, blockhash: root.meta().last_blockhash() },
        is_complete: confirmed.block() == id,
    }
}

#[expect(clippy::disallowed_methods, reason = "the time that records state, for measurements")]
fn unix_ms() -> u64 {
    let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| elapsed.as_millis() as u64)
}
