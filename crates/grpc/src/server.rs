//! The server: its listener, its threads, its start and its end.
//!
//! Shape: a runtime of its own, so that compressing, encoding a replay and reading a request of megabytes delay no
//! other server.
//! Bounds: `Config::connections_max` connections; the next one waits until another ends. An address has a share of
//! them; one more is closed ([`shares`](crate::shares)).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api_keys::KeyNumber;
use authentication::Authenticator;
use chain_solana::EventCounters;
use clients::ClientId;
use ledger::Commitment;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tonic::Status;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use yellowstone_grpc_proto::geyser::geyser_server::SERVICE_NAME;

use crate::broker::Broker;
use crate::config::Config;
use crate::connection;
use crate::counters::Event;
use crate::gossip_table::GossipTable;
use crate::metrics::GrpcMetrics;
use crate::node::GrpcNode;
use crate::publisher::{self, GrpcEventSink};
use crate::service::{Access, GrpcService};
use crate::start_error::StartError;
use crate::tls::TlsAcceptor;
use crate::token::Token;

/// Threads that decode, compile and index long requests. More of them take time from other servers, and each has a heap
/// of the allocator, which retains some 4 MiB after a large request: that memory does not grow with clients.
const REQUEST_THREADS: usize = 1;
/// Pause after a failed accept.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// Time for the threads to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// The authentication and encryption of a server.
#[derive(Clone, Default)]
pub struct Security {
    /// Recognises clients by their API keys. `None`: every client is served.
    pub authenticator: Option<Authenticator>,
    /// Encrypts connections. `None`: HTTP/2 without TLS.
    pub tls: Option<Arc<dyn TlsAcceptor>>,
}

/// A running server. Dropping it ends it without a wait.
pub struct Server {
    broker: Arc<Broker>,
    gossip: Arc<GossipTable>,
    events: EventCounters,
    address: SocketAddr,
    /// Bytes of the window of a connection.
    window_bytes: u32,
    is_tls: bool,
    reporter: HealthReporter,
    closing: watch::Sender<bool>,
    /// Ends after the last connection.
    serving: Option<JoinHandle<()>>,
    runtime: Option<Runtime>,
}

impl Server {
    /// Checks the file that the settings name.
    ///
    /// # Errors
    ///
    /// Those of a start: the file cannot be read, or has no token.
    pub fn check(config: &Config) -> Result<(), StartError> {
        config.x_token_file.as_deref().map(Token::open).transpose().map(drop)
    }

    /// Serves on a bound listener. The ledger's events go to the returned sink.
    pub fn start(
        config: Config,
        node: GrpcNode,
        listener: std::net::TcpListener,
    ) -> Result<(Self, GrpcEventSink), StartError> {
        Self::start_secured(config, node, listener, Security::default())
    }

    /// Serves on a bound listener, with authentication and encryption.
    pub fn start_secured(
        config: Config,
        mut node: GrpcNode,
        listener: std::net::TcpListener,
        security: Security,
    ) -> Result<(Self, GrpcEventSink), StartError> {
        let Security { authenticator, tls } = security;
        let is_tls = tls.is_some();
        let token = config.x_token_file.as_deref().map(Token::open).transpose()?.map(Arc::new);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(config.threads)
            .max_blocking_threads(REQUEST_THREADS)
            .thread_name("grpc")
            .enable_all()
            .build()?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let root = node.reader.newest(Commitment::Finalized).map(|block| block.slot);
        let broker = Arc::new(Broker::new(config, root, Some(runtime.handle().clone())));
        let sink = publisher::start(&broker, std::mem::take(&mut node.stored_blocks))?;
        let gossip = Arc::new(GossipTable::new());
        node.contact_info().into_iter().for_each(|own| gossip.insert(own));
        let (reporter, health) = tonic_health::server::health_reporter();
        let (closing, is_closing) = watch::channel(false);
        let table = Arc::clone(&gossip);
        let token_file = token.clone();
        let access = Access { token, authenticator };
        let service = GrpcService::new(Arc::clone(&broker), node, table, health, access);
        let window_bytes = service.connection_window_bytes();
        let service = Arc::new(service);
        let serving = {
            let _runtime = runtime.enter();
            let listener = TcpListener::from_std(listener)?;
            let reporter = reporter.clone();
            if let Some(token) = token_file {
                runtime.spawn(token.watch());
            }
            runtime.spawn(async move {
                reporter.set_service_status(SERVICE_NAME, ServingStatus::Serving).await;
                accept(listener, service, tls, is_closing).await;
                report_end(&reporter).await;
            })
        };
        let server = Self {
            broker,
            gossip,
            events: sink.counters(),
            address,
            window_bytes,
            is_tls,
            reporter,
            closing,
            serving: Some(serving),
            runtime: Some(runtime),
        };
        Ok((server, sink))
    }

    /// Reports `NOT_SERVING` to clients of the health service. Everything is served as before.
    pub async fn announce_end(&self) {
        report_end(&self.reporter).await;
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the metrics of the server.
    pub fn metrics(&self) -> GrpcMetrics {
        GrpcMetrics {
            broker: Arc::clone(&self.broker),
            gossip: Arc::clone(&self.gossip),
            events: self.events.clone(),
            window_bytes: self.window_bytes,
            is_tls: self.is_tls,
        }
    }

    /// Ends the streams of API keys.
    pub fn key_closer(&self) -> KeyCloser {
        KeyCloser(Arc::clone(&self.broker))
    }

    /// The nodes that `SubscribeGossip` serves: at first this node, if its cluster is known.
    pub fn gossip(&self) -> &Arc<GossipTable> {
        &self.gossip
    }
}

impl Server {
    /// Closes every connection, and waits until clients and threads have ended, for three seconds each.
    pub fn shut_down(mut self) {
        self.close();
        if let (Some(runtime), Some(serving)) = (self.runtime.take(), self.serving.take()) {
            // The clients get their last status before the threads end. A connection does not panic.
            let _ =
                runtime.block_on(async { tokio::time::timeout(SHUTDOWN_TIMEOUT, serving).await });
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        }
    }

    fn close(&self) {
        self.broker.end(Status::unavailable("the server ends"));
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

async fn accept(
    listener: TcpListener,
    service: Arc<GrpcService>,
    tls: Option<Arc<dyn TlsAcceptor>>,
    mut closing: watch::Receiver<bool>,
) {
    let broker = Arc::clone(service.broker());
    let permits = broker.config.connections_max.min(Semaphore::MAX_PERMITS);
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
        let share = match broker.shares.connections.try_acquire(ClientId::from_ip(peer.ip())) {
            Ok(share) => share,
            Err(full) => {
                broker.counters.record(Event::ConnectionRefused);
                tracing::debug!(%peer, %full, "a gRPC connection is refused");
                if tls.is_none() {
                    connection::refuse(socket, &full.to_string());
                }
                continue;
            }
        };
        let permit = tokio::select! {
            permit = Arc::clone(&permits).acquire_owned() => permit,
            () = connection::wait_until_closing(&mut closing) => break,
        };
        let Ok(permit) = permit else { break }; // the semaphore is never closed
        broker.counters.record(Event::Accepted);
        let broker = Arc::clone(&broker);
        let service = Arc::clone(&service);
        let tls = tls.clone();
        let closing = closing.clone();
        connections.spawn(async move {
            let _ended = Ended(broker);
            connection::serve(socket, service, tls, closing).await;
            drop((permit, share));
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Counts the end of a connection, also after a panic.
struct Ended(Arc<Broker>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.counters.record(Event::Ended);
    }
}

/// Ends the streams of API keys that were removed.
#[derive(Clone)]
pub struct KeyCloser(Arc<Broker>);

impl KeyCloser {
    /// Ends them with `UNAUTHENTICATED`.
    pub fn close_keys(&self, removed: &[KeyNumber]) {
        self.0.close_keys(removed);
    }
}

/// Reports the end of the service, and of the server as a whole, which has an empty name.
async fn report_end(reporter: &HealthReporter) {
    for name in [SERVICE_NAME, ""] {
        reporter.set_service_status(name, ServingStatus::NotServing).await;
    }
}
