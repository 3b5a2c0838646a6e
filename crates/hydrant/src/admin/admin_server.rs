//! The listeners of the administration and of the metrics, and their connections.
//!
//! Bounds: 16 connections of each listener, others wait in its backlog; a connection has 60 s, a request's body 8 KiB.
//! Access: to the unix socket, the user of the node and root; to the loopback address, every program of the machine,
//! but no web page.

use std::convert::Infallible;
use std::net::SocketAddr;
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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::task::JoinSet;

use super::admin_api::{AdminApi, AdminResponse, error};
use super::socket_file::{self, SocketFile};
use crate::serving_options::{AdminSocketPath, ServingOptions};

const CONNECTIONS_MAX: usize = 16;
const BODY_BYTES_MAX: usize = 8 * 1024;
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause after a failed accept.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// The listeners of a node's administration. Dropping it ends them.
pub(crate) struct AdminServer {
    _listeners: JoinSet<()>,
    _socket: Option<SocketFile>,
}

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
    if let Some((listener, file)) = bind_socket(options)? {
        socket = Some(file);
        listeners.spawn(accept_unix(UnixListener::from_std(listener)?, Arc::clone(&api)));
    }
    if let Some(address) = options.admin_address {
        let listener = bind(address).await.context("--admin-address")?;
        tracing::info!(address = %listener.local_addr()?, "the administration is served");
        listeners.spawn(accept_tcp(listener, Arc::clone(&api), Served::ToMachine));
    }
    if let Some(address) = options.metrics_address {
        let listener = bind(address).await.context("--metrics-address")?;
        tracing::info!(address = %listener.local_addr()?, "the metrics are served");
        api.make_metrics_private();
        listeners.spawn(accept_tcp(listener, api, Served::Metrics));
    }
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

async fn accept_unix(listener: UnixListener, api: Arc<AdminApi>) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((socket, _)) if has_same_owner(&socket) => {
                connections.spawn(connection(socket, Arc::clone(&api), Served::ToOwner));
            }
            Ok(_) => tracing::warn!("a connection of another user to the admin socket is refused"),
            Err(err) => back_off(&err).await,
        }
        wait_for_free_connection(&mut connections).await;
    }
}

async fn accept_tcp(listener: TcpListener, api: Arc<AdminApi>, served: Served) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                connections.spawn(connection(socket, Arc::clone(&api), served));
            }
            Err(err) => back_off(&err).await,
        }
        wait_for_free_connection(&mut connections).await;
    }
}

async fn back_off(err: &std::io::Error) {
    tracing::warn!(%err, "a connection of the administration cannot be accepted");
    tokio::time::sleep(ACCEPT_BACKOFF).await;
}

/// Waits until one more connection may be accepted.
async fn wait_for_free_connection(connections: &mut JoinSet<()>) {
    while connections.try_join_next().is_some() {}
    while connections.len() >= CONNECTIONS_MAX {
        connections.join_next().await;
    }
}

/// Between the creation of the socket and the change of its mode another user could connect.
fn has_same_owner(socket: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    socket.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

async fn connection<IO>(io: IO, api: Arc<AdminApi>, served: Served)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let api = Arc::clone(&api);
        async move { Ok::<_, Infallible>(respond(&api, served, request).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(io), service);
    // An error, or the end of its time, ends the connection.
    let _ = tokio::time::timeout(CONNECTION_TIMEOUT, serving).await;
}

async fn respond(api: &AdminApi, served: Served, request: Request<Incoming>) -> AdminResponse {
    let (head, body) = request.into_parts();
    if served == Served::Metrics {
        return match (&head.method, head.uri.path()) {
            (&Method::GET, "/metrics") => api.metrics().await,
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
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => api.respond(&head.method, head.uri.path(), &body.to_bytes()).await,
        Err(_) => {
            let message = format!("the body is broken, or has more than {BODY_BYTES_MAX} bytes");
            error(StatusCode::PAYLOAD_TOO_LARGE, &message)
        }
    }
}
