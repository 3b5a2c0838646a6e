//! A queue of calls, and the connections to the upstream that take them from it.
//!
//! Bounds: [`super::CallLimits`]. The limit of each client's calls leaves room in the queue for other clients.
//! A connection is opened at its first call, and again after an error. A call is not sent if its client has gone. A reply
//! counts for its client, and for all of them, until its bytes are dropped.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clients::{ClientId, ClientShares, Share};
use http_client::describe_error;
use tokio::sync::{Mutex, OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinSet;

use super::byte_budget::ByteBudget;
use super::config::CallLimits;
use super::error::ForwardError;
use super::request::{EncodedRequest, UpstreamRequest};
use crate::config::{ConnectionConfig, SourceConfig};
use crate::long_message::run_by_length;
use crate::socket::{WrpcMessage, WrpcSocket};
use crate::source_error::SourceError;

/// Messages that an idle connection may have received. It has no subscription, so there are none.
const IDLE_MESSAGES_MAX: usize = 16;

/// The settings of a queue and of its connections.
pub(super) struct CallQueueConfig {
    pub(super) sources: Vec<SourceConfig>,
    pub(super) connection: ConnectionConfig,
    pub(super) limits: CallLimits,
    /// Bytes of the replies that no client has taken, of all queues.
    pub(super) replies: ByteBudget,
}

pub(super) struct CallQueue {
    calls: mpsc::Sender<QueuedCall>,
    shares: Arc<ClientShares>,
    call_timeout: Duration,
}

struct QueuedCall {
    request: Arc<UpstreamRequest>,
    reply: oneshot::Sender<Result<WaitingReply, ForwardError>>,
    share: Share,
    _permit: OwnedSemaphorePermit,
}

/// A reply that its client has not taken, or that is checked and translated on another thread.
struct WaitingReply {
    bytes: Bytes,
    _share: Share,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for WaitingReply {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

struct CallConnection {
    config: Arc<CallQueueConfig>,
    calls: Arc<Mutex<mpsc::Receiver<QueuedCall>>>,
    socket: Option<WrpcSocket>,
    /// The source of the last connection.
    at: usize,
    next_id: u64,
}

impl CallQueue {
    /// Starts the tasks of the connections.
    pub(super) fn start(
        config: CallQueueConfig,
        shares: Arc<ClientShares>,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let CallLimits { connections, calls_max, call_timeout, .. } = config.limits;
        let config = Arc::new(config);
        let (calls, receiver) = mpsc::channel(calls_max.max(1));
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..connections.max(1) {
            let connection = CallConnection {
                config: Arc::clone(&config),
                calls: Arc::clone(&receiver),
                socket: None,
                at: 0,
                next_id: 1,
            };
            tasks.spawn(connection.run());
        }
        Self { calls, shares, call_timeout }
    }

    /// Queues a call, and waits for its reply.
    pub(super) async fn call(
        &self,
        client: ClientId,
        request: UpstreamRequest,
        permit: OwnedSemaphorePermit,
    ) -> Result<Bytes, ForwardError> {
        let share = self.shares.try_acquire(client).map_err(ForwardError::ClientCalls)?;
        let (reply, received) = oneshot::channel();
        let call = QueuedCall { request: Arc::new(request), reply, share, _permit: permit };
        self.calls.try_send(call).map_err(|_| ForwardError::QueueFull)?;
        // Half of it for the calls before.
        let limit = self.call_timeout.saturating_mul(2);
        match tokio::time::timeout(limit, received).await {
            Ok(Ok(result)) => result.map(Bytes::from_owner),
            Ok(Err(_)) => Err(ForwardError::stopping()),
            Err(_) => Err(ForwardError::Timeout { limit }),
        }
    }

    /// Returns the number of calls that wait or are being answered.
    pub(super) fn calls(&self) -> usize {
        self.shares.units_in_use()
    }
}

impl CallConnection {
    async fn run(mut self) {
        loop {
            // The lock is held while a task waits; the others wait for the lock.
            let next = self.calls.lock().await.recv().await;
            let Some(call) = next else { return };
            if call.reply.is_closed() {
                continue;
            }
            let result = self.process(&call.request).await;
            let result = result.and_then(|bytes| {
                let permit = self.config.replies.try_reserve(bytes.len());
                let permit = permit.ok_or(ForwardError::RepliesFull)?;
                Ok(WaitingReply { bytes, _share: call.share, _permit: permit })
            });
            // The client may be gone.
            let _ = call.reply.send(result);
        }
    }

    /// Sends a request and waits for its reply.
    async fn process(&mut self, request: &Arc<UpstreamRequest>) -> Result<Bytes, ForwardError> {
        let idle = self.socket.take();
        let open = idle.and_then(|mut it| it.is_open(IDLE_MESSAGES_MAX).then_some(it));
        let was_open = open.is_some();
        let mut result = match open {
            Some(socket) => self.exchange(socket, request).await,
            None => self.connect_and_exchange(request).await,
        };
        // The upstream may have closed an idle connection at the same moment.
        let is_closed = matches!(result, Err(SourceError::Closed | SourceError::Broken(_)));
        if was_open && is_closed && request.is_repeatable() {
            result = self.connect_and_exchange(request).await;
        }
        if result.as_ref().is_err_and(is_source_failure) {
            self.advance_source();
        }
        result.map_err(|error| match error {
            SourceError::Timeout { limit, .. } => ForwardError::Timeout { limit },
            SourceError::MessageTooLong { bytes_max, .. } => {
                ForwardError::ReplyTooLong { bytes_max }
            }
            error => {
                // Clients do not get the rest, which has the address of the upstream.
                tracing::debug!("a call was not forwarded: {}", describe_error(&error));
                ForwardError::Unavailable { reason: error.to_string() }
            }
        })
    }

    async fn connect_and_exchange(
        &mut self,
        request: &Arc<UpstreamRequest>,
    ) -> Result<Bytes, SourceError> {
        let socket = self.connect().await?;
        self.exchange(socket, request).await
    }

    /// Connects to the first source that accepts a connection, the last one first.
    async fn connect(&mut self) -> Result<WrpcSocket, SourceError> {
        let mut last_error = SourceError::Closed;
        let count = self.config.sources.len();
        for _ in 0..count {
            let source = &self.config.sources[self.at];
            match WrpcSocket::connect(source, &self.config.connection).await {
                Ok(socket) => return Ok(socket),
                Err(error) => last_error = error,
            }
            self.advance_source();
        }
        Err(last_error)
    }

    /// Connects to the next source from now on.
    fn advance_source(&mut self) {
        self.at = (self.at + 1) % self.config.sources.len().max(1);
    }

    /// Sends a request on a connection and reads the reply. The connection is reused unless this fails.
    async fn exchange(
        &mut self,
        mut socket: WrpcSocket,
        request: &Arc<UpstreamRequest>,
    ) -> Result<Bytes, SourceError> {
        let id = self.next_id;
        self.next_id += 1;
        match encode_request(request, id).await? {
            EncodedRequest::Binary(message) => socket.send_binary(message).await?,
            EncodedRequest::Text(message) => socket.send_text(message).await?,
        }
        let read = async {
            loop {
                let message = socket.read().await?;
                if let Some(reply) = match_reply(request, id, message).await? {
                    return Ok::<Bytes, SourceError>(reply);
                }
            }
        };
        let limit = self.config.limits.call_timeout;
        let timeout = SourceError::Timeout { what: "reply", limit };
        let reply = tokio::time::timeout(limit, read).await.map_err(|_| timeout)??;
        self.socket = Some(socket);
        Ok(reply)
    }
}

/// Whether another source may have a reply: one that accepts connections may be silent all the same.
fn is_source_failure(error: &SourceError) -> bool {
    !matches!(error, SourceError::MessageTooLong { .. })
}

/// Encodes a request, on another thread if it is long.
async fn encode_request(
    request: &Arc<UpstreamRequest>,
    id: u64,
) -> Result<EncodedRequest, SourceError> {
    let bytes = request.bytes();
    let request = Arc::clone(request);
    let encoded = run_by_length(bytes, move || request.encode(id)).await;
    encoded.map_err(|error| SourceError::from_decoding(&error))
}

/// Matches a message with a request, on another thread if it is long.
async fn match_reply(
    request: &Arc<UpstreamRequest>,
    id: u64,
    message: WrpcMessage,
) -> Result<Option<Bytes>, SourceError> {
    let bytes = message.len();
    let request = Arc::clone(request);
    let matched = run_by_length(bytes, move || request.match_reply(id, message)).await;
    matched.map_err(|error| SourceError::from_decoding(&error))?
}
