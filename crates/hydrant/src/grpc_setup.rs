//! Yellowstone gRPC of a node: its port, its settings, its start and its end.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chain_solana::{Cluster, ClusterInfo, ClusterNode, Reader};
use grpc::{Config, EventSender, GossipTable, GrpcNode, Security, Server, TlsAcceptor};
use http_server::Authenticator;

use crate::bounds;
use crate::process_setup::GrpcPort;
use crate::serving_options::ServingOptions;
use crate::shared_flags::ServiceFlags;
use crate::tls_setup::GrpcTls;

/// The port on which clients expect Yellowstone gRPC.
const PORT_DEFAULT: u16 = 10_000;
/// How often the nodes of a cluster are compared with those that are served. They change once a second at most.
const NODES_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The port, if gRPC is served. If the system chooses JSON-RPC's, it chooses this one too.
pub(crate) fn port(flags: &ServiceFlags, rpc_port: Option<u16>) -> Result<Option<GrpcPort>> {
    let ServiceFlags { no_grpc, grpc_port, .. } = *flags;
    ensure!(!no_grpc || grpc_port.is_none(), "--grpc-port and --no-grpc exclude each other");
    Ok(match (no_grpc, grpc_port, rpc_port) {
        (true, ..) => None,
        (false, Some(port), _) => Some(GrpcPort::Exactly(port)),
        (false, None, Some(0)) => Some(GrpcPort::Exactly(0)),
        (false, None, _) => Some(GrpcPort::Preferably(PORT_DEFAULT)),
    })
}

/// The settings of the table `[grpc]`, checked, with a log of at least `slots_min` slots.
pub(crate) fn config(table: &Config, slots_min: u64) -> Result<Config> {
    bounds::check(&bounds::grpc(table))?;
    let replay_slots_max = table.replay_slots_max.max(slots_min);
    Ok(Config { replay_slots_max, ..table.clone() })
}

/// Starts the server. The ledger's events go to the sink.
pub(crate) fn start(
    config: &Config,
    cluster: &Arc<ClusterInfo>,
    reader: &Reader,
    (listener, authenticator, serving): (TcpListener, Option<Authenticator>, &ServingOptions),
) -> Result<(Server, EventSender)> {
    let node = GrpcNode {
        reader: Box::new(reader.clone()),
        cluster: Some(Arc::clone(cluster)),
        program: ("hydrant", env!("CARGO_PKG_VERSION")),
    };
    ensure!(
        authenticator.is_none() || config.x_token_file.is_none(),
        "grpc.x_token_file and --api-keys exclude each other: list the token as a key"
    );
    let tls = serving
        .tls
        .as_ref()
        .map(|files| Arc::new(GrpcTls(Arc::clone(files.tls()))) as Arc<dyn TlsAcceptor>);
    let security = Security { authenticator, tls };
    let server = Server::start_secured(config.clone(), node, listener, security);
    server.context("serve gRPC")
}

/// Serves the nodes of a cluster as gossip, as they change. It ends when it is aborted.
pub(crate) async fn mirror_nodes(gossip: Arc<GossipTable>, cluster: Arc<dyn Cluster>) {
    let mut last: Option<Arc<[ClusterNode]>> = None;
    let mut poll = tokio::time::interval(NODES_POLL_INTERVAL);
    loop {
        poll.tick().await;
        let Some(nodes) = cluster.nodes() else { continue };
        if !last.as_ref().is_some_and(|last| Arc::ptr_eq(last, &nodes)) {
            gossip.replace(&nodes);
            last = Some(nodes);
        }
    }
}

/// Ends the server, if there is one.
pub(crate) async fn stop(server: Option<Server>) -> Result<()> {
    let stop = move || server.into_iter().for_each(Server::shut_down);
    tokio::task::spawn_blocking(stop).await.context("stop gRPC")
}
