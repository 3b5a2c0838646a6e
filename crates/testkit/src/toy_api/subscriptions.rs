//! Calls over WebSocket: the ledger's methods, and the subscriptions `heightSubscribe` and `counterSubscribe`.
//!
//! In: new blocks, from the ledger's writer. Out: a notification for each, to the clients that subscribed before it.
//! Shape: a call that subscribes or unsubscribes runs where the socket is polled; all others are tasks of the pool.
//! Bounds: [`pubsub_config`].

use std::sync::Arc;

use cpu_pool::Class;
use jsonrpc::envelope::{self, Call, Id, Request};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::pubsub::{
    JsonRpcProtocol, PubSubServer, Session, SubscriptionApi, SubscriptionTypes, add_metrics,
    subscribe_error, unsubscribe,
};
use jsonrpc::{MethodOutput, MethodResult, Server, handle_blocking};
use ledger::{Address, Commitment};
use subscriptions::{
    AfterDelivery, ExactKey, Filter, Interest, Limits, Match, Position, Publication, Topic,
};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use websocket::{Config, ConflatableItems, Payload, SessionOutput, SessionTask, SharedBytes};

use super::ToyApi;
use super::ledger::NewBlock;

/// The toy ledger over WebSocket.
pub struct ToySubscriptions(Arc<Server<ToyApi>>);

/// The subject of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToySubscription {
    /// The height of each new block.
    Height,
    /// The values of one counter.
    Counter(Address),
}

/// The items of a notification of a set: counters have no sets.
pub enum NoItems {}

/// A message that calls methods of the ledger.
pub struct MethodTask {
    server: Arc<Server<ToyApi>>,
    session: Arc<Session<ToySubscriptions>>,
    text: Utf8Bytes,
}

pub(super) const HEIGHTS: Topic = Topic(0);
pub(super) const VALUES: Topic = Topic(1);

/// Limits like those of a node, for few clients.
pub fn pubsub_config() -> Config {
    Config {
        limits: Limits {
            listeners_max: 100,
            subscriptions_max: 1_000,
            subscriptions_per_listener_max: 100,
            addresses_max: 1_000,
            address_pairs_max: 1_000,
            addresses_per_owner_max: 1_000,
            addresses_per_listener_max: 100,
            retained_steps: 0,
            retained_bytes: 0,
            unrooted_max: 1,
            queue_messages_max: 1_000,
            queue_bytes_max: 1 << 20,
            queues_bytes_max: 16 << 20,
        },
        message_bytes_max: 4_096,
        addresses_message_bytes_max: 4_096,
        message_timeout_ms: 10_000,
        incoming_bytes_max: 1 << 20,
        set_tasks_max: 1,
        write_timeout_ms: 30_000,
        close_timeout_ms: 30_000,
        hold_ms: 0,
        ping_ms: 60_000,
    }
}

impl ToySubscriptions {
    /// The subscriptions of a server's ledger, which has none yet.
    pub fn start(server: &Arc<Server<ToyApi>>, config: Config) -> Arc<PubSubServer<Self>> {
        let pool = Arc::clone(&server.context.pool);
        let clients = Arc::clone(&server.context.clients);
        let protocol = JsonRpcProtocol::new(Self(Arc::clone(server)));
        let pubsub = Arc::new(PubSubServer::new(protocol, config, pool, clients));
        add_metrics(&pubsub, &server.context.metrics);
        let publisher = Arc::downgrade(&pubsub);
        server.api.counters.add_listener(Box::new(move |block| {
            if let Some(pubsub) = publisher.upgrade() {
                publish_block(&pubsub, block);
            }
        }));
        pubsub
    }
}

impl SubscriptionTypes for ToySubscriptions {
    type Subscription = ToySubscription;
    type Items = NoItems;
    type Block = ();
}

impl SubscriptionApi for ToySubscriptions {
    type Task = MethodTask;

    const METHODS: &'static [(&'static str, &'static str)] = &[
        ("counterSubscribe", "inline"),
        ("counterUnsubscribe", "inline"),
        ("heightSubscribe", "inline"),
        ("heightUnsubscribe", "inline"),
    ];

    fn is_unsubscribe(method: &str) -> bool {
        matches!(method, "counterUnsubscribe" | "heightUnsubscribe")
    }

    fn run_call(
        pubsub: &PubSubServer<Self>,
        session: &Session<Self>,
        method: &str,
        params: Params<'_>,
    ) -> MethodResult {
        let subscription = match method {
            "heightSubscribe" => {
                params.none()?;
                ToySubscription::Height
            }
            "counterSubscribe" => {
                let (name,): (String,) = params.parse(1)?;
                ToySubscription::Counter(super::methods::address(&name)?)
            }
            _ if Self::is_unsubscribe(method) => return unsubscribe(session, params),
            _ => return Err(RpcError::method_not_found()),
        };
        let after = pubsub.api.0.api.counters.reader.view(Commitment::Finalized).block().slot;
        let interests = vec![subscription.interest()];
        let id = session.subscribe(subscription, interests, Position(after));
        MethodOutput::json(&id.map_err(|err| subscribe_error(&err))?.0)
    }

    fn needs_task(text: &str, _: usize) -> bool {
        let is_own = |method: &str| Self::METHODS.iter().any(|(name, _)| *name == method);
        !matches!(
            envelope::read(text),
            Ok(Request::Single(Call::Method { method, .. })) if is_own(&method)
        )
    }

    fn text_task(
        pubsub: &Arc<PubSubServer<Self>>,
        session: &Arc<Session<Self>>,
        text: Utf8Bytes,
    ) -> MethodTask {
        MethodTask { server: Arc::clone(&pubsub.api.0), session: Arc::clone(session), text }
    }
}

impl SessionTask for MethodTask {
    type Items = NoItems;

    fn class(&self) -> Class {
        Class::Medium
    }

    fn step(self) -> (Vec<SessionOutput<NoItems>>, Option<Self>) {
        let reply = match self.session.admit(1) {
            Ok(()) => handle_blocking(&self.server, &self.text),
            Err(refused) => Some(envelope::error_response(&refused.into(), &Id::Null, true)),
        };
        let text = reply.and_then(|reply| String::from_utf8(reply).ok());
        (text.into_iter().map(|text| SessionOutput::Message(text.into())).collect(), None)
    }
}

impl ConflatableItems for NoItems {
    type State = ();

    fn conflate(&self, (): &mut ()) -> usize {
        match *self {}
    }

    fn bytes(&self) -> usize {
        match *self {}
    }
}

impl ToySubscription {
    pub(super) fn interest(self) -> Interest {
        match self {
            Self::Height => Interest { topic: HEIGHTS, filter: Filter::All },
            Self::Counter(name) => {
                Interest { topic: VALUES, filter: Filter::Exact(ExactKey::from(name.as_bytes())) }
            }
        }
    }
}

/// Publishes a block to all that subscribed before it.
fn publish_block(pubsub: &PubSubServer<ToySubscriptions>, block: &NewBlock) {
    let matches = pubsub.subscriptions.matches();
    let heights = matches.matching(HEIGHTS, []);
    let values = matches.matching_exact(VALUES, block.counter.as_bytes());
    drop(matches);
    let publication = |to: Match<ToySubscription>, method: &str, result: u64| {
        let id = to.id.0;
        let text = format!(
            r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"result":{result},"subscription":{id}}}}}"#
        );
        let bytes = text.len();
        let body = Payload::Whole(SharedBytes::new(text, pubsub.subscriptions.queue_memory()));
        let at = Position(block.slot);
        let after_delivery = AfterDelivery::Continue;
        Publication { subscription: to.id, body, bytes, at, after_delivery }
    };
    let heights = heights.into_iter().map(|to| publication(to, "heightNotification", block.slot));
    let values = values.into_iter().map(|to| publication(to, "counterNotification", block.value));
    pubsub.subscriptions.deliver(heights.chain(values));
}
