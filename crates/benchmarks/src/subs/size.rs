//! The size of the measurements of `subs`, and the addresses of each client.

use std::ops::Range;

/// The size of the measurements.
pub(crate) struct Size {
    /// Clients of the set-ups.
    pub(crate) clients: usize,
    /// One client of this number is a monitor.
    pub(crate) monitor_every: usize,
    /// Different addresses of all clients.
    pub(crate) addresses: u32,
    pub(crate) wallet: u32,
    /// Listeners of the publishing measurement.
    pub(crate) listeners: [u32; 3],
    /// Transactions a second.
    pub(crate) rate: f64,
    /// Seconds of each set-up.
    pub(crate) seconds: u64,
    /// Addresses of the one large client.
    pub(crate) million: u32,
    /// Connections on the hot account.
    pub(crate) connections: usize,
    /// Whether the run only proves that the benchmark works.
    pub(crate) is_toy: bool,
}

pub(crate) const FULL: Size = Size {
    clients: 500,
    monitor_every: 100,
    addresses: 1_000_000,
    wallet: 800,
    listeners: [1, 100, 10_000],
    rate: 100.0,
    seconds: 60,
    million: 1_000_000,
    connections: 5_000,
    is_toy: false,
};

pub(crate) const TOY: Size = Size {
    clients: 20,
    monitor_every: 10,
    addresses: 2_000,
    wallet: 80,
    listeners: [1, 100, 200],
    rate: 50.0,
    seconds: 1,
    million: 5_000,
    connections: 20,
    is_toy: true,
};

impl Size {
    /// The addresses of a client, by number: the first are watched by all monitors, each wallet has its
    /// own, and monitors have those of many wallets.
    pub(crate) fn set_of(&self, client: usize) -> Range<u32> {
        let left = self.clients - client;
        let end = (left as u64 * u64::from(self.addresses) / self.clients as u64) as u32;
        if left.is_multiple_of(self.monitor_every) { 0..end } else { end - self.wallet..end }
    }
}
