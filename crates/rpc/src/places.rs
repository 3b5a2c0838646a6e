//! How many connections each address has.
//!
//! Bounds: as many addresses as there are connections; with no limit of their own nothing is counted. An IPv6
//! network of 64 bits is one address, as it is one client.

use std::net::IpAddr;
use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::Mutex;
use pool::ClientId;

/// The connections of every address.
pub(crate) struct Places {
    /// How many one address may have.
    each_max: usize,
    taken: Mutex<HashMap<ClientId, usize>>,
}

/// One connection's place among those of its address, until it is dropped.
pub(crate) struct Place(Arc<Places>, ClientId);

impl Places {
    pub(crate) fn new(each_max: usize) -> Self {
        Self { each_max, taken: Mutex::default() }
    }

    /// A place for one more connection of an address; none if it has as many as it may.
    pub(crate) fn take(self: &Arc<Self>, ip: IpAddr) -> Option<Place> {
        let address = ClientId::of_ip(ip);
        let mut taken = self.taken.lock();
        let count = taken.entry(address).or_default();
        if *count >= self.each_max {
            return None;
        }
        *count += 1;
        Some(Place(Arc::clone(self), address))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Self(places, address) = self;
        let mut taken = places.taken.lock();
        if let Some(count) = taken.get_mut(address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_places_and_leaves_nothing() {
        let places = Arc::new(Places::new(2));
        let take = |ip: &str| places.take(ip.parse().expect("an address"));
        let first = take("10.0.0.1").expect("a place");
        let second = take("::ffff:10.0.0.1").expect("a place");
        assert!(take("10.0.0.1").is_none());
        let network = ["2001:db8::1", "2001:db8::2"].map(|ip| take(ip).expect("another's place"));
        assert!(take("2001:db8::3").is_none(), "it is one network");
        drop(first);
        assert!(take("10.0.0.1").is_some());
        drop((second, network));
        assert!(places.taken.lock().is_empty());
    }
}
