//! The connections of wRPC as a part of a node.

use std::sync::Arc;

use anyhow::Result;
use jsonrpc::Metrics;
use metrics::Collector;
use rpc_kaspa::KaspaServer;

use crate::node::parts::{BoxFuture, Part};

/// The connections of wRPC. Their ports end by the drain of the node.
pub(super) struct WrpcPart(pub(super) Arc<KaspaServer>);

impl Part for WrpcPart {
    fn add_metrics(&self, metrics: &Metrics) {
        metrics.add(Arc::clone(&self.0) as Arc<dyn Collector>);
        metrics.add(Arc::clone(&self.0.requests) as Arc<dyn Collector>);
    }

    fn stop(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        self.0.shut_down();
        Box::pin(std::future::ready(Ok(())))
    }
}
