//! kaspad's gRPC as a part of a node.

use std::net::TcpListener;
use std::sync::Arc;

use anyhow::{Context, Result};
use grpc_kaspa::KaspaGrpcServer;
use grpc_server::{Security, TlsAcceptor};
use jsonrpc::{Metrics, ServerContext};
use rpc_kaspa::KaspaServer;

use crate::node::NodeConfig;
use crate::node::parts::{BoxFuture, Part};
use crate::tls_setup::GrpcTls;

/// Times that the calls of a connection have at the end of the node: the drain, within these bounds. The second one is
/// the time limit of a common call at the upstream.
const SHUTDOWN_MS_MIN: u64 = 1_000;
const SHUTDOWN_MS_MAX: u64 = 10_000;

/// Threads that translate replies of the upstream, in up to seconds each. A client may have two slow calls at once, so one
/// thread would let all others wait behind them.
const REQUEST_THREADS: usize = 2;

/// Bytes that a short request counts as. A client may send 8,192 of them a second on all its streams, so that hundreds of
/// streams of one client do not delay the others. They share one thread, which takes some microseconds for each.
const REQUEST_COST_BYTES_MIN: usize = 1 << 10;

/// The server of kaspad's gRPC.
pub(super) struct GrpcPart(KaspaGrpcServer);

impl GrpcPart {
    /// Serves the sessions of `wrpc` on a bound listener.
    pub(super) fn start(
        config: &NodeConfig,
        listener: TcpListener,
        wrpc: &Arc<KaspaServer>,
        context: &ServerContext,
    ) -> Result<Self> {
        let mut settings = config.grpc.transport();
        // wRPC accepts messages of this length as well.
        let message_bytes_max = wrpc.config().addresses_message_bytes_max;
        settings.request_bytes_max = settings.request_bytes_max.max(message_bytes_max);
        // A forwarded call may have an effect, which its client must know.
        let drain_ms = u64::try_from(config.serving.drain.as_millis()).unwrap_or(u64::MAX);
        settings.shutdown_timeout_ms = drain_ms.clamp(SHUTDOWN_MS_MIN, SHUTDOWN_MS_MAX);
        settings.request_threads = REQUEST_THREADS;
        settings.request_cost_bytes_min = REQUEST_COST_BYTES_MIN;
        let authenticator = context.http.authenticator.clone();
        let security = Security { authenticator, tls: find_tls(config) };
        let server = KaspaGrpcServer::start(settings, Arc::clone(wrpc), listener, security);
        Ok(Self(server.context("serve gRPC")?))
    }
}

/// Returns the encryption of connections; `None` without TLS.
pub(super) fn find_tls(config: &NodeConfig) -> Option<Arc<dyn TlsAcceptor>> {
    let files = config.serving.tls.as_ref();
    files.map(|files| Arc::new(GrpcTls(Arc::clone(files.tls()))) as Arc<dyn TlsAcceptor>)
}

impl Part for GrpcPart {
    fn add_metrics(&self, metrics: &Metrics) {
        metrics.add(Arc::new(self.0.metrics()));
    }

    fn announce_end(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.announce_end())
    }

    fn stop(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            let stopped = tokio::task::spawn_blocking(move || self.0.shut_down()).await;
            stopped.context("stop gRPC")
        })
    }
}
