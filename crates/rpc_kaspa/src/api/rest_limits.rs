//! The limits of the methods behind REST, for them and for the routes that describe them.

/// The most addresses of a request.
pub const ADDRESSES_MAX: usize = 1_000;
/// The most entries of a page of UTXOs.
pub const PAGE_UTXOS_MAX: usize = super::options::PAGE_ENTRIES_MAX;
/// The most transactions of a page, as in kaspa-rest-server. A page by time has more if several have its last time.
pub const PAGE_TRANSACTIONS_MAX: usize = 500;
/// Transactions of a page, if a request does not say how many.
pub const PAGE_TRANSACTIONS_DEFAULT: usize = 50;
/// The most transactions before a page that is found by their number. They are read in steps, with all of their inputs and
/// outputs.
pub const OFFSET_MAX: usize = 5_000;
/// The most transactions of one address that are sorted by time. They are some tens of milliseconds on the CPU pool.
pub const SORTED_TRANSACTIONS_MAX: usize = 10_000;
