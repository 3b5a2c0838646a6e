//! The server: its listener, its threads, its start and its end.
//!
//! Shape: a runtime of its own, so that compressing, long encoding and reading a request of megabytes delay no other
//! server.
//! Bounds: `Config::connections_max` connections; the next one waits until another ends. An address has a share of
//! them; one more is closed ([`shares`](crate::shares)). New ones have a rate ([`call_rate`](crate::call_rate)).

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use authentication::Authenticator;
use clients::ClientId;
use tokio::net::TcpListener;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::access::Access;
use crate::call_rate::AdmittedConnection;
use crate::config::Config;
use crate::connection;
use crate::counters::Event;
use crate::dispatcher::{Dispatcher, Service};
use crate::health::HealthCalls;
use crate::metrics::ServerMetrics;
use crate::server_state::ServerState;
use crate::start_error::StartError;
use crate::tls::TlsAcceptor;
use crate::token::Token;

/// Pause after a failed accept.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// Time for the threads to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for the connections to end after `Config::shutdown_timeout_ms`.
const LAST_STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// The authentication and encryption of a server.
#[derive(Clone, Default)]
pub struct Security {
    /// Recognises clients by their API keys. `None`: every client is served.
    pub authenticator: Option<Authenticator>,
    /// Encrypts connections. `None`: HTTP/2 without TLS.
    pub tls: Option<Arc<dyn TlsAcceptor>>,
}

/// A server with its threads that does not listen yet.
pub struct PreparedServer {
    state: Arc<ServerState>,
    token: Option<Arc<Token>>,
    runtime: Runtime,
}

/// A running server. Dropping it ends it without a wait.
pub struct Server {
    state: Arc<ServerState>,
    address: SocketAddr,
    is_tls: bool,
    /// Bytes of requests that a connection may send before they are read.
    window_bytes: u32,
    service_name: &'static str,
    reporter: HealthReporter,
    closing: watch::Sender<bool>,
    /// Ends after the last connection.
    serving: Option<JoinHandle<()>>,
    runtime: Option<Runtime>,
}

/// Checks the file with the token, if there is one.
///
/// Errors: those of a start. The file cannot be read, or has no token.
pub fn check_token_file(path: Option<&Path>) -> Result<(), StartError> {
    path.map(Token::open).transpose().map(drop)
}

impl PreparedServer {
    /// Reads the token, and starts the threads of a server.
    ///
    /// Errors: the file with the token cannot be read, or a thread does not start.
    pub fn new(config: Config) -> Result<Self, StartError> {
        let token = config.x_token_file.as_deref().map(Token::open).transpose()?.map(Arc::new);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(config.threads)
            .max_blocking_threads(config.request_threads.max(1))
            .thread_name("grpc")
            .enable_all()
            .build()?;
        Ok(Self { state: Arc::new(ServerState::new(config)), token, runtime })
    }

    /// Returns the state that the connections will share.
    pub fn state(&self) -> &Arc<ServerState> {
        &self.state
    }

    /// Returns the handle of the server's threads.
    pub fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Serves on a bound listener.
    ///
    /// Errors: those of the listener.
    pub fn start<S: Service>(
        self,
        service: S,
        listener: std::net::TcpListener,
        security: Security,
    ) -> Result<Server, StartError> {
        let Self { state, token, runtime } = self;
        let Security { authenticator, tls } = security;
        let is_tls = tls.is_some();
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (reporter, health) = tonic_health::server::health_reporter();
        let (closing, is_closing) = watch::channel(false);
        let token_file = token.clone();
        let status =
            if service.is_serving() { ServingStatus::Serving } else { ServingStatus::NotServing };
        let dispatcher = Arc::new(Dispatcher {
            state: Arc::clone(&state),
            service,
            health: HealthCalls::new(health),
            access: Access { token, authenticator },
        });
        let window_bytes = dispatcher.connection_window_bytes();
        let serving = {
            let _runtime = runtime.enter();
            let listener = TcpListener::from_std(listener)?;
            let reporter = reporter.clone();
            if let Some(token) = token_file {
                runtime.spawn(token.watch());
            }
            runtime.spawn(async move {
                report(&reporter, S::NAME, status).await;
                accept(listener, dispatcher, tls, is_closing).await;
                report(&reporter, S::NAME, ServingStatus::NotServing).await;
            })
        };
        Ok(Server {
            state,
            address,
            is_tls,
            window_bytes,
            service_name: S::NAME,
            reporter,
            closing,
            serving: Some(serving),
            runtime: Some(runtime),
        })
    }
}

impl Server {
    /// Reports `NOT_SERVING` to clients of the health service. Everything is served as before.
    pub async fn announce_end(&self) {
        report(&self.reporter, self.service_name, ServingStatus::NotServing).await;
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the state that its connections share.
    pub fn state(&self) -> &Arc<ServerState> {
        &self.state
    }

    /// Returns the metrics of the server.
    pub fn metrics(&self) -> ServerMetrics {
        ServerMetrics {
            state: Arc::clone(&self.state),
            is_tls: self.is_tls,
            window_bytes: self.window_bytes,
        }
    }

    /// Closes every connection, and waits until clients and threads have ended: for the clients two seconds more than
    /// `Config::shutdown_timeout_ms`, for the threads three seconds.
    pub fn shut_down(mut self) {
        self.close();
        let within = self.state.config.shutdown_timeout().saturating_add(LAST_STATUS_TIMEOUT);
        if let (Some(runtime), Some(serving)) = (self.runtime.take(), self.serving.take()) {
            // The clients get their last status before the threads end. A connection does not panic.
            let _ = runtime.block_on(async { tokio::time::timeout(within, serving).await });
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        }
    }

    fn close(&self) {
        // The receiver may have ended already.
        let _ = self.closing.send(true);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept<S: Service>(
    listener: TcpListener,
    dispatcher: Arc<Dispatcher<S>>,
    tls: Option<Arc<dyn TlsAcceptor>>,
    mut closing: watch::Receiver<bool>,
) {
    let state = Arc::clone(dispatcher.state());
    let permits = state.config.connections_max.min(Semaphore::MAX_PERMITS);
    let permits = Arc::new(Semaphore::new(permits));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = connection::wait_until_closing(&mut closing) => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(err) => {
                tracing::warn!(%err, "a gRPC connection cannot be accepted");
                tokio::time::sleep(ACCEPT_BACKOFF).await;
                continue;
            }
        };
        let admitted = match state.admit_connection(ClientId::from_ip(peer.ip())) {
            Ok(admitted) => admitted,
            Err(reason) => {
                state.counters.record(Event::ConnectionRefused);
                tracing::debug!(%peer, %reason, "a gRPC connection is refused");
                if tls.is_none() {
                    connection::refuse(socket, &reason);
                }
                continue;
            }
        };
        let permit = tokio::select! {
            permit = Arc::clone(&permits).acquire_owned() => permit,
            () = connection::wait_until_closing(&mut closing) => break,
        };
        let Ok(permit) = permit else { break }; // the semaphore is never closed
        state.counters.record(Event::Accepted);
        let state = Arc::clone(&state);
        let dispatcher = Arc::clone(&dispatcher);
        let tls = tls.clone();
        let mut closing = closing.clone();
        connections.spawn(async move {
            let AdmittedConnection { share, delay } = admitted;
            let _ended = Ended(state);
            if connection::wait_until_due(delay, &mut closing).await {
                connection::serve(socket, dispatcher, tls, closing).await;
            }
            drop((permit, share));
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Counts the end of a connection, also after a panic.
struct Ended(Arc<ServerState>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.counters.record(Event::Ended);
    }
}

/// Reports the status of the service, and of the server as a whole, which has an empty name.
async fn report(reporter: &HealthReporter, service_name: &str, status: ServingStatus) {
    for name in [service_name, ""] {
        reporter.set_service_status(name, status).await;
    }
}
