//! The connections of a protocol: what they share, and their subscriptions.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api_keys::KeyNumber;
use clients::{ClientId, RateLimiter};
use cpu_pool::Pool;
use foldhash::HashSet;
use subscriptions::{CloseReason, OwnerId, Subscriptions};
use tokio::sync::Semaphore;

use crate::config::Config;
use crate::counters::SessionCounters;
use crate::incoming_budget::IncomingBudget;
use crate::payload::Payload;
use crate::protocol_types::ProtocolTypes;

/// A protocol's subscriptions, and what all its connections share. It dereferences to the protocol.
pub struct Server<P: ProtocolTypes> {
    protocol: P,
    /// The subscriptions and queues of all connections. The protocol publishes here.
    pub subscriptions: Subscriptions<P::Subscription, Payload<P::Items>, P::Block>,
    /// Runs tasks, and long encoding.
    pub pool: Arc<Pool>,
    pub(crate) clients: Arc<RateLimiter>,
    pub(crate) config: Config,
    pub(crate) counters: SessionCounters,
    /// Permits to run tasks of sessions.
    pub(crate) task_permits: Semaphore,
    /// Memory of incomplete messages from clients.
    pub(crate) incoming: Arc<IncomingBudget>,
    /// Bytes that sockets have not accepted yet.
    pub(crate) unwritten: Arc<AtomicUsize>,
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

impl<P: ProtocolTypes> Server<P> {
    /// Creates a server without connections. Tasks run on the pool. Calls and sent bytes are charged to the rate limits
    /// of their client.
    pub fn new(protocol: P, config: Config, pool: Arc<Pool>, clients: Arc<RateLimiter>) -> Self {
        Self {
            protocol,
            subscriptions: Subscriptions::new(config.limits),
            pool,
            clients,
            counters: SessionCounters::new(),
            task_permits: Semaphore::new(config.set_tasks_max.max(1)),
            incoming: Arc::new(IncomingBudget::new(config.incoming_bytes_max)),
            unwritten: Arc::<AtomicUsize>::default(),
            config,
        }
    }

    /// Returns the limits.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the current counts.
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
}

impl<P: ProtocolTypes> Deref for Server<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.protocol
    }
}
