//! The port of a model node for other nodes: gRPC with the handshake of kaspad 2.1.0, and the UTXO set of the pruning
//! point.
//!
//! In: requests of clients, and the [`PeerFaults`] of a test. Out: the set of the node's pruning point in chunks of 1,000.
//! Everything else that nodes exchange is missing: it relays nothing and has no addresses.

mod conversation;
mod faults;
mod service;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use self::conversation::PeerShared;
pub use self::faults::PeerFaults;
use self::service::PeerService;
use super::connection::Shared;

/// The port of a model node for other nodes. It closes when it is dropped; open streams stay.
pub struct KaspaPeer {
    shared: Arc<PeerShared>,
    address: SocketAddr,
    server: JoinHandle<()>,
}

impl KaspaPeer {
    /// Opens a port of a node.
    pub(super) async fn start(node: Arc<Shared>) -> Self {
        let shared = Arc::new(PeerShared {
            node,
            faults: Mutex::default(),
            requested_sets: AtomicU64::new(0),
            sent_chunks: AtomicU64::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let service = PeerService(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            // It ends only with its task.
            let _ = Server::builder().serve_with_incoming(service, incoming).await;
        });
        Self { shared, address, server }
    }

    /// Returns the address of the port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a fault to all later connections.
    pub fn add_fault(&self, add: impl FnOnce(&mut PeerFaults)) {
        add(&mut self.shared.faults.lock());
    }

    /// Ends all faults in later connections.
    pub fn clear_faults(&self) {
        *self.shared.faults.lock() = PeerFaults::default();
    }

    /// Returns the number of sets that clients have requested.
    pub fn requested_sets(&self) -> u64 {
        self.shared.requested_sets.load(Ordering::Relaxed)
    }

    /// Returns the number of chunks that were sent.
    pub fn sent_chunks(&self) -> u64 {
        self.shared.sent_chunks.load(Ordering::Relaxed)
    }
}

impl Drop for KaspaPeer {
    fn drop(&mut self) {
        self.server.abort();
    }
}
