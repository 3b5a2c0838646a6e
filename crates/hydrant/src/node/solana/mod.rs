//! A node of Solana: the one composition of its servers, whatever produces the ledger.
//!
//! Shape: [`SolanaProducer`] opens a [`LedgerProducer`]. The opened node composes the server of requests and the parts
//! that need the ledger's events, and starts the ledger.

pub(crate) mod front_end;
mod grpc_part;
pub(crate) mod ledger;
mod pubsub_part;

use std::sync::Arc;
use std::time::Instant;

use ::tpu::TlsIdentity;
use anyhow::{Context, Result};
use api_keys::KeyNumber;
use chain_solana::{ClusterInfo, EventSink, Snapshots};
use grpc::KeyCloser;
use http_server::{Listeners, WebSocketHandler};
use jsonrpc::{HttpApi, ServerContext};
use metrics::Collector;
use rpc_solana::pubsub::SolanaPubSub;
use rpc_solana::{SolanaApi, SolanaServer};
use snapshot_server::{SnapshotArchives, WithSnapshots};
use solana_signer::Signer;
use web_console::{LedgerKind, WithConsole};

use self::front_end::ServerFrontEnd;
use self::grpc_part::GrpcPart;
use self::ledger::{LedgerHandles, LedgerProducer, OpenedLedger, archive_dir};
use self::pubsub_part::{PubSubPart, RestPart};
use crate::api_key_file::ApiKeyFile;
use crate::cluster_log::{self, LedgerIngester, LoggedChain, OpenedLog};
use crate::faucet_server::FaucetServer;
use crate::grpc_setup;
use crate::node::composed::ComposedNode;
use crate::node::front_end::FrontEnd;
use crate::node::parts::Parts;
use crate::node::producer::{NodeProducer, OpenContext, OpenedNode};
use crate::node::server_resources::ServerResources;
use crate::node::{NodeAddresses, NodeConfig};
use crate::otlp::export_spans;
use crate::process_setup::{BoundListeners, bind, tokio_listener};
use crate::tpu::{Tpu, TpuLedger};

/// A node of Solana that is not open.
pub(crate) struct SolanaProducer(Box<dyn LedgerProducer>);

/// A node of Solana with bound ports and an open ledger.
struct OpenedSolana {
    bound: BoundListeners,
    ledger: Box<dyn OpenedLedger>,
    log: Option<OpenedLog>,
}

/// The server of requests of a ledger, and the values that it shares with the parts.
struct ComposedServer {
    server: Arc<SolanaServer>,
    info: Arc<ClusterInfo>,
    archives: Option<Arc<SnapshotArchives>>,
    api_keys: Option<ApiKeyFile>,
}

/// The parts that need the ledger's events, their receivers of events, and what others need of them.
struct EventParts {
    parts: Parts,
    sinks: Vec<Box<dyn EventSink>>,
    pubsub: Arc<SolanaPubSub>,
    http_api: Arc<dyn HttpApi<SolanaApi>>,
}

impl SolanaProducer {
    /// A node over the ledger of this producer.
    pub(crate) fn new(producer: impl LedgerProducer + 'static) -> Self {
        Self(Box::new(producer))
    }
}

impl NodeProducer for SolanaProducer {
    fn body_bytes_max(&self) -> Option<usize> {
        self.0.body_bytes_max()
    }

    fn open(self: Box<Self>, context: &OpenContext<'_>) -> Result<Box<dyn OpenedNode>> {
        let config = context.config;
        let bound = bind(config.bind_address, config.rpc_ports, config.grpc_port)?;
        // Before the ledger: a wrong log must not cost hours.
        let log = config.cluster_log.as_ref().map(cluster_log::open);
        let log = log.map(|log| context.runtime.block_on(log)).transpose()?;
        let Self(producer) = *self;
        Ok(Box::new(OpenedSolana { bound, ledger: producer.open(context)?, log }))
    }
}

impl OpenedNode for OpenedSolana {
    fn compose(
        self: Box<Self>,
        config: &NodeConfig,
        process_start: Option<Instant>,
    ) -> Result<ComposedNode> {
        let Self { mut bound, mut ledger, log } = *self;
        let output = process_start.map(|started| ledger.front_end(config, started));
        let mut addresses = addresses(config, &bound)?;
        let mut handles = ledger.handles(config)?;
        let tpu = start_tpu(config, &handles)?;
        addresses.tpu = tpu.as_ref().map(|tpu| config.announced.to_output(tpu.address()));
        let composed = compose_server(&*ledger, &handles, &bound, tpu.as_ref(), config)?;
        let context = Arc::new(composed.server.context.clone());

        let mut event_parts = start_event_parts(config, &*ledger, &handles, &composed, &context)?;
        if let Some(tpu) = tpu {
            event_parts.parts.spawn(tpu.log_periodically());
            event_parts.parts.add(tpu);
        }
        handles.collectors.drain(..).for_each(|collector| context.metrics.add(collector));
        let key_closer = start_grpc(
            config,
            &mut bound,
            &mut handles,
            &composed,
            &mut event_parts,
            &mut addresses,
        )?;
        let logged = log.map(|log| start_log(config, log, &handles, &composed, &mut event_parts));
        let logged = logged.transpose()?;
        let EventParts { mut parts, sinks, pubsub, http_api } = event_parts;
        if let Some(faucet) = handles.bound_faucet.take() {
            let faucet = FaucetServer::start(faucet).context("start the faucet")?;
            addresses.faucet = Some(config.announced.to_output(faucet.address()));
            parts.add(faucet);
        }
        export_spans(config.otlp_endpoint.as_ref(), &context.metrics)?;
        let ComposedServer { server, api_keys, .. } = composed;
        if let Some(file) = api_keys.clone() {
            parts.spawn(file.watch(close_keys(Arc::clone(&pubsub), key_closer)));
        }
        let listeners = Listeners {
            rpc: tokio_listener(bound.rpc)?,
            pubsub: Some(tokio_listener(bound.pubsub)?),
        };
        let websockets = Arc::clone(&pubsub) as Arc<dyn WebSocketHandler>;
        let never = std::future::pending();
        let http_server =
            jsonrpc::serve(Arc::clone(&server), websockets, Some(http_api), listeners, never);
        let front_end = output.map(|output| {
            let server = Arc::clone(&server);
            Box::new(ServerFrontEnd { output, server, pubsub }) as Box<dyn FrontEnd>
        });
        let ledger = ledger.start(sinks)?;
        let ledger = match logged {
            Some(logged) => logged.attach(ledger),
            None => ledger,
        };
        Ok(ComposedNode {
            context,
            parts,
            ledger,
            ledger_tasks: handles.tasks,
            measured_ledger: server,
            http_servers: vec![Box::pin(http_server)],
            front_end,
            api_keys,
            reports: Vec::new(),
            addresses,
        })
    }
}

/// Starts subscriptions and REST.
fn start_event_parts(
    config: &NodeConfig,
    ledger: &dyn OpenedLedger,
    handles: &LedgerHandles,
    composed: &ComposedServer,
    context: &Arc<ServerContext>,
) -> Result<EventParts> {
    let ComposedServer { server, info, archives, .. } = composed;
    let mut parts = Parts::new(Arc::clone(context));
    let (pubsub_part, pubsub_sink) = PubSubPart::start(config, server, info, &handles.reader)?;
    let pubsub = Arc::clone(&pubsub_part.0);
    parts.add(pubsub_part);
    let (rest, rest_sink) = RestPart::start(server)?;
    let http_api = http_api(config, ledger.kind(), &rest, archives.clone());
    parts.add(rest);
    let sinks: Vec<Box<dyn EventSink>> = vec![Box::new(pubsub_sink), Box::new(rest_sink)];
    Ok(EventParts { parts, sinks, pubsub, http_api })
}

/// Starts gRPC, if its port is bound. Returns what closes the streams of removed keys.
fn start_grpc(
    config: &NodeConfig,
    bound: &mut BoundListeners,
    handles: &mut LedgerHandles,
    composed: &ComposedServer,
    event_parts: &mut EventParts,
    addresses: &mut NodeAddresses,
) -> Result<Option<KeyCloser>> {
    let Some(listener) = bound.grpc.take() else { return Ok(None) };
    let ComposedServer { server, info, .. } = composed;
    let blocks = std::mem::take(&mut handles.stored_blocks);
    let (grpc, sink) = GrpcPart::start(config, listener, server, info, &handles.reader, blocks)?;
    addresses.grpc = Some(config.announced.to_output(grpc.0.address()));
    let key_closer = grpc.0.key_closer();
    if handles.has_gossip {
        let gossip = Arc::clone(grpc.0.gossip());
        let mirror = grpc_setup::mirror_nodes(gossip, Arc::clone(&server.api.cluster));
        event_parts.parts.spawn(mirror);
    }
    event_parts.parts.add(grpc);
    event_parts.sinks.push(Box::new(sink));
    Ok(Some(key_closer))
}

/// Starts the ingester of the replicated log, which stops after the ledger.
fn start_log(
    config: &NodeConfig,
    log: OpenedLog,
    handles: &LedgerHandles,
    composed: &ComposedServer,
    event_parts: &mut EventParts,
) -> Result<LedgerIngester> {
    let chain = LoggedChain {
        reader: handles.reader.clone(),
        history: Arc::clone(&handles.history),
        info: Arc::clone(&composed.info),
        cluster: Arc::clone(&composed.server.api.cluster),
        level: handles.verification.required_level(),
    };
    let (logged, sink) = LedgerIngester::start(log, chain, config.serving.drain)?;
    logged.add_metrics(&composed.server.context.metrics);
    event_parts.sinks.push(sink);
    Ok(logged)
}

/// Closes the WebSockets and the streams of keys.
fn close_keys(pubsub: Arc<SolanaPubSub>, grpc: Option<KeyCloser>) -> impl Fn(&[KeyNumber]) {
    move |removed| {
        pubsub.close_keys(removed);
        grpc.iter().for_each(|grpc| grpc.close_keys(removed));
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
        kaspa: None,
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
fn compose_server(
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
    let ServerResources { pool, clients, response_cache, api_keys } =
        ServerResources::start(config)?;
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
    let server = Arc::new(api.into_server(response_cache, clients));
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
    if config.console { Arc::new(WithConsole::new(kind, api)) } else { api }
}
