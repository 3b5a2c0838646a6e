//! A client that follows the notifications of a node.
//!
//! Shape: a thread reads one connection and applies each notification to a [`StreamState`]. It ends with the
//! connection. The caller connects again at a quiet time, because the state at the start is read separately.
//! Not here: the comparison of states (`stream_state`), arrival times (`arrivals`).

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use kaspa::{Encoding, Event, KaspaAddress, Notification, Scope};

use crate::kaspa_rig::arrivals::Arrivals;
use crate::kaspa_rig::requests::Request;
use crate::kaspa_rig::stream_state::{NodeState, StreamState};
use crate::kaspa_rig::wrpc_client::{ReceivedNotification, WrpcClient};
use crate::rig::clock::{now, pause};

/// Interval in which a thread finds out that it is stopped.
const STOP_INTERVAL: Duration = Duration::from_millis(200);
/// Time limit until the notifications of a quiet node have arrived.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The node that a subscriber is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Hydrant,
    Kaspad,
}

/// A client with subscriptions to changed UTXOs, the chain and the scores.
pub(crate) struct Subscriber {
    pub(crate) server: Server,
    pub(crate) encoding: Encoding,
    /// The addresses of its set. `None`: all UTXOs.
    addresses: Option<Vec<KaspaAddress>>,
    shared: Arc<Mutex<Shared>>,
    connection: Option<Connection>,
}

#[derive(Default)]
struct Shared {
    stream: StreamState,
    arrivals: Arrivals,
    /// Why the connection ended.
    end: Option<String>,
}

struct Connection {
    is_stopped: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Subscriber {
    /// Creates a subscriber that is not connected.
    pub(crate) fn new(
        server: Server,
        encoding: Encoding,
        addresses: Option<Vec<KaspaAddress>>,
    ) -> Self {
        Self { server, encoding, addresses, shared: Arc::default(), connection: None }
    }

    /// Returns the server, the encoding and the subscription, for reports.
    pub(crate) fn name(&self) -> String {
        format!("{:?}, {}", self.server, self.subscription())
    }

    /// Returns the encoding and the subscription, for reports on both servers.
    pub(crate) fn subscription(&self) -> String {
        let set = if self.addresses.is_some() { "addresses" } else { "all" };
        format!("{:?}, {set}", self.encoding)
    }

    /// Whether it is subscribed to all UTXOs.
    pub(crate) fn has_all_utxos(&self) -> bool {
        self.addresses.is_none()
    }

    /// Connects to a quiet node, whose state is `start`.
    pub(crate) fn connect(&mut self, address: SocketAddr, start: &NodeState) -> Result<()> {
        self.disconnect();
        let mut client = WrpcClient::connect(address, self.encoding)?;
        let start = self.select(start);
        self.lock().reset(&start);
        for scope in self.scopes() {
            client.call_successfully(&Request::Subscribe(&scope))?;
        }
        client.set_notification_timeout(STOP_INTERVAL)?;
        let is_stopped = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let is_stopped = Arc::clone(&is_stopped);
            let shared = Arc::clone(&self.shared);
            move || follow(client, &is_stopped, &shared)
        });
        self.connection = Some(Connection { is_stopped, thread });
        Ok(())
    }

    /// Whether the connection is open.
    pub(crate) fn is_connected(&self) -> bool {
        self.connection.is_some() && self.lock().end.is_none()
    }

    /// Returns why the connection ended.
    pub(crate) fn end(&self) -> Option<String> {
        self.lock().end.clone()
    }

    /// Waits until all notifications of a quiet node have arrived. Returns the difference that remains at the time
    /// limit.
    pub(crate) fn wait_for(&self, node: &NodeState) -> Option<String> {
        let node = self.select(node);
        let started = now();
        loop {
            let difference = self.lock().stream.find_difference(&node)?;
            if started.elapsed() > ARRIVAL_TIMEOUT {
                return Some(difference);
            }
            pause(POLL_INTERVAL);
        }
    }

    /// Reads the state.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&StreamState) -> T) -> T {
        read(&self.lock().stream)
    }

    /// Reads the arrival times.
    pub(crate) fn read_arrivals<T>(&self, read: impl FnOnce(&Arrivals) -> T) -> T {
        read(&self.lock().arrivals)
    }

    /// Ends the connection, and forgets why it ended earlier.
    pub(crate) fn disconnect(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.is_stopped.store(true, Ordering::Relaxed);
            // The thread has nothing that can panic.
            let _ = connection.thread.join();
        }
        self.lock().end = None;
    }

    /// Returns the part of a node's state that is subscribed to.
    fn select(&self, node: &NodeState) -> NodeState {
        let mut selected = node.clone();
        if let Some(addresses) = &self.addresses {
            let is_selected = |address: KaspaAddress| addresses.contains(&address);
            selected.utxos.retain(|utxo| utxo.address.is_some_and(is_selected));
        }
        selected
    }

    fn scopes(&self) -> [Scope; 4] {
        let addresses = self.addresses.clone().unwrap_or_default();
        [
            Scope::UtxosChanged { addresses },
            Scope::VirtualChainChanged { include_accepted_transaction_ids: true },
            Scope::Other(Event::SinkBlueScoreChanged),
            Scope::Other(Event::VirtualDaaScoreChanged),
        ]
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Sets the state at the start of a connection.
    fn reset(&mut self, start: &NodeState) {
        self.stream.reset(start);
        self.arrivals.add_start(self.stream.fingerprint());
    }

    fn apply(&mut self, ReceivedNotification { notification, at }: &ReceivedNotification) {
        self.stream.apply(notification);
        if matches!(notification, Notification::UtxosChanged(_)) {
            self.arrivals.add(self.stream.fingerprint(), *at);
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.disconnect();
    }
}

/// Applies notifications until the connection ends or is stopped.
fn follow(mut client: WrpcClient, is_stopped: &AtomicBool, shared: &Mutex<Shared>) {
    while !is_stopped.load(Ordering::Relaxed) {
        let next = client.next_notification();
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        match next {
            Ok(None) => {}
            Ok(Some(notification)) => shared.apply(&notification),
            Err(error) => {
                shared.end = Some(format!("{error:#}"));
                return;
            }
        }
    }
}
