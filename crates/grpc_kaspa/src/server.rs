//! The server: its start, its end, and its metrics.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use grpc_server::{
    Config, PreparedServer, QueueBudget, Security, Server, ServerMetrics, StartError,
};
use metrics::{Collector, Exposition, MetricKind};
use rpc_kaspa::KaspaServer;

use crate::service::KaspaService;

/// A running server. Dropping it ends it without a wait.
pub struct KaspaGrpcServer {
    connections: Server,
    budget: Arc<QueueBudget>,
}

/// The metrics of a server, for a scrape.
struct GrpcMetrics {
    connections: ServerMetrics,
    budget: Arc<QueueBudget>,
}

impl KaspaGrpcServer {
    /// Serves on a bound listener. The sessions are those of `rpc`.
    ///
    /// Errors: a thread does not start, the listener is not valid, or the file with the token cannot be read.
    pub fn start(
        config: Config,
        rpc: Arc<KaspaServer>,
        listener: TcpListener,
        security: Security,
    ) -> Result<Self, StartError> {
        let prepared = PreparedServer::new(config)?;
        let budget = Arc::new(QueueBudget::new(usize::MAX));
        let state = Arc::clone(prepared.state());
        let service = KaspaService::new(rpc, state, Arc::clone(&budget));
        Ok(Self { connections: prepared.start(service, listener, security)?, budget })
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.connections.address()
    }

    /// Returns the metrics of the server.
    pub fn metrics(&self) -> impl Collector + use<> {
        GrpcMetrics { connections: self.connections.metrics(), budget: Arc::clone(&self.budget) }
    }

    /// Reports `NOT_SERVING` to clients of the health service. Everything is served as before.
    pub async fn announce_end(&self) {
        self.connections.announce_end().await;
    }

    /// Closes every connection, and waits until clients and threads have ended. The sessions of `rpc` should have been
    /// closed: then the calls that still wait for the upstream have `Config::shutdown_timeout_ms` for their replies.
    pub fn shut_down(self) {
        self.connections.shut_down();
    }
}

impl Collector for GrpcMetrics {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        let mut memory = self.connections.memory();
        memory.push(("grpc_sending", self.budget.sending() as u64));
        memory
    }

    fn write(&self, out: &mut Exposition) {
        self.connections.write(out);
        let help = "Bytes of messages that left their queue and are not written to a socket.";
        let sending = self.budget.sending() as u64;
        out.single("hydrant_grpc_sending_bytes", MetricKind::Gauge, help, sending);
    }
}
