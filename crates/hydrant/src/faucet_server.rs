//! The faucet over TCP, as `solana-test-validator` has it on port 9900: a request is answered with a signed transaction,
//! which the client sends itself.
//!
//! Protocol (Agave's crate `solana-faucet`): a request has [`AirdropRequest::BYTES`]; a response is the length of a
//! transaction in two bytes, little endian, and the transaction. The length 0 is a refusal. The connection stays open.
//! Bounds: [`CONNECTIONS_MAX`] connections, a quarter of them of an address (`connection_shares`); a connection has
//! [`REQUESTS_MAX`] requests and [`CONNECTION_TIME`], a request has [`REQUEST_TIMEOUT`] to arrive. All of it is on one
//! thread of its own, at the lowest priority.
//! Invariant: the first bytes that are not a request end the connection, so no web page can hide requests in its own.
//! Not here: signatures and limits of lamports (`localnet::LocalFaucet`).

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use jsonrpc::Metrics;
use localnet::{AirdropRequest, LocalFaucet};
use metrics::{Collector, Exposition, MetricKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::connection_shares::{ConnectionShares, SharedConnection};
use crate::node::parts::{BoxFuture, Part};

/// The port of `solana-test-validator`.
pub(crate) const FAUCET_PORT: u16 = 9900;
/// Maximum number of connections.
const CONNECTIONS_MAX: usize = 32;
/// Connections of one address.
const CONNECTIONS_PER_ADDRESS_MAX: usize = CONNECTIONS_MAX / 4;
/// Requests of one connection. A client sends one.
const REQUESTS_MAX: usize = 16;
const CONNECTION_TIME: Duration = Duration::from_secs(5);
/// Time in which the next request must arrive.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause after a connection that could not be accepted, because the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The response to a request that is refused.
const REFUSAL: [u8; 2] = [0, 0];

pub(crate) struct FaucetMetrics {
    signed: AtomicU64,
    refused: AtomicU64,
    connections: Arc<ConnectionShares>,
}

/// The port of a faucet, and the faucet that it is for.
pub(crate) struct BoundFaucet {
    pub(crate) listener: TcpListener,
    pub(crate) faucet: Arc<LocalFaucet>,
}

/// A running faucet. It ends when dropped.
pub(crate) struct FaucetServer {
    address: SocketAddr,
    metrics: Arc<FaucetMetrics>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Binds the port; 0 is a free one.
pub(crate) fn bind(ip: IpAddr, port: u16) -> Result<TcpListener> {
    TcpListener::bind(SocketAddr::new(ip, port)).with_context(|| {
        format!(
            "failed to start faucet: Unable to bind faucet to {ip}:{port}, check the address is not already in use \
             (--faucet-port)"
        )
    })
}

impl FaucetServer {
    /// Serves requests on a thread of its own.
    pub(crate) fn start(bound: BoundFaucet) -> Result<Self> {
        let BoundFaucet { listener, faucet } = bound;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let metrics = Arc::new(FaucetMetrics {
            signed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            connections: ConnectionShares::new(CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS_MAX),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = oneshot::channel::<()>();
        let service = Service { faucet, metrics: Arc::clone(&metrics) };
        let run = move || {
            // Only this thread's priority. Raising the value is always allowed.
            let _ = rustix::process::setpriority_process(None, 19);
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, Arc::new(service)) => {}
                    _ = ended => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("faucet".into()).spawn(run)?;
        Ok(Self { address, metrics, end: Some(end), thread: Some(thread) })
    }

    /// Returns the address of the listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Part for FaucetServer {
    fn add_metrics(&self, metrics: &Metrics) {
        metrics.add(Arc::clone(&self.metrics) as Arc<dyn Collector>);
    }

    /// It joins its thread, which only drops connections.
    fn stop(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        drop(self);
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Drop for FaucetServer {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // It has only dropped its connections.
            let _ = thread.join();
        }
    }
}

struct Service {
    faucet: Arc<LocalFaucet>,
    metrics: Arc<FaucetMetrics>,
}

async fn accept(listener: TcpListener, service: Arc<Service>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    loop {
        match listener.accept().await {
            Ok((stream, client)) => {
                if let Some(shared) = service.metrics.connections.admit(client.ip()) {
                    tokio::spawn(Arc::clone(&service).run(stream, client.ip(), shared));
                }
            }
            Err(err) => {
                tracing::debug!(%err, "the faucet could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

impl Service {
    /// Serves a connection until it ends or breaks, its time is over, or another one replaces it.
    async fn run(self: Arc<Self>, stream: TcpStream, client: IpAddr, shared: SharedConnection) {
        let serving = self.serve(stream, client, &shared);
        tokio::select! {
            _ = tokio::time::timeout(CONNECTION_TIME, serving) => {}
            () = shared.wait_until_replaced() => {}
        }
    }

    async fn serve(
        &self,
        mut stream: TcpStream,
        client: IpAddr,
        shared: &SharedConnection,
    ) -> std::io::Result<()> {
        let mut request = [0; AirdropRequest::BYTES];
        for _ in 0..REQUESTS_MAX {
            tokio::time::timeout(REQUEST_TIMEOUT, stream.read_exact(&mut request)).await??;
            let Some(request) = AirdropRequest::from_bytes(&request) else {
                self.metrics.refused.fetch_add(1, Ordering::Relaxed);
                return stream.write_all(&REFUSAL).await;
            };
            shared.start_request();
            let response = self.respond(request, client);
            shared.finish_request();
            stream.write_all(&response).await?;
            // Lets the task of another connection run.
            tokio::task::yield_now().await;
        }
        stream.shutdown().await
    }

    fn respond(&self, request: AirdropRequest, client: IpAddr) -> Vec<u8> {
        let transaction = self.faucet.sign(request, client);
        let len = transaction.as_ref().map(|bytes| u16::try_from(bytes.len()));
        let (Ok(transaction), Ok(Ok(len))) = (&transaction, len) else {
            let err = transaction.err();
            tracing::debug!(?err, to = %request.to, "airdrop refused");
            self.metrics.refused.fetch_add(1, Ordering::Relaxed);
            return REFUSAL.to_vec();
        };
        self.metrics.signed.fetch_add(1, Ordering::Relaxed);
        [&len.to_le_bytes(), transaction.as_slice()].concat()
    }
}

impl Collector for FaucetMetrics {
    fn write(&self, to: &mut Exposition) {
        let help = "Requests to the faucet over TCP.";
        let mut requests = to.family("hydrant_faucet_requests_total", MetricKind::Counter, help);
        requests.put(&[("result", "signed")], self.signed.load(Ordering::Relaxed));
        requests.put(&[("result", "refused")], self.refused.load(Ordering::Relaxed));
        let help = "Connections to the faucet over TCP.";
        to.single("hydrant_faucet_connections", MetricKind::Gauge, help, self.connections.len());
        let help =
            "Connections to the faucet that were closed for a new one, or because all were busy.";
        let mut closed =
            to.family("hydrant_faucet_connections_closed_total", MetricKind::Counter, help);
        closed.put(&[("cause", "replaced")], self.connections.count_replaced());
        closed.put(&[("cause", "refused")], self.connections.count_refused());
    }
}
