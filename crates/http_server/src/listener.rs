//! Listeners, connections, and how both end.
//!
//! In: bound listeners. Each connection is one task. It serves HTTP/1.1 with keep-alive and, after an upgrade,
//! WebSocket until it ends.
//! Bounds: `Config::connections_max` connections. The next one waits unread, the others wait in the listener's
//! backlog. An address may have fewer; one more gets a 429 ([`ClientShares`]). There is a time
//! limit on each step at which a client can be slow: header, body, reading the response. The work of one poll
//! of a connection is bounded as well ([`crate::poll_budget`]); a connection that has more to do yields to
//! others (`yield_queue`).
//! A client that connects when the system has no descriptor left gets a 503.
//! The end: a connection that waits for a request is closed, one that has a request finishes it, and a new one gets a
//! 503 for its request, until no other is left or the time is over ([`crate::Drain`]).
//! Invariant: when [`serve`] returns, none of its tasks is left.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clients::{ClientId, ClientShares, Share, ShareFull};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::body::ResponseBody;
use crate::client_stream::ClientStream;
use crate::cors::AllowedOrigins;
use crate::drain::DrainWatch;
use crate::fd_reserve::ReservedFd;
use crate::head_timer::HeadTimer;
use crate::http_context::HttpContext;
use crate::http_metrics::{HttpCounters, HttpEvent};
use crate::http_service::{self, HttpService, ListenerKind, RequestOrigin};
use crate::poll_budget::Budgeted;
use crate::tls::{HandshakeError, Tls};
use crate::websocket_handshake::Upgrade;
use crate::write_timeout::{SocketControl, WriteTimeout};
use crate::yield_queue::{YieldQueue, YieldSlot};

/// Time limit of a drain that the server starts itself, and of the close of a WebSocket.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Time in which an unused connection may send its first request while the server drains.
const UNUSED_TIMEOUT: Duration = Duration::from_secs(1);

/// The first byte of a TLS connection: a record of the handshake (RFC 8446, 5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// The response to a client that speaks something else, probably HTTP.
const NEEDS_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\
    Content-Type: text/plain; charset=utf-8\r\nContent-Length: 51\r\n\r\n\
    This port speaks TLS: use https:// and wss:// URLs\n";

/// Time for which a connection above the limit of its address stays open, so that its request does not reset it before
/// the client has read the refusal.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(1);

/// Such connections at once. One more is closed without this time.
const REFUSED_MAX: usize = 64;

/// Bytes that are read and dropped from such a connection.
const REFUSED_BYTES_MAX: u64 = 1 << 20;

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

/// Handles connections after the upgrade to WebSocket.
pub trait WebSocketHandler: Send + Sync + 'static {
    /// Serves `client` until either side closes the connection. The future is dropped `SHUTDOWN_TIMEOUT`
    /// after the start of the drain, or at the end of the drain ([`Self::can_wait_for_replies`]).
    fn handle(
        self: Arc<Self>,
        socket: Socket,
        client: ClientId,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Returns whether sockets may stay open until the drain is over, because they wait for replies. Otherwise they are
    /// cut two seconds after its start.
    fn can_wait_for_replies(&self) -> bool {
        false
    }
}

/// Serves until `shutdown` is ready or the drain of `context` has started, then drains. A drain that `shutdown` starts
/// takes two seconds at most.
///
/// Never fails: a connection that fails ends alone, and accepting continues. Runs on the threads of the
/// caller's tokio runtime, which is one for all servers of a context. They share its limits of connections, the queue of
/// their large writes, and its drain.
pub async fn serve_http<S: HttpService>(
    context: Arc<HttpContext>,
    service: Arc<S>,
    websocket_handler: Arc<dyn WebSocketHandler>,
    listeners: Listeners,
    shutdown: impl Future<Output = ()>,
) {
    let closing = context.drain.watch();
    let connection_permits = Arc::clone(&context.connection_permits);
    let ip_shares = Arc::clone(&context.ip_shares);
    let io_threads = tokio::runtime::Handle::current().metrics().num_workers();
    let new_queue = || Arc::new(YieldQueue::new(Arc::clone(&context.metrics), io_threads));
    let yield_queue = Arc::clone(context.yield_queue.get_or_init(new_queue));
    let mut background = JoinSet::new();
    background.spawn(Arc::clone(&yield_queue).run());
    let connections = Arc::clone(&context.connections);
    let server = Arc::clone(&context);
    let acceptor = Acceptor {
        context,
        service,
        websocket_handler,
        connection_permits,
        ip_shares,
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
    let mut begun = server.drain.watch();
    let shutdown = async {
        tokio::select! {
            () = begun.begun() => {}
            () = shutdown => if !server.drain.has_begun() {
                server.drain.begin(SHUTDOWN_TIMEOUT);
            },
        }
        server.metrics.record(HttpEvent::DrainBegun);
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
    ip_shares: Arc<ClientShares>,
    /// Connections to all servers of the context since the start.
    connections: Arc<AtomicU64>,
    /// Connections that have more to do than one poll may.
    yield_queue: Arc<YieldQueue>,
    closing: DrainWatch,
}

impl<S> Clone for Acceptor<S> {
    fn clone(&self) -> Self {
        Self {
            context: Arc::clone(&self.context),
            service: Arc::clone(&self.service),
            websocket_handler: Arc::clone(&self.websocket_handler),
            connection_permits: Arc::clone(&self.connection_permits),
            ip_shares: Arc::clone(&self.ip_shares),
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
        let mut reserved_fd = ReservedFd::new();
        let mut is_failing = false;
        let refused_permits = Arc::new(Semaphore::new(REFUSED_MAX));
        loop {
            let accepted = tokio::select! {
                () = closing.begun() => break,
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
            let ip_permit = match self.ip_shares.try_acquire(ClientId::from_ip(socket.1)) {
                Ok(permit) => permit,
                Err(full) => {
                    self.context.metrics.record(HttpEvent::Refused);
                    // The send buffer of a new socket has space for this, unless the client has disconnected.
                    let response = refusal(&full, &self.context.config.allowed_origins);
                    let _ = socket.0.try_write(response.as_bytes());
                    if let Ok(permit) = Arc::clone(&refused_permits).try_acquire_owned() {
                        connections.spawn(linger(socket.0, permit));
                    }
                    continue;
                }
            };
            if self.connection_permits.available_permits() == 0 {
                self.context.metrics.record(HttpEvent::Delayed);
            }
            let permit = tokio::select! {
                // A connection that was accepted as the drain began gets its response.
                biased;
                permit = Arc::clone(&self.connection_permits).acquire_owned() => permit,
                () = closing.begun() => break,
            };
            let Ok(permit) = permit else { break }; // the semaphore is never closed
            let connection = self.clone().connection(socket, listener_kind, (permit, ip_permit));
            connections.spawn(Budgeted::new(connection));
        }
        self.drain(listener, listener_kind, connections).await;
    }

    /// Answers new connections with 503 until the earlier ones have ended, or until the time is over.
    async fn drain(
        &self,
        listener: TcpListener,
        listener_kind: ListenerKind,
        mut connections: JoinSet<()>,
    ) {
        let mut late = JoinSet::new();
        let mut closing = self.closing.clone();
        loop {
            let accepted = tokio::select! {
                biased;
                () = closing.over() => break,
                ended = connections.join_next() => match ended {
                    Some(ended) => {
                        log_panic(ended);
                        continue;
                    }
                    None => break,
                },
                Some(ended) = late.join_next() => {
                    log_panic(ended);
                    continue;
                }
                accepted = listener.accept() => accepted,
            };
            let Ok((socket, peer)) = accepted else {
                self.context.metrics.record(HttpEvent::AcceptFailed);
                tokio::time::sleep(ACCEPT_BACKOFF).await;
                continue;
            };
            // One over a limit is closed without a response: nothing is served now.
            let ip_permit = self.ip_shares.try_acquire(ClientId::from_ip(peer.ip()));
            let permit = Arc::clone(&self.connection_permits).try_acquire_owned();
            if let (Ok(ip_permit), Ok(permit)) = (ip_permit, permit) {
                let permits = (permit, ip_permit);
                let connection =
                    self.clone().connection((socket, peer.ip()), listener_kind, permits);
                late.spawn(Budgeted::new(connection));
            }
        }
        drop(listener);
        // Each connection has ended by then; this waits for its last steps.
        while let Some(ended) = connections.join_next().await {
            log_panic(ended);
        }
        while let Some(ended) = late.join_next().await {
            log_panic(ended);
        }
    }

    async fn connection(
        mut self,
        (socket, peer): (TcpStream, IpAddr),
        listener_kind: ListenerKind,
        permits: (OwnedSemaphorePermit, Share),
    ) {
        // They only fail on a socket that is closed already, which the next read reports.
        let _ = socket.set_nodelay(true);
        let reached = socket.local_addr().ok().map(|address| address.ip().to_canonical());
        let ends = ConnectionEnds { peer, reached };
        let metrics = Arc::clone(&self.context.metrics);
        metrics.record(HttpEvent::Accepted);
        let _ended = ConnectionGuard(&metrics);
        if !has_date() {
            tracing::error!(%peer, "a connection is closed: the system's clock is before 1970");
            return;
        }
        let tls = self.context.tls.get().cloned();
        let _tls_ended = tls.is_some().then(|| TlsGuard::new(&metrics));
        let yield_slot = YieldSlot::new(&self.yield_queue, ClientId::from_ip(peer));
        let control = Arc::new(SocketControl::new(yield_slot));
        let stream = match tls {
            None => ClientStream::Plain(self.limited(socket, &control)),
            Some(tls) => {
                // In a box: otherwise every connection's task would be as large as one with a handshake.
                match Box::pin(self.handshake(&tls, socket, peer, &control)).await {
                    Some(stream) => stream,
                    None => return,
                }
            }
        };
        let upgrade = self.http(stream, ends, listener_kind, &control).await;
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

    /// The socket, with its time limit and its control.
    fn limited(&self, socket: TcpStream, control: &Arc<SocketControl>) -> WriteTimeout<TcpStream> {
        let write_timeout = Duration::from_millis(self.context.config.write_timeout_ms);
        WriteTimeout::new(socket, write_timeout, Arc::clone(&self.context.metrics))
            .with_control(control)
    }

    /// The stream after the TLS handshake. A client that sends something else gets a response that says so.
    async fn handshake(
        &mut self,
        tls: &Tls,
        socket: TcpStream,
        peer: IpAddr,
        control: &Arc<SocketControl>,
    ) -> Option<ClientStream> {
        let is_late = self.context.drain.has_begun();
        let timeout = Duration::from_millis(self.context.config.header_timeout_ms);
        let within = if is_late { timeout.min(UNUSED_TIMEOUT) } else { timeout };
        let started = Instant::now();
        let metrics = &self.context.metrics;
        let mut first = [0];
        // It does not count as a handshake before its first byte.
        let peeked = tokio::select! {
            peeked = tokio::time::timeout(within, socket.peek(&mut first)) => peeked,
            () = self.closing.begun(), if !is_late => return None,
        };
        let is_tls = match peeked {
            Ok(Ok(1..)) => first[0] == TLS_HANDSHAKE,
            Ok(Ok(0) | Err(_)) => {
                metrics.record(HttpEvent::TlsFailed);
                return None;
            }
            Err(_) => {
                metrics.record(HttpEvent::TlsLate);
                return None;
            }
        };
        let mut socket = self.limited(socket, control);
        if !is_tls {
            metrics.record(HttpEvent::TlsFailed);
            control.lingers.store(true, Ordering::Relaxed);
            // Errors mean that the client has disconnected.
            if socket.write_all(NEEDS_TLS).await.is_ok() {
                let _ = socket.shutdown().await;
            }
            return None;
        }
        let left = within.saturating_sub(started.elapsed());
        let accepted = tokio::select! {
            accepted = tls.accept(socket, ClientId::from_ip(peer), left) => accepted,
            () = self.closing.over() => return None,
        };
        match accepted {
            Ok(stream) => {
                metrics.record(HttpEvent::TlsCompleted);
                Some(ClientStream::Tls(Box::new(stream)))
            }
            Err(HandshakeError::Late) => {
                metrics.record(HttpEvent::TlsLate);
                None
            }
            Err(HandshakeError::Failed(err)) => {
                metrics.record(HttpEvent::TlsFailed);
                tracing::debug!(%peer, %err, "a TLS handshake failed");
                None
            }
        }
    }

    /// Serves HTTP until the connection ends or changes its protocol.
    async fn http(
        &mut self,
        stream: ClientStream,
        ConnectionEnds { peer, reached }: ConnectionEnds,
        listener_kind: ListenerKind,
        control: &Arc<SocketControl>,
    ) -> Option<Upgrade> {
        let config = &self.context.config;
        let is_late = self.context.drain.has_begun();
        let upgrade = Arc::new(Mutex::new(None));
        let connection = self.connections.fetch_add(1, Ordering::Relaxed);
        let requests = AtomicU64::new(0);
        let service = service_fn(|request: Request<Incoming>| {
            let context = Arc::clone(&self.context);
            let service = Arc::clone(&self.service);
            let upgrade = Arc::clone(&upgrade);
            // Only this task changes it, so the two steps need no atomicity.
            let number = requests.load(Ordering::Relaxed);
            requests.store(number + 1, Ordering::Relaxed);
            let origin = RequestOrigin { peer, reached, connection, number };
            let control = Arc::clone(control);
            let may_be_unread = request.method() != Method::POST && !request.body().is_end_stream();
            async move {
                control.head_progress.complete();
                control.yield_slot.budget().await;
                let version = request.version();
                let handled =
                    http_service::handle(&context, &*service, listener_kind, origin, request).await;
                // A refused request may not have been read to its end, nor one with a body that has no meaning.
                let status = handled.response.status();
                let is_refused =
                    status.is_client_error() || status == StatusCode::SERVICE_UNAVAILABLE;
                let lingers = is_refused || may_be_unread;
                control.lingers.store(lingers, Ordering::Relaxed);
                let until_close = is_sent_until_close(version, &handled.response);
                control.sends_until_close.store(until_close, Ordering::Relaxed);
                *upgrade.lock() = handled.upgrade;
                Ok::<_, Infallible>(handled.response)
            }
        });
        let serving = http1::Builder::new()
            .timer(HeadTimer::new(config, &self.connection_permits, control))
            .header_read_timeout(Duration::from_millis(config.header_timeout_ms))
            .max_buf_size(config.read_buffer_bytes_max())
            .max_header_size(config.head_bytes_max)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut serving = pin!(serving);
        let mut closing = self.closing.clone();
        let ended = tokio::select! {
            ended = serving.as_mut() => ended,
            () = closing.begun() => {
                // A new connection is closed after its response, and one that waits for its next request now.
                if !is_late {
                    serving.as_mut().graceful_shutdown();
                }
                let is_unused = requests.load(Ordering::Relaxed) == 0;
                tokio::select! {
                    ended = serving => ended,
                    () = closing.over() => Ok(()),
                    () = tokio::time::sleep(UNUSED_TIMEOUT), if is_unused => Ok(()),
                }
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

    /// Waits until a WebSocket is cut: `SHUTDOWN_TIMEOUT` after the start of the drain, or at its deadline.
    async fn closed_for_good(&mut self) {
        self.closing.begun().await;
        if self.websocket_handler.can_wait_for_replies() {
            return self.closing.over().await;
        }
        tokio::select! {
            () = tokio::time::sleep(SHUTDOWN_TIMEOUT) => {}
            () = self.closing.over() => {}
        }
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

/// Whether the client finds the end of a response by the end of the connection: HTTP/1.0 has no chunks.
fn is_sent_until_close(version: Version, response: &Response<ResponseBody>) -> bool {
    version == Version::HTTP_10 && response.body().size_hint().exact().is_none()
}

/// The addresses of a connection.
#[derive(Clone, Copy)]
struct ConnectionEnds {
    peer: IpAddr,
    /// That of the node, if the socket still has one.
    reached: Option<IpAddr>,
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

/// Counts the start and the end of a connection with TLS.
struct TlsGuard<'m>(&'m HttpCounters);

impl<'m> TlsGuard<'m> {
    fn new(metrics: &'m HttpCounters) -> Self {
        metrics.record(HttpEvent::TlsStarted);
        Self(metrics)
    }
}

impl Drop for TlsGuard<'_> {
    fn drop(&mut self) {
        self.0.record(HttpEvent::TlsEnded);
    }
}

/// Reads and discards the data of a refused client until it ends, within limits.
async fn linger(mut socket: TcpStream, permit: OwnedSemaphorePermit) {
    if socket.shutdown().await.is_ok() {
        let mut sent = socket.take(REFUSED_BYTES_MAX);
        let mut sink = tokio::io::sink();
        // Both a limit and an error end it.
        let drained = tokio::io::copy(&mut sent, &mut sink);
        let _ = tokio::time::timeout(REFUSED_TIMEOUT, drained).await;
    }
    drop(permit);
}

/// The response to a connection whose address is at its limit. Its request is not read, so a page may read the response
/// only if pages of any origin may.
fn refusal(full: &ShareFull, allowed: &AllowedOrigins) -> String {
    let text = format!("{full}\n");
    let bytes = text.len();
    let cors = match allowed.are_any() {
        true => "Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: *\r\n",
        false => "",
    };
    format!(
        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nConnection: close\r\n{cors}\
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
