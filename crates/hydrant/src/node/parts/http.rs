//! HTTP: JSON-RPC, REST, WebSocket, archives and the console on the ports of a node.

use std::sync::Arc;

use anyhow::{Context, Result};
use http_server::{Listeners, WebSocketHandler};
use jsonrpc::HttpApi;
use rpc_solana::{SolanaApi, SolanaServer};
use tokio::task::JoinHandle;

use super::{BoxFuture, Part};

/// The server of HTTP. It ends by the drain of the node.
pub(crate) struct HttpPart(JoinHandle<()>);

impl HttpPart {
    /// Starts the task that serves the listeners.
    pub(crate) fn start(
        server: &Arc<SolanaServer>,
        websockets: Arc<dyn WebSocketHandler>,
        http_api: Arc<dyn HttpApi<SolanaApi>>,
        listeners: Listeners,
    ) -> Self {
        let server = Arc::clone(server);
        let never = std::future::pending();
        Self(tokio::spawn(jsonrpc::serve(server, websockets, Some(http_api), listeners, never)))
    }
}

impl Part for HttpPart {
    fn stop(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { self.0.await.context("the servers") })
    }
}
