//! Solana's PubSub over WebSocket: nine kinds of subscriptions, as Agave 4.2 serves them.
//!
//! In: events of the ledger ([`EventSender`]), and clients' connections ([`serve_connection`]). Out:
//! notifications, each encoded once for all who have the same subscription.
//! What Agave does and clients rely on:
//! - an account is told once for each slot that changed it, never when it is subscribed to; a closed
//!   one as the account that holds nothing;
//! - defaults are `finalized` and the encoding `binary`; `dataSlice` tells subscriptions apart and does
//!   not cut (see [`Config::honour_data_slice`]); `minContextSlot` and `withContext` do nothing;
//! - equal parameters on one connection are one subscription, which one unsubscribe ends;
//! - a program's notifications leave out accounts that were closed or changed their owner (sets of
//!   `addressesSubscribe` are told that they left).
//!
//! Beside them, what Agave does not have: `transactionSubscribe` (`transactions`), and subscriptions to
//! sets of up to millions of addresses (`sets`), which start at an exact block and change in place.
//!
//! Where we differ: a signature that is already at its commitment is told at once; finalized
//! notifications come for every block, none is jumped; a slow client is closed with a reason.
//! Bounds: [`Config`]. Not here: matching and queues (`subs`), the upgrade from HTTP (`http`).

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
use ledger::Commitment;
use parking_lot::Mutex;
use pool::{ClientId, Pool, RateLimiter};
use solana::Encoding;
use subscriptions::{CloseReason, Subscriptions};
use tokio::sync::Semaphore;

use incoming_budget::IncomingBudget;
use metrics::PubSubMetrics;
use notifier::{EventCursor, RecentBlocks};
use payload::Payload;
use subscription::Subscription;

use crate::error::RpcError;
use crate::params::Params;
use crate::{Socket, WebSocketHandler};

pub use config::Config;
pub use connection::serve_connection;
pub use notifier::EventSender;

/// The subscriptions of a node.
pub struct PubSub {
    config: Config,
    cluster: Arc<ClusterInfo>,
    reader: Reader,
    history: Arc<History>,
    subscriptions: Subscriptions<Subscription, Payload, Block>,
    event_cursor: Arc<EventCursor>,
    recent_blocks: Mutex<RecentBlocks>,
    pool: Arc<Pool>,
    clients: Arc<RateLimiter>,
    metrics: PubSubMetrics,
    /// Who may work on sets.
    set_permits: Semaphore,
    /// What clients have begun to send.
    incoming: Arc<IncomingBudget>,
    /// Bytes that sockets have not taken yet.
    unwritten: Arc<AtomicUsize>,
}

/// How much there is now, for a status line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// WebSocket connections.
    pub connections: usize,
    /// Subscriptions, each connection's counted.
    pub subscriptions: usize,
    /// Subscriptions that differ: for each of them a notification is encoded once.
    pub distinct_subscriptions: usize,
    /// Addresses of all sets, each different subscription's counted.
    pub tracked_addresses: usize,
    /// Notifications that wait for clients to read.
    pub queue_messages: usize,
    /// Their bytes; those of one that several wait for are counted for each.
    pub queue_bytes: usize,
    /// Bytes of notifications in memory and of queue entries; a shared notification counts once.
    pub notification_bytes: usize,
    /// Bytes of the buffers of messages that clients have begun to send.
    pub incoming_bytes: usize,
    /// Bytes that are being written to clients and that their sockets have not taken.
    pub unwritten_bytes: usize,
    /// Bytes of the blocks that are kept for those who resume.
    pub resume_bytes: usize,
}

/// Reads the parameters of a call; whether it is one that subscribes.
pub(crate) fn read_call(method: &str, params: Params<'_>) -> Result<bool, RpcError> {
    Ok(methods::parse_subscription(method, params)?.is_some())
}

impl PubSub {
    /// The subscriptions, and where the ledger puts its events. Starts a thread, which ends when the
    /// sink is dropped. What is long to encode, and work on sets, goes to the pool; what clients
    /// say and are told is counted among what each has had.
    ///
    /// Errors: the thread could not be started.
    pub fn start(
        config: Config,
        cluster: Arc<ClusterInfo>,
        reader: Reader,
        history: Arc<History>,
        (pool, clients): (Arc<Pool>, Arc<RateLimiter>),
    ) -> io::Result<(Arc<Self>, EventSender)> {
        let subs = Subscriptions::new(config.limits());
        let set_permits = Semaphore::new(config.sets_at_once.max(1));
        let incoming = Arc::new(IncomingBudget::new(config.incoming_bytes_max));
        let (stream, recent) = (Arc::default(), Mutex::default());
        let pubsub = Arc::new(Self {
            config,
            cluster,
            reader,
            history,
            subscriptions: subs,
            event_cursor: stream,
            recent_blocks: recent,
            pool,
            clients,
            metrics: PubSubMetrics::new(),
            set_permits,
            incoming,
            unwritten: Arc::default(),
        });
        pubsub.subscriptions.start_at(|commitment| pubsub.complete_view(commitment).block());
        let sink = notifier::start(Arc::clone(&pubsub))?;
        Ok((pubsub, sink))
    }

    /// How much there is now.
    pub fn stats(&self) -> Stats {
        let counts = self.subscriptions.stats();
        Stats {
            connections: counts.listeners,
            subscriptions: counts.subscriptions,
            distinct_subscriptions: counts.distinct,
            tracked_addresses: counts.tracked_addresses,
            queue_messages: counts.queue_messages,
            queue_bytes: counts.queue_bytes,
            notification_bytes: counts.queue_memory,
            incoming_bytes: self.incoming.bytes(),
            unwritten_bytes: self.unwritten.load(Ordering::Relaxed),
            resume_bytes: counts.retained_bytes,
        }
    }

    /// Closes every connection (1001). New ones are served until the server stops taking them.
    pub fn shut_down(&self) {
        self.subscriptions.close_all(CloseReason::ShutDown);
    }

    /// The newest complete block of a commitment: what sets are told of is told by whole blocks.
    fn complete_view(&self, commitment: Commitment) -> View {
        let view = self.reader.view(commitment);
        if view.meta().complete { view } else { self.reader.view(Commitment::Confirmed) }
    }

    /// The encoding that notifications really have.
    fn effective_encoding(&self, encoding: Encoding) -> Encoding {
        let slice = encoding.slice.filter(|_| self.config.honour_data_slice);
        Encoding { slice, ..encoding }
    }
}

impl WebSocketHandler for PubSub {
    fn handle(
        self: Arc<Self>,
        socket: Socket,
        of: ClientId,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(serve_connection(socket, of, self))
    }
}
