//! Limits the use of a shared resource by each client: connections, subscriptions, bytes.
//!
//! A client may hold all units except the last tenth. Of these it gets more only if it then holds no more than are
//! free. So a client that takes all it can leaves some to every other client, whatever it uses them for.
//! Bounds: an entry for each client with a unit. Cost: constant.
//! A share that grows stays within the bound of all clients. [`ClientShares::try_acquire`] gives a client without a unit
//! one in any case, so its caller bounds all clients together: it lets the client wait, or refuses it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::ClientId;

/// The last tenth of all units is for clients that hold few.
const RESERVED_PART: usize = 10;

/// The names of a resource in error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareNames {
    /// A client, in the singular and the plural.
    pub clients: [&'static str; 2],
    /// The units, in the plural.
    pub units: &'static str,
    /// The settings that limit one client.
    pub each_settings: &'static str,
    /// The settings of the part that is reserved.
    pub all_settings: &'static str,
}

/// The units of a resource that are in use, by client.
pub struct ClientShares {
    names: ShareNames,
    /// Limit for all clients together.
    all_max: usize,
    /// Limit for one client, unless one may have all.
    each_max: Option<usize>,
    /// Units that are reserved for clients that hold few.
    reserved: usize,
    in_use: Mutex<UnitsInUse>,
}

#[derive(Default)]
struct UnitsInUse {
    total: usize,
    /// Units of each client that uses any.
    by_client: HashMap<ClientId, usize>,
}

/// A client is at its limit. Fix: release some units, or raise the setting in the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareFull {
    names: ShareNames,
    /// Units that the client uses.
    pub in_use: usize,
    /// The limit that it reached.
    pub limit: ShareLimit,
}

/// A limit of a client's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareLimit {
    /// Its own limit.
    Each(usize),
    /// The free units are reserved for other clients.
    Reserved {
        /// Free units.
        free: usize,
        /// Limit for all clients together.
        all: usize,
    },
    /// The limit for all clients together.
    All {
        /// Free units.
        free: usize,
        /// Units that were requested.
        requested: usize,
        /// Limit for all clients together.
        all: usize,
    },
}

impl std::error::Error for ShareFull {}

impl fmt::Display for ShareFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { names, in_use, limit } = self;
        let ShareNames { clients: [client, clients], units, each_settings, all_settings } = names;
        write!(f, "this {client} has {in_use} {units}, ")?;
        match limit {
            ShareLimit::Each(limit) => {
                write!(f, "at most {limit} are allowed ({each_settings})")
            }
            ShareLimit::Reserved { free, all } => write!(
                f,
                "and the last {free} of {all} are for {clients} that have fewer ({all_settings})"
            ),
            ShareLimit::All { free, requested, all } => write!(
                f,
                "and needs {requested} more, but {free} of the {all} for all {clients} are free ({all_settings})"
            ),
        }
    }
}

/// Units that a client uses, until it is dropped.
pub struct Share {
    shares: Arc<ClientShares>,
    client: ClientId,
    units: usize,
}

impl ClientShares {
    /// Nothing is reserved if `each_max` lets one client have all units.
    pub fn new(names: ShareNames, all_max: usize, each_max: Option<usize>) -> Self {
        let may_have_all = each_max.is_some_and(|each_max| each_max >= all_max);
        let reserved = if may_have_all { 0 } else { all_max / RESERVED_PART };
        let each_max = each_max.filter(|_| !may_have_all);
        Self { names, all_max, each_max, reserved, in_use: Mutex::default() }
    }

    /// Counts one more unit of a client, or returns why it may not have one. A client without a unit gets one even if
    /// no unit is free.
    pub fn try_acquire(self: &Arc<Self>, client: ClientId) -> Result<Share, ShareFull> {
        let mut in_use = self.in_use.lock();
        let own = in_use.units_of(client);
        self.check_share(&in_use, own, 1)?;
        in_use.add(client, 1);
        Ok(Share { shares: Arc::clone(self), client, units: 1 })
    }

    /// Returns a share without units.
    pub fn empty_share(self: &Arc<Self>, client: ClientId) -> Share {
        Share { shares: Arc::clone(self), client, units: 0 }
    }

    /// Returns the units that all clients use.
    pub fn units_in_use(&self) -> usize {
        self.in_use.lock().total
    }

    /// Checks a client's share, but not the limit for all clients together.
    fn check_share(&self, in_use: &UnitsInUse, own: usize, units: usize) -> Result<(), ShareFull> {
        let full = |limit| ShareFull { names: self.names, in_use: own, limit };
        if let Some(limit) = self.each_max.filter(|limit| own + units > *limit) {
            return Err(full(ShareLimit::Each(limit)));
        }
        let all = self.all_max;
        let free = all.saturating_sub(in_use.total);
        let takes_reserved = self.reserved > 0 && free < self.reserved + units;
        let is_first = own == 0 && units == 1;
        if takes_reserved && !is_first && own + units > free {
            return Err(full(ShareLimit::Reserved { free, all }));
        }
        Ok(())
    }

    fn check_all(&self, in_use: &UnitsInUse, own: usize, units: usize) -> Result<(), ShareFull> {
        let all = self.all_max;
        let free = all.saturating_sub(in_use.total);
        if units <= free {
            return Ok(());
        }
        let limit = ShareLimit::All { free, requested: units, all };
        Err(ShareFull { names: self.names, in_use: own, limit })
    }
}

impl UnitsInUse {
    fn units_of(&self, client: ClientId) -> usize {
        self.by_client.get(&client).copied().unwrap_or_default()
    }

    fn add(&mut self, client: ClientId, units: usize) {
        self.total += units;
        *self.by_client.entry(client).or_default() += units;
    }
}

impl Share {
    /// Adds units within the client's share and the limit for all clients, or returns why the client may not have them.
    pub fn try_grow(&mut self, units: usize) -> Result<(), ShareFull> {
        if units == 0 {
            return Ok(());
        }
        let mut in_use = self.shares.in_use.lock();
        let own = in_use.units_of(self.client);
        self.shares.check_share(&in_use, own, units)?;
        self.shares.check_all(&in_use, own, units)?;
        in_use.add(self.client, units);
        self.units += units;
        Ok(())
    }

    /// Returns whether the client may have this many more units now. They are not reserved.
    pub fn can_grow(&self, units: usize) -> bool {
        let in_use = self.shares.in_use.lock();
        let own = in_use.units_of(self.client);
        self.shares.check_share(&in_use, own, units).is_ok()
            && self.shares.check_all(&in_use, own, units).is_ok()
    }

    /// Returns units to all clients.
    pub fn shrink(&mut self, units: usize) {
        let units = units.min(self.units);
        let mut in_use = self.shares.in_use.lock();
        in_use.total -= units;
        self.units -= units;
        if let Some(own) = in_use.by_client.get_mut(&self.client) {
            *own -= units;
            if *own == 0 {
                in_use.by_client.remove(&self.client);
            }
        }
    }

    /// Moves units to another share of the same client.
    #[must_use]
    pub fn split(&mut self, units: usize) -> Self {
        let units = units.min(self.units);
        self.units -= units;
        Self { shares: Arc::clone(&self.shares), client: self.client, units }
    }

    /// Returns its number of units.
    pub fn units(&self) -> usize {
        self.units
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink(self.units);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: ShareNames = ShareNames {
        clients: ["address", "addresses"],
        units: "connections",
        each_settings: "rpc.connections_per_address_max",
        all_settings: "rpc.connections_max, rpc.connections_per_address_max",
    };

    fn shares(all_max: usize, each_max: Option<usize>) -> Arc<ClientShares> {
        Arc::new(ClientShares::new(NAMES, all_max, each_max))
    }

    fn client(ip: &str) -> ClientId {
        ClientId::from_ip(ip.parse().expect("an address"))
    }

    /// Acquires units of a client until it is refused.
    fn take_all(shares: &Arc<ClientShares>, ip: &str) -> (Vec<Share>, ShareFull) {
        let mut all = Vec::new();
        loop {
            match shares.try_acquire(client(ip)) {
                Ok(share) => all.push(share),
                Err(full) => return (all, full),
            }
        }
    }

    #[test]
    fn a_client_has_its_units_and_leaves_no_entry_behind() {
        let shares = shares(1_000, Some(2));
        let take = |ip: &str| shares.try_acquire(client(ip));
        let first = take("10.0.0.1").expect("a unit");
        let second = take("::ffff:10.0.0.1").expect("a unit");
        let full = take("10.0.0.1").err().expect("it has two");
        assert_eq!((full.in_use, full.limit), (2, ShareLimit::Each(2)));
        let network = ["2001:db8::1", "2001:db8::2"].map(|ip| take(ip).expect("another client"));
        assert!(take("2001:db8::3").is_err(), "it is one network");
        drop(first);
        assert!(take("10.0.0.1").is_ok());
        drop((second, network));
        assert!(shares.in_use.lock().by_client.is_empty());
        assert_eq!(shares.units_in_use(), 0);
    }

    #[test]
    fn the_last_tenth_is_for_clients_that_have_few() {
        let shares = shares(10_000, None);
        let (most, full) = take_all(&shares, "10.0.0.1");
        assert_eq!(most.len(), 9_000);
        let limit = ShareLimit::Reserved { free: 1_000, all: 10_000 };
        assert_eq!((full.in_use, full.limit), (9_000, limit));
        assert!(full.to_string().contains("(rpc.connections_max, rpc.conn"), "{full}");
        let others: Vec<_> = (2..6).map(|n| take_all(&shares, &format!("10.0.0.{n}")).0).collect();
        let lens: Vec<usize> = others.iter().map(Vec::len).collect();
        assert_eq!(lens, [500, 250, 125, 63], "each half of what is left");
        drop(most);
        assert!(shares.try_acquire(client("10.0.0.2")).is_ok());
    }

    #[test]
    fn nothing_is_reserved_if_one_client_may_have_all_or_if_there_are_few() {
        for (all, each) in [(100, Some(100)), (100, Some(1_000)), (9, None)] {
            let shares = shares(all, each);
            // The last one waits for the end of another.
            let own: Vec<_> =
                (0..=all).map_while(|_| shares.try_acquire(client("10.0.0.1")).ok()).collect();
            assert_eq!(own.len(), all + 1, "{each:?}");
        }
    }

    #[test]
    fn a_client_without_a_unit_waits_for_the_end_of_another() {
        let shares = shares(20, None);
        let all: Vec<_> =
            (0..20).map(|n| shares.try_acquire(client(&format!("10.0.0.{n}")))).collect();
        assert!(all.iter().all(Result::is_ok));
        assert!(shares.try_acquire(client("10.0.1.1")).is_ok());
        assert!(shares.try_acquire(client("10.0.0.1")).is_err());
    }

    #[test]
    fn a_share_grows_up_to_the_limit_of_all_clients() {
        // Too few to reserve some.
        let shares = shares(9, None);
        let mut one = shares.empty_share(client("10.0.0.1"));
        one.try_grow(8).expect("all are free");
        let mut other = shares.empty_share(client("10.0.0.2"));
        let full = other.try_grow(2).expect_err("one is free");
        assert_eq!(full.limit, ShareLimit::All { free: 1, requested: 2, all: 9 });
        assert!(full.to_string().contains("and needs 2 more, but 1 of the 9"), "{full}");
        assert_eq!(shares.units_in_use(), 8, "a refusal takes nothing, not even for a moment");
        assert!(other.can_grow(1) && !other.can_grow(2));
        other.try_grow(1).expect("it is free");
        assert!(shares.empty_share(client("10.0.0.3")).try_grow(1).is_err());
        assert!(shares.try_acquire(client("10.0.0.3")).is_ok(), "its first unit");
    }

    #[test]
    fn growth_by_no_units_is_never_refused() {
        let shares = shares(1_000, None);
        let mut share = shares.empty_share(client("10.0.0.1"));
        share.try_grow(900).expect("nine tenths");
        let mut other = shares.empty_share(client("10.0.0.2"));
        other.try_grow(50).expect("it had nothing");
        share.try_grow(0).expect("it takes nothing");
        let mut empty = shares.empty_share(client("10.0.0.3"));
        empty.try_grow(0).expect("it takes nothing");
        assert_eq!((empty.units(), shares.in_use.lock().by_client.len()), (0, 2));
    }

    #[test]
    fn a_share_grows_up_to_the_reserved_part_and_shrinks() {
        let shares = shares(1_000, None);
        let mut large = shares.empty_share(client("10.0.0.1"));
        large.try_grow(900).expect("nine tenths");
        assert!(large.try_grow(1).is_err(), "the rest is reserved");
        let mut small = shares.empty_share(client("10.0.0.2"));
        small.try_grow(50).expect("it had nothing");
        assert!(small.try_grow(1).is_err(), "it would have more than were free");
        large.shrink(400);
        assert_eq!((large.units(), shares.units_in_use()), (500, 550));
        small.try_grow(26).expect("units are free again");
        let part = large.split(200);
        assert_eq!((large.units(), part.units(), shares.units_in_use()), (300, 200, 576));
        drop((large, small));
        assert_eq!(shares.units_in_use(), 200);
        drop(part);
        assert_eq!(shares.units_in_use(), 0);
    }
}
