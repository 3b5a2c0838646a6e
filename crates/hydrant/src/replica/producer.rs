//! A replica as the producer of a node: from a snapshot in an object store to the newest block of a log.
//!
//! Behaviour on damage: the crate `replica` describes it. The node stays alive, is not ready, and says why.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::follow::{FollowSimulator, UpstreamCalls, UpstreamFacts, UpstreamSender, cluster_info};
use ::replica::{Replica, ReplicaError, ReplicaHandle, ReplicaState, ReplicaStatus};
use anyhow::{Context, Result, ensure};
use chain_solana::{Cluster, ClusterInfo, EventSink, TransactionSender, UpstreamRpc};
use depot::{Depot, DepotError};
use jsonrpc::{Health, Status};
use metrics::Collector;
use solana_keypair::Keypair;
use solana_signer::Signer;
use web_console::LedgerKind;

use crate::cluster_log::{LogSources, open_sources};
use crate::console::{now, print_stderr};
use crate::node::composed::RunningLedger;
use crate::node::parts::BoxFuture;
use crate::node::producer::OpenContext;
use crate::node::solana::SolanaProducer;
use crate::node::solana::front_end::SolanaFrontEnd;
use crate::node::solana::ledger::{LedgerHandles, LedgerProducer, OpenedLedger};
use crate::node::{NodeConfig, Producer};
use crate::replica::ReplicaNodeConfig;
use crate::replica::archiver::Archiver;
use crate::replica::front_end::ReplicaFrontEnd;
use crate::replica::refusing_sender::RefusingSender;
use crate::replica::verification::ReplicaVerification;

/// Time for which a start waits for the first generation of the log. An ingester that starts together with the replicas
/// has to write a snapshot first.
const LOG_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which a start looks for the log.
const LOG_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Serves a ledger that is fed by a replicated log, as `hydrant replica` does.
pub struct ReplicaProducer {
    config: ReplicaNodeConfig,
}

impl From<ReplicaProducer> for Producer {
    fn from(producer: ReplicaProducer) -> Self {
        Self(Box::new(SolanaProducer::new(producer)))
    }
}

impl ReplicaProducer {
    /// A producer with these settings.
    pub fn new(config: ReplicaNodeConfig) -> Self {
        Self { config }
    }
}

impl LedgerProducer for ReplicaProducer {
    fn open(self: Box<Self>, context: &OpenContext<'_>) -> Result<Box<dyn OpenedLedger>> {
        let node = context.config;
        ensure!(
            node.cluster_log.is_none(),
            "a replica does not append its blocks to a log: they come from one"
        );
        let config = self.config;
        // A signal leaves no part of a snapshot behind.
        let opened = context.signals.dropped_at_end(load(config, node));
        Ok(Box::new(context.runtime.block_on(opened)?))
    }
}

/// Loads the newest usable snapshot. Waits for the log if it does not exist yet.
async fn load(config: ReplicaNodeConfig, node: &NodeConfig) -> Result<OpenedReplica> {
    let LogSources { space, depot } = open_sources(&config.log).await?;
    if config.snapshot_interval.is_some() || config.archive {
        check_depot(&depot, config.cache_dir.is_some()).await?;
    }
    let started = now();
    let mut has_reported = false;
    loop {
        let ledger = config.for_ledger(node);
        match Replica::load(ledger, Arc::clone(&space), depot.clone()).await {
            Ok(replica) => return Ok(OpenedReplica { config, depot, replica }),
            Err(err @ ReplicaError::NoLog { .. }) if now() - started < LOG_TIMEOUT => {
                if !has_reported && !node.quiet {
                    print_stderr(&format!("hydrant: {err}; waits up to {LOG_TIMEOUT:?} for it"));
                }
                has_reported = true;
                tokio::time::sleep(LOG_POLL_INTERVAL).await;
            }
            Err(err) => return Err(err).context("load the ledger of the replica"),
        }
    }
}

/// Checks the depot that a replica writes to. One that cannot be reached does not stop a replica that may have a copy of a
/// snapshot.
async fn check_depot(depot: &Depot, has_copy: bool) -> Result<()> {
    match depot.check().await {
        Err(err) if has_copy && !matches!(err, DepotError::NotExclusive { .. }) => {
            let err = &err as &dyn std::error::Error;
            tracing::warn!(err, "the depot cannot be checked");
            Ok(())
        }
        checked => checked.context("--depot"),
    }
}

/// A replica at the block of its snapshot, which does not follow the log yet.
struct OpenedReplica {
    config: ReplicaNodeConfig,
    depot: Depot,
    replica: Replica,
}

impl OpenedLedger for OpenedReplica {
    fn kind(&self) -> LedgerKind {
        LedgerKind::Followed
    }

    fn handles(&mut self, config: &NodeConfig) -> Result<LedgerHandles> {
        let Self { config: settings, depot, replica } = self;
        let identity = Keypair::new();
        let reader = replica.reader().clone();
        let history = Arc::clone(replica.history());
        let status = Arc::clone(replica.status());
        let facts = UpstreamFacts { genesis_hash: replica.chain().genesis_hash };
        let fields = replica.snapshot_fields();
        let info = cluster_info(&fields, &reader, &facts, identity.pubkey());
        let info = info.context("read the properties of the cluster")?;
        let simulators = config.pool.threads;
        let cluster = replica.cluster();
        let simulator = FollowSimulator::new(&reader, Arc::clone(&history), cluster, simulators);
        let mut collectors: Vec<Arc<dyn Collector>> = vec![status, depot.metrics()];
        let upstream = Upstream::start(settings, config.queue_max)?;
        collectors.extend(upstream.collectors);
        let mut tasks: Vec<BoxFuture<'static, ()>> = Vec::new();
        if settings.archive {
            let cluster = &settings.log.cluster;
            let archived = Arc::clone(&history);
            let archiver = Archiver::new(depot.clone(), cluster, info.clone(), archived);
            collectors.push(archiver.metrics());
            tasks.push(Box::pin(archiver.run()));
        }
        let health = Health::default();
        health.set(Status::Unknown);
        Ok(LedgerHandles {
            cluster_info: info,
            identity,
            request_reader: reader.clone(),
            verification: Arc::new(ReplicaVerification::new(
                reader.clone(),
                Arc::clone(&history),
                Arc::clone(replica.proof()),
            )),
            reader,
            history,
            transaction_sender: upstream.sender,
            simulator: Arc::new(simulator),
            faucet: None,
            bound_faucet: None,
            fork_control: None,
            upstream: upstream.calls,
            account_upstream: None,
            older_statuses: None,
            bundles: Arc::default(),
            cheatcodes: Arc::default(),
            health: Arc::new(health),
            stored_blocks: Vec::new(),
            has_gossip: false,
            collectors,
            tasks,
        })
    }

    fn cluster(&self, _: &Arc<ClusterInfo>) -> Result<Arc<dyn Cluster>> {
        Ok(self.replica.cluster())
    }

    fn has_archives(&self) -> bool {
        false
    }

    fn front_end(&self, config: &NodeConfig, started: Instant) -> Box<dyn SolanaFrontEnd> {
        Box::new(ReplicaFrontEnd {
            has_output: !config.quiet,
            started,
            cluster: self.config.log.cluster.clone(),
            line: None,
        })
    }

    fn start(self: Box<Self>, sinks: Vec<Box<dyn EventSink>>) -> Result<Box<dyn RunningLedger>> {
        let Self { replica, .. } = *self;
        let status = Arc::clone(replica.status());
        let handle = replica.start(sinks).context("follow the log")?;
        Ok(Box::new(RunningReplica { handle, status }))
    }
}

/// The transactions and calls that go to an upstream.
struct Upstream {
    sender: Arc<dyn TransactionSender>,
    calls: Option<Arc<dyn UpstreamRpc>>,
    collectors: Vec<Arc<dyn Collector>>,
}

impl Upstream {
    fn start(config: &ReplicaNodeConfig, queue_max: usize) -> Result<Self> {
        let Some(endpoint) = &config.upstream else {
            let sender = Arc::new(RefusingSender);
            return Ok(Self { sender, calls: None, collectors: Vec::new() });
        };
        let sender = UpstreamSender::start(endpoint, queue_max);
        let sender = Arc::new(sender.context("start the forwarding threads")?);
        let calls = UpstreamCalls::start(endpoint);
        let calls = Arc::new(calls.context("start the threads that call the upstream")?);
        Ok(Self {
            collectors: vec![Arc::clone(&sender) as _, Arc::clone(&calls) as _],
            sender,
            calls: Some(calls),
        })
    }
}

/// A replica that follows its log.
struct RunningReplica {
    handle: ReplicaHandle,
    status: Arc<ReplicaStatus>,
}

impl RunningLedger for RunningReplica {
    fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// A replica without a log is alive: a restart would not bring the log back, and would load the state again.
    fn poll_health(&mut self, health: &Health) -> bool {
        let reason = self.status.not_ready_reason();
        health.set(match (&reason, self.status.state()) {
            (None, _) => Status::Ok,
            (Some(_), ReplicaState::CatchingUp | ReplicaState::Behind) => {
                Status::Behind { slots: self.status.lag_slots().max(1) }
            }
            (Some(_), _) => Status::Unknown,
        });
        health.set_reason(reason);
        true
    }

    fn stop(self: Box<Self>) -> Result<()> {
        Ok(self.handle.stop()?)
    }
}
