//! A protocol of binary messages, as wallets of other ledgers have it: a marker, an id, an operation, a payload. A text
//! message is an echo.
//!
//! Bounds: only [`STORE`] may be long, which is known from the operation's byte.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use cpu_pool::Class;
use subscriptions::{
    AfterDelivery, ExactKey, Filter, Interest, Position, Publication, SubscriptionId, Topic,
};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use websocket::{
    ConflatableItems, IncomingMessage, MessageBound, MessageKind, OutgoingMessage, Payload,
    Protocol, ProtocolTypes, Reply, Server, Session, SessionOutput, SessionTask, SharedBytes,
    SplitPayload,
};

/// Replies with the payload.
pub(crate) const ECHO: u8 = 0;
/// Replies with `u32` parts of `u32` bytes each, streamed.
pub(crate) const LIST: u8 = 1;
/// Subscribes to the publications of the payload's bytes, and replies with the `u64` id.
pub(crate) const SUBSCRIBE: u8 = 2;
/// Replies from the pool with the length of the payload, which may be long.
pub(crate) const STORE: u8 = 3;
/// Replies with the number of this connection's messages before this one.
pub(crate) const COUNT: u8 = 4;
/// Gets no reply.
pub(crate) const IGNORE: u8 = 5;
/// Replies with the payload from the pool.
pub(crate) const ECHO_ON_POOL: u8 = 6;
/// Closes the connection.
pub(crate) const QUIT: u8 = 0x20;
/// Panics where the socket is polled.
pub(crate) const PANIC: u8 = 0x21;
/// Panics on the pool.
pub(crate) const PANIC_ON_POOL: u8 = 0x22;
/// Streams a message without a last part.
pub(crate) const CUT: u8 = 0x23;
/// Writes a message within a streamed one.
pub(crate) const MIX: u8 = 0x24;
/// Streams a message whose parts are of both kinds.
pub(crate) const MIX_KINDS: u8 = 0x25;
/// Streams a part, then closes the connection.
pub(crate) const GIVE_UP: u8 = 0x26;

/// First byte of each request and each reply.
const MARKER: u8 = 1;
/// Bytes before the payload of a message.
pub(crate) const HEAD_BYTES: usize = 10;

const BLOBS: Topic = Topic(0);

/// The protocol, and what its tasks did.
#[derive(Default)]
pub(crate) struct BlobProtocol {
    /// Parts of lists that have been made.
    pub(crate) list_parts: AtomicUsize,
}

/// The server of the protocol.
pub(crate) type BlobServer = Server<BlobProtocol>;

/// State of a connection.
#[derive(Default)]
pub(crate) struct BlobSession {
    messages: AtomicU64,
}

/// Nothing is conflated.
pub(crate) enum NoItems {}

/// A reply that is made on the pool.
pub(crate) struct BlobTask {
    server: Arc<BlobServer>,
    head: Vec<u8>,
    step: BlobStep,
}

enum BlobStep {
    Echo(Vec<u8>),
    /// A list whose parts of `bytes` bytes are made one by one.
    List {
        next: u32,
        parts: u32,
        bytes: usize,
    },
    Fail(u8),
}

/// A request with this id.
pub(crate) fn request(id: u64, operation: u8, payload: &[u8]) -> Vec<u8> {
    [&[MARKER][..], &id.to_le_bytes(), &[operation], payload].concat()
}

/// The request of a list.
pub(crate) fn list_request(id: u64, parts: u32, bytes: u32) -> Vec<u8> {
    request(id, LIST, &[parts.to_le_bytes(), bytes.to_le_bytes()].concat())
}

/// The bytes of a list's part.
pub(crate) fn list_part(number: u32, bytes: usize) -> Vec<u8> {
    vec![(number % 251) as u8; bytes]
}

impl BlobProtocol {
    /// Publishes to all clients that subscribed to these bytes. With `is_split`, each client gets its numbers at the end.
    pub(crate) fn publish(server: &BlobServer, blob: &[u8], is_split: bool) {
        let matches = server.subscriptions.matches().matching_exact(BLOBS, blob);
        let publications = matches.into_iter().map(|to| {
            let bytes = SharedBytes::new(blob.to_vec(), server.subscriptions.queue_memory());
            let body = match is_split {
                true => Payload::Split(SplitPayload { prefix: bytes, items: None }),
                false => Payload::Whole(bytes),
            };
            Publication {
                subscription: to.id,
                bytes: body.bytes(),
                body,
                at: Position(1),
                after_delivery: AfterDelivery::Continue,
            }
        });
        server.subscriptions.deliver(publications);
    }
}

impl ProtocolTypes for BlobProtocol {
    type Subscription = Vec<u8>;
    type Items = NoItems;
    type Block = ();
    type SessionState = BlobSession;
}

impl Protocol for BlobProtocol {
    type Task = BlobTask;

    fn message_bound(kind: MessageKind, prefix: &[u8]) -> MessageBound {
        match kind {
            MessageKind::Binary if prefix.get(HEAD_BYTES - 1) == Some(&STORE) => MessageBound::Long,
            _ => MessageBound::Short,
        }
    }

    fn handle_message(
        server: &Arc<BlobServer>,
        session: &Arc<Session<Self>>,
        message: IncomingMessage,
    ) -> Reply<BlobTask> {
        let before = session.state.messages.fetch_add(1, Ordering::Relaxed);
        let bytes = match message {
            IncomingMessage::Text(text) => {
                return Reply::Message(OutgoingMessage::Text(text.as_str().to_owned()));
            }
            IncomingMessage::Binary(bytes) => bytes,
        };
        let Some((head, payload)) = bytes.split_at_checked(HEAD_BYTES) else {
            return Reply::Close(CloseCode::Unsupported, "no head".to_owned());
        };
        let reply = |payload: &[u8]| Reply::Message([head, payload].concat().into());
        let task =
            |step| Reply::Task(BlobTask { server: Arc::clone(server), head: head.to_vec(), step });
        match head[HEAD_BYTES - 1] {
            ECHO => reply(payload),
            STORE => task(BlobStep::Echo(payload.len().to_le_bytes().to_vec())),
            COUNT => reply(&before.to_le_bytes()),
            IGNORE => Reply::Nothing,
            QUIT => Reply::Close(CloseCode::Library(4001), "goodbye".to_owned()),
            PANIC => panic!("on purpose"),
            LIST => {
                let number = |at: usize| {
                    u32::from_le_bytes(payload[at..at + 4].try_into().expect("four bytes"))
                };
                task(BlobStep::List { next: 0, parts: number(0), bytes: number(4) as usize })
            }
            ECHO_ON_POOL => task(BlobStep::Echo(payload.to_vec())),
            SUBSCRIBE => {
                let filter = Filter::Exact(ExactKey::from(payload));
                let interests = vec![Interest { topic: BLOBS, filter }];
                let id = session.subscribe_on_hold(payload.to_vec(), interests, Position(0));
                reply(&id.map_or(u64::MAX, |id| id.0).to_le_bytes())
            }
            operation => task(BlobStep::Fail(operation)),
        }
    }

    fn notification_suffix(subscription: SubscriptionId, sequence: u64) -> Vec<u8> {
        [subscription.0.to_le_bytes(), sequence.to_le_bytes()].concat()
    }
}

impl SessionTask for BlobTask {
    type Items = NoItems;

    fn class(&self) -> Class {
        Class::Medium
    }

    fn step(self) -> (Vec<SessionOutput<NoItems>>, Option<Self>) {
        let Self { server, head, step } = self;
        let part = |bytes: &[u8]| SessionOutput::Part(bytes.to_vec().into());
        match step {
            BlobStep::Echo(payload) => {
                (vec![SessionOutput::Message([head, payload].concat().into())], None)
            }
            BlobStep::List { next, parts, bytes } => {
                server.list_parts.fetch_add(1, Ordering::SeqCst);
                let part = OutgoingMessage::Binary([head, list_part(next, bytes)].concat());
                let next = next + 1;
                if next >= parts {
                    return (vec![SessionOutput::LastPart(part)], None);
                }
                let step = BlobStep::List { next, parts, bytes };
                (vec![SessionOutput::Part(part)], Some(Self { server, head: Vec::new(), step }))
            }
            BlobStep::Fail(PANIC_ON_POOL) => panic!("on purpose"),
            BlobStep::Fail(CUT) => (vec![part(&head)], None),
            BlobStep::Fail(MIX) => (vec![part(&head), SessionOutput::Message(head.into())], None),
            BlobStep::Fail(MIX_KINDS) => {
                (vec![part(&head), SessionOutput::LastPart("text".to_owned().into())], None)
            }
            BlobStep::Fail(GIVE_UP) => {
                let close = SessionOutput::Close(CloseCode::Again, "too slow".to_owned());
                (vec![part(&head), close], None)
            }
            BlobStep::Fail(operation) => {
                let reason = format!("operation {operation} is unknown");
                (vec![SessionOutput::Close(CloseCode::Unsupported, reason)], None)
            }
        }
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
