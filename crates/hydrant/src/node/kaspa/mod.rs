//! A node of Kaspa: the one composition of its servers over a chain that is followed.
//!
//! Shape: [`OpenedKaspa`] has the bound ports and the loaded chain. It composes wRPC on two ports, JSON-RPC with the
//! methods that kaspad lacks on a third one and kaspad's gRPC on a fourth one, and starts the follower. [`start_pages`]
//! serves the ports before that, while the UTXO set is imported.
//! Not here: settings and flags (`follow_kaspa`), wRPC (`rpc_kaspa`), the follower (`::follow_kaspa`).

mod front_end;
mod grpc_part;
pub(crate) mod ports;
mod running_ledger;
mod source_report;
pub(crate) mod start_pages;
mod upstream;
mod wrpc_part;

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use chain_kaspa::ChainReader;
use follow_kaspa::{Follower, Forwarder, ForwarderConfig, ImportProgress};
use http_server::{Listeners, WebSocketHandler, serve_http};
use jsonrpc::{Api, Health, HttpApi, Metrics, Server, ServerContext, ServerParts, Status};
use kaspa::Encoding;
use metrics::Collector;
use rest::Rest;
use rest_kaspa::KaspaRest;
use rpc_kaspa::{
    KaspaApi, KaspaPort, KaspaRpc, KaspaServer, PortService, PortUrls, Settings, StatusPages,
    start_publisher,
};
use store::Directory;

use self::front_end::KaspaFrontEnd;
use self::grpc_part::GrpcPart;
use self::ports::BoundKaspaPorts;
use self::running_ledger::{FollowedKaspa, UtxoLedger};
use self::source_report::source_report;
use self::upstream::{PublisherSink, SourceForward};
use self::wrpc_part::WrpcPart;
use crate::api_key_file::ApiKeyFile;
use crate::follow_kaspa::KaspaConfig;
use crate::node::composed::ComposedNode;
use crate::node::front_end::FrontEnd;
use crate::node::parts::{BoxFuture, Parts};
use crate::node::producer::OpenedNode;
use crate::node::server_resources::ServerResources;
use crate::node::{KaspaAddresses, NodeAddresses, NodeConfig};
use crate::otlp::export_spans;
use crate::process_setup::tokio_listener;

/// Blocks that may wait for a root while the chain catches up, beyond those that a reorganization may remove.
const CATCH_UP_BLOCKS_MAX: usize = 2_000;

/// A node of Kaspa with bound ports and a loaded chain.
pub(crate) struct OpenedKaspa {
    pub(crate) bound: BoundKaspaPorts,
    pub(crate) follower: Follower,
    pub(crate) chain: KaspaConfig,
    /// The snapshot file. `None`: the UTXO set is not stored.
    pub(crate) snapshot: Option<PathBuf>,
    /// The locked directory of the snapshot file: two nodes would write the same file.
    pub(crate) ledger_lock: Option<Directory>,
    /// The import with which this process started, if any.
    pub(crate) import: Option<Arc<ImportProgress>>,
}

/// The servers of a chain, and what they share.
struct KaspaServers {
    /// The methods that kaspad lacks.
    rpc: Arc<Server<KaspaApi>>,
    wrpc: Arc<KaspaServer>,
    /// The state that both servers share.
    context: Arc<ServerContext>,
    api_keys: Option<ApiKeyFile>,
}

impl OpenedNode for OpenedKaspa {
    fn compose(
        self: Box<Self>,
        config: &NodeConfig,
        process_start: Option<Instant>,
    ) -> Result<ComposedNode> {
        let Self { mut bound, follower, chain, snapshot, ledger_lock, import } = *self;
        let addresses = addresses(config, &bound)?;
        let reader = follower.reader().clone();
        let status = Arc::clone(follower.status());
        let servers = compose_servers(config, &chain, &reader)?;
        let KaspaServers { wrpc, context, api_keys, .. } = &servers;
        let health = Arc::clone(&context.health);
        let ledger = Arc::new(UtxoLedger { reader, health });

        let mut parts = Parts::new(Arc::clone(context));
        parts.add(WrpcPart(Arc::clone(wrpc)));
        context.metrics.add(Arc::clone(&status) as Arc<dyn Collector>);
        context.metrics.add(Arc::clone(&ledger) as Arc<dyn Collector>);
        if let Some(import) = import {
            context.metrics.add(import);
        }
        export_spans(config.otlp_endpoint.as_ref(), &context.metrics)?;
        if let Some(file) = api_keys.clone() {
            let wrpc = Arc::clone(wrpc);
            parts.spawn(file.watch(move |removed| wrpc.close_keys(removed)));
        }
        let followed = Arc::clone(&status);
        wrpc.report_problem(move || followed.problem());
        if let Some(listener) = bound.grpc.take() {
            parts.add(GrpcPart::start(config, listener, wrpc, context)?);
        }
        let http_servers = http_servers(config, bound, &servers)?;
        let publisher = start_publisher(Arc::clone(wrpc), config.pubsub.events_max);
        let publisher = publisher.context("start the thread that publishes")?;
        context.metrics.add(Arc::new(publisher.clone()) as Arc<dyn Collector>);
        let front_end = process_start.map(|started| {
            Box::new(KaspaFrontEnd {
                has_banner: !config.quiet,
                started,
                network: chain.network,
                start: status.proven(),
                sources: chain.sources.clone(),
                snapshot,
                status: Arc::clone(&status),
                ledger: Arc::clone(&ledger),
            }) as Box<dyn FrontEnd>
        });
        let handle = follower.start(vec![Box::new(PublisherSink(publisher))]);
        let handle = handle.context("follow the chain")?;
        let reports = vec![source_report(Arc::clone(&status))];
        let KaspaServers { context, api_keys, .. } = servers;
        Ok(ComposedNode {
            context,
            parts,
            ledger: Box::new(FollowedKaspa { handle, status, ledger_lock }),
            ledger_tasks: Vec::new(),
            measured_ledger: ledger,
            http_servers,
            front_end,
            api_keys,
            reports,
            addresses,
        })
    }
}

/// The bound addresses, as programs on this machine reach them.
fn addresses(config: &NodeConfig, bound: &BoundKaspaPorts) -> Result<NodeAddresses> {
    let to_output = |address: SocketAddr| config.announced.to_output(address);
    let local = |listener: &Option<TcpListener>| {
        listener.as_ref().map(|listener| listener.local_addr().map(to_output)).transpose()
    };
    let kaspa = KaspaAddresses {
        wrpc_borsh: to_output(bound.borsh.local_addr()?),
        wrpc_json: to_output(bound.json.local_addr()?),
        rpc: local(&bound.rpc)?,
    };
    Ok(NodeAddresses {
        rpc: kaspa.wrpc_borsh,
        pubsub: kaspa.wrpc_json,
        tpu: None,
        grpc: local(&bound.grpc)?,
        faucet: None,
        kaspa: Some(kaspa),
        is_tls: config.serving.tls.is_some(),
    })
}

/// Composes the servers of a chain.
fn compose_servers(
    config: &NodeConfig,
    chain: &KaspaConfig,
    reader: &ChainReader,
) -> Result<KaspaServers> {
    let ServerResources { pool, clients, response_cache, api_keys } =
        ServerResources::start(config)?;
    let health = Health::default();
    health.set(Status::Unknown);
    let context = ServerContext::new(ServerParts {
        http: config.rpc.http(),
        config: config.rpc.jsonrpc(),
        pool: Arc::clone(&pool),
        clients: Arc::clone(&clients),
        response_cache,
        metrics: Arc::new(Metrics::new(&KaspaApi::method_names())),
        health: Arc::new(health),
    });
    let sources = chain.sources.clone();
    let forwarder = ForwarderConfig::new(sources, chain.json_sources.clone());
    let forwarder = Arc::new(Forwarder::start(forwarder));
    context.metrics.add(Arc::clone(&forwarder) as Arc<dyn Collector>);
    let settings = Settings { allow_unsafe_rpc: chain.allow_unsafe_rpc, ..Settings::default() };
    let wrpc = KaspaRpc::serve(
        reader.clone(),
        chain.network,
        Arc::new(SourceForward(forwarder)),
        settings,
        wrpc_config(config, chain),
        pool,
        clients,
    );
    let api = KaspaApi::new(reader.clone(), chain.network);
    let rpc = Arc::new(Server::new(api, context.clone()));
    Ok(KaspaServers { rpc, wrpc, context: Arc::new(context), api_keys })
}

/// Steps of the chain that are retained for clients that resume, as far as `pubsub.resume_bytes` reaches: an hour with ten
/// chain blocks a second. After a restart the blocks above the snapshot count as well, so a smaller number would exclude
/// clients of the earlier process. Memory: some 350 bytes for each, 13 MB, in addition to the blocks.
const RESUME_STEPS_MIN: usize = 36_000;

/// The limits of wRPC: those of every WebSocket. Its first notifications need not wait until the client knows an id: those
/// of kaspad have none, and those of `addressesSubscribe` follow its reply. A client can resume across the deepest
/// reorganization, whose blocks are in memory in any case.
fn wrpc_config(config: &NodeConfig, chain: &KaspaConfig) -> websocket::Config {
    let mut wrpc = config.pubsub.transport();
    wrpc.hold_ms = 0;
    let steps_min = RESUME_STEPS_MIN.max(2 * chain.reorg_depth);
    wrpc.limits.retained_steps = wrpc.limits.retained_steps.max(steps_min);
    let unrooted_max = 2 * chain.reorg_depth + CATCH_UP_BLOCKS_MAX;
    wrpc.limits.unrooted_max = wrpc.limits.unrooted_max.max(unrooted_max);
    wrpc
}

/// The HTTP servers of the bound ports, which share connections' limits, TLS and drain. Without the port of JSON-RPC
/// nothing polls the slots of `Health`: a node of Kaspa has no clock of slots, and sets its health itself.
fn http_servers(
    config: &NodeConfig,
    bound: BoundKaspaPorts,
    servers: &KaspaServers,
) -> Result<Vec<BoxFuture<'static, ()>>> {
    let KaspaServers { rpc, wrpc, context, .. } = servers;
    let urls = PortUrls {
        host: announced_host(config, bound.borsh.local_addr()?),
        borsh: Some(bound.borsh.local_addr()?.port()),
        json: Some(bound.json.local_addr()?.port()),
        is_tls: config.serving.tls.is_some(),
    };
    let websockets = |encoding| {
        Arc::new(KaspaPort::new(Arc::clone(wrpc), encoding)) as Arc<dyn WebSocketHandler>
    };
    let mut http_servers: Vec<BoxFuture<'static, ()>> = Vec::new();
    for (listener, encoding) in [(bound.borsh, Encoding::Borsh), (bound.json, Encoding::Json)] {
        let service = PortService::new(Arc::clone(wrpc), Arc::clone(context), urls.clone());
        let listeners = Listeners { rpc: tokio_listener(listener)?, pubsub: None };
        http_servers.push(Box::pin(serve_http(
            Arc::clone(&context.http),
            Arc::new(service),
            websockets(encoding),
            listeners,
            std::future::pending(),
        )));
    }
    if let Some(listener) = bound.rpc {
        let rest = Arc::new(Rest::new(KaspaRest::new()));
        context.metrics.add(Arc::clone(&rest) as Arc<dyn Collector>);
        let pages: Arc<dyn HttpApi<KaspaApi>> = Arc::new(StatusPages::new(rest));
        let listeners = Listeners { rpc: tokio_listener(listener)?, pubsub: None };
        http_servers.push(Box::pin(jsonrpc::serve(
            Arc::clone(rpc),
            websockets(Encoding::Json),
            Some(pages),
            listeners,
            std::future::pending(),
        )));
    }
    Ok(http_servers)
}

/// The host that a resolver's reply names, if it is not the one that the client reached (`--advertised-ip`).
fn announced_host(config: &NodeConfig, bound: SocketAddr) -> Option<String> {
    match config.announced.to_clients(bound).ip() {
        ip if ip == bound.ip() => None,
        IpAddr::V4(ip) => Some(ip.to_string()),
        IpAddr::V6(ip) => Some(format!("[{ip}]")),
    }
}
