//! WebSocket subscriptions, and the clients of REST that wait for a transaction.

use std::sync::Arc;

use anyhow::{Context, Result};
use chain_solana::{ClusterInfo, EventSink, Reader};
use jsonrpc::Metrics;
use metrics::Collector;
use rest::Rest;
use rest_solana::SolanaRest;
use rpc_solana::SolanaServer;
use rpc_solana::pubsub::SolanaPubSub;

use crate::node::NodeConfig;
use crate::node::parts::{BoxFuture, Part};

/// The subscriptions of a node.
pub(crate) struct PubSubPart(pub(crate) Arc<SolanaPubSub>);

impl PubSubPart {
    /// Starts the subscriptions of a server to the ledger of `reader`. The ledger's events go to the sink.
    pub(crate) fn start(
        config: &NodeConfig,
        server: &SolanaServer,
        info: &Arc<ClusterInfo>,
        reader: &Reader,
    ) -> Result<(Self, impl EventSink + use<>)> {
        let (pubsub, sink) = rpc_solana::pubsub::start(
            config.pubsub.clone(),
            Arc::clone(info),
            reader.clone(),
            Arc::clone(&server.api.history),
            (Arc::clone(&server.context.pool), Arc::clone(&server.context.clients)),
        )
        .context("start PubSub")?;
        pubsub.set_health(Arc::clone(&server.context.health));
        Ok((Self(pubsub), sink))
    }
}

impl Part for PubSubPart {
    fn add_metrics(&self, metrics: &Metrics) {
        jsonrpc::pubsub::add_metrics(&self.0, metrics);
    }

    fn stop(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        self.0.shut_down();
        Box::pin(std::future::ready(Ok(())))
    }
}

/// REST, whose requests may wait for a transaction. It ends with HTTP.
pub(crate) struct RestPart(pub(crate) Arc<Rest<SolanaRest>>);

impl RestPart {
    /// Starts the thread that wakes waiting requests. The ledger's events go to the sink.
    pub(crate) fn start(server: &SolanaServer) -> Result<(Self, impl EventSink + use<>)> {
        let cache_bytes_max = server.context.response_cache.bytes_max();
        let rest = Rest::new(SolanaRest::default());
        let rest = Arc::new(rest.with_known_responses(cache_bytes_max));
        let sink = rest.api().start_waker(Arc::clone(&server.api.history));
        Ok((Self(rest), sink.context("start REST")?))
    }
}

impl Part for RestPart {
    fn add_metrics(&self, metrics: &Metrics) {
        metrics.add(Arc::clone(&self.0) as Arc<dyn Collector>);
    }

    fn stop(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
