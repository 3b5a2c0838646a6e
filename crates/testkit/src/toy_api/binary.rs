//! The toy ledger in binary messages over WebSocket, next to JSON: the proof that `websocket` knows no encoding.
//!
//! In: a client's message, `id u64 | operation u8 | payload`, numbers in little-endian order. Out: `id u64 | kind u8 |
//! payload`, where a kind is [`KIND_OK`], [`KIND_ERROR`] with a text, or [`KIND_NOTIFICATION`], which has no id but 0:
//! `value u64 | subscription u64 | sequence u64`.
//! Shape: calls that write, and lists, are tasks of the pool; a list is streamed in parts. A text closes the
//! connection.
//! Bounds: those of the server's `Config`; a name has from 1 to 36 bytes.

use std::sync::Arc;

use cpu_pool::Class;
use jsonrpc::Server;
use ledger::{Address, Commitment};
use query::View;
use subscriptions::{AfterDelivery, Match, Position, Publication, SubscribeError, SubscriptionId};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use websocket::{
    Config, IncomingMessage, MessageBound, MessageKind, Payload, Protocol, ProtocolTypes, Reply,
    Session, SessionOutput, SessionTask, SharedBytes, SplitPayload,
};

use super::ToyApi;
use super::ledger::{Counter, Counters, NewBlock};
use super::subscriptions::{HEIGHTS, NoItems, ToySubscription, VALUES};

/// Replies with the height: `u64`.
pub const OP_HEIGHT: u8 = 0;
/// Replies with a counter: `commitment u8 | name`, where 0 is finalized and 1 processed, to `is_there u8 | value u64`.
pub const OP_GET: u8 = 1;
/// Adds to a counter: `amount u64 | name`, to its new value.
pub const OP_ADD: u8 = 2;
/// Replies with all counters by name: `count u32`, and for each `len u8 | name | value u64`.
pub const OP_LIST: u8 = 3;
/// Subscribes to the height of each new block; replies with the id: `u64`.
pub const OP_SUBSCRIBE_HEIGHT: u8 = 4;
/// Subscribes to the counter of this name; replies with the id: `u64`.
pub const OP_SUBSCRIBE_COUNTER: u8 = 5;
/// Ends the subscription of this id; replies with `was_there u8`.
pub const OP_UNSUBSCRIBE: u8 = 6;

/// A reply.
pub const KIND_OK: u8 = 0;
/// The text of an error.
pub const KIND_ERROR: u8 = 1;
/// A notification.
pub const KIND_NOTIFICATION: u8 = 2;

/// Bytes before the payload of a message.
pub const HEAD_BYTES: usize = 9;
/// Counters in a part of a list.
const PART_COUNTERS: usize = 100;

/// The server of the binary protocol.
pub type ToyBinaryServer = websocket::Server<ToyBinary>;

/// The toy ledger in binary messages.
pub struct ToyBinary(Arc<Server<ToyApi>>);

/// A message that the pool handles.
pub struct BinaryTask {
    id: u64,
    call: PoolCall,
}

enum PoolCall {
    Add {
        counters: Counters,
        name: Address,
        amount: u64,
    },
    List {
        counters: Counters,
    },
    /// The counters that are not written yet.
    Rest {
        counters: Vec<(Address, u64)>,
    },
}

impl ToyBinary {
    /// The subscriptions of a server's ledger, next to those of [`super::ToySubscriptions`].
    pub fn start(server: &Arc<Server<ToyApi>>, config: Config) -> Arc<ToyBinaryServer> {
        let pool = Arc::clone(&server.context.pool);
        let clients = Arc::clone(&server.context.clients);
        let binary =
            Arc::new(ToyBinaryServer::new(Self(Arc::clone(server)), config, pool, clients));
        let publisher = Arc::downgrade(&binary);
        server.api.counters.add_listener(Box::new(move |block| {
            if let Some(binary) = publisher.upgrade() {
                publish_block(&binary, block);
            }
        }));
        binary
    }

    fn view(&self, commitment: Commitment) -> View<Counter, ()> {
        self.0.api.counters.reader.view(commitment)
    }
}

impl ProtocolTypes for ToyBinary {
    type Subscription = ToySubscription;
    type Items = NoItems;
    type Block = ();
    type SessionState = ();
}

impl Protocol for ToyBinary {
    type Task = BinaryTask;

    fn message_bound(_: MessageKind, _: &[u8]) -> MessageBound {
        MessageBound::Short
    }

    fn handle_message(
        server: &Arc<ToyBinaryServer>,
        session: &Arc<Session<Self>>,
        message: IncomingMessage,
    ) -> Reply<BinaryTask> {
        let unsupported = |reason: &str| Reply::Close(CloseCode::Unsupported, reason.to_owned());
        let IncomingMessage::Binary(bytes) = message else {
            return unsupported("messages are binary");
        };
        let Some((head, payload)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
            return unsupported("a message has a head of 9 bytes");
        };
        let [id @ .., operation] = *head;
        let id = u64::from_le_bytes(id);
        if let Err(refused) = session.admit(1) {
            return Reply::Message(error(id, &refused.to_string()).into());
        }
        match run_operation(server, session, operation, payload) {
            Some(Ok(Outcome::Payload(payload))) => {
                Reply::Message(encode(id, KIND_OK, &payload).into())
            }
            Some(Ok(Outcome::Call(call))) => Reply::Task(BinaryTask { id, call }),
            Some(Err(err)) => Reply::Message(error(id, &err.to_string()).into()),
            None => Reply::Message(error(id, "no such operation, or a wrong payload").into()),
        }
    }

    fn notification_suffix(subscription: SubscriptionId, sequence: u64) -> Vec<u8> {
        [subscription.0.to_le_bytes(), sequence.to_le_bytes()].concat()
    }
}

/// The result of an operation where the socket is polled: a reply, or a call for the pool.
enum Outcome {
    Payload(Vec<u8>),
    Call(PoolCall),
}

/// `None`: the operation is unknown, or its payload has another shape.
fn run_operation(
    server: &ToyBinaryServer,
    session: &Session<ToyBinary>,
    operation: u8,
    payload: &[u8],
) -> Option<Result<Outcome, SubscribeError>> {
    let subscribe = |subscription: ToySubscription| {
        let after = Position(server.view(Commitment::Finalized).block().slot);
        let id = session.subscribe_on_hold(subscription, vec![subscription.interest()], after);
        id.map(|id| Outcome::Payload(id.0.to_le_bytes().to_vec()))
    };
    let outcome = match operation {
        OP_HEIGHT => {
            let height = server.view(Commitment::Finalized).block().slot;
            Outcome::Payload(height.to_le_bytes().to_vec())
        }
        OP_GET => {
            let (commitment, name) = payload.split_first()?;
            let commitment = match commitment {
                0 => Commitment::Finalized,
                1 => Commitment::Processed,
                _ => return None,
            };
            let counter = server.view(commitment).record(&Address::try_from(name).ok()?);
            let value = counter.as_ref().map_or(0, |counter| counter.0).to_le_bytes();
            Outcome::Payload([&[u8::from(counter.is_some())], &value[..]].concat())
        }
        OP_ADD => {
            let (amount, name) = payload.split_first_chunk()?;
            let counters = server.0.api.counters.clone();
            let name = Address::try_from(name).ok()?;
            Outcome::Call(PoolCall::Add { counters, name, amount: u64::from_le_bytes(*amount) })
        }
        OP_LIST => Outcome::Call(PoolCall::List { counters: server.0.api.counters.clone() }),
        OP_SUBSCRIBE_HEIGHT => return Some(subscribe(ToySubscription::Height)),
        OP_SUBSCRIBE_COUNTER => {
            let name = Address::try_from(payload).ok()?;
            return Some(subscribe(ToySubscription::Counter(name)));
        }
        OP_UNSUBSCRIBE => {
            let id = SubscriptionId(u64::from_le_bytes(payload.try_into().ok()?));
            Outcome::Payload(vec![u8::from(session.unsubscribe(id))])
        }
        _ => return None,
    };
    Some(Ok(outcome))
}

impl SessionTask for BinaryTask {
    type Items = NoItems;

    fn class(&self) -> Class {
        Class::Medium
    }

    fn step(self) -> (Vec<SessionOutput<NoItems>>, Option<Self>) {
        let Self { id, call } = self;
        match call {
            PoolCall::Add { counters, name, amount } => {
                let reply = match counters.add(&name, amount) {
                    Some((value, _)) => encode(id, KIND_OK, &value.to_le_bytes()),
                    None => error(id, "the ledger is full"),
                };
                (vec![SessionOutput::Message(reply.into())], None)
            }
            PoolCall::List { counters } => {
                let view = counters.reader.view(Commitment::Finalized);
                let mut counters: Vec<(Address, u64)> =
                    view.all().map(|(name, counter)| (name, counter.0)).collect();
                counters.sort_unstable_by(|left, right| left.0.as_bytes().cmp(right.0.as_bytes()));
                // A ledger has at most 1,000 counters.
                let head = encode(id, KIND_OK, &(counters.len() as u32).to_le_bytes());
                let rest = Self { id, call: PoolCall::Rest { counters } };
                (vec![SessionOutput::Part(head.into())], Some(rest))
            }
            PoolCall::Rest { mut counters } => {
                let later = counters.split_off(counters.len().min(PART_COUNTERS));
                let part = encode_counters(&counters).into();
                if later.is_empty() {
                    return (vec![SessionOutput::LastPart(part)], None);
                }
                let rest = Self { id, call: PoolCall::Rest { counters: later } };
                (vec![SessionOutput::Part(part)], Some(rest))
            }
        }
    }
}

/// A request of the binary protocol.
pub fn encode_request(id: u64, operation: u8, payload: &[u8]) -> Vec<u8> {
    encode(id, operation, payload)
}

fn encode(id: u64, kind: u8, payload: &[u8]) -> Vec<u8> {
    [&id.to_le_bytes()[..], &[kind], payload].concat()
}

fn error(id: u64, text: &str) -> Vec<u8> {
    encode(id, KIND_ERROR, text.as_bytes())
}

fn encode_counters(counters: &[(Address, u64)]) -> Vec<u8> {
    let encode = |(name, value): &(Address, u64)| {
        let name = name.as_bytes();
        // At most 36 bytes.
        [&[name.len() as u8], name, &value.to_le_bytes()].concat()
    };
    counters.iter().flat_map(encode).collect()
}

/// Publishes a block to all that subscribed before it. All of them share the beginning of the message.
fn publish_block(server: &ToyBinaryServer, block: &NewBlock) {
    let matches = server.subscriptions.matches();
    let heights = matches.matching(HEIGHTS, []);
    let values = matches.matching_exact(VALUES, block.counter.as_bytes());
    drop(matches);
    let publication = |to: Match<ToySubscription>, value: u64| {
        let prefix = encode(0, KIND_NOTIFICATION, &value.to_le_bytes());
        let prefix = SharedBytes::new(prefix, server.subscriptions.queue_memory());
        let body = Payload::Split(SplitPayload { prefix, items: None });
        let bytes = body.bytes();
        let at = Position(block.slot);
        let after_delivery = AfterDelivery::Continue;
        Publication { subscription: to.id, body, bytes, at, after_delivery }
    };
    let heights = heights.into_iter().map(|to| publication(to, block.slot));
    let values = values.into_iter().map(|to| publication(to, block.value));
    server.subscriptions.deliver(heights.chain(values));
}
