//! The subscriptions of a node, and the state that all its connections share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api_keys::KeyNumber;
use clients::{ClientId, RateLimiter};
use cpu_pool::Pool;
use foldhash::HashSet;
use subscriptions::{CloseReason, OwnerId, Subscriptions};
use tokio::sync::Semaphore;

use super::config::Config;
use super::incoming_budget::IncomingBudget;
use super::metrics::PubSubMetrics;
use super::payload::Payload;
use super::subscription_types::SubscriptionTypes;
use crate::error::RpcError;
use crate::health::Health;
use crate::method_output::MethodOutput;

/// An API's subscriptions, and what all connections share.
pub struct PubSubServer<A: SubscriptionTypes> {
    /// The API.
    pub api: A,
    /// The subscriptions and queues of all connections. The API publishes here.
    pub subscriptions: Subscriptions<A::Subscription, Payload<A::Items>, A::Block>,
    /// Runs tasks, and long encoding.
    pub pool: Arc<Pool>,
    pub(super) clients: Arc<RateLimiter>,
    pub(super) config: Config,
    pub(super) metrics: PubSubMetrics,
    /// Permits to run tasks of sessions.
    pub(super) task_permits: Semaphore,
    /// Memory of incomplete messages from clients.
    pub(super) incoming: Arc<IncomingBudget>,
    /// Bytes that sockets have not accepted yet.
    pub(super) unwritten: Arc<AtomicUsize>,
    /// Health of the ledger, if the node reports it.
    pub(super) health: OnceLock<Arc<Health>>,
}

/// The current counts, for a status line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// WebSocket connections.
    pub connections: usize,
    /// Subscriptions; a shared one counts for each connection.
    pub subscriptions: usize,
    /// Distinct subscriptions: a notification is encoded once for each of them.
    pub distinct_subscriptions: usize,
    /// Distinct addresses in all sets.
    pub tracked_addresses: usize,
    /// Pairs of a distinct subscription and an address in its sets.
    pub tracked_pairs: usize,
    /// Notifications in the queues of clients.
    pub queue_messages: usize,
    /// Bytes of those notifications; a shared one counts in each queue.
    pub queue_bytes: usize,
    /// Bytes of notifications in memory and of queue entries; a shared notification counts once.
    pub notification_bytes: usize,
    /// Bytes of the buffers of incomplete messages from clients.
    pub incoming_bytes: usize,
    /// Bytes that are being written to clients and that their sockets have not accepted.
    pub unwritten_bytes: usize,
    /// Bytes of the blocks that are retained for clients that resume.
    pub resume_bytes: usize,
}

impl<A: SubscriptionTypes> PubSubServer<A> {
    /// The current counts.
    pub fn stats(&self) -> Stats {
        let stats = self.subscriptions.stats();
        Stats {
            connections: stats.listeners,
            subscriptions: stats.subscriptions,
            distinct_subscriptions: stats.distinct,
            tracked_addresses: stats.tracked_addresses,
            tracked_pairs: stats.tracked_pairs,
            queue_messages: stats.queue_messages,
            queue_bytes: stats.queue_bytes,
            notification_bytes: stats.queue_memory,
            incoming_bytes: self.incoming.bytes(),
            unwritten_bytes: self.unwritten.load(Ordering::Relaxed),
            resume_bytes: stats.retained_bytes,
        }
    }

    /// Sets the health of the ledger, once.
    pub fn set_health(&self, health: Arc<Health>) {
        self.health.get_or_init(|| health);
    }

    /// Fails with -32005 while the ledger's state is withheld.
    pub fn check_state(&self) -> Result<(), RpcError> {
        self.health.get().map_or(Ok(()), |health| health.check_state())
    }

    /// Closes every connection (1001). New ones are served until the server stops accepting them.
    pub fn shut_down(&self) {
        self.subscriptions.close_all(CloseReason::ShutDown);
    }

    /// Closes the connections of API keys that were removed (1008).
    pub fn close_keys(&self, removed: &[KeyNumber]) {
        let removed: HashSet<OwnerId> =
            removed.iter().map(|number| OwnerId(ClientId::from_key(*number).0)).collect();
        if !removed.is_empty() {
            let is_removed = |owner| removed.contains(&owner);
            self.subscriptions.close_owners(is_removed, CloseReason::Revoked);
        }
    }

    /// Records a call that arrived at `received_at` and its result. `method` is `None` for a message that is not a call.
    pub fn record_call(
        &self,
        method: Option<&str>,
        received_at: Duration,
        result: Result<&MethodOutput, &RpcError>,
    ) {
        let duration = self.pool.now().saturating_sub(received_at);
        self.metrics.record_call(method, duration, result);
    }
}
