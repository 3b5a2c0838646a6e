//! The size of the measurements of `state`.

/// The size of the measurements.
pub(crate) struct Size {
    /// The smaller and the larger ledger.
    pub(crate) accounts: [u32; 2],
    /// Slots of the stream of writes, at each rate.
    pub(crate) slots: u32,
    pub(crate) calls: usize,
}
