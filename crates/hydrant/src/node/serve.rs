//! A node from its bound ports to its end: the one composition of servers, whatever produces the ledger.
//!
//! Shape: [`start`] composes the server of requests and the parts that need the ledger's events, starts the ledger, then
//! serves. [`RunningNode::run`] waits for the end and stops everything in order: clients are notified, the parts drain, the
//! ledger stops last.

use std::sync::Arc;
use std::time::Duration;

use ::tpu::TlsIdentity;
use anyhow::{Context, Error, Result, anyhow, bail};
use chain_solana::{ClusterInfo, Snapshots};
use http_server::Listeners;
use jsonrpc::HttpApi;
use metrics::Collector;
use rpc_solana::pubsub::SolanaPubSub;
use rpc_solana::{SolanaApi, SolanaServer};
use snapshot_server::{SnapshotArchives, WithSnapshots};
use solana_signer::Signer;
use store::durable_file;
use tokio::signal::unix::Signal;
use web_console::LedgerKind;

use crate::admin::{self, AdminApi, AdminServer};
use crate::api_key_file::{ApiKeyFile, close_keys};
use crate::console::now;
use crate::draining::{drain, serve_on};
use crate::faucet_server::FaucetServer;
use crate::grpc_setup;
use crate::memory_report::{self, ProcessMemory};
use crate::node::front_end::{FrontEnd, ReadyNode};
use crate::node::parts::{BoxFuture, GrpcPart, HttpPart, Parts, PubSubPart, RestPart};
use crate::node::producer::{LedgerHandles, OpenedLedger, RunningLedger, archive_dir};
use crate::node::{NodeAddresses, NodeConfig};
use crate::otlp::export_spans;
use crate::process_setup::{BoundListeners, cpu_pool, tokio_listener, with_console};
use crate::service_manager::ServiceManager;
use crate::signals::EndSignals;
use crate::tls_setup::start_tls;
use crate::tpu::{Tpu, TpuLedger};

/// Interval at which the node reports its health, and checks that its ledger runs.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A running node: its server, its parts and its ledger.
pub(crate) struct RunningNode {
    server: Arc<SolanaServer>,
    pubsub: Arc<SolanaPubSub>,
    parts: Parts,
    ledger: Box<dyn RunningLedger>,
    /// They start when the node is reported ready.
    ledger_tasks: Vec<BoxFuture<'static, ()>>,
    admin: Option<AdminServer>,
    api_keys: Option<ApiKeyFile>,
    pub(crate) addresses: NodeAddresses,
}

/// The server of requests of a ledger, and the values that it shares with the parts.
struct ComposedServer {
    server: Arc<SolanaServer>,
    info: Arc<ClusterInfo>,
    archives: Option<Arc<SnapshotArchives>>,
    api_keys: Option<ApiKeyFile>,
}

/// Serves an opened ledger. If a server cannot start, all that has started is stopped, the ledger included.
pub(crate) async fn start(
    mut ledger: Box<dyn OpenedLedger>,
    bound: BoundListeners,
    config: &NodeConfig,
    signals: &mut EndSignals,
) -> Result<RunningNode> {
    let mut addresses = addresses(config, &bound)?;
    let mut handles = ledger.handles(config)?;
    let tpu = start_tpu(config, &handles)?;
    addresses.tpu = tpu.as_ref().map(|tpu| config.announced.to_output(tpu.address()));
    let composed = compose(&*ledger, &handles, &bound, tpu.as_ref(), config)?;
    let ComposedServer { server, info, archives, api_keys } = composed;

    let mut parts = Parts::new(Arc::clone(&server));
    let (pubsub_part, sink) = PubSubPart::start(config, &server, &info, &handles.reader)?;
    let pubsub = Arc::clone(&pubsub_part.0);
    parts.add(pubsub_part);
    parts.add_sink(sink);
    let (rest, sink) = RestPart::start(&server)?;
    let http_api = http_api(config, ledger.kind(), &rest, archives.clone());
    parts.add(rest);
    parts.add_sink(sink);
    if let Some(tpu) = tpu {
        parts.spawn(tpu.log_periodically());
        parts.add(tpu);
    }
    handles.collectors.drain(..).for_each(|collector| server.context.metrics.add(collector));
    let mut key_closer = None;
    if let Some(listener) = bound.grpc {
        let blocks = std::mem::take(&mut handles.stored_blocks);
        let reader = &handles.reader;
        let (grpc, sink) = GrpcPart::start(config, listener, &server, &info, reader, blocks)?;
        addresses.grpc = Some(config.announced.to_output(grpc.0.address()));
        key_closer = Some(grpc.0.key_closer());
        if handles.has_gossip {
            let gossip = Arc::clone(grpc.0.gossip());
            parts.spawn(grpc_setup::mirror_nodes(gossip, Arc::clone(&server.api.cluster)));
        }
        parts.add(grpc);
        parts.add_sink(sink);
    }
    if let Some(faucet) = handles.bound_faucet.take() {
        let faucet = FaucetServer::start(faucet).context("start the faucet")?;
        addresses.faucet = Some(config.announced.to_output(faucet.address()));
        parts.add(faucet);
    }
    export_spans(config.otlp_endpoint.as_ref(), &server.context.metrics)?;
    if let Some(file) = api_keys.clone() {
        parts.spawn(file.watch(close_keys(Arc::clone(&pubsub), key_closer)));
    }
    let listeners =
        Listeners { rpc: tokio_listener(bound.rpc)?, pubsub: Some(tokio_listener(bound.pubsub)?) };
    let ledger = ledger.start(parts.take_sinks())?;
    let ledger_tasks = handles.tasks;
    let mut node = RunningNode {
        server,
        pubsub,
        parts,
        ledger,
        ledger_tasks,
        admin: None,
        api_keys,
        addresses,
    };
    match node.start_serving(config, http_api, listeners, signals).await {
        Ok(()) => Ok(node),
        Err(err) => Err(node.abort_start(signals, err).await),
    }
}

/// The bound addresses, as programs on this machine reach them.
fn addresses(config: &NodeConfig, bound: &BoundListeners) -> Result<NodeAddresses> {
    Ok(NodeAddresses {
        rpc: config.announced.to_output(bound.rpc.local_addr()?),
        pubsub: config.announced.to_output(bound.pubsub.local_addr()?),
        tpu: None,
        grpc: None,
        faucet: None,
        is_tls: config.serving.tls.is_some(),
    })
}

fn start_tpu(config: &NodeConfig, ledger: &LedgerHandles) -> Result<Option<Tpu>> {
    let Some(port) = config.tpu_port else { return Ok(None) };
    let keypair = &ledger.identity;
    let ledger = TpuLedger {
        identity: TlsIdentity::new(*keypair.secret_bytes(), keypair.pubkey()),
        reader: ledger.reader.clone(),
        history: Arc::clone(&ledger.history),
        transaction_sender: Arc::clone(&ledger.transaction_sender),
    };
    Tpu::start(config, port, ledger).map(Some)
}

/// Composes the server of requests of a ledger.
fn compose(
    ledger: &dyn OpenedLedger,
    handles: &LedgerHandles,
    bound: &BoundListeners,
    tpu: Option<&Tpu>,
    config: &NodeConfig,
) -> Result<ComposedServer> {
    let announced = config.announced;
    let mut info = handles.cluster_info.clone();
    info.rpc = Some(announced.to_clients(bound.rpc.local_addr()?));
    info.pubsub = Some(announced.to_clients(bound.pubsub.local_addr()?));
    info.tpu = tpu.map(|tpu| announced.to_clients(tpu.address()));
    let info = Arc::new(info);
    let cluster = ledger.cluster(&info)?;
    let archives = ledger.has_archives().then(|| {
        let archived = handles.to_archived_ledger(&info, Arc::clone(&cluster));
        let dir = archive_dir(config.ledger_dir.as_deref());
        Arc::new(SnapshotArchives::new(archived, dir))
    });
    let pool = Arc::new(cpu_pool(&config.pool).context("start the CPU threads")?);
    let reader = handles.request_reader.clone();
    let history = Arc::clone(&handles.history);
    let api = SolanaApi::builder(Arc::clone(&info), reader, history, pool)
        .verification(Arc::clone(&handles.verification))
        .cluster(cluster)
        .transaction_sender(Arc::clone(&handles.transaction_sender))
        .simulator(Arc::clone(&handles.simulator))
        .faucet(handles.faucet.clone())
        .fork_control(handles.fork_control.clone())
        .upstream(handles.upstream.clone())
        .account_upstream(handles.account_upstream.clone())
        .snapshots(archives.clone().map(|archives| archives as Arc<dyn Snapshots>))
        .older_statuses(handles.older_statuses.clone())
        .bundles(Arc::clone(&handles.bundles))
        .cheatcodes(Arc::clone(&handles.cheatcodes))
        .health(Arc::clone(&handles.health))
        .config(config.rpc.clone())
        .build();
    let response_cache = response_cache::ResponseCache::new(config.cache_bytes_max);
    let mut api_keys = config.api_keys.clone();
    api_keys.iter_mut().for_each(|file| file.restore_usage(config.ledger_dir.as_deref()));
    let keys = api_keys.as_ref().map(ApiKeyFile::keys);
    let clients = clients::RateLimiter::new(config.pool.clients).with_api_keys(keys);
    let server = Arc::new(api.into_server(Arc::new(response_cache), Arc::new(clients)));
    let collector = archives.clone().map(|archives| archives as Arc<dyn Collector>);
    collector.into_iter().for_each(|collector| server.context.metrics.add(collector));
    Ok(ComposedServer { server, info, archives, api_keys })
}

/// REST, with archives and the console if they are served.
fn http_api(
    config: &NodeConfig,
    kind: LedgerKind,
    rest: &RestPart,
    archives: Option<Arc<SnapshotArchives>>,
) -> Arc<dyn HttpApi<SolanaApi>> {
    let rest = Arc::clone(&rest.0);
    let api: Arc<dyn HttpApi<SolanaApi>> = match archives {
        Some(archives) => Arc::new(WithSnapshots::new(archives, rest)),
        None => rest,
    };
    with_console(config.console, kind, api)
}

/// Starts to measure and to log the memory of the process.
fn measure_memory(parts: &mut Parts, server: &Arc<SolanaServer>, request: Option<Signal>) {
    let memory = Arc::new(ProcessMemory::at_start(server));
    server.context.metrics.add(Arc::clone(&memory) as Arc<dyn Collector>);
    parts.spawn(memory.measure_at_first_root(Arc::clone(server)));
    parts.spawn(memory_report::log_periodically(Arc::clone(server), request));
}

impl RunningNode {
    /// Starts the servers of requests. The administration may end the node.
    async fn start_serving(
        &mut self,
        config: &NodeConfig,
        http_api: Arc<dyn HttpApi<SolanaApi>>,
        listeners: Listeners,
        signals: &mut EndSignals,
    ) -> Result<()> {
        let mut administration = AdminApi::new(Arc::clone(&self.server), signals.request());
        if let Some(watch) = start_tls(&config.serving, &self.server.context, &mut administration) {
            self.parts.spawn(watch);
        }
        self.admin = Some(admin::start(&config.serving, administration).await?);
        let pubsub = Arc::clone(&self.pubsub) as _;
        self.parts.add(HttpPart::start(&self.server, pubsub, http_api, listeners));
        measure_memory(&mut self.parts, &self.server, signals.take_memory_request());
        Ok(())
    }

    /// Stops all that has started, because the rest cannot start. Returns the reason for that.
    pub(crate) async fn abort_start(self, signals: &mut EndSignals, err: Error) -> Error {
        if let Err(stop_err) = self.stop(signals, Duration::ZERO).await {
            tracing::error!(err = %format_args!("{stop_err:#}"), "the node could not be stopped");
        }
        err
    }

    /// Stops the servers, whose requests have the time `within`, and then the ledger. Returns the error of the ledger, or
    /// else that of the servers.
    async fn stop(self, signals: &mut EndSignals, within: Duration) -> Result<()> {
        let Self { server, parts, ledger, admin, api_keys, .. } = self;
        parts.abort_tasks();
        let drained = drain(signals, &server.context.http.drain, within, parts.stop()).await;
        drop(admin);
        api_keys.iter().for_each(ApiKeyFile::store_usage);
        let stopped = tokio::task::spawn_blocking(|| ledger.stop()).await;
        stopped
            .map_err(|_| anyhow!("the ledger panicked"))?
            .context("the ledger")
            .inspect_err(|_| {
                if let Err(err) = &drained {
                    tracing::error!(err = %format_args!("{err:#}"), "a server could not be stopped");
                }
            })?;
        drained
    }

    /// Shows that the node is ready, and writes its addresses to the file of `--endpoints-file`.
    pub(crate) fn report_ready(
        &self,
        config: &NodeConfig,
        front_end: Option<&mut Box<dyn FrontEnd>>,
    ) -> Result<()> {
        if let Some(front_end) = front_end {
            front_end.show_ready(&ReadyNode {
                addresses: &self.addresses,
                server: &self.server,
                pubsub: &self.pubsub,
            })?;
        }
        let Some(path) = &config.endpoints_file else { return Ok(()) };
        let addresses = self.addresses.to_json().to_string();
        durable_file::replace(path, addresses.as_bytes())
            .with_context(|| format!("--endpoints-file {}", path.display()))
    }

    /// Serves until a signal or a request ends the node, or its ledger fails. Then stops everything, the ledger last, and
    /// returns the first error.
    pub(crate) async fn run(
        mut self,
        config: &NodeConfig,
        mut signals: EndSignals,
        service_manager: &mut ServiceManager,
        front_end: Option<Box<dyn FrontEnd>>,
    ) -> Result<()> {
        self.ledger_tasks.drain(..).for_each(|task| self.parts.spawn(task));
        let has_ended = self.wait_for_end(&mut signals, service_manager).await;
        service_manager.notify_stopping();
        let drain_delay = if has_ended { Duration::ZERO } else { config.serving.drain_delay };
        self.parts.announce_end().await;
        let is_cut = serve_on(&mut signals, drain_delay, || self.ledger.is_finished()).await;
        front_end.into_iter().for_each(|mut front_end| front_end.stop());
        let within = if is_cut { Duration::ZERO } else { config.serving.drain };
        self.stop(&mut signals, within).await?;
        if has_ended {
            bail!("the ledger's thread ended unexpectedly");
        }
        Ok(())
    }

    /// Reports the health until a signal comes or the ledger ends; true if it ended.
    async fn wait_for_end(
        &mut self,
        signals: &mut EndSignals,
        service_manager: &mut ServiceManager,
    ) -> bool {
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        loop {
            tokio::select! {
                () = signals.next() => return false,
                _ = poll.tick() => {
                    let is_alive = self.ledger.poll_health(&self.server.api.health);
                    if self.ledger.is_finished() {
                        return true;
                    }
                    service_manager.notify_alive(is_alive, now());
                }
            }
        }
    }
}
