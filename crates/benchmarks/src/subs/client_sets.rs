//! The sets of the clients in Kaspa's `subscribe_benchmarks`: every hundredth client is a monitor of up to a million
//! addresses, the others are wallets of 800. Addresses are numbers here.

use std::ops::Range;

/// The number of clients, and the addresses of each.
#[derive(Clone, Copy)]
pub(crate) struct ClientSets {
    pub(crate) clients: usize,
    /// One client in this many is a monitor.
    pub(crate) monitor_every: usize,
    /// Different addresses of all clients.
    pub(crate) addresses: u32,
    /// The number of addresses of a wallet.
    pub(crate) wallet: u32,
}

pub(crate) const FULL: ClientSets =
    ClientSets { clients: 500, monitor_every: 100, addresses: 1_000_000, wallet: 800 };
pub(crate) const TOY: ClientSets =
    ClientSets { clients: 20, monitor_every: 10, addresses: 2_000, wallet: 80 };

impl ClientSets {
    /// The addresses of a client: the first are watched by all monitors, each wallet has its own, and monitors have
    /// those of many wallets.
    pub(crate) fn range(&self, client: usize) -> Range<u32> {
        let left = self.clients - client;
        let end = (left as u64 * u64::from(self.addresses) / self.clients as u64) as u32;
        if left.is_multiple_of(self.monitor_every) { 0..end } else { end - self.wallet..end }
    }

    /// Returns the addresses of each client.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<u32>> + use<> {
        let sets = *self;
        (0..sets.clients).map(move |client| sets.range(client))
    }

    /// Returns the number of (client, address) pairs.
    pub(crate) fn pairs(&self) -> u64 {
        self.ranges().map(|range| range.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_as_many_addresses_as_in_the_original() {
        assert_eq!(FULL.pairs(), 3_396_000);
        let monitors: Vec<usize> =
            FULL.ranges().map(|range| range.len()).filter(|len| *len != 800).collect();
        assert_eq!(monitors, [1_000_000, 800_000, 600_000, 400_000, 200_000]);
        assert_eq!(FULL.ranges().map(|range| range.end).max(), Some(FULL.addresses));
    }
}
