//! From a message to its reply: made at once, by a task of the pool, or by the upstream.
//!
//! Shape: a short message is read where the socket is polled. A longer one is read on a thread for blocking work, since
//! checking it takes some milliseconds for a megabyte.
//! Rules of kaspad: a message without a known operation closes the connection; one without an id gets no reply; an
//! operation that is not a method, or parameters of another shape, are an error without the operation.

use std::pin::Pin;
use std::sync::Arc;

use clients::ClientId;
use http_server::{Socket, WebSocketHandler};
use kaspa::{
    Encoding, Method, OPERATION_OFFSET, Operation, OwnMethod, ServerError, find_protobuf_operation,
};
use subscriptions::SubscriptionId;
use tokio::task::spawn_blocking;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use websocket::{
    CallRefused, IncomingMessage, MessageBound, MessageKind, Protocol, Reply, serve_session,
};

use crate::address_changes::encode_end;
use crate::call::Call;
use crate::forwarding::forward_request;
use crate::kaspa_rpc::{KaspaRpc, KaspaServer, KaspaSession};
use crate::message_format::MessageFormat;
use crate::messages::{encode_failure, encode_rejection, to_message};
use crate::methods::run_inline;
use crate::request::{Malformed, Request, may_be_long};
use crate::request_metrics::RefusalCause;
use crate::safe_mode::apply_safe_mode;
use crate::session_state::SessionState;
use crate::task::KaspaTask;

/// A port: the connections of one encoding.
pub struct KaspaPort {
    server: Arc<KaspaServer>,
    encoding: Encoding,
}

/// A message that was read.
struct Incoming {
    request: Request,
    /// The error of a request that is answered without running it.
    error: Option<RequestError>,
}

impl Incoming {
    /// Finds the addresses of a long message on the thread that reads it.
    fn with_json_addresses(self) -> Self {
        Self { request: self.request.with_json_addresses(), ..self }
    }
}

/// Why a request is not run.
enum RequestError {
    /// There is no such method, or the parameters have another shape.
    Rejected(ServerError),
    /// The method does not do that for this client.
    Failed(ServerError),
}

impl KaspaPort {
    /// Creates the handler of a port's connections.
    pub fn new(server: Arc<KaspaServer>, encoding: Encoding) -> Self {
        Self { server, encoding }
    }
}

impl WebSocketHandler for KaspaPort {
    fn handle(
        self: Arc<Self>,
        socket: Socket,
        client_id: ClientId,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let server = Arc::clone(&self.server);
        Box::pin(async move {
            serve_session(socket, client_id, server, SessionState::new(self.encoding)).await;
        })
    }

    /// Forwarded calls may have effects, so their clients must learn the outcome.
    fn can_wait_for_replies(&self) -> bool {
        true
    }
}

impl Protocol for KaspaRpc {
    type Task = KaspaTask;

    fn message_bound(kind: MessageKind, prefix: &[u8]) -> MessageBound {
        let protobuf = find_protobuf_operation(prefix).filter(|_| kind == MessageKind::Binary);
        let is_long = match (kind, prefix.first()) {
            // The tag of an id. A message without one gets no reply, so it is short.
            (MessageKind::Binary, Some(0 | 1)) => {
                let code = prefix.get(OPERATION_OFFSET).filter(|_| prefix.first() == Some(&1));
                let operation = code.and_then(|code| Operation::from_code(*code));
                operation.is_some_and(may_be_long)
            }
            _ if protobuf.is_some() => protobuf.is_some_and(may_be_long),
            _ => names_long_operation(&String::from_utf8_lossy(prefix)),
        };
        if is_long { MessageBound::Long } else { MessageBound::Short }
    }

    /// Only notifications of `addressesSubscribe` have an end of their own.
    fn notification_suffix(subscription: SubscriptionId, sequence: u64) -> Vec<u8> {
        encode_end(subscription, sequence)
    }

    /// A stream of gRPC has none. Its requests are read ahead elsewhere while a call runs.
    fn has_pings(session: &KaspaSession) -> bool {
        session.state.format != MessageFormat::Protobuf
    }

    fn handle_message(
        server: &Arc<KaspaServer>,
        session: &Arc<KaspaSession>,
        message: IncomingMessage,
    ) -> Reply<KaspaTask> {
        let format = session.state.format;
        let is_unsafe_allowed = server.settings.allow_unsafe_rpc;
        let read = move |message| read_message(format, is_unsafe_allowed, message);
        let bytes_max = server.config().message_bytes_max;
        if message.len() <= bytes_max {
            return run(server, session, read(message));
        }
        let server = Arc::clone(server);
        let session = Arc::clone(session);
        Reply::Future(Box::pin(async move {
            let read = move || read(message).map(Incoming::with_json_addresses);
            match spawn_blocking(read).await {
                // Only the beginning of the message was known to be of such an operation.
                Ok(Ok(incoming)) if !may_be_long(incoming.request.operation) => {
                    let reason = format!("a message over {bytes_max} bytes");
                    Reply::Close(CloseCode::Size, reason)
                }
                Ok(incoming) => run(&server, &session, incoming),
                Err(_) => Reply::Close(CloseCode::Error, "internal error".to_owned()),
            }
        }))
    }
}

/// Whether the beginning of a text has the name of an operation whose messages may be long.
fn names_long_operation(prefix: &str) -> bool {
    let methods = Method::ALL.iter().map(|method| Operation::Method(*method));
    let own = OwnMethod::ALL.iter().map(|method| Operation::Own(*method));
    let operations = methods.chain([Operation::Subscribe, Operation::Unsubscribe]).chain(own);
    let mut long = operations.filter(|operation| may_be_long(*operation));
    long.any(|operation| prefix.contains(&format!("\"{}\"", operation.name())))
}

/// Reads and checks a message.
fn read_message(
    format: MessageFormat,
    is_unsafe_allowed: bool,
    message: IncomingMessage,
) -> Result<Incoming, Malformed> {
    let request = Request::parse(format, message)?;
    let is_method = match request.operation {
        Operation::Subscribe
        | Operation::Unsubscribe
        | Operation::Method(_)
        | Operation::Own(_) => true,
        Operation::Notification(_) | Operation::Unserved(_) => false,
    };
    let checked = if is_method { request.check() } else { Err(ServerError::NotFound) };
    if let Err(error) = checked {
        return Ok(Incoming { request, error: Some(RequestError::Rejected(error)) });
    }
    if is_unsafe_allowed {
        return Ok(Incoming { request, error: None });
    }
    let safe = apply_safe_mode(request.clone());
    Ok(match safe {
        Ok(request) => Incoming { request, error: None },
        Err(error @ ServerError::Text(_)) => {
            Incoming { request, error: Some(RequestError::Failed(error)) }
        }
        Err(error) => Incoming { request, error: Some(RequestError::Rejected(error)) },
    })
}

/// Replies to a message, or starts the task that does.
fn run(
    server: &Arc<KaspaServer>,
    session: &Arc<KaspaSession>,
    incoming: Result<Incoming, Malformed>,
) -> Reply<KaspaTask> {
    let Incoming { request, error } = match incoming {
        Ok(incoming) => incoming,
        Err(Malformed { code, reason }) => {
            server.requests.record_refused(RefusalCause::Malformed);
            return Reply::Close(code, reason.to_owned());
        }
    };
    let reply_format = request.reply;
    let format: MessageFormat = reply_format.into();
    let operation = request.operation;
    server.requests.record(format, operation);
    let admitted = admit(session, operation);
    let Some(id) = request.id else { return Reply::Nothing };
    let failure = |error: &ServerError| {
        Reply::Message(to_message(format, encode_failure(reply_format, id, operation, error)))
    };
    let rejection = |error: &ServerError| {
        Reply::Message(to_message(format, encode_rejection(reply_format, id, operation, error)))
    };
    if let Err(refused) = admitted {
        server.requests.record_refused(RefusalCause::Limited);
        return failure(&ServerError::Text(refused.to_string()));
    }
    match error {
        None => {}
        Some(RequestError::Rejected(error)) => {
            server.requests.record_refused(RefusalCause::Rejected);
            return rejection(&error);
        }
        Some(RequestError::Failed(error)) => {
            server.requests.record_refused(RefusalCause::SafeMode);
            return failure(&error);
        }
    }
    let method = match operation {
        Operation::Method(method) => method,
        Operation::Own(method) => {
            return Reply::Task(KaspaTask::run_own(new_call(server, session, id, request), method));
        }
        _ => return Reply::Task(KaspaTask::change_scope(new_call(server, session, id, request))),
    };
    match run_inline(server, id, method, &request) {
        Some(Ok(reply)) => return Reply::Message(to_message(format, reply)),
        Some(Err(error)) => return rejection(&error),
        None => {}
    }
    match method {
        Method::GetUtxosByAddresses => {
            Reply::Task(KaspaTask::list_utxos(new_call(server, session, id, request)))
        }
        Method::GetBalancesByAddresses => {
            Reply::Task(KaspaTask::list_balances(new_call(server, session, id, request)))
        }
        _ => {
            let forwarded = forward_request(Arc::clone(server), session.client_id(), id, request);
            Reply::Future(Box::pin(async move { Reply::Message(forwarded.await) }))
        }
    }
}

fn new_call(
    server: &Arc<KaspaServer>,
    session: &Arc<KaspaSession>,
    id: u64,
    request: Request,
) -> Call {
    Call { server: Arc::clone(server), session: Arc::clone(session), id, request }
}

/// Charges a call to the client's limits. One that ends subscriptions is never refused.
fn admit(session: &KaspaSession, operation: Operation) -> Result<(), CallRefused> {
    let ends_subscription =
        [Operation::Unsubscribe, Operation::Own(OwnMethod::AddressesUnsubscribe)];
    if ends_subscription.contains(&operation) {
        session.count_calls(1);
        return Ok(());
    }
    session.admit(1)?;
    session.admit_method(operation.name())?;
    let subscribes = [Operation::Subscribe, Operation::Own(OwnMethod::AddressesSubscribe)];
    if subscribes.contains(&operation) {
        session.admit_subscription()?;
    }
    Ok(())
}
