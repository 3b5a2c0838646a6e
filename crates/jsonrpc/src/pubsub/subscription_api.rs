//! A ledger's subscriptions on the serving layer: the names of its calls, and what runs them.
//!
//! Shape: a call runs at once, where the socket is polled, and must take microseconds. What takes longer is a
//! [`SessionTask`] on the CPU pool: a long message, a binary message, conflated notifications, or a call of a method
//! that is not cheap.
//! Not here: publishing, which the API does through [`PubSubServer::subscriptions`].

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use clients::RateLimiter;
use cpu_pool::Pool;
use subscriptions::{Conflated, SubscriptionId, Subscriptions};
use tokio::sync::Semaphore;
use tokio_tungstenite::tungstenite::{Bytes, Utf8Bytes};

use super::config::Config;
use super::incoming_budget::IncomingBudget;
use super::metrics::PubSubMetrics;
use super::payload::ConflatableItems;
use super::pubsub_server::PubSubServer;
use super::session::Session;
use super::session_task::SessionTask;
use super::subscription_types::SubscriptionTypes;
use crate::method_output::MethodResult;
use crate::params::Params;

/// The calls of an API over WebSocket.
pub trait SubscriptionApi: SubscriptionTypes {
    /// The work of a message that does not run where the socket is polled.
    type Task: SessionTask<Items = Self::Items>;

    /// The names of all calls, each with the execution path that metrics show for it.
    const METHODS: &'static [(&'static str, &'static str)];

    /// The methods whose messages may be long. A text must name one of them within its first
    /// `Config::message_bytes_max` bytes.
    const LONG_METHODS: &'static [&'static str] = &[];

    /// The first byte of a binary message in a format of the API's own, which may be long too. Any other binary message
    /// is read as text.
    const BINARY_MARKER: Option<u8> = None;

    /// Whether a method ends subscriptions. No rate limit refuses it.
    fn is_unsubscribe(method: &str) -> bool;

    /// Runs a call. Cost: microseconds.
    fn run_call(
        pubsub: &PubSubServer<Self>,
        session: &Session<Self>,
        method: &str,
        params: Params<'_>,
    ) -> MethodResult;

    /// Notifies of matching events that came before the subscription. Runs `Config::hold_ms` after the reply, if the
    /// subscription was made on hold. Cost: microseconds.
    fn catch_up(_: &PubSubServer<Self>, _: &Session<Self>, _: SubscriptionId) {}

    /// Whether a text is for [`Self::text_task`]. True for each that is longer than `message_bytes_max`.
    fn needs_task(text: &str, message_bytes_max: usize) -> bool;

    /// The task of a text message. It charges the client's rate limit itself ([`Session::admit`]).
    fn text_task(
        pubsub: &Arc<PubSubServer<Self>>,
        session: &Arc<Session<Self>>,
        text: Utf8Bytes,
    ) -> Self::Task;

    /// The task of a binary message that begins with [`Self::BINARY_MARKER`]. `None`: the message is ignored.
    fn binary_task(
        _pubsub: &Arc<PubSubServer<Self>>,
        _session: &Arc<Session<Self>>,
        _message: Bytes,
    ) -> Option<Self::Task> {
        None
    }

    /// Returns the task that sends the conflated notifications of a slow client. `None` if there is nothing to send.
    fn conflated_task(
        _pubsub: &Arc<PubSubServer<Self>>,
        _session: &Arc<Session<Self>>,
        _conflated: Conflated<<Self::Items as ConflatableItems>::State>,
    ) -> Option<Self::Task> {
        None
    }
}

impl<A: SubscriptionApi> PubSubServer<A> {
    /// A server without connections. Tasks run on the pool. Calls and sent bytes are charged to the rate limits of their
    /// client.
    pub fn new(api: A, config: Config, (pool, clients): (Arc<Pool>, Arc<RateLimiter>)) -> Self {
        Self {
            api,
            subscriptions: Subscriptions::new(config.limits),
            pool,
            clients,
            metrics: PubSubMetrics::new(A::METHODS),
            task_permits: Semaphore::new(config.set_tasks_max.max(1)),
            incoming: Arc::new(IncomingBudget::new(config.incoming_bytes_max)),
            unwritten: Arc::<AtomicUsize>::default(),
            health: OnceLock::new(),
            config,
        }
    }
}
