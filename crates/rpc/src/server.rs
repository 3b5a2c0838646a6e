//! Listeners, connections, and how both end.
//!
//! In: listeners that are bound already. Each connection is one task; it speaks HTTP/1.1 with
//! keep-alive and, once a client asks for it, WebSocket until it ends.
//! Bounds: `Config::connections_max` connections (the next waits unread, those after it in the
//! listener's backlog), of which an address may have fewer (one more is told so, 429; [`crate::places`]), and a time
//! limit on each thing that a client can be slow at: header, body, reading our answer. What one poll of a connection
//! does is bounded as well ([`crate::poll_budget`]); a connection that has more to do yields to others
//! ([`crate::yield_queue`]).
//! Whoever comes when the system has no descriptor left is told so (503).
//! Invariant: when [`serve`] returns no task of it is left.

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
use tokio::time::MissedTickBehavior;

use crate::fd_reserve::ReservedFd;
use crate::ip_connection_limit::{AddressFull, ConnectionPermit, IpConnectionLimit};
use crate::metrics::HttpEvent;
use crate::node::Node;
use crate::poll_budget::Budgeted;
use crate::service::{self, HttpApi, ListenerKind, RequestOrigin, Upgrade};
use crate::write_timeout::{SocketControl, WriteTimeout};
use crate::yield_queue::{YieldQueue, YieldSlot};

/// How long open connections may finish what they are at when the server shuts down.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// How long accepting rests after it failed and nobody could be told so.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// How often it is looked how far the ledger is.
const HEALTH_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// How much of a body, and of the requests after it, is read ahead.
pub(crate) const BUFFER_BYTES_MAX: usize = 16 * 1024;

/// The ports of a node, bound by the caller.
pub struct Listeners {
    /// JSON-RPC over HTTP, and WebSocket by upgrade.
    pub rpc: TcpListener,
    /// WebSocket only: by custom the next port.
    pub pubsub: Option<TcpListener>,
}

/// A client's socket once it speaks WebSocket; the handshake is done.
pub type Socket = TokioIo<Upgraded>;

/// Who speaks on sockets once they are WebSocket: PubSub (`crate::pubsub`).
pub trait WebSocketHandler: Send + Sync + 'static {
    /// Speaks with the client that asked for it until either side has had enough. Dropped when the server's grace
    /// is over.
    fn handle(
        self: Arc<Self>,
        socket: Socket,
        of: ClientId,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Serves until `shutdown` is done, then lets open connections finish for two seconds.
///
/// Never fails: a connection that does ends by itself, and accepting goes on. Runs on whatever
/// threads the tokio runtime of the caller has; heavy methods run on `node.pool`.
pub async fn serve(
    node: Arc<Node>,
    speaker: Arc<dyn WebSocketHandler>,
    listeners: Listeners,
    shutdown: impl Future<Output = ()>,
) {
    serve_all(node, speaker, None, listeners, shutdown).await;
}

/// As [`serve`], with `web` on the port of JSON-RPC beside it.
pub async fn serve_with_http_api(
    node: Arc<Node>,
    speaker: Arc<dyn WebSocketHandler>,
    web: Arc<dyn HttpApi>,
    listeners: Listeners,
    shutdown: impl Future<Output = ()>,
) {
    serve_all(node, speaker, Some(web), listeners, shutdown).await;
}

async fn serve_all(
    node: Arc<Node>,
    speaker: Arc<dyn WebSocketHandler>,
    web: Option<Arc<dyn HttpApi>>,
    listeners: Listeners,
    shutdown: impl Future<Output = ()>,
) {
    let (close, closing) = watch::channel(false);
    let places = Arc::new(Semaphore::new(node.config.connections_max.min(Semaphore::MAX_PERMITS)));
    let config = &node.config;
    let addresses =
        IpConnectionLimit::new(config.connections_max, config.connections_per_address_max);
    let addresses = Arc::new(addresses);
    let yield_queue = Arc::new(YieldQueue::new(Arc::clone(&node.metrics)));
    let io_threads = tokio::runtime::Handle::current().metrics().num_workers();
    let mut resuming = JoinSet::new();
    resuming.spawn(Arc::clone(&yield_queue).run(io_threads));
    let looking = run_health_polls(Arc::clone(&node), closing.clone());
    let connections = Arc::default();
    let server = Server {
        node,
        websocket_handler: speaker,
        http_api: web,
        connection_permits: places,
        ip_limit: addresses,
        connections,
        yield_queue,
        closing,
    };
    let rpc = server.accept(listeners.rpc, ListenerKind::Rpc);
    let pubsub = async {
        if let Some(listener) = listeners.pubsub {
            server.accept(listener, ListenerKind::PubSub).await;
        }
    };
    let shutdown = async {
        shutdown.await;
        // Every receiver is below, in the futures that this one is joined with.
        let _ = close.send(true);
    };
    tokio::join!(rpc, pubsub, looking, shutdown);
    resuming.shutdown().await;
}

/// Looks how far the ledger is until the server shuts down.
async fn run_health_polls(node: Arc<Node>, mut closing: watch::Receiver<bool>) {
    let mut every = tokio::time::interval(HEALTH_POLL_INTERVAL);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = closed(&mut closing) => return,
            _ = every.tick() => node.poll_health(),
        }
    }
}

#[derive(Clone)]
struct Server {
    node: Arc<Node>,
    websocket_handler: Arc<dyn WebSocketHandler>,
    http_api: Option<Arc<dyn HttpApi>>,
    connection_permits: Arc<Semaphore>,
    /// How many of them each address has.
    ip_limit: Arc<IpConnectionLimit>,
    /// Connections so far.
    connections: Arc<AtomicU64>,
    /// Those that have more to do than one poll may.
    yield_queue: Arc<YieldQueue>,
    closing: watch::Receiver<bool>,
}

impl Server {
    async fn accept(&self, listener: TcpListener, port: ListenerKind) {
        let mut connections = JoinSet::new();
        let mut closing = self.closing.clone();
        let (mut spare, mut refuses) = (ReservedFd::new(), false);
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
                    self.node.metrics.http.record(HttpEvent::AcceptFailed);
                    if !std::mem::replace(&mut refuses, true) {
                        tracing::warn!(%err, "connections cannot be accepted");
                    }
                    if !spare.refuse(&listener, &err) {
                        tokio::time::sleep(ACCEPT_BACKOFF).await;
                    }
                    continue;
                }
            };
            refuses = false;
            let of_address = match self.ip_limit.try_acquire(socket.1) {
                Ok(place) => place,
                Err(full) => {
                    self.node.metrics.http.record(HttpEvent::Refused);
                    // It is new: there is room for so little, unless the client has gone.
                    let _ = socket.0.try_write(refusal(&full).as_bytes());
                    continue;
                }
            };
            if self.connection_permits.available_permits() == 0 {
                self.node.metrics.http.record(HttpEvent::Delayed);
            }
            let place = tokio::select! {
                () = closed(&mut closing) => break,
                place = Arc::clone(&self.connection_permits).acquire_owned() => place,
            };
            let Ok(place) = place else { break }; // nobody closes the semaphore
            let connection = self.clone().connection(socket, port, (place, of_address));
            connections.spawn(Budgeted::new(connection));
        }
        drop(listener);
        // Each connection ends by itself within the grace; the join is only for their last steps.
        while let Some(ended) = connections.join_next().await {
            log_panic(ended);
        }
    }

    async fn connection(
        mut self,
        (socket, peer): (TcpStream, IpAddr),
        port: ListenerKind,
        places: (OwnedSemaphorePermit, ConnectionPermit),
    ) {
        // It only fails on a socket that is closed already, which the next read finds.
        let _ = socket.set_nodelay(true);
        let node = Arc::clone(&self.node);
        node.metrics.http.record(HttpEvent::Accepted);
        let _ended = ConnectionGuard(&node);
        let upgrade = self.http(socket, peer, port).await;
        if let Some(upgrade) = upgrade
            && let Ok(upgraded) = upgrade.connection.await
        {
            node.metrics.http.record(HttpEvent::Upgraded);
            let speaking =
                Arc::clone(&self.websocket_handler).handle(TokioIo::new(upgraded), upgrade.client);
            tokio::select! {
                () = speaking => {}
                () = self.closed_for_good() => {}
            }
        }
        drop(places);
    }

    /// Speaks HTTP until the connection ends, or is to become something else.
    async fn http(
        &mut self,
        socket: TcpStream,
        peer: IpAddr,
        port: ListenerKind,
    ) -> Option<Upgrade> {
        if !has_date() {
            tracing::error!(%peer, "a connection is closed: the system's clock stands before 1970");
            return None;
        }
        let config = &self.node.config;
        let write_timeout = Duration::from_millis(config.write_timeout_ms);
        let yield_slot = YieldSlot::new(&self.yield_queue, ClientId::from_ip(peer));
        let control = Arc::new(SocketControl { yield_slot, lingers: AtomicBool::new(false) });
        let socket = WriteTimeout::new(socket, write_timeout, Arc::clone(&self.node.metrics));
        let socket = socket.controlled(&control);
        let upgrade = Arc::new(Mutex::new(None));
        let connection = self.connections.fetch_add(1, Ordering::Relaxed);
        let requests = AtomicU64::new(0);
        let service = service_fn(|request| {
            let (node, upgrade) = (Arc::clone(&self.node), Arc::clone(&upgrade));
            // One after another: only this task adds to it.
            let number = requests.load(Ordering::Relaxed);
            requests.store(number + 1, Ordering::Relaxed);
            let from = RequestOrigin { peer, connection, number };
            let (web, control) = (self.http_api.clone(), Arc::clone(&control));
            async move {
                control.yield_slot.budget().await;
                let handled = service::handle(&node, web.as_ref(), port, from, request).await;
                // Not all of a request that is refused was read.
                let lingers = handled.response.status().is_client_error();
                control.lingers.store(lingers, Ordering::Relaxed);
                *upgrade.lock() = handled.upgrade;
                Ok::<_, Infallible>(handled.response)
            }
        });
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(config.header_timeout_ms))
            .max_buf_size(BUFFER_BYTES_MAX)
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
            self.node.metrics.http.record(cause(&err));
            if let Some(status) = status_of(&err) {
                self.node.metrics.http.record_response(status.as_u16());
            }
            tracing::debug!(%peer, connection, %err, "a connection ended badly");
        }
        upgrade.lock().take()
    }

    /// Done when the grace after the beginning of the shutdown is over.
    async fn closed_for_good(&mut self) {
        closed(&mut self.closing).await;
        tokio::time::sleep(SHUTDOWN_TIMEOUT).await;
    }
}

/// Whether the system's clock says a date. Before 1970 hyper panics over the `Date` header, also if it sends none.
#[expect(clippy::disallowed_methods, reason = "the header says what the system's clock says")]
fn has_date() -> bool {
    std::time::SystemTime::now() >= std::time::UNIX_EPOCH
}

/// Counts the end of a connection, however it comes.
struct ConnectionGuard<'n>(&'n Node);

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.metrics.http.record(HttpEvent::Panicked);
        }
        self.0.metrics.http.record(HttpEvent::Ended);
    }
}

/// The response to a connection whose address has as many as it may.
fn refusal(full: &AddressFull) -> String {
    let text = format!("{full}\n");
    let bytes = text.len();
    format!(
        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nConnection: close\r\n\
         Content-Length: {bytes}\r\n\r\n{text}"
    )
}

/// What ended a connection before its time.
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

/// What was answered to a head that cannot be read: that is not ours to do, and it has no body.
fn status_of(err: &hyper::Error) -> Option<StatusCode> {
    if !err.is_parse() || err.is_parse_version_h2() {
        return None;
    }
    // A URI that is too long makes a head that is too large as well.
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

/// Done when the shutdown has begun.
async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error is the sender's end, which is the server's: just as closed.
    let _ = closing.wait_for(|closing| *closing).await;
}
