//! Yellowstone gRPC.

use std::net::TcpListener;
use std::sync::Arc;

use anyhow::Result;
use chain_solana::{Block, ClusterInfo, Reader};
use grpc::{GrpcEventSink, Server};
use jsonrpc::Metrics;
use rpc_solana::SolanaServer;

use crate::grpc_setup::{self, GrpcListener, ServedReader};
use crate::node::NodeConfig;
use crate::node::parts::{BoxFuture, Part};

pub(crate) struct GrpcPart(pub(crate) Server);

impl GrpcPart {
    /// Serves the ledger of `reader`. The ledger's events go to the sender.
    pub(crate) fn start(
        config: &NodeConfig,
        listener: TcpListener,
        server: &SolanaServer,
        info: &Arc<ClusterInfo>,
        reader: &Reader,
        stored_blocks: Vec<Arc<Block>>,
    ) -> Result<(Self, GrpcEventSink)> {
        let authenticator = server.context.http.authenticator.clone();
        let listener = GrpcListener { listener, authenticator, serving: &config.serving };
        let health = Arc::clone(&server.context.health);
        let ledger = ServedReader { reader: reader.clone(), health };
        let started = grpc_setup::start(&config.grpc, info, ledger, stored_blocks, listener);
        started.map(|(server, events)| (Self(server), events))
    }
}

impl Part for GrpcPart {
    fn add_metrics(&self, metrics: &Metrics) {
        metrics.add(Arc::new(self.0.metrics()));
    }

    fn announce_end(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.announce_end())
    }

    fn stop(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(grpc_setup::stop(Some(self.0)))
    }
}
