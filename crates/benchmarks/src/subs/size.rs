//! The size of the measurements of `subs`.

use super::client_sets::{self, ClientSets};

/// The size of the measurements.
pub(crate) struct Size {
    /// The sets of the engine's measurement.
    pub(crate) sets: ClientSets,
    /// Listeners of the publishing measurement.
    pub(crate) listeners: [u32; 3],
    /// Addresses of the one large client.
    pub(crate) million: u32,
    /// Connections on the hot account.
    pub(crate) connections: usize,
    /// Whether the run only proves that the benchmark works.
    pub(crate) is_toy: bool,
}

pub(crate) const FULL: Size = Size {
    sets: client_sets::FULL,
    listeners: [1, 100, 10_000],
    million: 1_000_000,
    connections: 5_000,
    is_toy: false,
};

pub(crate) const TOY: Size = Size {
    sets: client_sets::TOY,
    listeners: [1, 100, 200],
    million: 5_000,
    connections: 20,
    is_toy: true,
};
