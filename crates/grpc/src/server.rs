//! The server of a ledger: its start and its end.
//!
//! Not here: connections and threads (`grpc_server`).

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use api_keys::KeyNumber;
use chain_solana::EventCounters;
use grpc_server::{PreparedServer, Security, StartError, check_token_file};
use ledger::Commitment;
use tonic::Status;

use crate::broker::Broker;
use crate::config::Config;
use crate::gossip_table::GossipTable;
use crate::metrics::GrpcMetrics;
use crate::node::GrpcNode;
use crate::publisher::{self, GrpcEventSink};
use crate::service::GrpcService;

/// A running server. Dropping it ends it without a wait.
pub struct Server {
    /// Dropped before the connections, so that their clients get a status.
    clients: Clients,
    gossip: Arc<GossipTable>,
    events: EventCounters,
    connections: grpc_server::Server,
}

/// The clients of a server. Dropping it ends them.
struct Clients(Arc<Broker>);

impl Drop for Clients {
    fn drop(&mut self) {
        self.0.end(Status::unavailable("the server ends"));
    }
}

impl Server {
    /// Checks the file that the settings name.
    ///
    /// # Errors
    ///
    /// Those of a start: the file cannot be read, or has no token.
    pub fn check(config: &Config) -> Result<(), StartError> {
        check_token_file(config.x_token_file.as_deref())
    }

    /// Serves on a bound listener. The ledger's events go to the returned sink.
    pub fn start(
        config: Config,
        node: GrpcNode,
        listener: TcpListener,
    ) -> Result<(Self, GrpcEventSink), StartError> {
        Self::start_secured(config, node, listener, Security::default())
    }

    /// Serves on a bound listener, with authentication and encryption.
    pub fn start_secured(
        config: Config,
        mut node: GrpcNode,
        listener: TcpListener,
        security: Security,
    ) -> Result<(Self, GrpcEventSink), StartError> {
        let prepared = PreparedServer::new(config.transport())?;
        let state = Arc::clone(prepared.state());
        let worker = Some(prepared.handle().clone());
        let root = node.reader.newest(Commitment::Finalized).map(|block| block.slot);
        let broker = Arc::new(Broker::new(config, state, root, worker));
        let sink = publisher::start(&broker, std::mem::take(&mut node.stored_blocks))?;
        let gossip = Arc::new(GossipTable::new());
        node.contact_info().into_iter().for_each(|own| gossip.insert(own));
        let authenticator = security.authenticator.clone();
        let table = Arc::clone(&gossip);
        let service = GrpcService::new(Arc::clone(&broker), node, table, authenticator);
        let connections = prepared.start(service, listener, security)?;
        let events = sink.counters();
        Ok((Self { clients: Clients(broker), gossip, events, connections }, sink))
    }

    /// Reports `NOT_SERVING` to clients of the health service. Everything is served as before.
    pub async fn announce_end(&self) {
        self.connections.announce_end().await;
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.connections.address()
    }

    /// Returns the metrics of the server.
    pub fn metrics(&self) -> GrpcMetrics {
        GrpcMetrics {
            broker: Arc::clone(&self.clients.0),
            gossip: Arc::clone(&self.gossip),
            events: self.events.clone(),
            server: self.connections.metrics(),
        }
    }

    /// Ends the streams of API keys.
    pub fn key_closer(&self) -> KeyCloser {
        KeyCloser(Arc::clone(&self.clients.0))
    }

    /// The nodes that `SubscribeGossip` serves: at first this node, if its cluster is known.
    pub fn gossip(&self) -> &Arc<GossipTable> {
        &self.gossip
    }

    /// Closes every connection, and waits until clients and threads have ended, for three seconds each.
    pub fn shut_down(self) {
        let Self { clients, connections, .. } = self;
        drop(clients);
        connections.shut_down();
    }
}

/// Ends the streams of API keys that were removed.
#[derive(Clone)]
pub struct KeyCloser(Arc<Broker>);

impl KeyCloser {
    /// Ends them with `UNAUTHENTICATED`.
    pub fn close_keys(&self, removed: &[KeyNumber]) {
        self.0.close_keys(removed);
    }
}
