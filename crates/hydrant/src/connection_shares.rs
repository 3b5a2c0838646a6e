//! Shares the connections of a small listener between the addresses of its clients: the faucet, the metrics, the
//! administration.
//!
//! Shape: a connection is accepted at once. If its address has its share, or all connections are in use, it replaces an
//! idle one: one that waits for a request, or for its client to read. The idle connection without a request for the
//! longest time is closed first: of its own address, or, if that is below its share and has none, of the address with
//! the most connections.
//! Bounds: `connections_max`, and a share for each address. If no connection is idle, the new one is closed.
//! Invariant: silent clients, however many, delay no other client, not even one of their own address.
//! Not here: time limits (the listeners), counting by address (`clients`).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clients::{ClientId, ClientShares, Share, ShareLimit, ShareNames};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Its limits have no settings.
const NAMES: ShareNames = ShareNames {
    clients: ["address", "addresses"],
    units: "connections",
    each_settings: "fixed",
    all_settings: "fixed",
};

/// The connections of a listener.
pub(crate) struct ConnectionShares {
    connections_max: usize,
    by_address: Arc<ClientShares>,
    open: Mutex<OpenConnections>,
    replaced: AtomicU64,
    refused: AtomicU64,
}

#[derive(Default)]
struct OpenConnections {
    last_number: u64,
    /// In the order of their last requests, the oldest first.
    connections: Vec<OpenConnection>,
}

struct OpenConnection {
    number: u64,
    address: ClientId,
    is_busy: bool,
    replaced: Arc<Notify>,
    _share: Share,
}

/// An open connection, which is counted until this is dropped.
pub(crate) struct SharedConnection {
    shares: Arc<ConnectionShares>,
    number: u64,
    replaced: Arc<Notify>,
}

impl ConnectionShares {
    /// Creates the shares of a listener. An address may have `each_max` of its connections.
    pub(crate) fn new(connections_max: usize, each_max: usize) -> Arc<Self> {
        Arc::new(Self {
            connections_max,
            by_address: Arc::new(ClientShares::new(NAMES, connections_max, Some(each_max))),
            open: Mutex::default(),
            replaced: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    /// Counts a new connection, and closes an idle one if that is necessary. `None` if the new one must be closed.
    pub(crate) fn admit(self: &Arc<Self>, ip: IpAddr) -> Option<SharedConnection> {
        let mut open = self.open.lock();
        let address = ClientId::from_ip(ip);
        let share = loop {
            match self.by_address.try_acquire(address) {
                Ok(share) => break Some(share),
                Err(_) if self.replace(&mut open, Some(address)) => {}
                // It is below its share: an idle connection of any address makes room.
                Err(full)
                    if matches!(full.limit, ShareLimit::Reserved { .. })
                        && self.replace(&mut open, None) => {}
                Err(_) => break None,
            }
        };
        // An address without a connection gets a share of a full listener.
        let is_full = open.connections.len() >= self.connections_max;
        let share = share.filter(|_| !is_full || self.replace(&mut open, None));
        let Some(share) = share else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        open.last_number += 1;
        let number = open.last_number;
        let replaced = Arc::new(Notify::new());
        open.connections.push(OpenConnection {
            number,
            address,
            is_busy: false,
            replaced: Arc::clone(&replaced),
            _share: share,
        });
        Some(SharedConnection { shares: Arc::clone(self), number, replaced })
    }

    /// Closes an idle connection of an address, or of the address with the most connections. Returns whether there is one.
    fn replace(&self, open: &mut OpenConnections, address: Option<ClientId>) -> bool {
        let Some(index) = open.find_idle(address) else { return false };
        open.connections.remove(index).replaced.notify_one();
        self.replaced.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Number of open connections.
    pub(crate) fn len(&self) -> usize {
        self.open.lock().connections.len()
    }

    /// Number of connections that were closed for others.
    pub(crate) fn count_replaced(&self) -> u64 {
        self.replaced.load(Ordering::Relaxed)
    }

    /// Number of connections that were closed at once.
    pub(crate) fn count_refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl OpenConnections {
    fn find_idle(&self, address: Option<ClientId>) -> Option<usize> {
        let count = |address| self.connections.iter().filter(|it| it.address == address).count();
        let idle = self.connections.iter().enumerate().filter(|(_, it)| !it.is_busy);
        let idle = idle.filter(|(_, it)| address.is_none_or(|address| it.address == address));
        // The first of several minima.
        idle.min_by_key(|(_, it)| std::cmp::Reverse(count(it.address))).map(|(index, _)| index)
    }

    /// Marks a connection, which becomes the one with the newest request.
    fn set_busy(&mut self, number: u64, is_busy: bool) {
        let mut connections = self.connections.iter();
        let Some(index) = connections.position(|it| it.number == number) else { return };
        let mut connection = self.connections.remove(index);
        connection.is_busy = is_busy;
        self.connections.push(connection);
    }
}

impl SharedConnection {
    /// Marks the start of the work for a request. No other connection replaces this one until [`Self::finish_request`].
    pub(crate) fn start_request(&self) {
        self.shares.open.lock().set_busy(self.number, true);
    }

    /// Marks the end of the work for a request.
    pub(crate) fn finish_request(&self) {
        self.shares.open.lock().set_busy(self.number, false);
    }

    /// Waits until another connection replaces this one, which must end then.
    pub(crate) async fn wait_until_replaced(&self) {
        self.replaced.notified().await;
    }
}

impl Drop for SharedConnection {
    fn drop(&mut self) {
        self.shares.open.lock().connections.retain(|it| it.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    /// Returns whether another connection has replaced this one.
    async fn is_replaced(connection: &SharedConnection) -> bool {
        let now = tokio::time::timeout(std::time::Duration::ZERO, connection.wait_until_replaced());
        now.await.is_ok()
    }

    #[tokio::test]
    async fn a_new_connection_replaces_the_oldest_silent_one_of_its_address() {
        let shares = ConnectionShares::new(16, 4);
        let connections: Vec<_> = (0..4).filter_map(|_| shares.admit(ip(1))).collect();
        // The first one has had a request since the others were opened.
        connections[0].start_request();
        connections[0].finish_request();
        let honest = shares.admit(ip(1)).expect("a connection");
        assert!(is_replaced(&connections[1]).await);
        for connection in [&connections[0], &connections[2], &connections[3], &honest] {
            assert!(!is_replaced(connection).await, "{}", connection.number);
        }
        assert_eq!((shares.len(), shares.count_replaced(), shares.count_refused()), (4, 1, 0));
        drop((connections, honest));
        assert_eq!(shares.len(), 0);
    }

    #[tokio::test]
    async fn a_request_keeps_its_connection_until_it_is_answered() {
        let shares = ConnectionShares::new(16, 2);
        let connections = [shares.admit(ip(1)), shares.admit(ip(1))]
            .map(|connection| connection.expect("a connection"));
        connections.iter().for_each(SharedConnection::start_request);
        assert!(shares.admit(ip(1)).is_none());
        let other = shares.admit(ip(2)).expect("a connection of another address");
        connections[1].finish_request();
        assert!(shares.admit(ip(1)).is_some());
        assert!(!is_replaced(&connections[0]).await && is_replaced(&connections[1]).await);
        assert!(!is_replaced(&other).await);
        assert_eq!((shares.count_replaced(), shares.count_refused()), (1, 1));
    }

    #[tokio::test]
    async fn a_busy_address_below_its_share_replaces_an_idle_connection_of_another_one() {
        let shares = ConnectionShares::new(16, 8);
        let own = shares.admit(ip(100)).expect("a connection");
        own.start_request();
        let idle: Vec<_> = (1..=7)
            .flat_map(|n| [n, n])
            .map(|n| shares.admit(ip(n)).expect("a connection"))
            .collect();
        assert_eq!(shares.len(), 15, "the last one is reserved");
        let second = shares.admit(ip(100)).expect("a second connection");
        assert!(is_replaced(&idle[0]).await);
        assert!(!is_replaced(&own).await && !is_replaced(&second).await);
        assert_eq!((shares.len(), shares.count_replaced(), shares.count_refused()), (15, 1, 0));
        // It is refused if all connections are busy.
        idle[1..].iter().for_each(SharedConnection::start_request);
        second.start_request();
        assert!(shares.admit(ip(100)).is_none());
        assert_eq!((shares.count_replaced(), shares.count_refused()), (1, 1));
    }

    #[tokio::test]
    async fn an_address_without_a_connection_gets_one_of_the_address_with_the_most() {
        let shares = ConnectionShares::new(8, 3);
        let own = shares.admit(ip(100)).expect("a connection");
        let hostile: Vec<_> = (0..100_u8).filter_map(|n| shares.admit(ip(1 + n % 3))).collect();
        assert_eq!(shares.len(), 8);
        let other = shares.admit(ip(50)).expect("a connection");
        assert_eq!(shares.len(), 8);
        assert!(!is_replaced(&own).await && !is_replaced(&other).await);
        drop(hostile);
        assert_eq!(shares.len(), 2);
    }
}
