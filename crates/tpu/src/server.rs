//! A running server: its shards, the weights file, its shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use api_keys::ApiKeys;

use crate::certificate::{TlsError, TlsIdentity};
use crate::clock;
use crate::config::{Config, ConfigError};
use crate::connection_admission::ConnectionAdmission;
use crate::counters::Counters;
use crate::driver::{Driver, SharedConfig};
use crate::shard::{Inbox, Shard};
use crate::socket::{self, Socket};
use crate::transaction::TransactionSink;
use crate::weights::{self, WeightsError, WeightsFile};

/// Interval of checks for a changed weights file.
const WEIGHTS_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Why the server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A setting is out of its range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// TLS refuses the identity of the node.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The weights file is invalid.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The port is in use, or the system has no more sockets or threads.
    #[error("listen for QUIC on {address}")]
    Listen {
        /// The address of the port.
        address: SocketAddr,
        /// The system's error of the bind.
        #[source]
        err: io::Error,
    },
}

/// A running server. Dropping it closes all connections and joins its threads.
pub struct Server {
    address: SocketAddr,
    inboxes: Arc<[Arc<Inbox>]>,
    threads: Vec<JoinHandle<()>>,
    weights_watcher: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
    admission: Arc<ConnectionAdmission>,
    counters: Arc<Counters>,
}

impl Server {
    /// Listens on `address`. Sends transactions to `sink` and counts events in `counters`.
    pub fn start(
        config: Arc<Config>,
        address: SocketAddr,
        identity: &TlsIdentity,
        sink: Arc<dyn TransactionSink>,
        counters: Arc<Counters>,
    ) -> Result<Self, ServerError> {
        Self::start_with_keys(config, address, identity, sink, counters, None)
    }

    /// Starts the server for the identities that API keys list.
    pub fn start_with_keys(
        config: Arc<Config>,
        address: SocketAddr,
        identity: &TlsIdentity,
        sink: Arc<dyn TransactionSink>,
        counters: Arc<Counters>,
        api_keys: Option<Arc<ApiKeys>>,
    ) -> Result<Self, ServerError> {
        config.check()?;
        let now = clock::now();
        let admission = ConnectionAdmission::new(Arc::clone(&config), now);
        let admission = Arc::new(admission.with_api_keys(api_keys));
        let weights_file = config.weights.clone().map(WeightsFile::new);
        if let Some(path) = &config.weights {
            admission.set_weights(weights::read(path)?);
        }
        let shared =
            Arc::new(SharedConfig::new(Arc::clone(&config), Arc::clone(&admission), identity)?);
        let listen = |err| ServerError::Listen { address, err };
        let sockets = socket::bind(address, config.shards, config.socket_bytes).map_err(listen)?;
        let bound = sockets.first().map_or(Ok(address), |socket| socket.local_addr());
        let mut inboxes = Vec::new();
        let mut wakes = Vec::new();
        for _ in &sockets {
            let (inbox, waker) = Inbox::new().map_err(listen)?;
            inboxes.push(inbox);
            wakes.push(waker);
        }
        let mut server = Self {
            address: bound.map_err(listen)?,
            inboxes: inboxes.into(),
            threads: Vec::new(),
            weights_watcher: None,
            admission,
            counters: Arc::clone(&counters),
        };
        for (number, (socket, wakes)) in sockets.into_iter().zip(wakes).enumerate() {
            // At most 256 shards: `Config::check`.
            let number = number as u8;
            let shard = Shard {
                number,
                driver: Driver::for_shard(Arc::clone(&shared), number, now),
                socket: Socket::new(socket, config.receive_offload).map_err(listen)?,
                wakes,
                inboxes: Arc::clone(&server.inboxes),
                sink: Arc::clone(&sink),
                counters: Arc::clone(&counters),
                gather: Duration::from_micros(config.gather_us),
            };
            let thread =
                std::thread::Builder::new().name(format!("quic-{number}")).spawn(move || {
                    if let Err(err) = shard.run() {
                        tracing::error!(number, %err, "a QUIC socket failed");
                    }
                });
            server.threads.push(thread.map_err(listen)?);
        }
        if let Some(weights_file) = weights_file {
            server.weights_watcher = Some(
                spawn_weights_watcher(weights_file, Arc::clone(&server.admission), sink)
                    .map_err(listen)?,
            );
        }
        Ok(server)
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counters of the port.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Returns the admission of connections.
    pub fn admission(&self) -> &Arc<ConnectionAdmission> {
        &self.admission
    }
}

/// Starts a thread that reads the weights file again whenever it changes.
fn spawn_weights_watcher(
    mut weights_file: WeightsFile,
    admission: Arc<ConnectionAdmission>,
    sink: Arc<dyn TransactionSink>,
) -> io::Result<(Arc<AtomicBool>, JoinHandle<()>)> {
    let is_ending = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_ending);
    let thread = std::thread::Builder::new().name("quic-weights".into()).spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            std::thread::park_timeout(WEIGHTS_POLL_INTERVAL);
            if let Some(weights) = weights_file.reload_if_changed() {
                for (peer, sender) in admission.set_weights(weights) {
                    sink.set_peer_weight(peer, sender);
                }
            }
        }
    })?;
    Ok((is_ending, thread))
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some((is_ending, thread)) = self.weights_watcher.take() {
            is_ending.store(true, Ordering::Relaxed);
            thread.thread().unpark();
            // The panic hook has logged a panic already; the same applies below.
            let _ = thread.join();
        }
        self.inboxes.iter().for_each(|inbox| inbox.stop());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
