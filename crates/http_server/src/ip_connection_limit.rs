//! Limits the connections of each address.
//!
//! An address may have all connections except the last tenth. Of these it gets one only if it has fewer than
//! are left. So an address that takes all it can leaves some to every other address, whatever its connections
//! are used for.
//! Bounds: an entry for each address that has a connection. An IPv6 network of 64 bits is one address, as it is
//! one client. Cost: constant.

use std::net::IpAddr;
use std::sync::Arc;

use clients::ClientId;
use foldhash::HashMap;
use parking_lot::Mutex;

/// The last tenth of all connections is for addresses that have few.
const RESERVED_PART: usize = 10;

/// The connections of every address.
pub struct IpConnectionLimit {
    /// Limit for all addresses together.
    all_max: usize,
    /// Limit for one address, unless one may have all.
    each_max: Option<usize>,
    /// Connections that are reserved for addresses that have few.
    reserved: usize,
    connections: Mutex<ConnectionCounts>,
}

#[derive(Default)]
struct ConnectionCounts {
    total: usize,
    /// Never 0.
    by_address: HashMap<ClientId, usize>,
}

/// An address is at its limit. Fix: close some connections, or raise the setting in the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressFull {
    /// The limit of the address.
    #[error(
        "this address has {count} connections, at most {limit} are allowed (rpc.connections_per_address_max)"
    )]
    Each {
        /// Connections of the address.
        count: usize,
        /// Limit of the address.
        limit: usize,
    },
    /// The rest is reserved for other addresses.
    #[error(
        "this address has {count} connections, and the last {left} of {limit} are for addresses that have fewer \
         (rpc.connections_max, rpc.connections_per_address_max)"
    )]
    Reserved {
        /// Connections of the address.
        count: usize,
        /// Connections that are not in use.
        left: usize,
        /// Limit for all addresses together.
        limit: usize,
    },
}

/// The right of an address to one connection, until it is dropped.
pub struct ConnectionPermit(Arc<IpConnectionLimit>, ClientId);

impl IpConnectionLimit {
    /// Nothing is reserved if the configuration lets one address have all connections.
    pub fn new(all_max: usize, each_max: Option<usize>) -> Self {
        let may_have_all = each_max.is_some_and(|each_max| each_max >= all_max);
        let reserved = if may_have_all { 0 } else { all_max / RESERVED_PART };
        let each_max = each_max.filter(|_| !may_have_all);
        Self { all_max, each_max, reserved, connections: Mutex::default() }
    }

    /// Counts one more connection of an address, or returns why it may not have one. If all connections are in
    /// use, an address without a connection is accepted, and waits until a connection of another address ends.
    pub fn try_acquire(self: &Arc<Self>, ip: IpAddr) -> Result<ConnectionPermit, AddressFull> {
        self.try_acquire_for(ClientId::from_ip(ip))
    }

    /// Counts one more connection of a client that need not be an address: behind a proxy, or with an API key.
    pub fn try_acquire_for(
        self: &Arc<Self>,
        address: ClientId,
    ) -> Result<ConnectionPermit, AddressFull> {
        let mut connections = self.connections.lock();
        let count = connections.by_address.get(&address).copied().unwrap_or_default();
        if let Some(limit) = self.each_max.filter(|limit| count >= *limit) {
            return Err(AddressFull::Each { count, limit });
        }
        let left = self.all_max.saturating_sub(connections.total);
        let limit = self.all_max;
        if self.reserved > 0 && left <= self.reserved && count > 0 && count >= left {
            return Err(AddressFull::Reserved { count, left, limit });
        }
        connections.total += 1;
        connections.by_address.insert(address, count + 1);
        Ok(ConnectionPermit(Arc::clone(self), address))
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let Self(ip_limit, address) = self;
        let mut connections = ip_limit.connections.lock();
        connections.total -= 1;
        if let Some(count) = connections.by_address.get_mut(address) {
            *count -= 1;
            if *count == 0 {
                connections.by_address.remove(address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Acquires connections of an address until it is refused.
    fn take_all(
        ip_limit: &Arc<IpConnectionLimit>,
        ip: &str,
    ) -> (Vec<ConnectionPermit>, AddressFull) {
        let ip = ip.parse().expect("an address");
        let mut permits = Vec::new();
        loop {
            match ip_limit.try_acquire(ip) {
                Ok(permit) => permits.push(permit),
                Err(full) => return (permits, full),
            }
        }
    }

    #[test]
    fn an_address_has_its_permits_and_leaves_no_entry_behind() {
        let ip_limit = Arc::new(IpConnectionLimit::new(1_000, Some(2)));
        let take = |ip: &str| ip_limit.try_acquire(ip.parse().expect("an address"));
        let first = take("10.0.0.1").expect("a permit");
        let second = take("::ffff:10.0.0.1").expect("a permit");
        let full = take("10.0.0.1").err().expect("it has two");
        assert_eq!(full, AddressFull::Each { count: 2, limit: 2 });
        let network =
            ["2001:db8::1", "2001:db8::2"].map(|ip| take(ip).expect("a permit of another address"));
        assert!(take("2001:db8::3").is_err(), "it is one network");
        drop(first);
        assert!(take("10.0.0.1").is_ok());
        drop((second, network));
        assert!(ip_limit.connections.lock().by_address.is_empty());
        assert_eq!(ip_limit.connections.lock().total, 0);
    }

    #[test]
    fn the_last_tenth_is_for_addresses_that_have_few() {
        let ip_limit = Arc::new(IpConnectionLimit::new(10_000, None));
        let (most, full) = take_all(&ip_limit, "10.0.0.1");
        assert_eq!(most.len(), 9_000);
        assert_eq!(full, AddressFull::Reserved { count: 9_000, left: 1_000, limit: 10_000 });
        assert!(full.to_string().contains("(rpc.connections_max, rpc.conn"), "{full}");
        let others: Vec<_> =
            (2..6).map(|n| take_all(&ip_limit, &format!("10.0.0.{n}")).0).collect();
        let lens: Vec<usize> = others.iter().map(Vec::len).collect();
        assert_eq!(lens, [500, 250, 125, 63], "each half of what is left");
        drop(most);
        assert!(ip_limit.try_acquire("10.0.0.2".parse().expect("an address")).is_ok());
    }

    #[test]
    fn nothing_is_reserved_if_one_address_may_have_all_or_if_there_are_few() {
        for (all, each) in [(100, Some(100)), (100, Some(1_000)), (9, None)] {
            let ip_limit = Arc::new(IpConnectionLimit::new(all, each));
            let ip = "10.0.0.1".parse().expect("an address");
            // The last one waits for the end of another.
            let permits: Vec<_> = (0..=all).map_while(|_| ip_limit.try_acquire(ip).ok()).collect();
            assert_eq!(permits.len(), all + 1, "{each:?}");
        }
    }

    #[test]
    fn an_address_without_a_connection_waits_for_the_end_of_another() {
        let ip_limit = Arc::new(IpConnectionLimit::new(20, None));
        let permits: Vec<_> = (0..20)
            .map(|n| ip_limit.try_acquire(format!("10.0.0.{n}").parse().expect("an address")))
            .collect();
        assert!(permits.iter().all(Result::is_ok));
        assert!(ip_limit.try_acquire("10.0.1.1".parse().expect("an address")).is_ok());
        assert!(ip_limit.try_acquire("10.0.0.1".parse().expect("an address")).is_err());
    }
}
