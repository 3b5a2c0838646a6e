//! A protocol of binary messages, as wallets of other ledgers have it: a marker, an id, an operation, a payload. A text
//! message is an echo.
//!
//! Bounds: [`STORE`] and the uploads may be long, which is known from the operation's byte.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use cpu_pool::Class;
use subscriptions::{
    AfterDelivery, ExactKey, Filter, Interest, Position, Publication, SubscriptionId, Topic,
};
use tokio::sync::Semaphore;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use websocket::{
    ConflatableItems, IncomingMessage, IncomingPart, MessageBound, MessageKind, OutgoingMessage,
    Payload, Protocol, ProtocolTypes, Reply, Server, Session, SessionOutput, SessionTask,
    SharedBytes, SplitPayload,
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
/// Replies with the length of the payload, which is streamed if it is long, and with the sum of its bytes.
pub(crate) const UPLOAD: u8 = 7;
/// Streamed as well. Replies at the first part, and needs no other.
pub(crate) const REFUSE_UPLOAD: u8 = 8;
/// Streamed, but nothing takes it.
pub(crate) const IGNORE_UPLOAD: u8 = 9;
/// Replies with the payload when the test lets it ([`BlobProtocol::forwarded`]).
pub(crate) const FORWARD: u8 = 10;
/// As [`FORWARD`], but from the pool.
pub(crate) const WAIT: u8 = 11;
/// As [`WAIT`]. The subscription whose `u64` id is the payload is paused meanwhile.
pub(crate) const PAUSE: u8 = 12;
/// As [`WAIT`], but without a pause between its steps: it has a permit of the tasks meanwhile.
pub(crate) const SPIN: u8 = 13;
/// Closes the connection.
pub(crate) const QUIT: u8 = 0x20;
/// Closes the connection with the payload, a text, as the reason.
pub(crate) const QUIT_WITH: u8 = 0x28;
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

/// Streamed. Needs more parts than there are.
pub(crate) const GREEDY: u8 = 0x27;

/// First byte of each request and each reply.
const MARKER: u8 = 1;
/// Bytes before the payload of a message.
pub(crate) const HEAD_BYTES: usize = 10;

const BLOBS: Topic = Topic(0);

/// The protocol, and what its tasks did.
pub(crate) struct BlobProtocol {
    /// Parts of lists that have been made.
    pub(crate) list_parts: AtomicUsize,
    /// Permits for replies of another server, and for those of tasks that wait.
    pub(crate) forwarded: Arc<Semaphore>,
    /// Calls that have been forwarded, or whose tasks wait.
    pub(crate) forwarded_calls: AtomicUsize,
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
    /// An echo that waits for a permit.
    Wait(Vec<u8>),
    /// An echo that waits for a permit without an output.
    Spin(Vec<u8>),
    /// A list whose parts of `bytes` bytes are made one by one.
    List {
        next: u32,
        parts: u32,
        bytes: usize,
    },
    /// A request that comes in parts: the sum so far, and the next part.
    Upload {
        len: u64,
        sum: u64,
        part: Option<IncomingPart>,
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
    /// Publishes to all clients that subscribed to these bytes. With `is_split`, each client gets its numbers, too.
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
        match prefix.get(HEAD_BYTES - 1).filter(|_| kind == MessageKind::Binary) {
            Some(&STORE) => MessageBound::Long,
            Some(&(UPLOAD | REFUSE_UPLOAD | IGNORE_UPLOAD | GREEDY)) => MessageBound::Streamed,
            _ => MessageBound::Short,
        }
    }

    fn stream_task(
        server: &Arc<BlobServer>,
        _: &Arc<Session<Self>>,
        _: MessageKind,
    ) -> Option<BlobTask> {
        let step = BlobStep::Upload { len: 0, sum: 0, part: None };
        Some(BlobTask { server: Arc::clone(server), head: Vec::new(), step })
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
            QUIT_WITH => {
                let reason = String::from_utf8_lossy(payload).into_owned();
                Reply::Close(CloseCode::Library(4002), reason)
            }
            PANIC => panic!("on purpose"),
            LIST => {
                let number = |at: usize| {
                    u32::from_le_bytes(payload[at..at + 4].try_into().expect("four bytes"))
                };
                task(BlobStep::List { next: 0, parts: number(0), bytes: number(4) as usize })
            }
            FORWARD => {
                server.forwarded_calls.fetch_add(1, Ordering::SeqCst);
                let forwarded = Arc::clone(&server.forwarded);
                let reply = bytes.to_vec();
                Reply::Future(Box::pin(async move {
                    forwarded.acquire().await.expect("it is never closed").forget();
                    Reply::Message(reply.into())
                }))
            }
            operation @ (WAIT | PAUSE) => {
                if operation == PAUSE {
                    let id = u64::from_le_bytes(payload.try_into().expect("an id"));
                    session.pause_delivery(Some(SubscriptionId(id)));
                }
                server.forwarded_calls.fetch_add(1, Ordering::SeqCst);
                task(BlobStep::Wait(payload.to_vec()))
            }
            SPIN => {
                server.forwarded_calls.fetch_add(1, Ordering::SeqCst);
                task(BlobStep::Spin(payload.to_vec()))
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

    fn needs_part(&self) -> bool {
        matches!(self.step, BlobStep::Upload { part: None, .. })
    }

    fn push_part(&mut self, next: IncomingPart) {
        if let BlobStep::Upload { part, .. } = &mut self.step {
            *part = Some(next);
        }
    }

    fn step(self) -> (Vec<SessionOutput<NoItems>>, Option<Self>) {
        let Self { server, head, step } = self;
        let part = |bytes: &[u8]| SessionOutput::Part(bytes.to_vec().into());
        match step {
            BlobStep::Echo(payload) => {
                (vec![SessionOutput::Message([head, payload].concat().into())], None)
            }
            BlobStep::Wait(payload) => {
                let permit = server.forwarded.try_acquire();
                let is_permitted = permit.map(|permit| permit.forget()).is_ok();
                let step = match is_permitted {
                    true => BlobStep::Echo(payload),
                    false => BlobStep::Wait(payload),
                };
                (vec![SessionOutput::Backoff], Some(Self { server, head, step }))
            }
            BlobStep::Spin(payload) => {
                let permit = server.forwarded.try_acquire();
                let is_permitted = permit.map(|permit| permit.forget()).is_ok();
                let step = match is_permitted {
                    true => BlobStep::Echo(payload),
                    false => BlobStep::Spin(payload),
                };
                (Vec::new(), Some(Self { server, head, step }))
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
            BlobStep::Upload { len, sum, part } => {
                let part = part.expect("the step has a part");
                let mut bytes = &part.bytes[..];
                let mut head = head;
                if head.is_empty() {
                    let (first, payload) = bytes.split_at(HEAD_BYTES);
                    (head, bytes) = (first.to_vec(), payload);
                }
                let operation = head[HEAD_BYTES - 1];
                let len = len + bytes.len() as u64;
                let sum = sum + bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
                match operation {
                    IGNORE_UPLOAD => return (Vec::new(), None),
                    _ if part.is_last && operation != GREEDY => {}
                    REFUSE_UPLOAD => {}
                    _ => {
                        let step = BlobStep::Upload { len, sum, part: None };
                        return (Vec::new(), Some(Self { server, head, step }));
                    }
                }
                let reply = [&head[..], &len.to_le_bytes(), &sum.to_le_bytes()].concat();
                (vec![SessionOutput::Message(reply.into())], None)
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
