//! The listeners of the administration and of the metrics, and their connections.
//!
//! Bounds: 16 connections of each listener, 4 of an address (`connection_shares`); a connection has 60 s, a request 2 s to
//! arrive, its body 8 KiB.
//! Access: to the unix socket, the user of the node and root; to the loopback address, every program of the machine,
//! but no web page.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Limited};
use http_server::{AllowedOrigins, PageAccess};
use hyper::body::Incoming;
use hyper::header;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics::{Collector, Exposition, MetricKind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::task::JoinSet;

use super::admin_api::{AdminApi, AdminResponse, error};
use super::socket_file::{self, SocketFile};
use crate::connection_shares::{ConnectionShares, SharedConnection};
use crate::serving_options::{AdminSocketPath, ServingOptions};

const CONNECTIONS_MAX: usize = 16;
/// Connections of one address.
const CONNECTIONS_PER_ADDRESS_MAX: usize = CONNECTIONS_MAX / 4;
/// The address of all clients of the unix socket, which have one owner.
const SOCKET_CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const BODY_BYTES_MAX: usize = 8 * 1024;
/// Time limit of a request's head, and of its body.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause after a failed accept.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// The listeners of a node's administration. Dropping it ends them.
pub(crate) struct AdminServer {
    _listeners: JoinSet<()>,
    _socket: Option<SocketFile>,
}

/// The connections of each listener, by its name.
struct AdminConnections(Vec<(&'static str, Arc<ConnectionShares>)>);

/// The paths that a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    /// Everything, to programs that the system let connect.
    ToOwner,
    /// Everything, but not to web pages.
    ToMachine,
    /// `/metrics` only, to every client.
    Metrics,
}

/// Starts the listeners that the options name. It must be called in the runtime.
pub(crate) async fn start(options: &ServingOptions, api: AdminApi) -> Result<AdminServer> {
    let api = Arc::new(api);
    let mut listeners = JoinSet::new();
    let mut socket = None;
    let mut connections = Vec::new();
    let mut share = |name, each_max| {
        let shares = ConnectionShares::new(CONNECTIONS_MAX, each_max);
        connections.push((name, Arc::clone(&shares)));
        shares
    };
    if let Some((listener, file)) = bind_socket(options)? {
        socket = Some(file);
        let shares = share("socket", CONNECTIONS_MAX);
        listeners.spawn(accept_unix(UnixListener::from_std(listener)?, Arc::clone(&api), shares));
    }
    if let Some(address) = options.admin_address {
        let listener = bind(address).await.context("--admin-address")?;
        tracing::info!(address = %listener.local_addr()?, "the administration is served");
        let shares = share("admin", CONNECTIONS_PER_ADDRESS_MAX);
        listeners.spawn(accept_tcp(listener, Arc::clone(&api), Served::ToMachine, shares));
    }
    if let Some(address) = options.metrics_address {
        let listener = bind(address).await.context("--metrics-address")?;
        tracing::info!(address = %listener.local_addr()?, "the metrics are served");
        api.make_metrics_private();
        let shares = share("metrics", CONNECTIONS_PER_ADDRESS_MAX);
        listeners.spawn(accept_tcp(listener, Arc::clone(&api), Served::Metrics, shares));
    }
    api.add_metrics(Arc::new(AdminConnections(connections)));
    Ok(AdminServer { _listeners: listeners, _socket: socket })
}

fn bind_socket(
    options: &ServingOptions,
) -> Result<Option<(std::os::unix::net::UnixListener, SocketFile)>> {
    match &options.admin_socket {
        None => Ok(None),
        Some(AdminSocketPath::Named(path)) => {
            socket_file::bind(path).context("--admin-socket").map(Some)
        }
        Some(AdminSocketPath::Default(path)) => Ok(socket_file::bind(path)
            .inspect_err(|err| {
                tracing::warn!("the node has no admin socket (--admin-socket): {err:#}");
            })
            .ok()),
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("listen on {address}"))
}

async fn accept_unix(listener: UnixListener, api: Arc<AdminApi>, shares: Arc<ConnectionShares>) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((socket, _)) if has_same_owner(&socket) => {
                if let Some(shared) = shares.admit(SOCKET_CLIENT) {
                    let serving = serve(socket, Arc::clone(&api), Served::ToOwner, shared);
                    connections.spawn(serving);
                }
            }
            Ok(_) => tracing::warn!("a connection of another user to the admin socket is refused"),
            Err(err) => back_off(&err).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn accept_tcp(
    listener: TcpListener,
    api: Arc<AdminApi>,
    served: Served,
    shares: Arc<ConnectionShares>,
) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                if let Some(shared) = shares.admit(peer.ip()) {
                    connections.spawn(serve(socket, Arc::clone(&api), served, shared));
                }
            }
            Err(err) => back_off(&err).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn back_off(err: &std::io::Error) {
    tracing::warn!(%err, "a connection of the administration cannot be accepted");
    tokio::time::sleep(ACCEPT_BACKOFF).await;
}

/// Between the creation of the socket and the change of its mode another user could connect.
fn has_same_owner(socket: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    socket.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

/// Serves a connection until it ends, its time is over, or another one replaces it.
async fn serve<IO>(io: IO, api: Arc<AdminApi>, served: Served, shared: SharedConnection)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shared = &shared;
    let service = service_fn(|request| {
        let api = Arc::clone(&api);
        async move { Ok::<_, Infallible>(respond(&api, served, shared, request).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(io), service);
    tokio::select! {
        // An error ends the connection, too.
        _ = tokio::time::timeout(CONNECTION_TIMEOUT, serving) => {}
        () = shared.wait_until_replaced() => {}
    }
}

/// Answers a request. Once the request has arrived, no other connection replaces that of the request.
async fn respond(
    api: &AdminApi,
    served: Served,
    shared: &SharedConnection,
    request: Request<Incoming>,
) -> AdminResponse {
    let (head, body) = request.into_parts();
    if served == Served::Metrics {
        return match (&head.method, head.uri.path()) {
            (&Method::GET, "/metrics") => {
                shared.start_request();
                let response = api.metrics().await;
                shared.finish_request();
                response
            }
            _ => error(StatusCode::NOT_FOUND, "GET /metrics is all that this address serves"),
        };
    }
    if served == Served::ToMachine {
        let access = PageAccess::from_headers(&AllowedOrigins::default(), &head.headers);
        if head.headers.contains_key(header::ORIGIN) || access != PageAccess::Full {
            let message = "the administration is not for web pages, and its Host must be an address or localhost";
            return error(StatusCode::FORBIDDEN, message);
        }
    }
    let body = Limited::new(body, BODY_BYTES_MAX).collect();
    match tokio::time::timeout(HEAD_TIMEOUT, body).await {
        Ok(Ok(body)) => {
            shared.start_request();
            let response = api.respond(&head.method, head.uri.path(), &body.to_bytes()).await;
            shared.finish_request();
            response
        }
        Ok(Err(_)) => {
            let message = format!("the body is broken, or has more than {BODY_BYTES_MAX} bytes");
            error(StatusCode::PAYLOAD_TOO_LARGE, &message)
        }
        Err(_) => error(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in 2 s"),
    }
}

impl Collector for AdminConnections {
    fn write(&self, to: &mut Exposition) {
        let help = "Connections to the listeners of the administration and of the metrics.";
        let mut open = to.family("hydrant_admin_connections", MetricKind::Gauge, help);
        for &(listener, ref shares) in &self.0 {
            open.put(&[("listener", listener)], shares.len());
        }
        let help = "Connections that were closed for a new one of their address, or because all were busy.";
        let mut closed =
            to.family("hydrant_admin_connections_closed_total", MetricKind::Counter, help);
        for &(listener, ref shares) in &self.0 {
            closed.put(&[("listener", listener), ("cause", "replaced")], shares.count_replaced());
            closed.put(&[("listener", listener), ("cause", "refused")], shares.count_refused());
        }
    }
}
