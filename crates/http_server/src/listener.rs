//! Listeners, connections, and how both end.
//!
//! In: bound listeners. Each connection is one task. It serves HTTP/1.1 with keep-alive and, after an upgrade,
//! WebSocket until it ends.
//! Bounds: `Config::connections_max` connections. The next one waits unread, the others wait in the listener's
//! backlog. An address may have fewer; one more gets a 429 (`ip_connection_limit`). There is a time
//! limit on each step at which a client can be slow: header, body, reading the response. The work of one poll
//! of a connection is bounded as well ([`crate::poll_budget`]); a connection that has more to do yields to
//! others (`yield_queue`).
//! A client that connects when the system has no descriptor left gets a 503.
//! Invariant: when [`serve`] returns, none of its tasks is left.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hyper::StatusCode;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use pool::ClientId;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinError, JoinSet};

use crate::fd_reserve::ReservedFd;
use crate::http_context::HttpContext;
use crate::http_metrics::{HttpCounters, HttpEvent};
use crate::http_service::{self, HttpService, ListenerKind, RequestOrigin};
use crate::ip_connection_limit::{AddressFull, ConnectionPermit, IpConnectionLimit};
use crate::poll_budget::Budgeted;
use crate::websocket_handshake::Upgrade;
use crate::write_timeout::{SocketControl, WriteTimeout};
use crate::yield_queue::{YieldQueue, YieldSlot};

/// How long open connections may continue when the server shuts down.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Pause after a failed accept, if the client could not be refused.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// The ports of a node, bound by the caller.
pub struct Listeners {
    /// JSON-RPC over HTTP, and WebSocket by upgrade.
    pub rpc: TcpListener,
    /// WebSocket only: by convention the next port.
    pub pubsub: Option<TcpListener>,
}

/// A client's socket after the WebSocket handshake.
pub type Socket = TokioIo<Upgraded>;

/// Serves sockets after their upgrade to WebSocket: PubSub (PubSub).
pub trait WebSocketHandler: Send + Sync + 'static {
    /// Serves `client` until either side closes the connection. The future is dropped `SHUTDOWN_TIMEOUT`
    /// after the shutdown has begun.
    fn handle(
        self: Arc<Self>,
        socket: Socket,
        client: ClientId,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Serves until `shutdown` is done, then lets open connections finish for two seconds.
///
/// Never fails: a connection that fails ends alone, and accepting continues. Runs on the threads of the
/// caller's tokio runtime.
pub async fn serve_http<S: HttpService>(
    context: Arc<HttpContext>,
    service: Arc<S>,
    websocket_handler: Arc<dyn WebSocketHandler>,
    listeners: Listeners,
    shutdown: impl Future<Output = ()>,
) {
    let (close, closing) = watch::channel(false);
    let config = &context.config;
    let connection_permits =
        Arc::new(Semaphore::new(config.connections_max.min(Semaphore::MAX_PERMITS)));
    let ip_limit =
        IpConnectionLimit::new(config.connections_max, config.connections_per_address_max);
    let ip_limit = Arc::new(ip_limit);
    let io_threads = tokio::runtime::Handle::current().metrics().num_workers();
    let yield_queue = Arc::new(YieldQueue::new(Arc::clone(&context.metrics), io_threads));
    let mut background = JoinSet::new();
    background.spawn(Arc::clone(&yield_queue).run());
    let connections = Arc::default();
    let acceptor = Acceptor {
        context,
        service,
        websocket_handler,
        connection_permits,
        ip_limit,
        connections,
        yield_queue,
        closing,
    };
    let rpc = acceptor.accept(listeners.rpc, ListenerKind::Rpc);
    let pubsub = async {
        if let Some(listener) = listeners.pubsub {
            acceptor.accept(listener, ListenerKind::PubSub).await;
        }
    };
    let shutdown = async {
        shutdown.await;
        // Every receiver is below, in the futures that this one is joined with.
        let _ = close.send(true);
    };
    tokio::join!(rpc, pubsub, shutdown);
    background.shutdown().await;
}

struct Acceptor<S> {
    context: Arc<HttpContext>,
    service: Arc<S>,
    websocket_handler: Arc<dyn WebSocketHandler>,
    connection_permits: Arc<Semaphore>,
    /// Connections of each address.
    ip_limit: Arc<IpConnectionLimit>,
    /// Connections since the start.
    connections: Arc<AtomicU64>,
    /// Connections that have more to do than one poll may.
    yield_queue: Arc<YieldQueue>,
    closing: watch::Receiver<bool>,
}

impl<S> Clone for Acceptor<S> {
    fn clone(&self) -> Self {
        Self {
            context: Arc::clone(&self.context),
            service: Arc::clone(&self.service),
            websocket_handler: Arc::clone(&self.websocket_handler),
            connection_permits: Arc::clone(&self.connection_permits),
            ip_limit: Arc::clone(&self.ip_limit),
            connections: Arc::clone(&self.connections),
            yield_queue: Arc::clone(&self.yield_queue),
            closing: self.closing.clone(),
        }
    }
}

impl<S: HttpService> Acceptor<S> {
    async fn accept(&self, listener: TcpListener, listener_kind: ListenerKind) {
        let mut connections = JoinSet::new();
        let mut closing = self.closing.clone();
        let (mut reserved_fd, mut is_failing) = (ReservedFd::new(), false);
        loop {
            let accepted = tokio::select! {
                () = closed(&mut closing) => break,
                Some(ended) = connections.join_next() => {
                    log_panic(ended);
                    continue;
                }
                accepted = listener.accept() => accepted,
            };
            let socket = match accepted {
                Ok((socket, peer)) => (socket, peer.ip()),
                Err(err) => {
                    self.context.metrics.record(HttpEvent::AcceptFailed);
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::warn!(%err, "connections cannot be accepted");
                    }
                    if !reserved_fd.refuse(&listener, &err) {
                        tokio::time::sleep(ACCEPT_BACKOFF).await;
                    }
                    continue;
                }
            };
            is_failing = false;
            let ip_permit = match self.ip_limit.try_acquire(socket.1) {
                Ok(permit) => permit,
                Err(full) => {
                    self.context.metrics.record(HttpEvent::Refused);
                    // The send buffer of a new socket has space for this, unless the client has disconnected.
                    let _ = socket.0.try_write(refusal(&full).as_bytes());
                    continue;
                }
            };
            if self.connection_permits.available_permits() == 0 {
                self.context.metrics.record(HttpEvent::Delayed);
            }
            let permit = tokio::select! {
                () = closed(&mut closing) => break,
                permit = Arc::clone(&self.connection_permits).acquire_owned() => permit,
            };
            let Ok(permit) = permit else { break }; // the semaphore is never closed
            let connection = self.clone().connection(socket, listener_kind, (permit, ip_permit));
            connections.spawn(Budgeted::new(connection));
        }
        drop(listener);
        // Each connection ends by itself within `SHUTDOWN_TIMEOUT`; this waits for their last steps.
        while let Some(ended) = connections.join_next().await {
            log_panic(ended);
        }
    }

    async fn connection(
        mut self,
        (socket, peer): (TcpStream, IpAddr),
        listener_kind: ListenerKind,
        permits: (OwnedSemaphorePermit, ConnectionPermit),
    ) {
        // It only fails on a socket that is closed already, which the next read reports.
        let _ = socket.set_nodelay(true);
        let metrics = Arc::clone(&self.context.metrics);
        metrics.record(HttpEvent::Accepted);
        let _ended = ConnectionGuard(&metrics);
        let upgrade = self.http(socket, peer, listener_kind).await;
        if let Some(Upgrade { connection, client, permit }) = upgrade
            && let Ok(upgraded) = connection.await
        {
            metrics.record(HttpEvent::Upgraded);
            let handling =
                Arc::clone(&self.websocket_handler).handle(TokioIo::new(upgraded), client);
            tokio::select! {
                () = handling => {}
                () = self.closed_for_good() => {}
            }
            drop(permit);
        }
        drop(permits);
    }

    /// Serves HTTP until the connection ends or changes its protocol.
    async fn http(
        &mut self,
        socket: TcpStream,
        peer: IpAddr,
        listener_kind: ListenerKind,
    ) -> Option<Upgrade> {
        if !has_date() {
            tracing::error!(%peer, "a connection is closed: the system's clock is before 1970");
            return None;
        }
        let config = &self.context.config;
        let write_timeout = Duration::from_millis(config.write_timeout_ms);
        let yield_slot = YieldSlot::new(&self.yield_queue, ClientId::from_ip(peer));
        let control = Arc::new(SocketControl { yield_slot, lingers: AtomicBool::new(false) });
        let socket = WriteTimeout::new(socket, write_timeout, Arc::clone(&self.context.metrics));
        let socket = socket.controlled(&control);
        let upgrade = Arc::new(Mutex::new(None));
        let connection = self.connections.fetch_add(1, Ordering::Relaxed);
        let requests = AtomicU64::new(0);
        let service = service_fn(|request| {
            let (context, service) = (Arc::clone(&self.context), Arc::clone(&self.service));
            let upgrade = Arc::clone(&upgrade);
            // Only this task changes it, so the two steps need no atomicity.
            let number = requests.load(Ordering::Relaxed);
            requests.store(number + 1, Ordering::Relaxed);
            let origin = RequestOrigin { peer, connection, number };
            let control = Arc::clone(&control);
            async move {
                control.yield_slot.budget().await;
                let handled =
                    http_service::handle(&context, &*service, listener_kind, origin, request).await;
                // A refused request may not have been read to its end.
                let lingers = handled.response.status().is_client_error();
                control.lingers.store(lingers, Ordering::Relaxed);
                *upgrade.lock() = handled.upgrade;
                Ok::<_, Infallible>(handled.response)
            }
        });
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(config.header_timeout_ms))
            .max_buf_size(config.read_buffer_bytes_max())
            .max_header_size(config.head_bytes_max)
            .serve_connection(TokioIo::new(socket), service)
            .with_upgrades();
        let mut serving = pin!(serving);
        let mut closing = self.closing.clone();
        let ended = tokio::select! {
            ended = serving.as_mut() => ended,
            () = closed(&mut closing) => {
                serving.as_mut().graceful_shutdown();
                tokio::time::timeout(SHUTDOWN_TIMEOUT, serving).await.unwrap_or(Ok(()))
            }
        };
        if let Err(err) = ended {
            self.context.metrics.record(cause(&err));
            if let Some(status) = status_of(&err) {
                self.context.metrics.record_response(status.as_u16());
            }
            tracing::debug!(%peer, connection, %err, "a connection failed");
        }
        upgrade.lock().take()
    }

    /// Ready `SHUTDOWN_TIMEOUT` after the shutdown has begun.
    async fn closed_for_good(&mut self) {
        closed(&mut self.closing).await;
        tokio::time::sleep(SHUTDOWN_TIMEOUT).await;
    }
}

/// Whether the system's clock is after 1970. Otherwise hyper panics over the `Date` header, even if it sends
/// none.
#[expect(
    clippy::disallowed_methods,
    reason = "the `Date` header has the time of the system's clock"
)]
fn has_date() -> bool {
    std::time::SystemTime::now() >= std::time::UNIX_EPOCH
}

/// Counts the end of a connection, whatever its cause.
struct ConnectionGuard<'m>(&'m HttpCounters);

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.record(HttpEvent::Panicked);
        }
        self.0.record(HttpEvent::Ended);
    }
}

/// The response to a connection whose address is at its limit.
fn refusal(full: &AddressFull) -> String {
    let text = format!("{full}\n");
    let bytes = text.len();
    format!(
        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nConnection: close\r\n\
         Content-Length: {bytes}\r\n\r\n{text}"
    )
}

/// Why a connection ended early.
fn cause(err: &hyper::Error) -> HttpEvent {
    let io = err.source().and_then(|source| source.downcast_ref::<io::Error>());
    if err.is_timeout() {
        HttpEvent::HeadTimeout
    } else if io.is_some_and(|io| io.kind() == io::ErrorKind::TimedOut) {
        HttpEvent::WriteTimeout
    } else {
        HttpEvent::Broken
    }
}

/// The status that hyper sent for a head that it could not parse. Such a response has no body.
fn status_of(err: &hyper::Error) -> Option<StatusCode> {
    if !err.is_parse() || err.is_parse_version_h2() {
        return None;
    }
    // A URI that is too long makes the head too large as well.
    Some(if err.is_parse_too_large() {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
    } else {
        StatusCode::BAD_REQUEST
    })
}

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(err) = ended {
        tracing::error!(%err, "a connection's task panicked");
    }
}

/// Ready when the shutdown has begun.
async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error means that the sender was dropped with the server, which is closed then as well.
    let _ = closing.wait_for(|closing| *closing).await;
}
