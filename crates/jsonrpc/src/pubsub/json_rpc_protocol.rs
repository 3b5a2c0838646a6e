//! JSON-RPC as a protocol over WebSocket: an API, the metrics of its calls, and the health of its ledger.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics::Collector;
use websocket::ProtocolTypes;

use super::subscription_types::SubscriptionTypes;
use crate::error::RpcError;
use crate::health::Health;
use crate::method_output::MethodOutput;
use crate::metrics::{Metrics, Outcome, WebSocketMetrics};

/// An API's calls and notifications over WebSocket.
pub struct JsonRpcProtocol<A> {
    /// The API.
    pub api: A,
    calls: Arc<WebSocketMetrics>,
    /// Health of the ledger, if the node reports it.
    health: OnceLock<Arc<Health>>,
}

/// The connections and subscriptions of an API.
pub type PubSubServer<A> = websocket::Server<JsonRpcProtocol<A>>;

/// A connection to it.
pub type Session<A> = websocket::Session<JsonRpcProtocol<A>>;

impl<A: SubscriptionTypes> ProtocolTypes for JsonRpcProtocol<A> {
    type Subscription = A::Subscription;
    type Items = A::Items;
    type Block = A::Block;
    type SessionState = ();
}

impl<A> JsonRpcProtocol<A> {
    /// The protocol of an API. `methods` are the names of all calls, each with its execution path.
    pub(super) fn with_methods(api: A, methods: &'static [(&'static str, &'static str)]) -> Self {
        let calls = Arc::new(WebSocketMetrics::new(methods));
        Self { api, calls, health: OnceLock::new() }
    }

    /// Sets the health of the ledger, once.
    pub fn set_health(&self, health: Arc<Health>) {
        self.health.get_or_init(|| health);
    }

    /// Fails with -32005 while the ledger's state is withheld.
    pub fn check_state(&self) -> Result<(), RpcError> {
        self.health.get().map_or(Ok(()), |health| health.check_state())
    }
}

/// Records a call that arrived at `received_at` and its result. `method` is `None` for a message that is not a call.
pub fn record_call<A: SubscriptionTypes>(
    pubsub: &PubSubServer<A>,
    method: Option<&str>,
    received_at: Duration,
    result: Result<&MethodOutput, &RpcError>,
) {
    let duration = pubsub.pool.now().saturating_sub(received_at);
    let outcome = result.map_or_else(|err| Outcome::Refused(err.code), |_| Outcome::Succeeded);
    pubsub.calls.record(method, duration, outcome);
}

/// Adds the metrics of a server's connections, and of its calls, to those of a node.
pub fn add_metrics<A: SubscriptionTypes>(pubsub: &Arc<PubSubServer<A>>, metrics: &Metrics) {
    metrics.add_websocket(Arc::clone(&pubsub.calls));
    metrics.add(Arc::clone(pubsub) as Arc<dyn Collector>);
}
