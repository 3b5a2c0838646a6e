//! Solana's PubSub over WebSocket: nine kinds of subscriptions, as Agave 4.2 serves them.
//!
//! In: events of the ledger ([`EventSender`]), and clients' connections ([`serve_connection`]). Out:
//! notifications, each encoded once for all listeners of a subscription.
//! What Agave does and clients rely on:
//! - an account is sent once for each slot that changed it, never on subscribing; a closed one is sent as an
//!   empty account;
//! - defaults are `finalized` and the encoding `binary`; `dataSlice` distinguishes subscriptions and does
//!   not cut (see [`Config::apply_data_slice`]); `minContextSlot` and `withContext` do nothing;
//! - equal parameters on one connection are one subscription, which one unsubscribe ends;
//! - a program's notifications leave out accounts that were closed or changed their owner (sets of
//!   `addressesSubscribe` get them as `left`).
//!
//! What Agave does not have: `transactionSubscribe` (`transaction_filter`), and subscriptions to sets of up to
//! millions of addresses (`address_sets`), which start at an exact block and change in place.
//!
//! Where we differ: a signature that is already at its commitment is notified at once; finalized
//! notifications come for every block, none is skipped; a slow client is closed with a reason.
//! Bounds: [`Config`]. Not here: matching and queues (`subscriptions`), the upgrade from HTTP (`service`).

mod address_notification;
mod address_sets;
mod address_stream;
mod config;
mod connection;
mod fork_join;
mod incoming_budget;
mod methods;
mod metrics;
mod notification;
mod notifier;
mod payload;
mod reader;
mod session;
mod set_task;
mod shared_text;
mod subscription;
mod transaction_filter;
mod writer;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chain_solana::{Block, ClusterInfo, History, Reader, View};
use http_server::{Socket, WebSocketHandler};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use ledger::Commitment;
use parking_lot::Mutex;
use pool::{ClientId, Pool, RateLimiter};
use solana::Encoding;
use subscriptions::{CloseReason, Subscriptions};
use tokio::sync::Semaphore;

use self::metrics::PubSubMetrics;
use incoming_budget::IncomingBudget;
use notifier::{EventCursor, RecentBlocks};
use payload::Payload;
use subscription::Subscription;

pub use config::Config;
pub use connection::serve_connection;
pub use notifier::EventSender;

/// The subscriptions of a node.
pub struct PubSub {
    config: Config,
    cluster_info: Arc<ClusterInfo>,
    reader: Reader,
    history: Arc<History>,
    subscriptions: Subscriptions<Subscription, Payload, Block>,
    event_cursor: Arc<EventCursor>,
    recent_blocks: Mutex<RecentBlocks>,
    pool: Arc<Pool>,
    clients: Arc<RateLimiter>,
    metrics: PubSubMetrics,
    /// Permits to run set tasks.
    set_permits: Semaphore,
    /// Memory of incomplete messages from clients.
    incoming: Arc<IncomingBudget>,
    /// Bytes that sockets have not accepted yet.
    unwritten: Arc<AtomicUsize>,
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
    /// Addresses in the sets of all distinct subscriptions.
    pub tracked_addresses: usize,
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

/// Parses the parameters of a call. Returns whether its method subscribes.
pub(crate) fn read_call(method: &str, params: Params<'_>) -> Result<bool, RpcError> {
    Ok(methods::parse_subscription(method, params)?.is_some())
}

impl PubSub {
    /// Creates the subscriptions, and the sender of the ledger's events. Starts a thread, which ends when the sender
    /// is dropped. Long encoding and set tasks run on the pool. Calls and sent bytes are charged to the rate limits of
    /// their client.
    ///
    /// Errors: the thread could not be started.
    pub fn start(
        config: Config,
        cluster_info: Arc<ClusterInfo>,
        reader: Reader,
        history: Arc<History>,
        (pool, clients): (Arc<Pool>, Arc<RateLimiter>),
    ) -> io::Result<(Arc<Self>, EventSender)> {
        let subscriptions = Subscriptions::new(config.limits());
        let set_permits = Semaphore::new(config.set_tasks_max.max(1));
        let incoming = Arc::new(IncomingBudget::new(config.incoming_bytes_max));
        let pubsub = Arc::new(Self {
            config,
            cluster_info,
            reader,
            history,
            subscriptions,
            event_cursor: Arc::default(),
            recent_blocks: Mutex::default(),
            pool,
            clients,
            metrics: PubSubMetrics::new(),
            set_permits,
            incoming,
            unwritten: Arc::default(),
        });
        pubsub.subscriptions.start_at(|commitment| pubsub.complete_view(commitment).block());
        let sender = notifier::start(Arc::clone(&pubsub))?;
        Ok((pubsub, sender))
    }

    /// The current counts.
    pub fn stats(&self) -> Stats {
        let stats = self.subscriptions.stats();
        Stats {
            connections: stats.listeners,
            subscriptions: stats.subscriptions,
            distinct_subscriptions: stats.distinct,
            tracked_addresses: stats.tracked_addresses,
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

    /// The view of a commitment's newest complete block: sets are notified by whole blocks.
    fn complete_view(&self, commitment: Commitment) -> View {
        let view = self.reader.view(commitment);
        if view.meta().complete { view } else { self.reader.view(Commitment::Confirmed) }
    }

    /// The encoding that notifications have.
    fn effective_encoding(&self, encoding: Encoding) -> Encoding {
        let slice = encoding.slice.filter(|_| self.config.apply_data_slice);
        Encoding { slice, ..encoding }
    }
}

impl WebSocketHandler for PubSub {
    fn handle(
        self: Arc<Self>,
        socket: Socket,
        client_id: ClientId,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(serve_connection(socket, client_id, self))
    }
}
