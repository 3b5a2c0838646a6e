//! Yellowstone gRPC of a node: its port, its settings, its start and its end.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chain_solana::{Block, Cluster, ClusterInfo, ClusterNode, History, Reader};
use grpc::{
    Config, GossipTable, GrpcEventSink, GrpcNode, LedgerReader, NewestBlock, Security, Server,
    TlsAcceptor,
};
use http_server::Authenticator;
use jsonrpc::Health;
use ledger::{Commitment, Slot};
use solana_hash::Hash;

use crate::node::flags::GrpcFlags;
use crate::process_setup::GrpcPort;
use crate::serving_options::ServingOptions;
use crate::tls_setup::GrpcTls;

/// The port on which clients expect Yellowstone gRPC.
pub(crate) const PORT_DEFAULT: u16 = 10_000;
/// Interval of the updates of the served nodes. The nodes of a cluster change once a second at most.
const NODES_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The port, if gRPC is served. If the system chooses JSON-RPC's, it chooses this one too.
pub(crate) fn port(flags: &GrpcFlags, rpc_port: Option<u16>) -> Result<Option<GrpcPort>> {
    let GrpcFlags { no_grpc, grpc_port } = *flags;
    ensure!(!no_grpc || grpc_port.is_none(), "--grpc-port and --no-grpc exclude each other");
    Ok(match (no_grpc, grpc_port, rpc_port) {
        (true, ..) => None,
        (false, Some(port), _) => Some(GrpcPort::Exactly(port)),
        (false, None, Some(0)) => Some(GrpcPort::Exactly(0)),
        (false, None, _) => Some(GrpcPort::Preferably(PORT_DEFAULT)),
    })
}

/// The newest blocks of an earlier run for the log of `from_slot`. The first block of a ledger is not one of them: it
/// is a placeholder for a genesis or a snapshot.
pub(crate) fn stored_blocks(history: &History, config: &Config) -> Vec<Arc<Block>> {
    let snapshot = history.snapshot();
    let newest = snapshot.blocks(.., Commitment::Finalized).rev();
    let count = usize::try_from(config.replay_slots_max).unwrap_or(usize::MAX);
    let mut bytes_left = config.replay_bytes_max as u64;
    let has_space = |block: &&Arc<Block>| {
        let left = bytes_left.checked_sub(block.bytes());
        bytes_left = left.unwrap_or(0);
        block.id.version > 0 && left.is_some()
    };
    let mut blocks: Vec<_> = newest.take(count).take_while(has_space).map(Arc::clone).collect();
    blocks.reverse();
    blocks
}

/// The port of gRPC, and the access to it.
pub(crate) struct GrpcListener<'a> {
    pub(crate) listener: TcpListener,
    /// Checks API keys. `None` if clients need none.
    pub(crate) authenticator: Option<Authenticator>,
    pub(crate) serving: &'a ServingOptions,
}

/// The ledger as gRPC reads it: it has no blocks while its state is withheld.
pub(crate) struct ServedReader {
    pub(crate) reader: Reader,
    pub(crate) health: Arc<Health>,
}

impl LedgerReader for ServedReader {
    fn newest(&self, commitment: Commitment) -> Option<NewestBlock> {
        self.health.check_state().ok()?;
        self.reader.newest(commitment)
    }

    fn is_blockhash_valid(&self, blockhash: &Hash, commitment: Commitment) -> Option<(Slot, bool)> {
        self.health.check_state().ok()?;
        self.reader.is_blockhash_valid(blockhash, commitment)
    }
}

/// Starts the server with `stored_blocks` as the first blocks of the log of `from_slot`. The sink receives the ledger's
/// events.
pub(crate) fn start(
    config: &Config,
    cluster: &Arc<ClusterInfo>,
    ledger: ServedReader,
    stored_blocks: Vec<Arc<Block>>,
    listener: GrpcListener<'_>,
) -> Result<(Server, GrpcEventSink)> {
    let GrpcListener { listener, authenticator, serving } = listener;
    let node = GrpcNode {
        reader: Box::new(ledger),
        cluster: Some(Arc::clone(cluster)),
        program: ("hydrant", env!("CARGO_PKG_VERSION")),
        stored_blocks,
    };
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
