//! Serves an API: JSON-RPC, WebSocket, REST, health and metrics.

use std::sync::Arc;
use std::time::Duration;

use http_server::{Listeners, WebSocketHandler, serve_http};
use tokio::time::MissedTickBehavior;

use crate::api::{Api, Server};
use crate::rpc_service::{HttpApi, RpcService};

/// Interval between two checks of the ledger's progress.
const HEALTH_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Serves until `shutdown` is ready or the drain of the server has started ([`http_server::Drain`]), then drains: for
/// two seconds at most if `shutdown` started it. `http_api` gets the requests for its own paths.
///
/// Never fails: a connection that fails ends alone, and accepting continues. Runs on the threads of the
/// caller's tokio runtime; heavy methods run on the server's pool.
pub async fn serve<A: Api>(
    server: Arc<Server<A>>,
    websocket_handler: Arc<dyn WebSocketHandler>,
    http_api: Option<Arc<dyn HttpApi<A>>>,
    listeners: Listeners,
    shutdown: impl Future<Output = ()>,
) {
    let context = Arc::clone(&server.context.http);
    let service = Arc::new(RpcService { server: Arc::clone(&server), http_api });
    tokio::select! {
        () = serve_http(context, service, websocket_handler, listeners, shutdown) => {}
        () = poll_health(&server) => {}
        () = server.context.slot_waits.run(&server.api) => {}
    }
}

/// Checks the progress of the ledger until the task is aborted.
async fn poll_health<A: Api>(server: &Server<A>) {
    let mut every = tokio::time::interval(HEALTH_POLL_INTERVAL);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        server.context.poll_health(&server.api);
    }
}
